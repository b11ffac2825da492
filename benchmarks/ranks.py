"""Speed and memory of ranking: PRIO on up to a million jobs of several shapes, and the cost of the certificate.

    python benchmarks/ranks.py [--quick]

Each line is a process of its own, so that its memory counts; kernels are compiled before. Seconds depend on the
machine: beside them stands how often Python's own graphlib could have put the same jobs into any possible order.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from graphlib import TopologicalSorter
from time import perf_counter

import numpy as np

from tonnage.rank.prio import explain
from tonnage.rank.sidney import MOST_TASKS, bound
from tonnage.units import format_bytes
from tonnage.workflow import Graph
from tonnage.workflow.families import FAMILIES

COPY = 2_988
"""The jobs of one workflow like the paper's Inspiral."""


def family(name: str) -> Callable[[int], Graph]:
    """Return a function that generates one workflow of a family, of any size."""
    return lambda jobs: FAMILIES[name].generate(jobs).graph


def copies(jobs: int) -> Graph:
    """Many workflows like Inspiral side by side."""
    one = FAMILIES["ligo"].generate(COPY).graph
    begins = np.arange(max(1, jobs // one.size)) * one.size
    parents = (one.edge_parents() + begins[:, None]).ravel()
    return Graph.from_edges(one.size * len(begins), parents, (one.child + begins[:, None]).ravel())


def chain(jobs: int) -> Graph:
    """One job after another: as many components as jobs."""
    return Graph.from_edges(jobs, np.arange(jobs - 1), np.arange(1, jobs))


def knots(jobs: int) -> Graph:
    """Non-bipartite components, one after another: each is known only when the previous one is done."""
    knot = np.array([(0, 4), (0, 3), (1, 5), (1, 2), (2, 4), (3, 5), (4, 6), (5, 7)])
    edges = (knot[None] + 6 * np.arange(jobs // 6)[:, None, None]).reshape(-1, 2)
    return Graph.from_edges(jobs // 6 * 6 + 2, edges[:, 0], edges[:, 1])


def different(jobs: int) -> Graph:
    """Random bipartite blocks: hardly any two have the same profile."""
    rng = np.random.default_rng(0)
    pairs, begin = [], 0
    while begin < jobs:
        sources, sinks = rng.integers(2, 40, 2)
        joined = rng.random((sources, sinks)) < 0.3
        joined[np.arange(sources), rng.integers(0, sinks, sources)] = True
        pairs.append(np.argwhere(joined) + np.array([begin, begin + sources]))
        begin += sources + sinks
    edges = np.concatenate(pairs)
    return Graph.from_edges(begin, edges[:, 0], edges[:, 1])


def tangle(jobs: int) -> Graph:
    """Two dependencies each, on any of the previous thousand jobs: deep, wide and without structure."""
    rng = np.random.default_rng(0)
    children = np.repeat(np.arange(1, jobs), 2)
    return Graph.from_edges(jobs, children - rng.integers(1, np.minimum(children, 1000) + 1), children)


SHAPES: dict[str, Callable[[int], Graph]] = {
    "random-layered": family("random-layered"),
    "inspiral copies": copies,
    "sdss": family("sdss"),
    "montage": family("montage"),
    "chain": chain,
    "knots": knots,
    "different blocks": different,
    "tangle": tangle,
}


def measured(shape: str, jobs: int, *, certified: bool) -> dict[str, float]:
    """Rank one workflow; meant to run in a separate process."""
    explain(tangle(20_000))  # compile the kernels
    graph = SHAPES[shape](jobs)
    begin = perf_counter()
    found = explain(graph)
    seconds = perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    certificate = 0.0
    if certified:
        begin = perf_counter()
        bound(graph)
        certificate = perf_counter() - begin
    needs = {task: graph.parents_of(task).tolist() for task in range(graph.size)}
    begin = perf_counter()
    for _ in TopologicalSorter(needs).static_order():
        pass
    plain = perf_counter() - begin
    return {
        "jobs": graph.size,
        "edges": graph.edges,
        "components": len(found.kind),
        "kinds": len(found.profiles),
        "seconds": seconds,
        "memory": memory,
        "certificate": certificate,
        "plain": plain,
    }


def apart(shape: str, jobs: int, *, certified: bool = False) -> dict[str, float]:
    """Measure in a separate process."""
    command = [sys.executable, __file__, "--one", shape, str(jobs), *(["--certified"] if certified else [])]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def main() -> None:
    """Print all sizes, or only small ones with --quick."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "JOBS"), help=argparse.SUPPRESS)
    parser.add_argument("--certified", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one[0], int(options.one[1]), certified=options.certified)))
        return
    sizes = (1_000, 10_000) if options.quick else (10_000, 100_000, 1_000_000)
    columns = [f"{name:>10}" for name in ("jobs", "edges", "components")]
    print("PRIO", f"{'shape':<17} {' '.join(columns)} {'kinds':>6} {'seconds':>8} {'memory':>9} graphlib", sep="\n")
    for shape in SHAPES:
        for jobs in sizes:
            one = apart(shape, jobs)
            print(
                f"{shape:<17} {one['jobs']:>10,} {one['edges']:>10,} {one['components']:>10,} {one['kinds']:>6,} "
                f"{one['seconds']:>8.2f} {format_bytes(int(one['memory'])):>9} {one['seconds'] / one['plain']:>6.1f} x",
                flush=True,
            )
    print(f"\nthe upper bound on eligible jobs (minimum cuts; at most {MOST_TASKS:,} jobs that hang together)")
    for shape in SHAPES:
        for jobs in (1_000,) if options.quick else (5_000, MOST_TASKS - 1_000):
            one = apart(shape, jobs, certified=True)
            print(f"{shape:<17} {one['jobs']:>10,} {one['certificate']:>8.2f} s", flush=True)


if __name__ == "__main__":
    main()
