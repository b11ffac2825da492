"""What is left of a workflow to do, after an engine that ended, was stopped or was killed."""

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
from tonnage.run.minders import Answer, end_orphans, forget_results, left_results
from tonnage.run.outcomes import classify, judge
from tonnage.size.learner import climbed
from tonnage.workflow import Task, Workflow

__all__ = ["NOTHING_BEFORE", "NO_SUCH_TASK", "Recovered", "carried_after", "finals", "recover"]

NO_SUCH_TASK = "the workflow has no such task any more"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an earlier engine has achieved, by the places of tasks in the workflow."""

    done: set[int]
    carried: dict[int, Carried]
    outstanding: Outstanding
    stale: frozenset[str]
    """Tasks that have changed, or follow one that has: what was started before does not count."""


NOTHING_BEFORE = Recovered(set(), {}, NOTHING_OUTSTANDING, frozenset())
"""Of a run that begins."""


def recover(
    journal: Journal,
    files: Files,
    folder: RunFolder,
    workflow: Workflow,
    backend: Backend,
    say: Callable[[str], None],
    *,
    act: bool = True,
) -> Recovered:
    """Settle what a killed engine left open, and return what is done and what is known about the rest.

    The caller holds the run's lock, so that nothing works for it any more, but for what is away on its backend. With
    `act` false only the journal changes, which is a copy then: no process is ended, and no file moved.
    """
    token = journal.facts()["token"]
    fingerprints = files.fingerprints(workflow)
    last = finals(workflow)
    listed = [(task.name, task.category, mark) for task, mark in zip(workflow.tasks, fingerprints, strict=True)]
    before = journal.take_tasks(listed + [(task.name, task.category, b"") for task in last])
    journal.undo(range(len(workflow), len(listed) + len(last)))  # they run at the end of each try
    done = set(before.done) & set(range(len(workflow)))
    changed = [place for place in before.changed if place < len(workflow)]
    outdated = _following(workflow, changed)
    stale = frozenset(workflow.tasks[place].name for place in outdated)
    outstanding = backend.outstanding(journal, folder, stale)
    running = {attempt: row for attempt, row in journal.running().items() if attempt not in outstanding.attempts}
    if running and act:
        # What is away may have processes on this very machine.
        orphans = (
            sum(end_orphans(token, attempt) for attempt in running) if outstanding.attempts else end_orphans(token)
        )
        if orphans:
            say(f"ended {orphans} processes that a killed engine had left behind")
    done |= _settle(running, journal, files, folder, workflow, judge if act else classify)
    undone = outdated & done
    gone = files.gone(workflow, sorted(done - undone))
    if changed:
        say(f"tasks that are new or have changed since the run began: {len(changed):,}; what follows them runs again")
    if gone:
        say(f"done tasks that run again, because outputs that are still needed are gone: {len(gone):,}")
    undone |= gone
    journal.undo(undone)
    journal.commit()
    if not outstanding.attempts and act:
        forget_results(folder.path)  # they must not be taken for those of another attempt
    done -= undone
    carried = {
        place: Carried(row.number, None) if place in undone else _carried(row)
        for place, row in journal.unfinished().items()
    }
    return Recovered(done, carried, outstanding, stale)


def finals(workflow: Workflow) -> list[Task]:
    """Return the tasks that run when nothing else can: the FINAL node of DAGMan."""
    return [special.task for special in workflow.special if special.kind == "final"]


def _settle(
    running: dict[int, Row],
    journal: Journal,
    files: Files,
    folder: RunFolder,
    workflow: Workflow,
    judge: Callable[[Answer, Task, Files], Ended],
) -> set[int]:
    """Write down how attempts ended whose end is not in the journal; return the tasks that turn out to be done."""
    words = left_results(folder.path)
    places = {task.name: (place, task) for place, task in enumerate((*workflow.tasks, *finals(workflow)))}
    done = set()
    for attempt, row in running.items():
        place, task = places.get(row.task, (None, None))
        if place is None or task is None:
            journal.ended(_lost(attempt), Settled(-1, State.STOPPED, NO_SUCH_TASK))
            continue
        answer = words.get(attempt) or Answer(attempt, started=row.started, ended=time.time(), lost=True)
        end = judge(answer, task, files)
        if end.outcome is Outcome.DONE:
            done.add(place)
            journal.ended(end, Settled(place, State.DONE))
        else:
            journal.ended(_as_lost(end), Settled(place, State.READY, "it is tried again with as much"))
    return done


def _lost(attempt: int) -> Ended:
    return Ended(attempt=attempt, outcome=Outcome.LOST, ended=time.time(), note="the engine was killed")


def _as_lost(end: Ended) -> Ended:
    """Return an end as that of an attempt which was stopped because the engine was gone."""
    if end.outcome is not Outcome.CANCELLED and end.outcome is not Outcome.LOST:
        return end  # it had ended by itself
    return replace(end, outcome=Outcome.LOST, note="the engine was killed")


def _following(workflow: Workflow, changed: Iterable[int]) -> set[int]:
    """Return some tasks, and all that depend on them."""
    stack = list(changed)
    seen = set(stack)
    while stack:
        for child in workflow.graph.children_of(stack.pop()).tolist():
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return seen


def _carried(row: Row) -> Carried:
    """Return what a task is to be tried with next, after its last attempt."""
    return carried_after(row.number, row.decisions, row.outcome, row.exhausted, row.used)


def carried_after(
    number: int,
    decisions: tuple[Decision, ...],
    outcome: Outcome | None,
    exhausted: Resource | None,
    used: Amounts,
) -> Carried:
    """Return what a task is to be tried with next, after an attempt that ended like this."""
    if outcome is Outcome.EXHAUSTED and exhausted is not None:
        return Carried(number, climbed(decisions, exhausted, seen=getattr(used, exhausted)))
    if outcome in (Outcome.LOST, Outcome.PREEMPTED):
        return Carried(number, decisions)
    return Carried(number, None)
