"""What goes into the engine and what comes out of it: attempts that start and end, and what becomes of tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from tonnage.jobs import NOTHING_KNOWN, Amounts, Decision, Outcome, Resource

__all__ = ["Carried", "Ended", "Rules", "Settled", "Start", "State"]


class State(IntEnum):
    """What has become of a task."""

    WAITING = 0
    """For the tasks that it depends on."""
    READY = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    STOPPED = 5
    """It was cancelled; another run of the engine may start it again."""
    SENT = 6
    """It is in a batch job, which starts it by itself."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the engine deals with what goes wrong."""

    retries: int = 0
    """How often a task that failed by itself is tried again."""
    kills: int = 5
    """How often a task is retried that was killed from outside, by an unknown process."""
    fail_fast: bool = False
    """Whether nothing more starts after the first task that failed for good."""
    grow_all: bool = False
    """Whether every resource grows when one was exhausted."""


@dataclass(frozen=True, slots=True)
class Start:
    """A task is to be started: on which machine, and what it is given."""

    attempt: int
    task: int
    number: int
    """Which attempt of its task this is, from 1."""
    machine: int
    decisions: tuple[Decision, ...]
    input_bytes: float

    @property
    def allocated(self) -> Amounts:
        """What the attempt is given."""
        return Amounts.of(**{str(one.resource): one.amount for one in self.decisions})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An attempt has ended: how, and what is known about it."""

    attempt: int
    outcome: Outcome
    used: Amounts = NOTHING_KNOWN
    exhausted: Resource | None = None
    hopeless: bool = False
    """Whether another attempt would fail alike: there is no such program."""
    held: bool = False
    """Whether a batch system keeps it until it is released."""
    killed: bool = False
    """Whether it was killed by an unknown process."""
    started: float | None = None
    ended: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    host: str | None = None
    """The machine on which it ran, where that is not this one."""
    memory_method: str | None = None
    lower_bounds: tuple[str, ...] = ()
    stdout: str | None = None
    """The file with what it printed."""
    stderr: str | None = None
    note: str = ""
    """What went wrong, for people."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What a batch system measured beside our monitor, under its own names."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of the task of an attempt that has ended."""

    task: int
    state: State
    reason: str = ""
    """Why it is tried again or given up."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What an earlier engine knew about a task that is not done."""

    attempts: int
    decisions: tuple[Decision, ...] | None
    """What it is to be tried with next, where that is known."""
