"""``tonnage replay size``: compare sizing strategies on recorded jobs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json
from tonnage.cli.size import check_share
from tonnage.cli.source_options import named, source_options
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.jobs import SHARED, Resource
from tonnage.lab.size_protocols import PROTOCOLS
from tonnage.option_values import amounts
from tonnage.size.strategies import OFFLINE, STRATEGIES
from tonnage.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tonnage.job_sources import Reading
    from tonnage.jobs import Attempt
    from tonnage.lab.size_protocols import Protocol
    from tonnage.logs.sources import Source
    from tonnage.size import Records

__all__ = ["command"]

_SEEDS = (11, 12, 13, 14, 15)  # one split of the jobs says little: average over several


@click.command("size")
@click.argument("texts", metavar="SOURCE...", nargs=-1, required=True)
@source_options
@click.option(
    "--strategies",
    default="all",
    show_default=True,
    metavar="NAME,...",
    help="Strategies to compare; see tonnage size.",
)
@click.option(
    "--protocol",
    "protocol_name",
    type=click.Choice(PROTOCOLS),
    default="tovar-online",
    show_default=True,
    help="How jobs are replayed.",
)
@click.option("--by", metavar="NAME", help="How jobs are grouped, as in tonnage size.  [default: category]")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    type=click.Choice([one.value for one in SHARED]),
    help="Resource to size; can be repeated.  [default: memory]",
)
@click.option(
    "--machine", metavar="AMOUNTS", multiple=True, help="Size of the machine: cores=16,memory=64GiB,disk=64GiB."
)
@click.option("--bucket", metavar="BYTES", help="Width of histogram buckets; 50MB in Tovar's protocols.")
@click.option("--level", type=click.IntRange(1, 3), help="phung: 1 knows nothing, 2 the number of types, 3 the types.")
@click.option(
    "--buckets", type=click.IntRange(1, 1000), help="Number of buckets.  [default at level 2: the number of types]"
)
@click.option(
    "--grow", type=click.Choice(["exhausted", "all"]), help="Resources that grow on a retry.  [default in phung: all]"
)
@click.option("--cold-start", type=click.IntRange(0), metavar="JOBS", help="Give the first JOBS jobs a whole machine.")
@click.option("--converge", type=click.IntRange(0), metavar="JOBS", help="tovar-online: the same for each category.")
@click.option(
    "--history", type=click.FloatRange(0, 0.99), metavar="SHARE", help="sizey: share of jobs known beforehand: 0.3."
)
@click.option(
    "--seed", "seeds", type=int, multiple=True, help="sizey: random seed; can be repeated.  [default: 11 to 15]"
)
@click.option("--half-life", type=float, metavar="JOBS", help="A job counts half as much after this many others.")
@click.option(
    "--percentile", type=float, default=0.95, show_default=True, metavar="SHARE", help="For the strategy percentile."
)
@json_option
def command(
    texts: tuple[str, ...],
    reading: "Reading",
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
    """Compare what each strategy would have cost on recorded jobs.

    \b
    Protocols:
      tovar          all jobs are known beforehand; a retry gets the largest peak of all (Tovar et al., 4.1)
      tovar-online   a whole machine until a category is known, and again after each surprise (4.3)
      phung          jobs one by one on a machine of 16 cores and 64 GB, the first 10 with the whole machine
      sizey          30 % of each category is known, the rest arrives in random order; each row is the mean over seeds

    "wrr" is the waste saved compared with whole machines, "ate" the share of its allocations that a job used, averaged
    over jobs, "throughput" is relative to giving every job the largest peak, and "oracle" is the share of the
    throughput that would be possible if every job's peak were known.

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
            raise InputError(f"{option} does not apply to the protocol {protocol_name}", hint=f"it is for {only}")
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
    """Return a protocol with the settings that the user overrides."""
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


def _measured(reading: "Reading", source: "Source", protocol: str) -> "Iterator[Attempt]":
    from tonnage.lab.size_replay import as_sizey_measures

    measures: Callable[[Attempt], Attempt] = as_sizey_measures if protocol == "sizey" else lambda attempt: attempt
    return (measures(attempt) for attempt in reading.attempts(source))


def _grouped(
    jobs: "Sequence[Attempt]", protocol: "Protocol", by: str | None, level: int | None, buckets: int | None
) -> "tuple[Records, Protocol, str]":
    """Group the jobs and set the protocol's number of buckets: at level 2, the number of types."""
    from dataclasses import replace

    from tonnage.size import collect

    by = by or ("none" if level in (1, 2) else "category")
    if buckets is None:
        buckets = len({job.category for job in jobs}) if level == 2 else protocol.buckets
    return collect(jobs, by), replace(protocol, buckets=buckets), by


def _seeds(seeds: tuple[int, ...], protocol: "Protocol") -> tuple[int, ...]:
    """Return the seeds to replay with: a single one if nothing is random."""
    return (seeds or _SEEDS) if protocol.history else (0,)


def _print(found: "Sequence[dict[str, object]]") -> None:
    """Print a table for each source and resource, sorted by waste."""
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
