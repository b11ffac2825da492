"""How often a cluster's queue (squeue) is polled: often while something happens, rarely otherwise.

HTCondor's queue is not polled: its event log is followed.
"""

from dataclasses import dataclass

__all__ = ["PollSchedule"]


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """The pauses between two polls of the queue, in seconds.

    One poll covers all jobs of a run, so its cost does not grow with their number. After each poll without news the
    pause grows by the factor `slower`, up to `longest`; news resets it to `first`.
    """

    first: float = 1.0
    """Soon enough for a user who is watching; below a second, controllers with many users feel the load."""
    longest: float = 15.0
    """Sites ask for at least a few seconds between two calls of squeue; jobs report their own end in files, so only
    jobs that died without a report wait for this."""
    slower: float = 1.3

    def after(self, pause: float) -> float:
        """Return the pause after a poll without news."""
        return min(self.longest, pause * self.slower)
