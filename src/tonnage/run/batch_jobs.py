"""The batch jobs of a run in its journal, where they are recorded before they are submitted."""

from dataclasses import astuple, dataclass, fields
from typing import Literal

from tonnage.run.journal import Journal, Reader

__all__ = ["BatchJob", "BatchJobs", "batch_jobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job as the cluster sees it: one task, an array of similar tasks, or a pack of many tasks."""

    id: int
    name: str
    native: str | None = None
    """Its id on the cluster; None until the cluster has answered."""
    packed: bool
    """Whether it carries many tasks and starts them itself; otherwise each task is an element of its array."""
    first_attempt: int
    attempts: int
    """How many attempt numbers are reserved for it, starting with the first."""
    tasks: int
    nodes: int = 1
    cores: int | None = None
    memory: float | None = None
    disk: float | None = None
    seconds: float | None = None
    reason: str = ""
    """Why these tasks were packed together."""
    estimated_wait: float | None = None
    submitted: float
    started: float | None = None
    ended: float | None = None
    note: str | None = None
    """How it ended."""

    @property
    def state(self) -> Literal["queued", "running", "ended"]:
        """Its last known state; an array is running as soon as one of its elements is."""
        if self.ended is not None:
            return "ended"
        return "queued" if self.started is None else "running"


_COLUMNS = [field.name for field in fields(BatchJob)]
_INSERT = f"INSERT INTO batch_jobs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 (our own names)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM batch_jobs"  # noqa: S608


def batch_jobs(reader: Reader) -> list[BatchJob]:
    """Return all batch jobs of a run in the order in which they were submitted."""
    return [_job(row) for row in reader.read(f"{_SELECT} ORDER BY id")]


class BatchJobs:
    """Records batch jobs in the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def next_id(self) -> int:
        """Return the next unused number."""
        return int(self._journal.read("SELECT coalesce(max(id), 0) + 1 FROM batch_jobs")[0][0])

    def add(self, job: BatchJob) -> None:
        """Record a batch job that is about to be submitted."""
        self._journal.write(_INSERT, astuple(job))

    def open(self) -> list[BatchJob]:
        """Return the batch jobs that are not known to have ended."""
        return [_job(row) for row in self._journal.read(f"{_SELECT} WHERE ended IS NULL ORDER BY id")]

    def accepted(self, job: int, native: str) -> None:
        """Record the id of a batch job on the cluster."""
        self._journal.write("UPDATE batch_jobs SET native = ? WHERE id = ?", (native, job))

    def reopened(self, job: int) -> None:
        """Record that a finished batch job is about to be submitted again."""
        self._journal.write("UPDATE batch_jobs SET native = NULL, ended = NULL, note = NULL WHERE id = ?", (job,))

    def started(self, job: int, when: float) -> None:
        """Record when a batch job started."""
        self._journal.write("UPDATE batch_jobs SET started = ? WHERE id = ?", (when, job))

    def ended(self, job: int, when: float, note: str) -> None:
        """Record when and how a batch job ended."""
        self._journal.write("UPDATE batch_jobs SET ended = ?, note = ? WHERE id = ?", (when, note or None, job))


def _job(row: tuple[object, ...]) -> BatchJob:
    values = dict(zip(_COLUMNS, row, strict=True))
    return BatchJob(**{**values, "packed": bool(values["packed"])})  # type: ignore[arg-type] # as written by `add`
