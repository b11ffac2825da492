"""Speed of packing: one decision, cold and warm, and a whole workflow in a busy queue.

    python benchmarks/packs.py [--quick]

The queue is made up: as busy as the logs that people use, with a few dozen jobs that wait. Seconds depend on the
machine: beside them stands a list schedule in plain Python on the same machine.
"""

import argparse
from time import perf_counter

import numpy as np

from tonnage.batch import Cluster, Workload
from tonnage.pack import PACKERS, Settings, Situation, Work, simulate
from tonnage.pack.list_schedule import schedule
from tonnage.workflow import Workflow
from tonnage.workflow.families import FAMILIES

NODES = 100


def busy(jobs: int = 2_000, seed: int = 0) -> Workload:
    """Return jobs that keep a machine 80 % busy, most of them small and short."""
    rng = np.random.default_rng(seed)
    nodes = np.minimum(2 ** rng.integers(0, 7, jobs), NODES)
    run = np.ceil(rng.lognormal(8, 1.5, jobs)).astype(np.int64)
    submit = np.sort(rng.uniform(0, (nodes * run).sum() / NODES / 0.8, jobs)).astype(np.int64)
    return Workload.of(NODES, np.stack([submit, nodes, run, run]))


def timed(work: Work, cluster: Cluster, strategy: str) -> float:
    """Return the seconds of one decision."""
    situation = Situation(work.everything(), cluster.snapshot(), room=cluster.room())
    begin = perf_counter()
    PACKERS[strategy](situation, Settings())
    return perf_counter() - begin


def plain_schedule(work: Work, nodes: int) -> float:
    """Return the seconds of one list schedule without compilation."""
    tasks = np.arange(work.graph.size)
    begin = perf_counter()
    schedule(*work._rows(tasks), nodes, np.zeros(len(tasks), np.int64), np.empty(len(tasks), np.int64))
    return perf_counter() - begin


def decisions(workflow: Workflow, cluster: Cluster) -> None:
    """Print the time of one decision of each strategy, the first time and later."""
    plain = plain_schedule(Work.of(workflow), NODES // 2)
    print(f"\n{workflow.name}, {len(workflow):,} tasks, {NODES} nodes: one decision in ms")
    print(f"(a list schedule in plain Python takes {plain * 1000:.1f} ms)")
    print(f"  {'strategy':<16}{'cold':>9}{'warm':>9}{'cold / plain schedule':>24}")
    for strategy in PACKERS:
        work = Work.of(workflow)
        cold = timed(work, cluster, strategy)
        warm = min(timed(work, cluster, strategy) for _ in range(5))
        print(f"  {strategy:<16}{cold * 1000:>9.1f}{warm * 1000:>9.2f}{cold / plain:>24.1f}", flush=True)


def crossings(workflow: Workflow, cluster: Cluster) -> None:
    """Print the time to simulate a whole workflow in the queue."""
    print(f"\n{workflow.name}, {len(workflow):,} tasks: the way through the queue")
    print(f"  {'strategy':<16}{'ms':>9}{'batch jobs':>12}{'makespan, h':>13}")
    for strategy in PACKERS:
        work = Work.of(workflow)
        simulate(work, cluster.copy(), strategy)
        begin = perf_counter()
        outcome = simulate(work, cluster.copy(), strategy)
        took = perf_counter() - begin
        print(
            f"  {strategy:<16}{took * 1000:>9.1f}{len(outcome.carried):>12,}{outcome.makespan / 3600:>13.1f}",
            flush=True,
        )


def main() -> None:
    """Print everything, or with --quick a small workflow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    workload = busy()
    cluster = Cluster(NODES, workload, max_submitted=16)
    cluster.advance(int(workload.submit[1_000]))
    simulate(Work.of(FAMILIES["montage"].generate(300)), cluster.copy(), "auto")  # compile the kernels
    for tasks in (100,) if quick else (500, 5_000):
        decisions(FAMILIES["montage"].generate(tasks), cluster)
    crossings(FAMILIES["montage"].generate(100 if quick else 500), cluster)


if __name__ == "__main__":
    main()
