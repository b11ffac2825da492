"""What a run asks of a batch system, whichever it is: values, and the calls that each system's module answers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from shlex import quote
from typing import Protocol

from tonnage.batch.poll_schedule import PollSchedule
from tonnage.batch.snapshot import Snapshot
from tonnage.errors import TonnageError
from tonnage.jobs import Outcome, Resource

__all__ = [
    "InsideJob",
    "JobStatus",
    "JobVariable",
    "Limits",
    "Node",
    "QueueEntry",
    "Queued",
    "RejectedError",
    "Request",
    "Scheduler",
    "UnreachableError",
    "Verdict",
    "command_line",
]


class UnreachableError(TonnageError):
    """The batch system does not answer at the moment: nothing is known, and the same call may be made again."""


class RejectedError(TonnageError):
    """The batch system does not take a job: it would not take it later either."""


class JobStatus(StrEnum):
    """Where a batch job is that has not ended."""

    WAITING = "waiting"
    RUNNING = "running"


class JobVariable(StrEnum):
    """A word of a request's command that only the batch job itself knows."""

    ELEMENT = "{element}"
    """The number of its element, from 0; 0 where it is no array."""
    HOST = "{host}"
    """What the batch system calls the node; empty where it has no name of its own for it."""
    RESTARTS = "{restarts}"
    """How often the batch system has started it again."""


def command_line(words: Sequence[str], variables: Mapping[JobVariable, str]) -> str:
    """Return a command for the shell of a batch script; `variables` is how each JobVariable is written there."""
    known = {str(name): text for name, text in variables.items()}
    return " ".join(known.get(word) or quote(word) for word in words)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster."""

    name: str
    cores: int
    memory: float
    """In bytes."""
    disk: float = inf
    """Temporary space in bytes; unlimited where nobody says."""
    usable: bool = True
    """Whether jobs can start there, now or when others have ended: it is not down and not drained."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What can be submitted where a run submits: the machines, and what the cluster allows."""

    nodes: tuple[Node, ...]
    seconds: float = inf
    """The longest that a batch job may take."""
    job_nodes: int | None = None
    """The most nodes of one batch job; None: all."""
    submitted: int | None = None
    """How many batch jobs a user may have that wait or run; elements of arrays count each."""
    running: int | None = None
    array: int = 0
    """How many elements a job array may have; 0: there are none."""
    notes: tuple[str, ...] = ()
    """What a user should know: estimates are rough because others' jobs are hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A batch job as it is to be submitted; amounts are for each node."""

    name: str
    """Unique for all times, from letters, digits and ``._-``: by it a job is found again whose number nobody knows."""
    words: tuple[str, ...]
    """The command; a JobVariable stands for what only the batch job knows."""
    folder: Path
    """Where it runs."""
    output: Path
    """What it prints; of an array, elements add their number."""
    nodes: int = 1
    whole_nodes: bool = False
    """Whether it gets all of its nodes, whatever they have."""
    cores: int | None = None
    memory: float | None = None
    disk: float | None = None
    gpus: int = 0
    seconds: float | None = None
    """None: as long as the cluster gives to jobs that do not say; infinite: without a limit."""
    avoided: tuple[str, ...] = ()
    """Nodes that it must not get."""
    elements: int = 0
    """How many elements the array has, numbered from 0; 0: it is no array."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A batch job, or an element of one, that waits or runs."""

    phase: JobStatus
    reason: str = ""
    """Why it waits."""
    started: float | None = None
    restarts: int = 0
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the batch system tells about a batch job that has ended; its outcome is None where nobody knows."""

    outcome: Outcome | None = None
    exhausted: Resource | None = None
    exit_status: int | None = None
    signal: int | None = None
    started: float | None = None
    ended: float | None = None
    note: str = ""
    """In words: the time limit was reached, node n3 failed."""
    facts: Mapping[str, str] = field(default_factory=dict)


class Queued(Protocol):
    """What any batch system can tell about what was submitted to it. Every call may raise UnreachableError."""

    name: str

    def find(self, name: str) -> str | None:
        """Return the number of a job that was submitted under a name, where the system still knows it."""

    def look(self) -> dict[str, QueueEntry]:
        """Return all of this user's jobs and elements that wait or run, by their numbers."""

    def cancel(self, numbers: Collection[str]) -> None:
        """End jobs, whether they wait or run."""

    def job_of(self, number: str) -> str:
        """Return the number of the job to which an element belongs; that of a job is its own."""


class Scheduler(Queued, Protocol):
    """A batch system to which tasks are submitted. Every call but `script` may raise UnreachableError."""

    polling: PollSchedule
    """How often `look` is called."""
    inside: str
    """Where the InsideJob of this system is: ``module:Class``. A pilot loads it in the batch job."""

    def element(self, number: str, element: int) -> str:
        """Return what the system calls an element of an array."""

    def limits(self) -> Limits:
        """Return what can be submitted; raises InputError where nothing can: no such partition, no rights."""

    def script(self, request: Request) -> str:
        """Return the script that is submitted for a request."""

    def check(self, request: Request) -> float | None:
        """Ask when such a job would start, without submitting it: seconds from now, None where it is not known.

        Raises RejectedError where it never would.
        """

    def submit(self, request: Request, script: Path, held: Collection[int] = ()) -> str:
        """Submit a job whose script is in a file, and return its number.

        Programs that may still submit it, even if we are killed, hold these descriptors open.
        """

    def verdicts(self, numbers: Collection[str]) -> dict[str, Verdict]:
        """Return what became of jobs and elements that have ended, as far as the system still knows."""

    def read(self, printed: str) -> Verdict | None:
        """Return what the system itself wrote into a batch job's output about its end; None where it did not."""

    def queue(self, run_fraction: float = 1.0) -> Snapshot:
        """Return what the queue looks like to a job submitted now, in whole nodes.

        Others' jobs are reckoned to run for such a part of their time limits.
        """


class InsideJob(Protocol):
    """A batch job, seen from inside: what a pilot must know to use all of its nodes."""

    def nodes(self) -> list[str]:
        """Return the names of its nodes; raises TonnageError where this is no batch job."""

    def launcher(self, node: str) -> Sequence[str]:
        """Return the words before a command that let it run on a node."""

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return our variables without those that would disturb `launcher`."""
