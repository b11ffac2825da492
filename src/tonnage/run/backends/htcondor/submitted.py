"""A DAG that is with DAGMan, or about to be: its files, and how far they have been read."""

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

__all__ = ["Submitted", "is_left"]

_SUBMITTED, _TERMINATED, _ABORTED = "000", "005", "009"
_RESCUE = re.compile(r"\.rescue\d{3}$")
_BEFORE = "before-submission"
"""The file that says how long the log of DAGMan's own job was before this submission."""


@dataclass(slots=True)
class Submitted:
    """A DAG that is with DAGMan, or about to be."""

    job: BatchJob
    folder: Path
    tasks: Mapping[str, int]
    """The numbers of the tasks that count, by their names: what becomes of others is of no interest any more."""
    known: dict[int, bool]
    """Attempts that the journal has, and whether they have ended."""
    native: str | None = None
    """What HTCondor calls DAGMan's own job."""
    gone: float | None = None
    """Since when DAGMan is known to be gone, on a clock that only goes forward."""
    attempts: Attempts = field(init=False)
    _events: EventFile = field(init=False)
    _own: EventFile = field(init=False)
    _numbers: list[tuple[str, str]] = field(default_factory=list)
    """Events of DAGMan's own job, as kinds and numbers."""

    def __post_init__(self) -> None:
        sent, terms = read_nodes(self.folder)
        self.attempts = Attempts(sent, self.job.first_attempt, zone(), grows_disk=bool(terms.get("grows_disk", True)))
        self._events = EventFile(self.folder / EVENTS)
        self._own = EventFile(self._own_log, self._before() or 0)

    @property
    def dag(self) -> Path:
        """The file that is submitted."""
        return self.folder / DAG

    @property
    def halt_file(self) -> Path:
        """While this file exists, DAGMan submits nothing more."""
        return self.folder / f"{DAG}.halt"

    @property
    def was_tried(self) -> bool:
        """Whether an engine has begun to submit it."""
        return self._before() is not None

    def about_to_submit(self) -> None:
        """Note that it is about to be submitted: what DAGMan's own job writes from here on is about this time."""
        try:
            size = self._own_log.stat().st_size
        except OSError:
            size = 0
        write_atomically(self.folder / _BEFORE, f"{size}\n")
        self._own = EventFile(self._own_log, size)

    def number_in_log(self) -> str | None:
        """Return the number that DAGMan got when this was submitted, as its own log tells."""
        return (
            next((number for kind, number in self._own_events() if kind == _SUBMITTED), None)
            if self.was_tried
            else None
        )

    def has_ended(self) -> bool:
        """Whether DAGMan's own log says that it has left the queue."""
        ends = (_TERMINATED, _ABORTED)
        return any(kind in ends and number == self.native for kind, number in self._own_events())

    def news(self) -> Iterator[News]:
        """Yield what has happened to tasks since the last call."""
        self.attempts.dagman = int(self.number_in_log() or self.native or 0)
        for event in self._events.new():
            yield from self.attempts.take(event)

    def end_of(self, over: Over) -> Ended:
        """Return how an attempt ended, with what the monitor has left."""
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
    """Whether a DAG is what DAGMan has left of the one in its folder, as its newest rescue DAG tells: it can go on.

    It cannot where a task needs more than it was given there: DAGMan begins to count retries anew, with the first rung.
    Nor where tasks ask for GPUs: how many they had there is not recorded.
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
    """Whether decisions begin and end with as much as others."""
    ladders = {one.resource: one.ladder[one.rung :] for one in given}
    return ladders.keys() == {one.resource for one in wanted} and all(
        ladders[one.resource][0] >= one.amount and ladders[one.resource][-1] >= one.ladder[-1] for one in wanted
    )
