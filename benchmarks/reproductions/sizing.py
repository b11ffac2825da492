"""The published figures on job sizing, each next to ours, from the same strategies that size jobs.

All replays go through ``tonnage replay size --json``. Needs the public data sets: $TONNAGE_DATA, else ../shared/data.
Run it with the project's Python: ``.venv/bin/python benchmarks/reproduce sizing``.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tonnage.size import Histogram
from tonnage.size.rules import max_throughput, min_waste

DATA = Path(os.environ.get("TONNAGE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
MB = 1e6

TOVAR = {  # strategy: (allocations in MB, waste %, throughput, retries %), with categories and without
    "cms_simulation": {
        "max-seen": (("2000/900/2000", 14.0767, 1.0933, 0.0), ("2000", 15.8822, 1.0, 0.0)),
        "min-waste-independent": (("1900/850/1900", 14.4513, 1.0942, 3.895), ("1900", 16.1096, 0.9980, 3.797)),
        "max-throughput": (("2000/850/2000", 14.0474, 1.0980, 0.098), ("2000", 15.8822, 1.0, 0.0)),
    },
    "bwa": {
        "max-seen": (("4/1304/321", 21.0444, 4.3764, 0.0), ("1304", 78.9432, 1.0, 0.0)),
        "min-waste-independent": (("4/50/300", 16.2419, 4.5635, 1.386), ("300", 20.6487, 4.1537, 1.386)),
        "max-throughput": (("4/50/300", 16.2419, 4.5635, 1.386), ("300", 20.6487, 4.1537, 1.386)),
    },
}
CATEGORIES = {"cms_simulation": ("ttW_mAODv2", "merge", "ttZ_mAODv2"), "bwa": ("Join", "Split", "Analysis")}
FIG_12 = {  # throughput with Equation 3, without categories
    "cms_simulation": {"cores": 1.943, "memory": 1.000, "disk": 8.887},
    "bwa": {"cores": 1.968, "memory": 4.154, "disk": 51.304},
}
SETS = ("colmena", "coffea", "normal_small", "uniform_large", "exponential_small", "bimodal_small_std", "trimodal")
BUCKETS = {"colmena": 2, "coffea": 3, "bimodal_small_std": 2, "trimodal": 3}
PHUNG = {  # (strategy, level): WRR/ATE for each data set
    ("whole-machine", 1): "0/15.795 0/0.614 0/12.409 0/39.086 0/15.734 0/31.254 0/30.714",
    ("doubling", 1): "72.917/51.881 88.105/4.916 71.354/33.091 -6.580/41.611 57.132/27.588 17.673/37.418 30.279/43.253",
    ("declared", 1): "63.485/33.240 99.796/69.099 84.916/48.432 56.483/59.588 0/15.734 65.310/56.720 42.796/43.660",
    (
        "quantized",
        1,
    ): "62.768/34.444 98.723/85.546 88.404/56.274 61.126/62.402 2.369/16.128 68.863/59.647 48.499/46.353",
    ("k-means", 1): "62.768/34.444 98.723/85.546 88.404/56.274 61.126/62.402 2.369/16.128 68.863/59.647 48.499/46.353",
    (
        "quantized",
        2,
    ): "60.268/41.922 97.872/45.273 88.404/56.274 61.126/62.402 2.369/16.128 43.344/43.398 49.299/57.784",
    ("k-means", 2): "65.060/43.906 98.051/45.935 88.404/56.274 61.126/62.402 2.369/16.128 86.988/84.232 48.864/57.482",
    ("quantized", 3): "- 98.653/91.001 88.404/56.274 61.126/62.402 2.369/16.128 96.448/93.911 80.762/71.266",
    ("k-means", 3): "- 98.653/91.001 88.404/56.274 61.126/62.402 2.369/16.128 96.448/93.911 80.762/71.266",
}
TRACES = ("iwd", "methylseq", "chipseq")
SIZEY = {  # GBh wasted, seed 1996: rivals as their code gives it (Sizey's to about 20 %), then prototypes of ours
    "Witt percentile": ("1.439", "4372", "94.70"),
    "Witt LR std": ("42.50", "2718", "105.7"),
    "Witt LR std, underprediction only": ("2.944", "988.9", "136.3"),
    "Tovar as coded there": ("16.70", "4081", "211.0"),
    "Sizey (approximate)": ("0.361", "653.5", "-"),
    "min-waste": ("1.079", "1701", "58.73"),
    "ladder": ("1.078", "1700", "58.77"),
    "regression": ("0.344", "861.7", "51.77"),
}
AUTO = {"auto": ("0.283", "236", "44.1")}  # the prototype's mean over seeds 11 to 15


def replay(path: Path, *options: str) -> list[dict[str, Any]]:
    """Run the command line, and return its rows."""
    command = [sys.executable, "-m", "tonnage", "replay", "size", str(path), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return rows


def line(what: str, published: object, ours: object) -> None:
    """Print one figure."""
    print(f"  {what:<58} {published!s:>22} {ours!s:>22}")


def title(text: str, whose: str = "published") -> None:
    """Print a heading."""
    print(f"\n{text}")
    line("", whose, "ours")


def tovar() -> None:
    """Figures 10 and 11: first allocations for memory."""
    for name, rows in TOVAR.items():
        title(f"Tovar et al., Fig. {10 if name.startswith('cms') else 11}: {name}, memory")
        for place, by in enumerate(("category", "none")):
            found = replay(
                DATA / "sizing" / f"{name}.csv", "--protocol", "tovar", "--by", by, "--strategies", ",".join(rows)
            )
            for row in found:
                sizes, waste, throughput, retries = rows[row["strategy"]][place]
                names = CATEGORIES[name] if by == "category" else ("all",)
                what = f"{row['strategy']}, by {by}"
                line(f"{what}: MB", sizes, "/".join(f"{row['allocations'][one] / MB:.0f}" for one in names))
                line(f"{what}: waste %", f"{waste:.4f}", f"{100 * row['waste_fraction']:.4f}")
                line(f"{what}: throughput", f"{throughput:.4f}", f"{row['throughput']:.4f}")
                line(f"{what}: retries %", f"{retries:.3f}", f"{100 * row['retries_fraction']:.3f}")


def figure_12() -> None:
    """Throughput of all resources with Equation 3."""
    title("Tovar et al., Fig. 12: throughput with Equation 3, without categories (and of the oracle)")
    for name, published in FIG_12.items():
        options = ["--protocol", "tovar", "--by", "none", "--strategies", "max-throughput"]
        for resource in published:
            options += ["--resource", resource]
        for row in replay(DATA / "sizing" / f"{name}.csv", *options):
            oracle = row["throughput"] / row["oracle_share"]
            ours = f"{row['throughput']:.3f} ({oracle:.2f})"
            line(f"{name}, {row['resource']}", f"{published[row['resource']]:.3f}", ours)


def figure_7() -> None:
    """Where the two objectives differ, for two kinds of jobs: closed forms, and where our strategies switch."""
    title("Tovar et al., Fig. 7: the ratio of run times up to which the small size is tried first")
    for ratio, small in ((2.0, 0.3), (2.0, 0.6), (4.0, 0.2), (4.0, 0.3), (8.0, 0.1)):
        big = 1 - small
        waste = small * (ratio - 1) / big
        left = 1 - small * (ratio - 1)
        throughput = small**2 * (ratio - 1) / (big * left) if left > 0 else float("inf")
        for name, strategy, exact in (("waste", min_waste, waste), ("throughput", max_throughput, throughput)):
            found = _switch(lambda x, s=strategy, r=ratio, p=small: s(_two_kinds(r, p, x))[0] < r)
            line(f"a_m/a {ratio:g}, {small:.0%} small, {name}", f"{exact:.4f}", f"{found:.4f}")


def _two_kinds(ratio: float, small: float, time: float) -> Histogram:
    jobs = np.array([small, 1 - small])
    seconds = jobs * np.array([1.0, time])
    peaks = np.array([1.0, ratio])
    return Histogram(peaks, jobs, seconds, peaks * seconds, ratio)


def _switch(tries_small: Any) -> float:  # noqa: ANN401
    """Return the largest ratio of run times for which the small size is tried first."""
    low, high = 0.0, 1e9
    if tries_small(high):
        return float("inf")
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if tries_small(middle) else (low, middle)
    return low


def phung(sets: Sequence[str]) -> None:
    """Tables I and II: waste reduction and task efficiency, memory."""
    title("Phung et al., Tables I and II: WRR/ATE in %, memory")
    for (strategy, level), cells in PHUNG.items():
        for name, published in zip(SETS, cells.split(), strict=True):
            if name not in sets or published == "-":
                continue
            options = ["--protocol", "phung", "--strategies", strategy, "--level", str(level)]
            if level == 2:
                options += ["--buckets", str(BUCKETS.get(name, 1))]
            (row,) = replay(DATA / "sizing" / f"phung_{name}.txt", *options)
            line(f"{strategy}, level {level}, {name}", published, f"{100 * row['wrr']:.3f}/{100 * row['ate']:.3f}")


def sizey(traces: Sequence[str]) -> None:
    """The Sizey protocol on traces of nf-core."""
    for table, seeds in ((SIZEY, ["1996"]), (AUTO, ["11", "12", "13", "14", "15"])):
        whose = "theirs, or prototype" if table is SIZEY else "prototype"
        title(f"Sizey protocol: GBh wasted, seeds {', '.join(seeds)} (another random order of the jobs)", whose)
        options = ["--protocol", "sizey", *(word for seed in seeds for word in ("--seed", seed))]
        for place, trace in enumerate(TRACES):
            if trace not in traces:
                continue
            path = DATA / "traces" / f"nextflow_{trace}.csv"
            ours = {
                row["strategy"]: f"{row['waste_gbh']:.4g} / {row['failures']:.0f} failed"
                for row in replay(path, "--strategies", "auto,min-waste,ladder,regression", *options)
            }
            for strategy, published in table.items():
                line(f"{trace}, {strategy}", published[place], ours.get(strategy, "not ours"))


def main() -> None:
    """Print everything, or with --quick one data set of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only one data set of each paper")
    quick = parser.parse_args().quick
    figure_7()
    if not DATA.is_dir():
        sys.exit(f"no public data in {DATA}: set TONNAGE_DATA")
    tovar()
    figure_12()
    phung(("trimodal",) if quick else SETS)
    sizey(("iwd",) if quick else TRACES)


if __name__ == "__main__":
    main()
