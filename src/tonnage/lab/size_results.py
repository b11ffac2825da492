"""What replays found, as the facts that are printed and sent."""

from collections.abc import Sequence
from statistics import fmean, pstdev

from tonnage.jobs import HOURS
from tonnage.lab.size_replay import Result

__all__ = ["compared"]

_SPREAD = ("waste_fraction", "waste_gbh", "throughput", "retries_fraction", "failures", "wrr", "ate")


def compared(source: str, by: str, runs: Sequence[Result]) -> dict[str, object]:
    """Return what a strategy would have cost on the jobs of a source: the mean over all seeds, and its spread."""
    unit, unit_name = HOURS[runs[0].resource.unit]
    each: dict[str, list[float]] = {
        "waste_fraction": [one.waste_fraction for one in runs],
        "waste_gbh": [one.waste / unit for one in runs],
        "throughput": [one.throughput for one in runs],
        "oracle_share": [one.throughput / one.oracle if one.oracle else 1.0 for one in runs],
        "retries_fraction": [one.retries_fraction for one in runs],
        "failures": [one.failures for one in runs],
        "wrr": [one.waste_reduction for one in runs],
        "ate": [one.efficiency for one in runs],
        "decision_seconds": [one.decision_seconds for one in runs],
    }
    return {
        "source": source,
        "strategy": runs[0].strategy,
        "by": by,
        "resource": str(runs[0].resource),
        "jobs": runs[0].jobs,
        "allocations": {name: fmean(one.allocations[name] for one in runs) for name in runs[0].allocations},
        "waste_unit": unit_name,
        **{name: fmean(values) for name, values in each.items()},
        **{f"{name}_sd": pstdev(each[name]) for name in _SPREAD},
    }
