"""Strategies side by side on stored jobs: the work itself, done as a background job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tonnage.archive import Archive, Search, find
from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.lab.size_protocols import PROTOCOLS
from tonnage.lab.size_replay import compared, replay
from tonnage.serve.background_jobs import Tell
from tonnage.size import collect

__all__ = ["MOST_JOBS", "Comparison", "compare"]

MOST_JOBS = 50_000
"""The newest so many jobs are played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is to be compared, on which jobs, and how."""

    search: Search
    strategies: Sequence[str]
    protocol: str = "tovar-online"
    by: str = "category"
    resource: Resource = Resource.MEMORY
    machine: Mapping[Resource, float] | None = None


def compare(tell: Tell, archive: str, wanted: Comparison) -> Mapping[str, object]:
    """Play stored jobs to each strategy; return what `tonnage replay size --json` prints."""
    steps = 1 + len(wanted.strategies)
    tell(0, steps, "reading jobs")
    with Archive.open(archive) as opened:
        newest = list(find(opened, wanted.search, reverse=True, limit=MOST_JOBS))
    records = collect(reversed(newest), wanted.by)  # strategies learn job by job: in the order in which they came
    if not len(records):
        raise InputError("no stored job is like that")
    protocol = replace(PROTOCOLS[wanted.protocol], resources=(wanted.resource,))
    if wanted.machine:
        protocol = replace(protocol, machine={**(protocol.machine or {}), **wanted.machine})
    found = []
    for number, strategy in enumerate(wanted.strategies, start=1):
        tell(number, steps, strategy)
        found += [compared("archive", wanted.by, [one]) for one in replay(records, [strategy], protocol)]
    tell(steps, steps, "")
    return {"protocol": wanted.protocol, "jobs": len(records), "most_jobs": MOST_JOBS, "results": found}
