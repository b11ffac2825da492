"""How an attempt on a cluster ended, from the result of its monitor and the verdict of the batch system."""

import os
from dataclasses import replace

from tonnage.batch.scheduler import Verdict
from tonnage.jobs import Outcome
from tonnage.run.events import Ended
from tonnage.run.minders import Answer
from tonnage.run.retry_rules import was_killed_from_outside
from tonnage.watch.order import MONITOR_KILLED, TERMINATED

__all__ = ["explained", "needs_verdict"]


def needs_verdict(answer: Answer) -> bool:
    """Whether only the batch system knows why an attempt ended: it, or its monitor, was killed from outside."""
    if answer.stopped_because is not None:
        return answer.stopped_because in (TERMINATED, MONITOR_KILLED)
    status = answer.status
    return status is not None and os.WIFSIGNALED(status) and was_killed_from_outside(os.WTERMSIG(status))


def explained(end: Ended, verdict: Verdict) -> Ended:
    """Apply the batch system's verdict to an attempt that ended with its batch job or without an answer."""
    note = verdict.note or end.note
    end = replace(end, host=end.host or verdict.facts.get("nodes") or None)
    if verdict.outcome is Outcome.EXHAUSTED:
        return replace(end, outcome=Outcome.EXHAUSTED, exhausted=verdict.exhausted, killed=False, note=note)
    if verdict.outcome is Outcome.CANCELLED:
        return replace(end, outcome=Outcome.CANCELLED, killed=False, note="its batch job was cancelled")
    if verdict.outcome in (Outcome.PREEMPTED, Outcome.LOST):
        return replace(end, outcome=verdict.outcome, killed=False, note=note)
    # It was killed for an unknown reason, or left no result: the number of retries is limited.
    note = end.note if verdict.outcome is Outcome.DONE or not verdict.note else verdict.note
    status, signal = end.exit_status, end.signal
    if status is None and signal is None:
        status, signal = verdict.exit_status, verdict.signal
    end = replace(end, outcome=Outcome.LOST, killed=True, exit_status=status, signal=signal)
    return replace(end, note=note or "its batch job left no result")
