"""A DAG that was or will be submitted to DAGMan: its files, and how far they have been read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.batch.htcondor.dag import DAG, EVENTS, Dag
from tonnage.files import write_atomically
from tonnage.jobs import Decision
from tonnage.logs.user_times import zone
from tonnage.run.backends.htcondor.dag_plan import read_nodes
from tonnage.run.backends.htcondor.event_log import Attempts, EventFile, News, Over
from tonnage.run.backends.htcondor.verdicts import ended, summary_in
from tonnage.run.batch_jobs import BatchJob
from tonnage.run.events import Ended

__all__ = ["SubmittedDag", "is_left"]

_SUBMITTED, _TERMINATED, _ABORTED = "000", "005", "009"
_RESCUE = re.compile(r"\.rescue\d{3}$")
_BEFORE = "before-submission"
"""The file with the size of the log of DAGMan's own job before this submission."""


@dataclass(slots=True)
class SubmittedDag:
    """A DAG that was or will be submitted to DAGMan."""

    job: BatchJob
    folder: Path
    tasks: Mapping[str, int]
    """The numbers of tasks by their names, without those whose attempts do not count any more."""
    known: dict[int, bool]
    """Attempts in the journal, and whether they have ended."""
    native: str | None = None
    """The id of DAGMan's own job."""
    gone: float | None = None
    """When DAGMan was found to be gone, on a monotonic clock."""
    attempts: Attempts = field(init=False)
    _events: EventFile = field(init=False)
    _own: EventFile = field(init=False)
    _numbers: list[tuple[str, str]] = field(default_factory=list)
    """Events of DAGMan's own job, as pairs of kind and job id."""

    def __post_init__(self) -> None:
        sent, terms = read_nodes(self.folder)
        self.attempts = Attempts(sent, self.job.first_attempt, zone(), grows_disk=bool(terms.get("grows_disk", True)))
        self._events = EventFile(self.folder / EVENTS)
        self._own = EventFile(self._own_log, self._before() or 0)

    @property
    def dag(self) -> Path:
        """The file to submit."""
        return self.folder / DAG

    @property
    def halt_file(self) -> Path:
        """While this file exists, DAGMan submits nothing more."""
        return self.folder / f"{DAG}.halt"

    @property
    def was_tried(self) -> bool:
        """Whether an engine has tried to submit it."""
        return self._before() is not None

    def about_to_submit(self) -> None:
        """Record that it is about to be submitted: later events of DAGMan's own job belong to this submission."""
        try:
            size = self._own_log.stat().st_size
        except OSError:
            size = 0
        write_atomically(self.folder / _BEFORE, f"{size}\n")
        self._own = EventFile(self._own_log, size)

    def number_in_log(self) -> str | None:
        """Return the id of DAGMan's own job for this submission, from its log."""
        return (
            next((number for kind, number in self._own_events() if kind == _SUBMITTED), None)
            if self.was_tried
            else None
        )

    def has_ended(self) -> bool:
        """Whether DAGMan has left the queue according to its own log."""
        ends = (_TERMINATED, _ABORTED)
        return any(kind in ends and number == self.native for kind, number in self._own_events())

    def news(self) -> Iterator[News]:
        """Yield what happened to tasks since the last call."""
        self.attempts.dagman = int(self.number_in_log() or self.native or 0)
        for event in self._events.new():
            yield from self.attempts.take(event)

    def end_of(self, over: Over) -> Ended:
        """Return how an attempt ended, including the summary of its monitor."""
        name = f"{over.sent.number}.{over.cluster}"
        left = over.pool.exit_status is not None or over.pool.signal is not None
        monitor = summary_in(self.folder / "summaries" / name) if left else None
        printed = {stream: self.folder / "logs" / f"{name}.{stream}" for stream in ("out", "err")}
        return ended(over, monitor, printed)

    @property
    def _own_log(self) -> Path:
        return self.folder / f"{DAG}.dagman.log"

    def _own_events(self) -> list[tuple[str, str]]:
        self._numbers += [(event.kind, str(event.job[0])) for event in self._own.new()]
        return self._numbers

    def _before(self) -> int | None:
        try:
            return int((self.folder / _BEFORE).read_text())
        except (OSError, ValueError):
            return None


def is_left(dag: Dag) -> bool:
    """Whether a DAG is what remains of the one in its folder, so that its newest rescue DAG can be used.

    It cannot be used if a task needs more than it was allocated there, because DAGMan restarts with the first rung, nor
    if tasks request GPUs, because the number of GPUs is not recorded.
    """
    rescues = [path for path in dag.folder.glob(f"{DAG}.rescue*") if _RESCUE.search(path.name)]
    if not rescues or any(one.task.gpus for one in dag.orders):
        return False
    sent, terms = read_nodes(dag.folder)
    with max(rescues).open(encoding="utf-8", errors="replace") as file:
        done = {words[1] for line in file if (words := line.split())[:1] == ["DONE"]}
    left = {one.task: one.decisions for one in sent.values() if one.node not in done}
    wanted = {one.task.name: one.decisions for one in dag.orders}
    return (
        terms == dag.terms
        and left.keys() == wanted.keys()
        and all(_suffices(given, wanted[task]) for task, given in left.items())
    )


def _suffices(given: Sequence[Decision], wanted: Sequence[Decision]) -> bool:
    """Whether decisions start and end with at least as much as others."""
    ladders = {one.resource: one.ladder[one.rung :] for one in given}
    return ladders.keys() == {one.resource for one in wanted} and all(
        ladders[one.resource][0] >= one.amount and ladders[one.resource][-1] >= one.ladder[-1] for one in wanted
    )
