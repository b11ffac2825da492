"""Sources: where past jobs are read from, be it files, folders, standard input or archives."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.errors import InputError
from tonnage.wording import counted

if TYPE_CHECKING:
    from tonnage.jobs import Attempt, History
    from tonnage.logs.conditions import Condition
    from tonnage.logs.log import Entry, Hints
    from tonnage.logs.sources import Source
    from tonnage.size import Records
    from tonnage.workflow import Workflow

__all__ = ["Reading"]

_SHOWN = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read sources: their format, what a table's columns and times mean, and which jobs are wanted."""

    format: str | None = None
    """None: recognised."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What a table's columns are called: ``{"memory": "rss"}``."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The units of a table's columns: ``{"memory": "KiB"}``."""
    timezone: str | None = None
    label: str | None = None
    where: tuple[str, ...] = ()
    """Conditions such as ``memory>4GB``."""
    progress: Callable[[str], AbstractContextManager[object]] = field(default=nullcontext, repr=False, compare=False)
    """Shows that the source of this name is being read."""
    opened: Callable[[str], object] = field(default=lambda _: None, repr=False, compare=False)
    """Called with the format of each source that is opened."""

    @property
    def any_given(self) -> bool:
        """Whether anything is not as it is by default."""
        return any((self.format, self.columns, self.units, self.timezone, self.label, self.where))

    def sources(self, texts: Sequence[str]) -> "Iterator[Source]":
        """Open all sources named by the arguments: files, folders, standard input, archives."""
        from tonnage.archive.url import is_archive
        from tonnage.logs.conditions import Condition
        from tonnage.logs.sources import open_source

        conditions = tuple(Condition.parse(text) for text in self.where)
        hints = self._hints()
        for text in texts:
            if is_archive(text):
                self.opened("archive")
                yield from _from_archive(text, conditions)
                continue
            for source in open_source(text, hints, self.format):
                self.opened(source.format)
                yield replace(source, entries=_chosen(source.entries, conditions)) if conditions else source

    def attempts(self, source: "Source") -> "Iterator[Attempt]":
        """Yield the jobs of a source, and report afterwards how many of its rows could not be used."""
        from tonnage.jobs import Attempt
        from tonnage.logs.log import Skipped

        skipped: Counter[str] = Counter()
        with self.progress(source.name):
            for entry in source.entries:
                if isinstance(entry, Attempt):
                    yield entry
                elif isinstance(entry, Skipped) and not entry.healthy:
                    skipped[entry.reason] += 1
        for reason, count in skipped.most_common(_SHOWN):
            _log.warning("%s: skipped %s: %s", source.name, counted(count, "row"), reason)
        if len(skipped) > _SHOWN:
            _log.warning("%s: skipped more for %d other reasons", source.name, len(skipped) - _SHOWN)

    def workflow(self, texts: Sequence[str]) -> "Workflow | None":
        """Read the only argument as a workflow with run times; return None if it is something else."""
        from tonnage.archive.url import is_archive
        from tonnage.logs.formats import recognise
        from tonnage.logs.log import Log
        from tonnage.logs.workflows import workflow_of

        if len(texts) != 1 or self.columns or is_archive(texts[0]) or not Path(texts[0]).is_file():
            return None
        with closing(Log.open(Path(texts[0]))) as log:
            if (self.format or recognise(log)) != "workflow":
                return None
            if self.where:
                raise InputError("--where cannot be used with a workflow", hint="its tasks depend on each other")
            workflow = workflow_of(log, self._hints())
        for warning in workflow.source.warnings if workflow.source else ():
            _log.warning("%s: warning: %s", texts[0], warning)
        return workflow

    def records(self, texts: Sequence[str], by: str) -> "Records":
        """Return the jobs of all sources as arrays, grouped by a text attribute or a field."""
        from tonnage.size import collect

        sources = self.sources(texts)
        if by == "source":  # an attempt does not record its source
            own = (
                (replace(one, fields={**one.fields, by: source.label}) for one in self.attempts(source))
                for source in sources
            )
            return collect(chain.from_iterable(own), by)
        return collect(chain.from_iterable(self.attempts(source) for source in sources), by)

    def histories(self, texts: Sequence[str], by: str) -> "Mapping[str, History]":
        """Return the history of each group of jobs in all sources; a single archive needs only one query."""
        from tonnage.archive import Archive, histories
        from tonnage.archive.registry import GROUPS
        from tonnage.archive.url import is_archive, is_remote

        here = len(texts) == 1 and is_archive(texts[0]) and not is_remote(texts[0])
        if not here or self.where or by not in (*GROUPS, "none"):
            return self.records(texts, by).histories()
        with Archive.open(texts[0]) as archive:
            return histories(archive, by=None if by == "none" else by)

    def _hints(self) -> "Hints":
        from tonnage.logs.log import Hints
        from tonnage.logs.user_times import zone

        return Hints(
            label=self.label,
            columns=dict(self.columns),
            units=dict(self.units),
            zone=zone(self.timezone),
        )


def _chosen(entries: "Iterator[Entry]", conditions: "tuple[Condition, ...]") -> "Iterator[Entry]":
    from tonnage.jobs import Attempt

    for entry in entries:
        if not isinstance(entry, Attempt) or all(condition.holds(entry) for condition in conditions):
            yield entry


def _from_archive(text: str, conditions: "tuple[Condition, ...]") -> "Iterator[Source]":
    from tonnage.archive import Archive, Search, find
    from tonnage.archive.remote import Server, find_there
    from tonnage.archive.url import archive_url, is_remote, shown
    from tonnage.files import stem
    from tonnage.logs.sources import Source

    if is_remote(text):
        server = Server.of(text)
        yield Source(server.url, server.host, "archive", find_there(server, Search(where=conditions)))
        return
    with Archive.open(text) as archive:
        name = shown(archive_url(text))
        yield Source(name, stem(Path(name)), "archive", find(archive, Search(where=conditions)))
