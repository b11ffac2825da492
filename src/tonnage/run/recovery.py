"""Find out what remains to be done after an earlier session finished, was stopped or was killed."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import nan

from tonnage.jobs import Amounts, Decision, Outcome, Resource
from tonnage.run.backends.backend import NOTHING_OUTSTANDING, Backend, Outstanding
from tonnage.run.elastic_memory import as_grown, resized
from tonnage.run.events import Carried, Ended, Settled, State
from tonnage.run.files import Files
from tonnage.run.finished_work import FinishedWork
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Before, Journal
from tonnage.run.journal_rows import Row
from tonnage.run.marked_processes import end_orphans
from tonnage.run.minders import Answer, forget_results, left_results
from tonnage.run.outcomes import classify, judge
from tonnage.run.up_to_date import Record
from tonnage.size.reruns import climbed
from tonnage.wording import counted
from tonnage.workflow import Task, Workflow

__all__ = ["NOTHING_BEFORE", "NO_SUCH_TASK", "Recovered", "carried_after", "finals", "following", "recover"]

NO_SUCH_TASK = "no longer in the workflow"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What earlier sessions and runs achieved, by the positions of tasks in the workflow."""

    done: set[int]
    carried: dict[int, Carried]
    outstanding: Outstanding
    stale: frozenset[str]
    """Tasks that have changed, or depend on one that has: their earlier attempts do not count."""
    reasons: dict[int, str]
    """The tasks that are not up to date, and why."""
    needs: list[tuple[int, Resource, float, float]]
    """What unfinished tasks need at least, as attempts ran out of it or outgrew it, and the size of their inputs."""


NOTHING_BEFORE = Recovered(set(), {}, NOTHING_OUTSTANDING, frozenset(), {}, [])
"""For a new run."""


def recover(
    journal: Journal,
    files: Files,
    folder: RunFolder,
    finished: FinishedWork,
    backend: Backend,
    *,
    act: bool = True,
) -> Recovered:
    """Settle the attempts that a killed engine left open; return what is done and what is known about the rest.

    The caller holds the run's lock: nothing works for the run any more, except for batch jobs on its backend. If `act`
    is false, only the journal changes, which is a copy then: no process is killed, and no file is moved.
    """
    workflow = finished.workflow
    token = journal.facts()["token"]
    fingerprints = files.fingerprints(workflow)
    last = finals(workflow)
    listed = [(task.name, task.category, mark) for task, mark in zip(workflow.tasks, fingerprints, strict=True)]
    before = journal.take_tasks(listed + [(task.name, task.category, b"") for task in last])
    journal.describe((task.command, task.line) for task in (*workflow.tasks, *last))
    journal.undo(range(len(workflow), len(listed) + len(last)))  # they run at the end of each session
    done = set(before.done) & set(range(len(workflow)))
    outdated = following(workflow, [place for place in before.changed if place < len(workflow)])
    stale = _names(workflow, outdated)
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
    reasons = _reasons(journal, folder, finished, done, before, outdated, act=act)
    undone = done & reasons.keys()
    if undone:
        first = min(undone)
        why = f'"{workflow.tasks[first].name}": {reasons[first]}'
        _log.info("%s will run again (%s)", counted(len(undone), "finished task"), why)
    journal.undo(undone)
    done -= undone
    stale |= _names(workflow, undone)
    outstanding = replace(outstanding, tasks=outstanding.tasks - stale)
    skipped = set(range(len(workflow))) - reasons.keys() - done
    skipped -= {workflow.index[name] for name in outstanding.tasks if name in workflow.index}
    journal.skip(skipped)
    journal.commit()
    if not outstanding.attempts and act:
        forget_results(folder.path)  # they must not be mistaken for those of another attempt
    carried = {
        place: Carried(row.number, None) if place in undone else _carried(row)
        for place, row in journal.unfinished().items()
    }
    needs = [need for place, row in journal.ran_out() if place not in outdated for need in _needs(place, row)]
    return Recovered(done | skipped, carried, outstanding, stale, reasons, needs)


def _reasons(
    journal: Journal,
    folder: RunFolder,
    finished: FinishedWork,
    done: set[int],
    before: Before,
    outdated: set[int],
    *,
    act: bool,
) -> dict[int, str]:
    """Return the tasks that must run, and why.

    A task that this run was to do, and has not done, is not up to date because of an older run: the user may have asked
    for everything with --new. Only what was recorded since this run began tells otherwise.
    """
    facts, new = journal.facts(), set(before.new)
    begun, everything = float(facts["begun"]), "new" in facts
    done_at = journal.done_at()
    done_here = {place: times for place, times in done_at.items() if place in done - outdated}
    finished.complete(done_here, folder.id, store=act)
    forced = _asked_for(journal, finished, {place: ended for place, (_, ended) in done_at.items()})

    def counts(place: int, record: Record) -> bool:
        return place in done or record.ended >= begun or (place in new and not everything)

    return finished.stale(counts, forced)


def _asked_for(journal: Journal, finished: FinishedWork, done_at: dict[int, float]) -> set[int]:
    """Return the tasks that --rerun has named in any session of this run, and that have not been done since."""
    index = finished.workflow.index
    asked = json.loads(journal.facts().get("rerun", "{}"))
    asked |= {finished.workflow.tasks[place].name: time.time() for place in finished.forced}
    left = {name: since for name, since in asked.items() if done_at.get(index.get(name, -1), 0.0) < since}
    if asked:
        journal.note({"rerun": json.dumps(left)})
    return {index[name] for name in left if name in index}


def _needs(place: int, row: Row) -> Iterator[tuple[int, Resource, float, float]]:
    """Yield what a task needs at least because of an attempt that ran out of it, or outgrew its allocation."""
    size = nan if row.input_bytes is None else row.input_bytes
    if row.exhausted is not None:
        amounts = getattr(row.allocated, row.exhausted), getattr(row.used, row.exhausted)
        yield place, row.exhausted, max(one or 0.0 for one in amounts), size
    elif row.grew_to is not None:
        yield place, Resource.MEMORY, row.used.memory or row.grew_to, size


def _names(workflow: Workflow, places: Iterable[int]) -> frozenset[str]:
    return frozenset(workflow.tasks[place].name for place in places)


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
        for child in workflow.children_of(stack.pop()):
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return seen


def _carried(row: Row) -> Carried:
    return carried_after(row.number, row.decisions, row.outcome, row.exhausted, row.used, row.grew_to)


def carried_after(
    number: int,
    decisions: tuple[Decision, ...],
    outcome: Outcome | None,
    exhausted: Resource | None,
    used: Amounts,
    grew_to: float | None = None,
) -> Carried:
    """Return what the next attempt of a task is allocated after an attempt with this outcome.

    `grew_to` is the memory that the attempt held if it outgrew its allocation: the next one gets at least as much.
    """
    if grew_to is not None:
        decisions = as_grown(decisions, grew_to)
    if outcome is Outcome.EXHAUSTED and exhausted is not None:
        if grew_to is not None and exhausted is Resource.MEMORY:
            return Carried(number, resized(decisions, used.memory or 0.0))
        return Carried(number, climbed(decisions, exhausted, seen=getattr(used, exhausted)))
    if outcome in (Outcome.LOST, Outcome.PREEMPTED) or grew_to is not None:
        return Carried(number, decisions)
    return Carried(number, None)
