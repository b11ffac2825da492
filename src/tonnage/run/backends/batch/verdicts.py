"""How an attempt on a cluster ended: what its monitor wrote down, and what the batch system tells, taken together."""

import os
import signal
from dataclasses import replace

from tonnage.batch.scheduler import Verdict
from tonnage.jobs import Outcome
from tonnage.run.events import Ended
from tonnage.run.minders import Answer
from tonnage.watch.order import MONITOR_KILLED, TERMINATED

__all__ = ["explained", "needs_verdict"]


def needs_verdict(answer: Answer) -> bool:
    """Whether only the batch system knows why an attempt ended: somebody else ended it, or killed its monitor."""
    if answer.stopped_because is not None:
        return answer.stopped_because in (TERMINATED, MONITOR_KILLED)
    status = answer.status
    return status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def explained(end: Ended, verdict: Verdict) -> Ended:
    """Return the end of an attempt that ended with its batch job or without an answer, as the system tells it."""
    note = verdict.note or end.note
    if verdict.outcome is Outcome.EXHAUSTED:
        return replace(end, outcome=Outcome.EXHAUSTED, exhausted=verdict.exhausted, killed=False, note=note)
    if verdict.outcome is Outcome.CANCELLED:
        return replace(end, outcome=Outcome.CANCELLED, killed=False, note="its batch job was cancelled")
    if verdict.outcome in (Outcome.PREEMPTED, Outcome.LOST):
        return replace(end, outcome=verdict.outcome, killed=False, note=note)
    # It was killed and nobody says why, or it left no result: not for ever.
    what = end.note if verdict.outcome is Outcome.DONE or not verdict.note else verdict.note
    return replace(end, outcome=Outcome.LOST, killed=True, note=what or "its batch job left no result")
