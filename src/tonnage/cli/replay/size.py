"""``tonnage replay size``: strategies side by side on recorded jobs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json, printable
from tonnage.cli.size import check_share
from tonnage.cli.sources import Reading, named, source_options
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.jobs import SHARED, Resource
from tonnage.lab.size_protocols import PROTOCOLS
from tonnage.option_values import amounts
from tonnage.size.strategies import OFFLINE, STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonnage.jobs import Attempt
    from tonnage.lab.size_protocols import Protocol
    from tonnage.logs.sources import Source
    from tonnage.size import Records

__all__ = ["command"]

_SEEDS = (11, 12, 13, 14, 15)  # one split of the jobs says little: judge over several


@click.command("size")
@click.argument("texts", metavar="SOURCE...", nargs=-1, required=True)
@source_options
@click.option(
    "--strategies", default="all", show_default=True, metavar="NAME,...", help="Which strategies; see tonnage size."
)
@click.option(
    "--protocol",
    "protocol_name",
    type=click.Choice(PROTOCOLS),
    default="tovar-online",
    show_default=True,
    help="How jobs are played to them.",
)
@click.option("--by", metavar="NAME", help="What a category is, as in tonnage size.  [default: category]")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    type=click.Choice([one.value for one in SHARED]),
    help="What to size; may be repeated.  [default: memory]",
)
@click.option("--machine", metavar="AMOUNTS", multiple=True, help="The machine: cores=16,memory=64GiB,disk=64GiB.")
@click.option("--bucket", metavar="BYTES", help="Width of the histograms' buckets; 50MB in the protocols of Tovar.")
@click.option("--level", type=click.IntRange(1, 3), help="phung: what is known; 1 nothing, 2 how many types, 3 types.")
@click.option("--buckets", type=click.IntRange(1, 1000), help="How many buckets.  [default at level 2: of types]")
@click.option("--grow", type=click.Choice(["exhausted", "all"]), help="What grows on a retry.  [default in phung: all]")
@click.option("--cold-start", type=click.IntRange(0), metavar="JOBS", help="First jobs on whole machines.")
@click.option("--converge", type=click.IntRange(0), metavar="JOBS", help="tovar-online: as many for each category.")
@click.option("--history", type=click.FloatRange(0, 0.99), metavar="SHARE", help="sizey: part known beforehand: 0.3.")
@click.option("--seed", "seeds", type=int, multiple=True, help="sizey: may be repeated.  [default: 11 to 15]")
@click.option("--half-life", type=float, metavar="JOBS", help="A job counts half as much after so many others.")
@click.option("--percentile", type=float, default=0.95, show_default=True, metavar="SHARE", help="For percentile.")
@json_option
def command(
    texts: tuple[str, ...],
    reading: Reading,
    strategies: str,
    protocol_name: str,
    by: str | None,
    resources: tuple[str, ...],
    machine: tuple[str, ...],
    bucket: str | None,
    level: int | None,
    buckets: int | None,
    grow: str | None,
    cold_start: int | None,
    converge: int | None,
    history: float | None,
    seeds: tuple[int, ...],
    half_life: float | None,
    percentile: float,
    as_json: bool,
) -> None:
    """Say what each strategy would have cost on jobs that ran.

    \b
    Protocols:
      tovar          all jobs are known beforehand; a retry gets the largest peak of all (Tovar et al., 4.1)
      tovar-online   whole machines until a category is known, and again after each surprise (4.3)
      phung          jobs one by one on a machine of 16 cores and 64 GB, the first 10 on whole machines
      sizey          30 % of each category is known, the others come in random order; one row is the mean over seeds

    "wrr" is how much less is wasted than with whole machines, "ate" the mean over jobs of what they used of what they
    were given, "throughput" is relative to the largest peak for all, and "oracle" is the part of the throughput that
    could be had if every job's peak was known.

    \b
    Example: tonnage replay size jobs.csv --protocol tovar --strategies max-seen,min-waste,auto
             tonnage replay size trace.csv --protocol sizey --seed 1 --seed 2
    """
    from tonnage.lab.size_replay import compared
    from tonnage.lab.size_replay import replay as play

    for option, value, only in (
        ("--level", level, "phung"),
        ("--converge", converge, "tovar-online"),
        ("--history", history, "sizey"),
        ("--seed", seeds or None, "sizey"),
    ):
        if value is not None and protocol_name != only:
            raise InputError(f"{option} has no meaning with the protocol {protocol_name}", hint=f"it is for {only}")
    chosen = _strategies(strategies, online=protocol_name != "tovar")
    wanted = (resources, machine, bucket, grow, cold_start, converge, history, half_life, check_share(percentile))
    protocol = _protocol(protocol_name, *wanted)
    found = []
    for source in reading.sources(texts):
        jobs = list(_measured(reading, source, protocol_name))
        records, settings, group = _grouped(jobs, protocol, by, level, buckets)
        played = [play(records, chosen, settings, seed=seed) for seed in _seeds(seeds, settings)]
        found += [compared(Path(source.name).name, group, list(runs)) for runs in zip(*played, strict=True)]
    if as_json:
        print_json({"protocol": protocol_name, "results": found})
    else:
        _print(found)


def _strategies(text: str, *, online: bool) -> list[str]:
    if text == "all":
        return [name for name in STRATEGIES if not (online and name in OFFLINE)]
    return named(text, STRATEGIES, "--strategies")


def _protocol(
    name: str,
    resources: tuple[str, ...],
    machine: tuple[str, ...],
    bucket: str | None,
    grow: str | None,
    cold_start: int | None,
    converge: int | None,
    history: float | None,
    half_life: float | None,
    share: float,
) -> "Protocol":
    """Return a protocol with what the user wants otherwise."""
    from dataclasses import replace

    from tonnage.units import parse_bytes

    protocol = PROTOCOLS[name]
    wanted = {
        "resources": tuple(Resource(one) for one in resources) or None,
        "machine": {**(protocol.machine or {}), **amounts(machine, "--machine")} if machine else None,
        "width": float(parse_bytes(bucket)) if bucket else None,
        "grow_all": None if grow is None else grow == "all",
        "cold_start": cold_start,
        "converge": converge,
        "history": history,
        "half_life": half_life,
        "share": share,
    }
    return replace(protocol, **{key: value for key, value in wanted.items() if value is not None})  # type: ignore[arg-type]


def _measured(reading: Reading, source: "Source", protocol: str) -> "Iterator[Attempt]":
    from tonnage.lab.size_replay import as_sizey_measures

    measures: Callable[[Attempt], Attempt] = as_sizey_measures if protocol == "sizey" else lambda attempt: attempt
    return (measures(attempt) for attempt in reading.attempts(source))


def _grouped(
    jobs: "Sequence[Attempt]", protocol: "Protocol", by: str | None, level: int | None, buckets: int | None
) -> "tuple[Records, Protocol, str]":
    """Return jobs in groups, and the protocol with the number of buckets: at level 2 as many as there are types."""
    from dataclasses import replace

    from tonnage.size import collect

    by = by or ("none" if level in (1, 2) else "category")
    if buckets is None:
        buckets = len({job.category for job in jobs}) if level == 2 else protocol.buckets
    return collect(jobs, by), replace(protocol, buckets=buckets), by


def _seeds(seeds: tuple[int, ...], protocol: "Protocol") -> tuple[int, ...]:
    """Return the seeds to play with: one where nothing is random."""
    return (seeds or _SEEDS) if protocol.history else (0,)


def _print(found: "Sequence[dict[str, object]]") -> None:
    """Print a table for each source and resource, the least waste first."""
    tables: dict[tuple[object, object], list[dict[str, object]]] = {}
    for row in found:
        tables.setdefault((row["source"], row["resource"]), []).append(row)
    header = ["strategy", "wasted", "GB*h", "throughput", "oracle", "retried", "failures", "wrr", "ate", "us/job"]
    for (source, resource), rows in tables.items():
        click.echo(printable(f"{source}: {resource}, {rows[0]['jobs']:,} jobs by {rows[0]['by']}"))
        named = [str(rows[0]["waste_unit"]) if name == "GB*h" else name for name in header]
        ordered = sorted(rows, key=lambda row: float(str(row["waste_gbh"])))
        print_table(named, [_row(row) for row in ordered], right=named[1:], give_way=("us/job", "oracle", "failures"))
        click.echo()


def _row(row: "dict[str, object]") -> list[str]:
    number = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    spread = f" ±{number['waste_gbh_sd']:,.3g}" if number["waste_gbh_sd"] else ""
    return [
        str(row["strategy"]),
        f"{number['waste_fraction']:.2%}",
        f"{number['waste_gbh']:,.4g}{spread}",
        f"{number['throughput']:.3f}",
        f"{number['oracle_share']:.1%}",
        f"{number['retries_fraction']:.2%}",
        f"{number['failures']:,.0f}",
        f"{number['wrr']:.2%}".replace("-0.00%", "0.00%"),
        f"{number['ate']:.2%}",
        f"{1e6 * number['decision_seconds']:,.0f}",
    ]
