"""The published figures on ranking jobs, each next to ours (Malewicz et al.).

The workflows have the structure and the size of the paper's; its own files are not public. Run it with the project's
Python: ``.venv/bin/python benchmarks/reproduce ranking``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from tonnage.rank import mean_eligible, rank
from tonnage.rank.prio import prio
from tonnage.rank.sidney import bound
from tonnage.units import format_bytes
from tonnage.workflow import Graph, write
from tonnage.workflow.families import FAMILIES

SIZES = {
    "airsn": (773, 1.0, "2 MB"),
    "ligo": (2_988, 16.0, "21 MB"),
    "montage": (7_881, 8.0, "104 MB"),
    "sdss": (48_013, 845.0, "1.3 GB"),
}
"""The number of jobs, and the time and memory of the paper's tool in 2006; its Inspiral is our ligo."""


def line(what: str, published: object, ours: object) -> None:
    """Print one figure."""
    print(f"  {what:<58} {published!s:>22} {ours!s:>22}")


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}")
    line("", "published", "ours")


def priorities() -> None:
    """Fig. 3 and Fig. 5: the example of five jobs, and AIRSN of width 250."""
    title("Priorities")
    example = prio(Graph.from_edges(5, [0, 2, 2], [1, 3, 4])).tolist()
    line("example of five jobs: order", "c a b d e", " ".join("abcde"[task] for task in example))
    workflow = FAMILIES["airsn"].generate(773)
    order = prio(workflow.graph).tolist()
    found = {workflow.tasks[task].name: 773 - place for place, task in enumerate(order)}
    fringes = [value for name, value in found.items() if name.startswith("fringe")]
    line("AIRSN: bottleneck", 753, found["handle_21"])
    line("AIRSN: fringes", "752..503", f"{max(fringes)}..{min(fringes)}")
    line("AIRSN: first join", 252, found["join_1"])


def grid(samples: int, runs: int) -> None:
    """Fig. 6, one point: AIRSN, arrival 1, batch 16."""
    title(f"AIRSN, arrival 1, batch 16, {samples} x {runs}: ratio of execution times, PRIO to FIFO")
    with tempfile.TemporaryDirectory() as folder:
        for first in (False, True):
            path = Path(folder) / "airsn.json"
            write(FAMILIES["airsn"].generate(773, fringes_first=first), path)
            begin = perf_counter()
            time = _replayed(path, "--samples", str(samples), "--runs", str(runs))["execution_time"]
            ours = f"{time['ratio']:.3f} [{time['low']:.3f}, {time['high']:.3f}]"
            what = f"{'fringes' if first else 'handle'} first in the file ({perf_counter() - begin:.0f} s)"
            line(what, "below 0.85" if first else "file order not said", ours)


def _replayed(path: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tonnage", "replay", "rank", str(path), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    points: list[dict[str, Any]] = json.loads(done.stdout)["points"]
    return points[0]


def times() -> None:
    """Section 3.6: how long it takes to write priorities into a DAGMan file, and how much memory."""
    title("Seconds and memory: the file read, ranked and written (2006 in C++; today with Python and its libraries)")
    with tempfile.TemporaryDirectory() as folder:
        for family, (jobs, seconds, memory) in SIZES.items():
            path = Path(folder) / f"{family}.dag"
            write(FAMILIES[family].generate(jobs), path)
            took, peak = _run("rank", str(path), "--in-place")
            line(f"{family}, {jobs:,} jobs", f"{seconds:g} s, {memory}", f"{took:.2f} s, {format_bytes(peak)}")
    title("Seconds: ranked only")
    prio(FAMILIES["sdss"].generate(48_013).graph)  # compile the kernels
    for family, (jobs, seconds, _) in SIZES.items():
        graph = FAMILIES[family].generate(jobs).graph
        begin = perf_counter()
        prio(graph)
        line(f"{family}, {graph.size:,} jobs", f"{seconds:g}", f"{perf_counter() - begin:.3f}")


def _run(*words: str) -> tuple[float, int]:
    """Run the command line; return its seconds and its peak memory."""
    begin = perf_counter()
    command = [sys.executable, "-m", "tonnage", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return perf_counter() - begin, usage.ru_maxrss * 1024


def rivals() -> None:
    """Where PRIO loses: eligible jobs of each method as a fraction of first in, first out."""
    print("\nEligible jobs on average, as a part of those of first in, first out (the paper has no such rivals)")
    print(f"  {'':<22}{'prio':>8}{'descend.':>9}{'gain':>8}{'sidney':>8}{'best':>8}{'bound':>8}")
    for family, (jobs, _, _) in SIZES.items():
        workflow = FAMILIES[family].generate(jobs)
        least = mean_eligible(workflow.graph, rank(workflow, "fifo"))
        methods = ("prio", "descendants", "gain", "sidney", "best")
        parts = [mean_eligible(workflow.graph, rank(workflow, method)) / least for method in methods]
        parts.append((bound(workflow.graph) or 0.0) / least)
        cells = "".join(f"{part:>{width}.3f}" for part, width in zip(parts, (8, 9, 8, 8, 8, 8), strict=True))
        print(f"  {family + f', {jobs:,} jobs':<22}{cells}{'   PRIO loses here' if parts[0] < 1 else ''}")


def main() -> None:
    """Print everything, or with --quick few runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="30 samples of 30 runs")
    quick = parser.parse_args().quick
    priorities()
    grid(*((30, 30) if quick else (300, 300)))
    times()
    rivals()


if __name__ == "__main__":
    main()
