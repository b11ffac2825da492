"""Events that enter and leave the engine: attempts that start, change and end, and what happens to tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from tonnage.jobs import NOTHING_KNOWN, Amounts, Decision, Outcome, Resource

__all__ = [
    "NOT_RETRIED",
    "RETRIED_ELSEWHERE",
    "Action",
    "Adjustment",
    "Carried",
    "Ended",
    "Settled",
    "Start",
    "State",
]


NOT_RETRIED = "not retried"
"""The reason of a task that failed for good: the note of its last attempt tells why."""
RETRIED_ELSEWHERE = "retried elsewhere, because its node is avoided"
"""Instead of it, for a task that had failed on a node that turned out to be bad."""


class State(IntEnum):
    """The state of a task."""

    WAITING = 0
    """Waiting for tasks that it depends on."""
    READY = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    STOPPED = 5
    """Cancelled; a later session may start it."""
    SENT = 6
    """Handed to a batch job, which starts it itself."""


@dataclass(frozen=True, slots=True)
class Start:
    """A task that is to be started: on which machine, and with how much."""

    attempt: int
    task: int
    number: int
    """Which attempt of its task this is, counted from 1."""
    machine: int
    decisions: tuple[Decision, ...]
    input_bytes: float

    @property
    def allocated(self) -> Amounts:
        """What the attempt is allocated."""
        return Amounts.of(**{str(one.resource): one.amount for one in self.decisions})  # type: ignore[arg-type]


class Action(StrEnum):
    """What the engine does with a running attempt, by its name in the journal."""

    GROW = "grow"
    """It holds more memory from now on."""
    PAUSE = "pause"
    """Its processes are stopped, because there is no room for it to grow."""
    RESUME = "resume"
    STOP = "stop"
    """It is ended, so that others can continue; its task is retried."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What changes for a running attempt, and why; recorded before it takes effect."""

    attempt: int
    action: Action
    reason: str
    memory: float | None = None
    """The memory that it holds from now on, if it grows."""
    more: float = 0.0
    """How much more that is than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended, and what is known about it."""

    attempt: int
    outcome: Outcome
    used: Amounts = NOTHING_KNOWN
    exhausted: Resource | None = None
    hopeless: bool = False
    """Whether a retry would fail in the same way, because the program does not exist."""
    held: bool = False
    """Whether a batch system holds it until it is released."""
    killed: bool = False
    """Whether it was killed from outside, for an unknown reason."""
    started: float | None = None
    ended: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    host: str | None = None
    """The machine on which it ran, if not this one."""
    memory_method: str | None = None
    lower_bounds: tuple[str, ...] = ()
    stdout: str | None = None
    """The file with its standard output."""
    stderr: str | None = None
    note: str = ""
    """What went wrong, for the user."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What a batch system measured in addition to our monitor, under its own names."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What happens to a task after one of its attempts ended."""

    task: int
    state: State
    reason: str = ""
    """Why it is retried or has failed."""
    revived: tuple[int, ...] = ()
    """Other tasks that had failed, and are retried after all because their node is avoided now."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What an earlier engine knew about a task that is not done."""

    attempts: int
    decisions: tuple[Decision, ...] | None
    """What its next attempt is allocated, if that is known."""
