"""Classify how an attempt ended (done, failed, exhausted, lost, cancelled) and say why, and handle its files.

What is retried, and how often, follows from that by retry_rules.py.
"""

import os
import signal
import time
from dataclasses import replace
from math import inf

from tonnage.errors import TonnageError
from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.events import Ended
from tonnage.run.files import Files
from tonnage.run.minders import Answer
from tonnage.run.retry_rules import was_killed_from_outside
from tonnage.watch.order import MACHINE_LOST, TERMINATED
from tonnage.workflow import Task

__all__ = ["classify", "classify_killed", "judge", "stopped_for_room"]

_RESOURCES = frozenset(map(str, Resource))
_WHY_LOST = {MACHINE_LOST: "lost with its node", TERMINATED: "ended with its batch job"}
_NOT_FOUND = (126, 127)  # exit status of shells if the program does not exist or cannot be executed


def judge(answer: Answer, task: Task, files: Files) -> Ended:
    """Return how an attempt ended, and move its files to where they belong."""
    end = classify(answer, task, files)
    try:
        if end.outcome is Outcome.DONE:
            files.accept(task, answer.attempt)
        else:
            # One that never started has written nothing.
            started = inf if answer.started is None else answer.started
            files.reject(task, answer.attempt, started, inf if answer.ended is None else answer.ended)
    except (OSError, TonnageError) as error:
        return replace(end, outcome=Outcome.FAILED, hopeless=True, note=f"its files could not be moved: {error}")
    return end


def classify(answer: Answer, task: Task, files: Files) -> Ended:
    """Return how an attempt ended; its files stay where they are."""
    used = _used(answer, task, files)
    status = answer.status
    done = Ended(
        attempt=answer.attempt,
        outcome=Outcome.DONE,
        used=used,
        started=answer.started,
        ended=answer.ended or time.time(),
        exit_status=os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
        memory_method=answer.memory_method,
        lower_bounds=_lower_bounds(answer, used),
        host=answer.host,
        stdout=answer.stdout,
        stderr=answer.stderr,
        note="; ".join(answer.notes),
    )
    why = answer.stopped_because or ""
    if answer.lost or why in _WHY_LOST:
        # The signal that ended it was ours, and tells nothing about it.
        note = _WHY_LOST.get(why, "its monitor was killed")
        return replace(done, outcome=Outcome.LOST, exit_status=None, signal=None, note=note)
    if answer.error is not None and status is None:
        return replace(done, outcome=Outcome.FAILED, hopeless=True, note=answer.error)
    if answer.stopped_because == "cancelled":
        return replace(done, outcome=Outcome.CANCELLED)
    if answer.out_of_memory:
        seen = "" if used.memory is None else f" ({Resource.MEMORY.format_amount(used.memory)} seen)"
        note = f"one of its processes was killed by the kernel, which had no memory left{seen}"
        return replace(done, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY, note=note)
    if answer.exceeded and (answer.stopped_because == "limit" or done.exit_status != 0):
        return _exhausted(done, answer)
    return _as_it_ended(done, task, files)


def _as_it_ended(done: Ended, task: Task, files: Files) -> Ended:
    """Classify an attempt that was not stopped by Tonnage or a batch system."""
    if done.signal is not None:
        return classify_killed(done, done.signal)
    if done.exit_status:
        hopeless = done.exit_status in _NOT_FOUND
        return replace(done, outcome=Outcome.FAILED, hopeless=hopeless, note=status_note(done.exit_status))
    missing = files.missing_output(task, done.attempt, done.started or 0.0)
    if missing is not None:
        return replace(done, outcome=Outcome.FAILED, note=f"succeeded, but did not write {missing}")
    return done


def status_note(status: int) -> str:
    """Describe an exit status; a shell passes on that a signal killed its command as 128 and the signal's number."""
    name = _name_of(status - 128)
    return f"exit status {status} ({name})" if name else f"exit status {status}"


def _name_of(number: int) -> str | None:
    return signal.Signals(number).name if number in list(signal.Signals) else None


def _exhausted(done: Ended, answer: Answer) -> Ended:
    resource = next(Resource(name) for name in map(str, Resource) if name in answer.exceeded)
    limit, value = answer.exceeded[resource]
    note = f"needed more than {resource.format_amount(limit)} of {resource} ({resource.format_amount(value)} seen)"
    return replace(done, outcome=Outcome.EXHAUSTED, exhausted=resource, note=note)


def classify_killed(done: Ended, number: int) -> Ended:
    """Classify an attempt that was killed by a signal, on any backend."""
    name = _name_of(number) or f"signal {number}"
    if was_killed_from_outside(number):
        return replace(done, outcome=Outcome.LOST, killed=True, note=f"killed from outside ({name})")
    return replace(done, outcome=Outcome.FAILED, note=f"killed by {name}")


def stopped_for_room(end: Ended, outcome: Outcome, reason: str) -> Ended:
    """Classify an attempt that the engine stopped so that others could continue."""
    if end.outcome is not Outcome.CANCELLED:
        return end  # it came to its own end before
    exhausted = Resource.MEMORY if outcome is Outcome.EXHAUSTED else None
    return replace(end, outcome=outcome, exhausted=exhausted, note=f"stopped: {reason}")


def _used(answer: Answer, task: Task, files: Files) -> Amounts:
    used = answer.used
    disk = used.get("disk")
    if disk is None and answer.status is not None:
        disk = files.disk_of_outputs(task, answer.attempt)
    processes = used.get("total_processes")
    return Amounts.of(
        cores=used.get("cores"),
        memory=used.get("memory"),
        disk=disk,
        wall_time=used.get("wall_time"),
        cpu_time=used.get("cpu_time"),
        processes=None if processes is None else int(processes),
    )


def _lower_bounds(answer: Answer, used: Amounts) -> tuple[str, ...]:
    """Return the resources whose use may have been higher: without a sandbox, only outputs count as disk use."""
    found = [name for name in answer.lower_bounds if name in _RESOURCES]
    if used.disk is not None and "disk" not in answer.used:
        found.append("disk")
    return tuple(found)
