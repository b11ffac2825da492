"""Find out what remains to be done after an earlier session finished, was stopped or was killed."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tonnage.jobs import Amounts, Decision, Outcome, Resource
from tonnage.run.backends.backend import NOTHING_OUTSTANDING, Backend, Outstanding
from tonnage.run.events import Carried, Ended, Settled, State
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal
from tonnage.run.journal_rows import Row
from tonnage.run.marked_processes import end_orphans
from tonnage.run.minders import Answer, forget_results, left_results
from tonnage.run.outcomes import classify, judge
from tonnage.size.learner import climbed
from tonnage.wording import counted
from tonnage.workflow import Task, Workflow

__all__ = ["NOTHING_BEFORE", "NO_SUCH_TASK", "Recovered", "carried_after", "finals", "following", "recover"]

NO_SUCH_TASK = "no longer in the workflow"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What earlier sessions achieved, by the positions of tasks in the workflow."""

    done: set[int]
    carried: dict[int, Carried]
    outstanding: Outstanding
    stale: frozenset[str]
    """Tasks that have changed, or depend on one that has: their earlier attempts do not count."""


NOTHING_BEFORE = Recovered(set(), {}, NOTHING_OUTSTANDING, frozenset())
"""For a new run."""


def recover(
    journal: Journal,
    files: Files,
    folder: RunFolder,
    workflow: Workflow,
    backend: Backend,
    *,
    act: bool = True,
) -> Recovered:
    """Settle the attempts that a killed engine left open; return what is done and what is known about the rest.

    The caller holds the run's lock: nothing works for the run any more, except for batch jobs on its backend. If `act`
    is false, only the journal changes, which is a copy then: no process is killed, and no file is moved.
    """
    token = journal.facts()["token"]
    fingerprints = files.fingerprints(workflow)
    last = finals(workflow)
    listed = [(task.name, task.category, mark) for task, mark in zip(workflow.tasks, fingerprints, strict=True)]
    before = journal.take_tasks(listed + [(task.name, task.category, b"") for task in last])
    journal.undo(range(len(workflow), len(listed) + len(last)))  # they run at the end of each session
    done = set(before.done) & set(range(len(workflow)))
    changed = [place for place in before.changed if place < len(workflow)]
    outdated = following(workflow, changed)
    stale = frozenset(workflow.tasks[place].name for place in outdated)
    outstanding = backend.outstanding(journal, folder, stale)
    running = {attempt: row for attempt, row in journal.running().items() if attempt not in outstanding.attempts}
    if running and act:
        # Batch jobs may have processes on this machine, too.
        orphans = (
            sum(end_orphans(token, attempt) for attempt in running) if outstanding.attempts else end_orphans(token)
        )
        if orphans:
            _log.info("killed %d processes that an interrupted session left behind", orphans)
    done |= _settle(running, journal, files, folder, workflow, judge if act else classify)
    undone = outdated & done
    gone = files.gone(workflow, sorted(done - undone))
    if changed:
        _log.info(
            "%s new or changed since the run began; running them and all tasks that depend on them",
            counted(len(changed), "task"),
        )
    if gone:
        _log.info("%s will run again: outputs that are still needed are missing", counted(len(gone), "finished task"))
    undone |= gone
    journal.undo(undone)
    journal.commit()
    if not outstanding.attempts and act:
        forget_results(folder.path)  # they must not be mistaken for those of another attempt
    done -= undone
    carried = {
        place: Carried(row.number, None) if place in undone else _carried(row)
        for place, row in journal.unfinished().items()
    }
    return Recovered(done, carried, outstanding, stale)


def finals(workflow: Workflow) -> list[Task]:
    """Return the tasks that run after all others: the FINAL node of DAGMan."""
    return [special.task for special in workflow.special if special.kind == "final"]


def _settle(
    running: dict[int, Row],
    journal: Journal,
    files: Files,
    folder: RunFolder,
    workflow: Workflow,
    judge: Callable[[Answer, Task, Files], Ended],
) -> set[int]:
    """Record the ends of attempts that are missing in the journal; return the tasks that turn out to be done."""
    results = left_results(folder.path)
    places = {task.name: (place, task) for place, task in enumerate((*workflow.tasks, *finals(workflow)))}
    done = set()
    for attempt, row in running.items():
        place, task = places.get(row.task, (None, None))
        if place is None or task is None:
            journal.ended(_lost(attempt), Settled(-1, State.STOPPED, NO_SUCH_TASK))
            continue
        answer = results.get(attempt) or Answer(attempt, started=row.started, ended=time.time(), lost=True)
        end = judge(answer, task, files)
        if end.outcome is Outcome.DONE:
            done.add(place)
            journal.ended(end, Settled(place, State.DONE))
        else:
            journal.ended(_as_lost(end), Settled(place, State.READY, "retrying"))
    return done


def _lost(attempt: int) -> Ended:
    return Ended(attempt=attempt, outcome=Outcome.LOST, ended=time.time(), note="tonnage was killed")


def _as_lost(end: Ended) -> Ended:
    """Turn the end of an attempt that was stopped because the engine was gone into a lost one."""
    if end.outcome is not Outcome.CANCELLED and end.outcome is not Outcome.LOST:
        return end  # it had finished before
    return replace(end, outcome=Outcome.LOST, note="tonnage was killed")


def following(workflow: Workflow, changed: Iterable[int]) -> set[int]:
    """Return the changed tasks and all tasks that depend on them."""
    stack = list(changed)
    seen = set(stack)
    while stack:
        for child in workflow.graph.children_of(stack.pop()).tolist():
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return seen


def _carried(row: Row) -> Carried:
    return carried_after(row.number, row.decisions, row.outcome, row.exhausted, row.used)


def carried_after(
    number: int,
    decisions: tuple[Decision, ...],
    outcome: Outcome | None,
    exhausted: Resource | None,
    used: Amounts,
) -> Carried:
    """Return what the next attempt of a task is allocated after an attempt with this outcome."""
    if outcome is Outcome.EXHAUSTED and exhausted is not None:
        return Carried(number, climbed(decisions, exhausted, seen=getattr(used, exhausted)))
    if outcome in (Outcome.LOST, Outcome.PREEMPTED):
        return Carried(number, decisions)
    return Carried(number, None)
