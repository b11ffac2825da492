"""``tonnage archive stats``: print what the jobs of each category use and waste."""

from typing import TYPE_CHECKING

import click

from tonnage.archive.registry import GROUPS
from tonnage.cli.archive.options import archive_option, search_options
from tonnage.cli.options import json_option, print_json
from tonnage.cli.tables import amount, print_table
from tonnage.jobs import HOURS, Resource
from tonnage.wording import printable

if TYPE_CHECKING:
    from tonnage.archive import Search
    from tonnage.archive.statistics import CategoryStats

__all__ = ["command"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_GB_HOUR, _ = HOURS["bytes"]
_MOST_CATEGORIES = 40


@click.command("stats")
@archive_option
@search_options
@click.option("--by", type=click.Choice([*GROUPS, "none"]), default="category", show_default=True)
@click.option(
    "--resource",
    type=click.Choice([one.value for one in Resource]),
    default="memory",
    show_default=True,
    help="Resource to show.",
)
@json_option
def command(url: str | None, search: "Search", by: str, resource: str, as_json: bool) -> None:
    """Print what the jobs of each category use and waste.

    "known" is the number of jobs with a known use; those that ran out of the resource are counted separately.
    Categories that waste the most memory come first: what jobs were allocated, or else requested, and did not use,
    times the run time. A job that did not succeed (it failed, was cancelled, or ran out of memory or time) wastes all
    of its allocation. "to save" is what would have been saved if each job had requested the largest peak of its
    category.

    \b
    Example: tonnage archive stats --since 90d
    """
    from tonnage.archive import Archive, stats

    with Archive.open(url) as archive:
        found = stats(archive, search, by=None if by == "none" else by)
    if as_json:
        print_json({"categories": [one.facts() for one in found]})
    elif not found:
        click.echo("no matching jobs")
    else:
        _print(found, by, Resource(resource))


def _print(found: "list[CategoryStats]", by: str, resource: "Resource") -> None:
    wasted = any(one.waste for one in found) and resource == "memory"
    ran_out = any(resource in one.exhausted for one in found)
    header = [by, "jobs", *(["ran out"] if ran_out else []), "known", "median", "95 %", "most", "0 to most"]
    header += ["wasted GB*h", "to save"] if wasted else []
    rows = [_row(one, resource, ran_out, wasted) for one in found[:_MOST_CATEGORIES]]
    numbers = [name for name in header if name not in (by, "0 to most")]
    print_table(header, rows, right=numbers, give_way=("known", "to save", "0 to most", "median", "wasted GB*h"))
    if len(found) > _MOST_CATEGORIES:
        click.echo(f"and {len(found) - _MOST_CATEGORIES:,} more categories; --json prints all")


def _row(one: "CategoryStats", resource: "Resource", ran_out: bool, wasted: bool) -> list[str]:
    spread = one.resources.get(resource)
    cells = ["0", "", "", "", ""]
    if spread is not None:
        shown = [amount(resource, value) for value in (spread.p50, spread.p95, spread.max)]
        cells = [f"{spread.count:,}", *shown, _bars(spread.histogram)]
    jobs = [f"{one.jobs:,}", *([f"{one.exhausted.get(resource, 0):,}"] if ran_out else [])]
    return [printable(one.category) or "(none)", *jobs, *cells, *(_waste(one) if wasted else [])]


def _waste(one: "CategoryStats") -> list[str]:
    if one.waste is None:
        return ["", ""]
    account = one.waste.account
    fraction = "" if account.waste_fraction is None else f" ({account.waste_fraction:.0%})"
    return [f"{account.wasted / _GB_HOUR:,.1f}{fraction}", f"{one.waste.savings / _GB_HOUR:,.1f}"]


def _bars(counts: tuple[int, ...]) -> str:
    """Draw a histogram in which small bars stay visible."""
    most = max(counts)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // most) if count else 0] for count in counts)
