"""The options of every verb that takes a SOURCE, and what they name."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import printable, say
from tonnage.cli.tables import counted
from tonnage.errors import InputError
from tonnage.option_values import pairs, parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonnage.jobs import Attempt, History
    from tonnage.logs.conditions import Condition
    from tonnage.logs.log import Entry, Hints
    from tonnage.logs.sources import Source
    from tonnage.size import Records
    from tonnage.workflow import Workflow

__all__ = ["Reading", "named", "source_options"]

_SHOWN = 3


def named(text: str, known: Collection[str], option: str) -> list[str]:
    """Return names between commas; raises InputError where one is not known."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(f'{option}: "{", ".join(unknown)}" is not known', hint=f"all, or of {', '.join(known)}")
    return names


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are to be read: what the options say."""

    format: str | None
    columns: tuple[str, ...]
    units: tuple[str, ...]
    timezone: str | None
    label: str | None
    where: tuple[str, ...]

    @property
    def is_told(self) -> bool:
        """Whether any of the options says something."""
        return any((self.format, self.columns, self.units, self.timezone, self.label, self.where))

    def sources(self, texts: Sequence[str]) -> "Iterator[Source]":
        """Yield all that the arguments name: files, folders, standard input, archives."""
        from tonnage.archive.url import is_archive
        from tonnage.logs.conditions import Condition
        from tonnage.logs.sources import open_source

        conditions = tuple(Condition.parse(text) for text in self.where)
        hints = self._hints()
        for text in texts:
            if is_archive(text):
                yield from _from_archive(text, conditions)
                continue
            for source in open_source(text, hints, self.format):
                yield replace(source, entries=_chosen(source.entries, conditions)) if conditions else source

    def attempts(self, source: "Source") -> "Iterator[Attempt]":
        """Yield the jobs of a source, and say afterwards how many of its rows could not be used."""
        from collections import Counter

        from tonnage.jobs import Attempt
        from tonnage.logs.log import Skipped

        skipped: Counter[str] = Counter()
        with _progress(source):
            for entry in source.entries:
                if isinstance(entry, Attempt):
                    yield entry
                elif isinstance(entry, Skipped) and not entry.healthy:
                    skipped[entry.reason] += 1
        for reason, count in skipped.most_common(_SHOWN):
            say(f"{source.name}: skipped {counted(count, 'row')}: {reason}")
        if len(skipped) > _SHOWN:
            click.echo(f"tonnage: {source.name}: and more, for {len(skipped) - _SHOWN} other reasons", err=True)

    def workflow(self, texts: Sequence[str]) -> "Workflow | None":
        """Return the workflow with run times that the only argument names; None where it names jobs."""
        from pathlib import Path

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
                raise InputError("--where has no meaning with a workflow", hint="its tasks wait for each other")
            workflow = workflow_of(log, self._hints())
        for warning in workflow.source.warnings if workflow.source else ():
            say(f"{texts[0]}: warning: {warning}")
        return workflow

    def records(self, texts: Sequence[str], by: str) -> "Records":
        """Return the jobs of all sources as arrays, grouped by a text or a field of theirs."""
        from tonnage.size import collect

        sources = self.sources(texts)
        if by == "source":  # an attempt does not know where it was read
            own = (
                (replace(one, fields={**one.fields, by: source.label}) for one in self.attempts(source))
                for source in sources
            )
            return collect(chain.from_iterable(own), by)
        return collect(chain.from_iterable(self.attempts(source) for source in sources), by)

    def histories(self, texts: Sequence[str], by: str) -> "Mapping[str, History]":
        """Return what the jobs of all sources used, group by group; from one archive in a single query."""
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
            columns=pairs(parts(self.columns), "--columns"),
            units=pairs(parts(self.units), "--units"),
            zone=zone(self.timezone),
        )


def _progress(source: "Source") -> AbstractContextManager[object]:
    """Show that a source is being read, where somebody is looking."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(printable(f"Reading {source.name} ..."))


def _chosen(entries: "Iterator[Entry]", conditions: "tuple[Condition, ...]") -> "Iterator[Entry]":
    from tonnage.jobs import Attempt

    for entry in entries:
        if not isinstance(entry, Attempt) or all(condition.holds(entry) for condition in conditions):
            yield entry


def _from_archive(text: str, conditions: "tuple[Condition, ...]") -> "Iterator[Source]":
    from pathlib import Path

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


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a SOURCE is read; the command gets them as one value, `reading`."""
    from functools import wraps

    from tonnage.logs.formats import READERS

    @click.option(
        "--from", "format", type=click.Choice(READERS), metavar="FORMAT", help="Their format.  [default: recognised]"
    )
    @click.option(
        "--columns", multiple=True, metavar="OURS=THEIRS,...", help="What a table's columns are called: memory=rss."
    )
    @click.option("--units", multiple=True, metavar="NAME=UNIT,...", help="Units of a table's columns: memory=KiB.")
    @click.option("--timezone", metavar="ZONE", help="Zone of times that have none.  [default: this machine's]")
    @click.option("--label", metavar="NAME", help="A name for where the jobs come from.  [default: the file's stem]")
    @click.option("--where", multiple=True, metavar="CONDITION", help="Only jobs such as memory>4GB.")
    @wraps(command)
    def with_reading(
        *arguments: object,
        format: str | None,
        columns: tuple[str, ...],
        units: tuple[str, ...],
        timezone: str | None,
        label: str | None,
        where: tuple[str, ...],
        **options: object,
    ) -> object:
        reading = Reading(format, columns, units, timezone, label, where)
        return command(*arguments, reading=reading, **options)

    return with_reading
