"""How often a batch system's queue is asked: often while something happens, seldom while nothing does."""

from dataclasses import dataclass

__all__ = ["PollSchedule"]


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """The pauses between two questions to the queue, in seconds.

    One question is for all jobs of a run, so that its price does not grow with them. After each that brings no news the
    pause grows by `slower`, up to `longest`; news bring it back to `first`.
    """

    first: float = 1.0
    """Soon enough for a person who watches; below a second, controllers with many users feel it."""
    longest: float = 15.0
    """What sites ask for at least between two calls of squeue is some seconds; jobs report their own ends by files, so
    that only jobs which died without a word wait for this."""
    slower: float = 1.3

    def after(self, pause: float) -> float:
        """Return the pause that follows one which brought no news."""
        return min(self.longest, pause * self.slower)
