"""Whole runs that learn as they go, next to the optimum if all jobs were known: Tovar et al., section 4.3.

The paper's Fig. 15 reports that a run which knows nothing at first comes to waste about as much as one that knows the
past. Its CMS analysis data is not public, so this looks at the two workflows whose data is: jobs go through the engine
of ``tonnage run`` on virtual machines, and what is wasted after the first tenth of them is compared with the best
ladder for each category that knows all jobs (the offline optimum).

Needs the public data sets: $TONNAGE_DATA, else ../shared/data. Run it with the project's Python:
``.venv/bin/python benchmarks/reproduce running``.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tonnage.job_sources import Reading
from tonnage.jobs import Resource
from tonnage.lab.simulated_run import ORACLE, Load, Simulation, play
from tonnage.run.machines import parse_machines
from tonnage.size import Histogram
from tonnage.size.costs import cost
from tonnage.size.optimal import ladder
from tonnage.size.rounding import LEAST_BYTES
from tonnage.units import format_bytes

DATA = Path(os.environ.get("TONNAGE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SETS = {"cms_simulation": "10x16c64GB", "bwa": "10x16c64GB+500GB"}
STRATEGIES = ("auto", "ladder", "min-waste", "max-throughput", "percentile", "max-seen", "whole-machine")
WARM_UP = 0.1
NEAR = 0.02
"""How close to the offline optimum a run should come."""
QUICK = 2_000
RESOURCE = Resource.MEMORY


def loaded(name: str, *, quick: bool) -> Load:
    """Return the jobs of a data set, or only the first ones with `quick`."""
    reading = Reading(units={"memory": "MB", "disk": "MB"})
    records = reading.records([str(DATA / "sizing" / f"{name}.csv")], "category")
    return Load.of_records(records.only(np.arange(QUICK)) if quick else records)


def optimum(load: Load, counted: NDArray[np.bool_], least: float) -> float:
    """Return the waste of the best ladders that know all jobs and allocate no less than `least`."""
    categories = np.array([task.category for task in load.tasks])
    paid = used = 0.0
    for name in np.unique(categories):
        chosen = counted & (categories == name)
        peaks, seconds = load.need[RESOURCE][chosen], load.seconds[chosen]
        histogram = Histogram.of(np.maximum(peaks, least), seconds)
        paid += cost(ladder(histogram), histogram).paid
        used += float(peaks @ seconds)
    return 1 - used / paid


def line(found: Simulation, oracle: Simulation, counted: NDArray[np.bool_], best: float) -> str:
    """Return a strategy's figures."""
    waste = found.waste_of(counted)[RESOURCE]
    near = "yes" if waste - best <= NEAR else "NO"
    return (
        f"  {found.strategy:15}  {waste:7.2%}  {100 * (waste - best):+7.2f}  {near:>14}"
        f"  {found.waste_fraction[RESOURCE]:7.2%}  {oracle.makespan / found.makespan:13.1%}  {found.retries:7,}"
    )


def compared(name: str, *, quick: bool, show: Callable[[str], None]) -> None:
    """Run one data set with every strategy."""
    load, machines = loaded(name, quick=quick), parse_machines(SETS[name])
    counted = np.arange(len(load)) >= WARM_UP * len(load)
    best, floored = (optimum(load, counted, least) for least in (0.0, LEAST_BYTES))
    show(f"\n{name}: {len(load):,} jobs on {SETS[name]}, memory wasted after the first {WARM_UP:.0%} of the jobs")
    least = format_bytes(LEAST_BYTES, binary=True)
    show(f"  offline optimum {best:.2%}; with at least {least} for each job, as auto gives, {floored:.2%}")
    show("  strategy          wasted   points  within 2 points  of all  of the oracle  retries")
    oracle = play(load, machines, ORACLE)
    for strategy in STRATEGIES[:1] if quick else STRATEGIES:
        show(line(play(load, machines, strategy), oracle, counted, best))


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description="Whole runs next to the offline optimum")
    parser.add_argument("--quick", action="store_true", help="the first jobs only, as a check that this runs")
    options = parser.parse_args()
    for name in SETS:
        compared(name, quick=options.quick, show=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
