"""Tasks of other batch jobs for which some of ours wait: their ends are in the ledgers of those."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.run.events import State
from tonnage.run.pilot.job_spec import LEDGER
from tonnage.run.pilot.ledger import AttemptEnded, Entry, LedgerReader, PilotFinished, TaskRefused

__all__ = ["Awaiting", "News"]


@dataclass(slots=True)
class News:
    """What has become of tasks that are awaited."""

    done: list[int] = field(default_factory=list)
    """Our tasks, once for each that they wait for and that is done."""
    failed: list[int] = field(default_factory=list)
    """Our tasks that wait for one which was given up."""


class Awaiting:
    """What is still to come from other batch jobs."""

    def __init__(self, folder: Path, awaited: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        """Look into the folders beside our own; `awaited` is for which tasks of which batch jobs ours wait."""
        self._waiting: dict[int, dict[str, list[int]]] = {}
        for task, others in awaited.items():
            for batch, name in others:
                self._waiting.setdefault(batch, {}).setdefault(name, []).append(task)
        self._readers = {batch: LedgerReader(folder.parent / str(batch) / LEDGER) for batch in self._waiting}

    @property
    def tasks(self) -> set[int]:
        """Our tasks that wait for something which can still come."""
        return {task for names in self._waiting.values() for tasks in names.values() for task in tasks}

    def look(self) -> News:
        """Return what has happened since the last call."""
        news = News()
        for batch, names in list(self._waiting.items()):
            for entry in self._readers[batch].new():
                self._take(entry, names, news)
            if not names:
                del self._waiting[batch]
        return news

    def _take(self, entry: Entry, names: dict[str, list[int]], news: News) -> None:
        if isinstance(entry, PilotFinished):
            names.clear()  # whoever submitted us knows what becomes of the rest
        if isinstance(entry, AttemptEnded | TaskRefused):
            state = entry.settled.state
            if state is State.DONE:
                news.done += names.pop(entry.task, [])
            elif state is State.FAILED:
                news.failed += names.pop(entry.task, [])
