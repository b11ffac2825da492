"""``tonnage report``: write an HTML report on a run or on the jobs of a log."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json
from tonnage.cli.source_options import source_options
from tonnage.errors import InputError
from tonnage.option_values import amounts
from tonnage.size.strategies import FROM_PEAKS
from tonnage.units import format_bytes
from tonnage.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonnage.job_sources import Reading
    from tonnage.jobs import Attempt
    from tonnage.report.attempt_table import AttemptTable
    from tonnage.report.source import ReportSource
    from tonnage.run.folders import RunFolder

__all__ = ["report"]


@click.command()
@click.argument("text", metavar="[RUN|SOURCE]", default="last")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
    help="File to write.",
)
@source_options
@click.option(
    "--strategy",
    type=click.Choice(FROM_PEAKS),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Strategy for the recommended sizes, as in tonnage size.",
)
@click.option(
    "--machine",
    multiple=True,
    metavar="AMOUNTS",
    help="The largest machine: cores=16,memory=64GiB.  [default: that of the run]",
)
@click.option(
    "--by",
    default="category",
    show_default=True,
    metavar="NAME",
    help="Group jobs by category, label, executable, or a custom field; none for a single group.",
)
@json_option
def report(
    text: str, output: Path, reading: "Reading", strategy: str, machine: tuple[str, ...], by: str, as_json: bool
) -> None:
    """Write a report on RUN (its id, its folder, or last) or the jobs of SOURCE: one HTML file for any browser.

    It shows what was wasted and saved, what to change, what ran when, what was allocated and used, the peaks of each
    category with recommended sizes and their reasons, retries, the critical path, the workflow, and a table of the
    tasks that wasted the most. The run can still be under way. If a name is both a run and a file, the run is used.

    \b
    Example: tonnage report last
             tonnage report trace.txt --machine cores=16,memory=64GiB -o trace.html
    """
    from dataclasses import replace

    from tonnage.report.model import report_on
    from tonnage.report.page import made_by, need_pages, write_page
    from tonnage.size import Plan

    need_pages()
    chosen = amounts(machine, "--machine")
    run = _run(text)
    subject, material = _of_source(text, reading, by) if run is None else _of_run(run, reading, by)
    subject = replace(subject, machine={**subject.machine, **chosen})
    found = report_on(subject, material, Plan(strategy=strategy, machine=subject.machine))
    size = write_page(found, output, made_by("report"))
    if as_json:
        print_json({"report": str(output), "bytes": size, **found.facts()})
    else:
        for one in found.advice:
            click.echo(printable(f"{one.about + ': ' if one.about else ''}{one.text}"))
        click.echo(f"{printable(str(output))}: {format_bytes(size)}, opens in any browser")


def _run(text: str) -> "RunFolder | None":
    """Return the run that an argument names; None if it names a source."""
    from tonnage.archive.url import is_archive
    from tonnage.run.folders import find_run

    try:
        return find_run(text)
    except InputError:
        if text == "-" or is_archive(text) or Path(text).exists():
            return None
        if text == "last":
            raise
        hint = "a run is a folder in .tonnage/runs beside its workflow; a source is a file, a folder, - or an archive"
        raise InputError(f'"{text}" is neither a run nor a source', hint=hint) from None


def _of_run(run: "RunFolder", reading: "Reading", by: str) -> "tuple[ReportSource, AttemptTable]":
    from tonnage.report.source import gather_run

    if reading.any_given:
        raise InputError("--from, --columns, --units, --timezone, --label and --where do not apply to a run")
    return gather_run(run, by)


def _of_source(text: str, reading: "Reading", by: str) -> "tuple[ReportSource, AttemptTable]":
    from tonnage.archive.url import is_archive, shown
    from tonnage.report.attempt_table import Gathering
    from tonnage.report.source import ReportSource

    workflow = None if reading.where else reading.workflow([text])
    names: list[str] = []

    def attempts() -> "Iterator[Attempt]":
        for source in reading.sources([text]):
            names.append(source.name)
            yield from reading.attempts(source)

    material = Gathering(by, workflow).gather(attempts())
    name = names[0] if len(names) == 1 else text
    title = shown(name) if is_archive(text) else Path(name).name or name
    return ReportSource(kind="jobs", title=title, by=by, workflow=workflow), material
