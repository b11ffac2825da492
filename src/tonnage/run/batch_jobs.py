"""The batch jobs of a run, as its journal has them: written down before they are submitted."""

from dataclasses import astuple, dataclass, fields
from typing import Literal

from tonnage.run.journal import Journal, Reader

__all__ = ["BatchJob", "BatchJobs", "batch_jobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """What the cluster sees: one task, an array of alike tasks, or many tasks that travel together."""

    id: int
    name: str
    native: str | None = None
    """What the cluster calls it; None until it has answered."""
    packed: bool
    """Whether it carries many tasks and starts them by itself; else each task is an element of its array."""
    first_attempt: int
    attempts: int
    """How many numbers of attempts are kept for it, from the first on."""
    tasks: int
    nodes: int = 1
    cores: int | None = None
    memory: float | None = None
    disk: float | None = None
    seconds: float | None = None
    reason: str = ""
    """Why these tasks go together."""
    estimated_wait: float | None = None
    submitted: float
    started: float | None = None
    ended: float | None = None
    note: str | None = None
    """What became of it."""

    @property
    def state(self) -> Literal["queued", "running", "ended"]:
        """Where it is, as far as is known; of an array, one element runs at least."""
        if self.ended is not None:
            return "ended"
        return "queued" if self.started is None else "running"


_COLUMNS = [field.name for field in fields(BatchJob)]
_INSERT = f"INSERT INTO batch_jobs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 (our own names)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM batch_jobs"  # noqa: S608


def batch_jobs(reader: Reader) -> list[BatchJob]:
    """Return all batch jobs of a run, in the order of their submission."""
    return [_job(row) for row in reader.read(f"{_SELECT} ORDER BY id")]


class BatchJobs:
    """Writes down what becomes of batch jobs."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def next_id(self) -> int:
        """Return a number that no batch job has yet."""
        return int(self._journal.read("SELECT coalesce(max(id), 0) + 1 FROM batch_jobs")[0][0])

    def add(self, job: BatchJob) -> None:
        """Note a batch job that is about to be submitted."""
        self._journal.write(_INSERT, astuple(job))

    def open(self) -> list[BatchJob]:
        """Return the batch jobs that have not ended, as far as is known."""
        return [_job(row) for row in self._journal.read(f"{_SELECT} WHERE ended IS NULL ORDER BY id")]

    def accepted(self, job: int, native: str) -> None:
        """Note what the cluster calls a batch job."""
        self._journal.write("UPDATE batch_jobs SET native = ? WHERE id = ?", (native, job))

    def reopened(self, job: int) -> None:
        """Note that a batch job which has ended is about to be submitted again."""
        self._journal.write("UPDATE batch_jobs SET native = NULL, ended = NULL, note = NULL WHERE id = ?", (job,))

    def started(self, job: int, when: float) -> None:
        """Note when a batch job started."""
        self._journal.write("UPDATE batch_jobs SET started = ? WHERE id = ?", (when, job))

    def ended(self, job: int, when: float, note: str) -> None:
        """Note when a batch job ended, and what became of it."""
        self._journal.write("UPDATE batch_jobs SET ended = ?, note = ? WHERE id = ?", (when, note or None, job))


def _job(row: tuple[object, ...]) -> BatchJob:
    values = dict(zip(_COLUMNS, row, strict=True))
    return BatchJob(**{**values, "packed": bool(values["packed"])})  # type: ignore[arg-type] # as they were written
