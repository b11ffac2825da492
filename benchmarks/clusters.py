"""Speed and memory of clustering jobs by density, next to scikit-learn's DBSCAN on the same jobs in the same run.

    python benchmarks/clusters.py [--quick]

Prints how clustering at one distance and the choice among 20 distances scale from 50,000 to 500,000 jobs, the times for
shapes that are hard for grids or trees, and the ratio to DBSCAN with one sample, whose neighbour lists grow
quadratically. Seconds depend on the machine; the ratios are what counts.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn  # type: ignore[import-untyped]
from sklearn.cluster import DBSCAN  # type: ignore[import-untyped]

from tonnage.size.clusters import Labels, adjusted_rand, choose, components, default_radii, weighted
from tonnage.size.histograms import FloatArray
from tonnage.units import format_bytes

HERE = Path(__file__).resolve().parent
CATEGORIES = 12
EPS = 160.0  # the paper's best
WEIGHTS = (0.1, 0.7, 0.1, 0.1)


def jobs(size: int) -> tuple[FloatArray, Labels]:
    """Return the weighted cores, memory MB, disk MB and seconds of jobs, and the category of each."""
    rng = np.random.default_rng(2018)
    typical = np.exp(rng.normal(size=(CATEGORIES, 4))) * [4, 2000, 5000, 600]
    category = rng.integers(0, CATEGORIES, size)
    features = np.ceil(typical[category] * np.exp(0.05 * rng.normal(size=(size, 4))))
    return weighted(features, WEIGHTS), category


def hard(size: int) -> dict[str, tuple[FloatArray, float]]:
    """Return point sets that are hard for some clustering methods, each with a distance."""
    rng = np.random.default_rng(1)
    uniform = rng.random((size, 4))
    spacing = size**-0.25
    clump = uniform.copy()
    clump[::2] = 0.5 + clump[::2] * spacing / 4
    flat = uniform.copy()
    flat[:, 2] = 1.0
    chain = np.outer(rng.permutation(size), [1.0, 0.0, 0.5, 0.0])
    sphere = rng.normal(size=(size, 4))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    sphere[::2] *= 2
    return {
        "uniform, most clusters merge": (uniform, spacing),
        "eps 0": (uniform, 0.0),
        "eps larger than all": (uniform, 10.0),
        "eps 1e-300 of values to 1e300": (uniform * 1e300, 1e-300),
        "all points equal": (np.ones((size, 4)), 1.0),
        "one constant axis": (flat, size ** (-1 / 3)),
        "half of all in one ball": (clump, spacing),
        "a long chain": (chain, 1.2),
        "a long tail": (np.exp(3 * rng.normal(size=(size, 4))), 1000.0),
        "two spheres, a bit beyond eps": (sphere, 0.9),
    }


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def warm() -> None:
    """Load the compiled kernel, which each process does once."""
    components(np.random.default_rng(0).random((1000, 4)), 0.1)


def ours(size: int) -> None:
    """Print the times of clustering and of choosing a distance."""
    warm()
    points, category = jobs(size)
    one = min(timed(lambda: components(points, EPS)) for _ in range(3))
    after_one = peak_memory()
    start = time.perf_counter()
    radii = default_radii(points)
    trying = time.perf_counter() - start
    by_score = timed(lambda: choose(points, radii))
    start = time.perf_counter()
    choice = choose(points, radii, category)
    by_structure = time.perf_counter() - start
    match = adjusted_rand(choice.labels, category)
    print(
        f"{size:>10,} {one:>8.2f} {one / size * 1e6:>7.2f} {trying:>10.2f} {by_score:>10.2f} {by_structure:>13.2f}"
        f" {match:>6.3f} {format_bytes(after_one):>12} {format_bytes(peak_memory()):>12}"
    )


def theirs(size: int) -> None:
    """Print the times for one distance, ours and scikit-learn's."""
    warm()
    points, _ = jobs(size)
    mine = min(timed(lambda: components(points, EPS)) for _ in range(3))
    before = peak_memory()
    start = time.perf_counter()
    labels = DBSCAN(eps=EPS, min_samples=1).fit(points).labels_
    other = time.perf_counter() - start
    same = adjusted_rand(labels, components(points, EPS)) == 1
    print(
        f"{size:>10,} {mine:>10.3f} {other:>14.2f} {other / mine:>7.0f}x {format_bytes(before):>12}"
        f" {format_bytes(peak_memory()):>16}  {'the same clusters' if same else 'OTHER CLUSTERS'}"
    )


def shapes(size: int) -> None:
    """Print the times for hard shapes at one distance."""
    warm()
    for name, (points, eps) in hard(size).items():
        start = time.perf_counter()
        labels = components(points, eps)
        print(f"{name:>32} {time.perf_counter() - start:>8.2f} {labels.max() + 1:>10,}")
    print(f"{'peak memory, with all points':>32} {format_bytes(peak_memory()):>8}")


def peak_memory() -> int:
    """Return this process's peak memory; ru_maxrss would be that of its larger parent, which survives exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def alone(function: Callable[[int], None], size: int) -> None:
    """Run a function of this module in a separate process, so that its memory is measured alone."""
    sys.stdout.flush()
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import clusters; clusters.{function.__name__}({size})"
    subprocess.run([sys.executable, "-c", code], check=True)


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes only, to see that it works")
    quick = parser.parse_args().quick
    versions = f"scikit-learn {sklearn.__version__}, numpy {np.__version__}"
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {versions}\n")
    print(f"jobs of {CATEGORIES} categories: clusters at eps {EPS:g}, and the best of 20 distances (seconds)")
    columns = f"{'jobs':>10} {'one eps':>8} {'us/job':>7} {'distances':>10} {'by score':>10} {'by structure':>13}"
    print(f"{columns} {'match':>6} {'peak one eps':>12} {'peak choice':>12}")
    for size in [2000, 10_000] if quick else [50_000, 100_000, 200_000, 500_000]:
        alone(ours, size)
    print(f"\nDBSCAN with one sample at eps {EPS:g} (seconds; peak memory includes Python and the jobs)")
    columns = f"{'jobs':>10} {'tonnage s':>10} {'scikit-learn s':>14} {'ratio':>8} {'peak tonnage':>12}"
    print(f"{columns} {'and scikit-learn':>16}")
    for size in [2000] if quick else [10_000, 20_000, 50_000]:
        alone(theirs, size)
    size = 10_000 if quick else 500_000
    print(f"\nhard shapes, {size:,} points\n{'':>32} {'seconds':>8} {'clusters':>10}")
    alone(shapes, size)


if __name__ == "__main__":
    main()
