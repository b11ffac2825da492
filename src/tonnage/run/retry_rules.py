"""How often a task is retried after it failed or was killed from outside: one policy for every backend."""

from dataclasses import dataclass
from signal import SIGKILL

__all__ = ["Rules", "was_killed_from_outside"]


def was_killed_from_outside(signal: int | None) -> bool:
    """Whether a task that ended by this signal was killed by the system or a user: programs do not send it themselves.

    The task is retried with the same size, as often as `Rules.kills` allows; any other signal is a failure of its own.
    """
    return signal == SIGKILL


@dataclass(frozen=True, slots=True)
class Rules:
    """How the engine handles failures, and how much it does at once."""

    retries: int = 0
    """How often a failed task is retried."""
    kills: int = 5
    """How often a task is retried that was killed from outside, for an unknown reason."""
    fail_fast: bool = False
    """Whether no more tasks start after the first one failed."""
    grow_all: bool = False
    """Whether a retry gets more of every resource when one was exhausted."""
    at_once: int | None = None
    """How many attempts run at the same time at most."""
    elastic: bool = False
    """Whether attempts on our machines may outgrow their memory in place; otherwise they are killed at it."""
