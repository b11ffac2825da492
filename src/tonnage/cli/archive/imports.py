"""``tonnage archive import``: import the logs of other tools into the archive."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING

import click

from tonnage.cli.archive.options import archive_option
from tonnage.cli.options import json_option, print_json, say
from tonnage.cli.source_options import source_options
from tonnage.errors import InputError
from tonnage.option_values import pairs
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from tonnage.archive import Archive, Report
    from tonnage.job_sources import Reading
    from tonnage.logs.sources import Source

__all__ = ["command"]

_SHOWN_REASONS = 8
_LONGEST = 100


@click.command("import")
@click.argument("texts", metavar="SOURCE...", nargs=-1, required=True)
@archive_option
@source_options
@click.option("--field", multiple=True, metavar="KEY=VALUE", help="A custom field for all jobs.")
@click.option("--category", metavar="NAME", help="A category for all jobs, whatever the log says.")
@click.option("--strict", is_flag=True, help="Stop at the first row that cannot be used.")
@json_option
def command(
    texts: tuple[str, ...],
    url: str | None,
    reading: "Reading",
    field: tuple[str, ...],
    category: str | None,
    strict: bool,
    as_json: bool,
) -> int:
    """Import the jobs in logs; a job that was imported before is not stored again.

    A SOURCE is a file (plain or gzip), a folder, "-" for standard input, or another archive's URL. Supported formats:
    Nextflow traces, Snakemake benchmarks, Slurm's sacct (-P and --json), HTCondor's history and event logs, summaries
    of tonnage watch and cctools, WfFormat and DAX with run times, SWF, and tables (CSV).

    \b
    Example: tonnage archive import results/pipeline_info/execution_trace.txt
             sacct -a -S now-30days -P --delimiter='^|^' -o ALL | tonnage archive import - --label mycluster
             tonnage archive import jobs.csv --columns memory=peak_kb --units memory=KiB
    """
    from tonnage.archive import Archive
    from tonnage.archive.url import is_remote, remote_url

    if is_remote(url):
        hint = f"run this on the server, or upload them with a browser: {remote_url(url)}/upload"
        raise InputError("logs cannot be imported over HTTP", path=remote_url(url), hint=hint)
    reports: list[Report] = []
    fields = pairs(field, "--field")
    sources = reading.sources(texts)
    first = next(sources)  # so that a wrong name does not create an archive
    with Archive.open(url, create=True) as archive:
        if archive.on_network:
            place = "on a network file system"
            click.echo(f"tonnage: {archive} is {place}: readers and writers wait for each other", err=True)
        try:
            for source in chain([first], sources):
                reports.append(_import(archive, source, fields, category, strict))
                if not as_json:
                    _print(reports[-1])
        except KeyboardInterrupt:
            click.echo("tonnage: interrupted; what was stored is kept, repeat the command to continue", err=True)
            raise
        finally:
            if as_json:  # also what was done before an error
                print_json({"archive": str(archive), "sources": [report.facts() for report in reports]})
        if not as_json:
            click.echo(f"{archive}: {counted(archive.count(), 'job')}")
    useless = [report.source for report in reports if report.bad and not report.stored + report.duplicates]
    for name in useless:
        say(f"{name}: no row could be used")
    return 1 if useless else 0


def _import(
    archive: "Archive", source: "Source", fields: dict[str, str], category: str | None, strict: bool
) -> "Report":
    from tonnage.archive import import_source

    with _progress(source) as update:
        return import_source(archive, source, fields=fields, category=category, strict=strict, progress=update)


def _progress(source: "Source") -> "AbstractContextManager[Callable[[Report], None] | None]":
    """Show a progress bar if standard error is a terminal."""
    return _Bar(source) if sys.stderr.isatty() else nullcontext()


class _Bar:
    def __init__(self, source: "Source") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[jobs]:,} jobs"))
        self._progress = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(printable(source.name), total=None, jobs=0)
        self._source = source

    def __enter__(self) -> "Callable[[Report], None]":
        self._progress.start()
        return self._update

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _update(self, report: "Report") -> None:
        done, total = self._source.progress()
        self._progress.update(self._task, completed=done, total=total or None, jobs=report.read)


def _print(report: "Report") -> None:
    done = f"{counted(report.read, 'row')} read, {report.stored:,} stored, {report.duplicates:,} already there"
    click.echo(printable(f"{report.source} ({report.format}): {done}, {report.skipped:,} skipped"))
    for reason, count in report.reasons.most_common(_SHOWN_REASONS):
        examples = ", ".join(_place(example.line, example.found) for example in report.examples[reason])
        click.echo(
            printable(f"  skipped {count:,}: {reason} ({examples})" if examples else f"  skipped {count:,}: {reason}")
        )
    if len(report.reasons) > _SHOWN_REASONS:
        click.echo(f"  and for {len(report.reasons) - _SHOWN_REASONS} more reasons")
    attempts = report.stored + report.duplicates
    if report.duplicates and not report.stored:
        click.echo("  stored jobs were not changed (remove them with forget --source LABEL)")
    if attempts:
        known = ", ".join(f"{name} {count / attempts:.0%}" for name, count in report.known.items() if count)
        click.echo(f"  known: {known or 'no use of any resource'}")
    for what in report.assumed:
        click.echo(printable(f"  assumed: {what}"))


def _place(line: int | None, found: str) -> str:
    shown = found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."
    return " ".join(part for part in (f"line {line}" if line else "", f'"{shown}"' if shown else "") if part)
