"""The interface between a run and any batch system: values, and protocols that each system implements."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from shlex import quote
from typing import Protocol

from tonnage.batch.poll_schedule import PollSchedule
from tonnage.batch.snapshot import Snapshot
from tonnage.jobs import Outcome, Resource

__all__ = [
    "BatchQueue",
    "InsideJob",
    "JobStatus",
    "JobVariable",
    "Limits",
    "Node",
    "QueueEntry",
    "Request",
    "Scheduler",
    "Verdict",
    "command_line",
]


class JobStatus(StrEnum):
    """The status of a batch job that has not finished."""

    WAITING = "waiting"
    RUNNING = "running"


class JobVariable(StrEnum):
    """A placeholder in a request's command, filled in by the batch job itself."""

    ELEMENT = "{element}"
    """The number of its array element, from 0; 0 if it is not an array."""
    HOST = "{host}"
    """The batch system's name for the node; empty if it has none."""
    RESTARTS = "{restarts}"
    """How often the batch system has restarted it."""


def command_line(words: Sequence[str], variables: Mapping[JobVariable, str]) -> str:
    """Return a shell command for a batch script; `variables` tells how each JobVariable is written there."""
    known = {str(name): text for name, text in variables.items()}
    return " ".join(known.get(word) or quote(word) for word in words)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster."""

    name: str
    cores: int
    memory: float
    """In bytes."""
    disk: float = inf
    """Temporary space in bytes; unlimited if unknown."""
    usable: bool = True
    """Whether jobs can start there, now or once others have finished: not down and not drained."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run can submit: the nodes available, and what the cluster allows."""

    nodes: tuple[Node, ...]
    seconds: float = inf
    """The longest time limit of a batch job."""
    job_nodes: int | None = None
    """The most nodes per batch job; None: all."""
    submitted: int | None = None
    """How many waiting or running batch jobs a user may have; each array element counts."""
    running: int | None = None
    array: int = 0
    """How many elements a job array may have; 0: arrays are not supported."""
    notes: tuple[str, ...] = ()
    """What the user should know, such as that estimates are rough because other users' jobs are hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A batch job to be submitted; amounts are per node."""

    name: str
    """Unique forever, of letters, digits and ``._-``: used to find a job whose number was not received."""
    words: tuple[str, ...]
    """The command; each JobVariable is filled in by the batch job."""
    folder: Path
    """Its working folder."""
    output: Path
    """The file for its output; array elements append their number."""
    nodes: int = 1
    whole_nodes: bool = False
    """Whether it gets whole nodes, whatever they have."""
    cores: int | None = None
    memory: float | None = None
    disk: float | None = None
    gpus: int = 0
    seconds: float | None = None
    """Time limit. None: the cluster's default; infinite: no limit."""
    avoided: tuple[str, ...] = ()
    """Nodes that it must not use."""
    elements: int = 0
    """The number of array elements, numbered from 0; 0: not an array."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A batch job or array element that is waiting or running."""

    status: JobStatus
    reason: str = ""
    """Why it waits."""
    started: float | None = None
    restarts: int = 0
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the batch system reports about a finished batch job; the outcome is None if unknown."""

    outcome: Outcome | None = None
    exhausted: Resource | None = None
    exit_status: int | None = None
    signal: int | None = None
    started: float | None = None
    ended: float | None = None
    note: str = ""
    """For people: "its time limit was reached", "node n3 failed"."""
    facts: Mapping[str, str] = field(default_factory=dict)


class BatchQueue(Protocol):
    """What any batch system can report about submitted jobs. Every call can raise SchedulerUnreachableError."""

    name: str

    def find(self, name: str) -> str | None:
        """Return the number of the job submitted under a name, or None if the system does not know it."""

    def poll(self) -> dict[str, QueueEntry]:
        """Return all of this user's waiting and running jobs and elements, by number."""

    def cancel(self, numbers: Collection[str]) -> None:
        """Cancel jobs, whether waiting or running."""

    def job_of(self, number: str) -> str:
        """Return the number of the job that an element belongs to; a job's number is returned unchanged."""


class Scheduler(BatchQueue, Protocol):
    """A batch system to which tasks are submitted. Every call but `script` can raise SchedulerUnreachableError."""

    polling: PollSchedule
    """How often `poll` is called."""
    inside: str
    """The InsideJob class of this system, as ``module:Class``. A pilot loads it in the batch job."""

    def element(self, number: str, element: int) -> str:
        """Return the system's number for an array element."""

    def limits(self) -> Limits:
        """Return what can be submitted; raises InputError if nothing can (no such partition, no access)."""

    def script(self, request: Request) -> str:
        """Return the batch script for a request."""

    def check(self, request: Request) -> float | None:
        """Ask when such a job would start, without submitting it: seconds from now, or None if unknown.

        Raises SubmissionRejectedError if it never would.
        """

    def submit(self, request: Request, script: Path, held: Collection[int] = ()) -> str:
        """Submit a job whose script is in a file, and return its number.

        Programs that may complete the submission even if this process is killed keep the `held` descriptors open.
        """

    def verdicts(self, numbers: Collection[str]) -> dict[str, Verdict]:
        """Return how jobs and elements ended, as far as the system still knows."""

    def read(self, printed: str) -> Verdict | None:
        """Parse what the system wrote about the job's end into its output; None if it wrote nothing."""

    def queue(self, run_fraction: float = 1.0) -> Snapshot:
        """Return the queue as seen by a job submitted now, in whole nodes.

        Other users' jobs are assumed to run for this fraction of their time limits.
        """


class InsideJob(Protocol):
    """A batch job seen from inside: what a pilot needs in order to use all of its nodes."""

    def nodes(self) -> list[str]:
        """Return the names of its nodes; raises TonnageError outside of a batch job."""

    def launcher(self, node: str) -> Sequence[str]:
        """Return the command prefix that runs a command on a node."""

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return our environment without variables that would interfere with `launcher`."""
