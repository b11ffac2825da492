"""How fast a batch queue is simulated: against plain Python, with the jobs and the queue growing; and what-ifs.

There are two plain Pythons: the very functions that are compiled, as they are; and a replay written anew for Python's
lists, which can do nothing else (no jobs of ours, no copies, no caps, no places) and shares the shortcuts. Times are of
the processor: all is done in one thread, and others may use the machine.

Run it with ``.venv/bin/python benchmarks/queues.py``; ``--quick`` takes a few seconds. The log is that of KTH from
$TONNAGE_DATA or ../shared/data, else a made-up one.
"""

import argparse
import heapq
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from timeit import timeit
from unittest import mock

import numpy as np

from tonnage import jit
from tonnage.batch import REQUESTS, Cluster, Workload, replay

DATA = Path(os.environ.get("TONNAGE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RUNS = 5
NODES = 100
DAY = 86_400
FOREVER = 2**62
OTHERS: dict[str, dict[str, object]] = {"EASY": {"policy": "easy"}, "neighbouring nodes": {"contiguous": True}}


def made_up(jobs: int, load: float) -> Workload:
    """Return jobs that request this fraction of all nodes on average; above 1, the queue keeps growing."""
    rng = np.random.default_rng(1)
    nodes = np.minimum(2 ** rng.integers(0, 7, jobs), NODES)
    run = np.maximum(rng.lognormal(7, 1.5, jobs), 1).astype(np.int64)
    between = (nodes * run).mean() / NODES / load
    submit = np.cumsum(rng.exponential(between, jobs)).astype(np.int64)
    request = (run * rng.uniform(1, 5, jobs)).astype(np.int64)
    return Workload(NODES, submit, nodes.astype(np.int64), run, request, np.zeros(jobs, np.int64))


def log_of(name: str, jobs: int | None) -> tuple[str, Workload]:
    """Return a real log or a synthetic one, and its description."""
    path = DATA / "queues" / f"{name}.swf.gz"
    if not path.exists():
        return "a made-up log", made_up(jobs or 30_000, 0.7)
    begin = process_time()
    log = Workload.load(path)
    print(f"{name}: {len(log):,} jobs read in {process_time() - begin:.2f} s")
    return name, log.head(jobs or len(log))


class PlainPlan:
    """Breakpoints and free nodes in two lists."""

    def __init__(self, nodes: int) -> None:
        self.times, self.free = [0], [nodes]

    def earliest(self, nodes: int, seconds: int, now: int, held: int) -> int:
        """Return the first start from now on, or `held`."""
        times, free = self.times, self.free
        place, size, start = 0, len(times), now
        while start < held:
            if free[place] < nodes:
                place += 1
                start = times[place]
                continue
            until = min(start + seconds, held)
            ahead = place + 1
            while ahead < size and times[ahead] < until and free[ahead] >= nodes:
                ahead += 1
            if ahead == size or times[ahead] >= until:
                return start
            place = ahead
            start = times[place]
        return held

    def change(self, begin: int, end: int, by: int) -> None:
        """Increase or decrease the number of free nodes."""
        times, free = self.times, self.free
        low = self._breakpoint(begin)
        high = self._breakpoint(end)
        for place in range(low, high):
            free[place] += by
        for place in (high, low):
            if place and free[place] == free[place - 1]:
                del times[place], free[place]

    def _breakpoint(self, time: int) -> int:
        place = bisect_left(self.times, time)
        if place == len(self.times) or self.times[place] != time:
            self.times.insert(place, time)
            self.free.insert(place, self.free[place - 1])
        return place

    def trim(self, now: int) -> None:
        """Drop the breakpoints before now."""
        passed = bisect_right(self.times, now) - 1
        if passed:
            del self.times[:passed], self.free[:passed]
        self.times[0] = now


def plain_replay(log: Workload, requests: str) -> list[int]:
    """Return when jobs start under conservative backfilling: the same algorithm in plain Python."""
    submit, nodes, run = log.submit.tolist(), log.nodes.tolist(), log.run.tolist()
    request = log.requests(requests).tolist()
    starts = [FOREVER] * len(log)
    plan, arriving = PlainPlan(log.machine_nodes), 0
    queue: list[int] = []
    ends: list[tuple[int, int]] = []

    def promise(job: int, now: int) -> None:
        start = plan.earliest(nodes[job], request[job], now, starts[job])
        if start == starts[job]:
            return
        if starts[job] < FOREVER:
            plan.change(starts[job], starts[job] + request[job], nodes[job])
        starts[job] = start
        plan.change(start, start + request[job], -nodes[job])

    next_start = FOREVER
    while arriving < len(log) or queue:
        now = min(next_start, ends[0][0] if ends else FOREVER, submit[arriving] if arriving < len(log) else FOREVER)
        plan.trim(now)
        freed = False
        while ends and ends[0][0] <= now:
            job = heapq.heappop(ends)[1]
            if starts[job] + request[job] > now:
                plan.change(now, starts[job] + request[job], nodes[job])
                freed = True
        new = len(queue)
        while arriving < len(log) and submit[arriving] <= now:
            queue.append(arriving)
            arriving += 1
        for job in queue if freed else queue[new:]:
            promise(job, now)
            next_start = min(next_start, starts[job])
        if next_start <= now:
            for job in queue:
                if starts[job] <= now:
                    heapq.heappush(ends, (now + run[job], job))
            queue = [job for job in queue if starts[job] > now]
            next_start = min((starts[job] for job in queue), default=FOREVER)
    return starts


def replaying(name: str, log: Workload) -> None:
    """Print how many jobs are replayed per second in each of several runs, and the speed-up over plain Python."""
    replay(log.head(1000))  # compile the kernels
    for requests in REQUESTS:
        begin = process_time()
        plain = plain_replay(log, requests)
        lists = len(log) / (process_time() - begin)
        part = log.head(2000)
        with mock.patch.object(jit, "COMPILE_FROM", FOREVER):
            begin = process_time()
            same = replay(part, requests=requests)
            uncompiled = len(part) / (process_time() - begin)
        starts = replay(log, requests=requests)
        assert starts.tolist() == plain, "the two disagree"
        assert same.tolist() == replay(part, requests=requests).tolist(), "the two disagree"
        wait = float((starts - log.submit).mean()) / 3600
        print(f"  {name}, {requests} requests, mean wait {wait:.1f} h")
        print(f"    plain Python: {uncompiled:,.0f} jobs/s uncompiled, {lists:,.0f} with lists")
        for _ in range(RUNS):
            begin = process_time()
            replay(log, requests=requests)
            speed = len(log) / (process_time() - begin)
            print(f"    compiled: {speed:,.0f} jobs/s, {speed / uncompiled:.0f} and {speed / lists:.1f} times as fast")
        for label, options in OTHERS.items():
            begin = process_time()
            replay(log, requests=requests, **options)  # type: ignore[arg-type]
            print(f"    {label}: {len(log) / (process_time() - begin):,.0f} jobs/s")


def growth(sizes: tuple[int, ...]) -> None:
    """Print how the time per job grows with their number, for a short queue and for one that grows with them."""
    for load in (0.7, 1.2):
        for size in sizes:
            if load > 1 and size > 30_000:
                continue
            log = made_up(size, load)
            for requests in REQUESTS:
                begin = process_time()
                starts = replay(log, requests=requests)
                seconds = process_time() - begin
                queue = float((starts - log.submit).sum()) / max(1, int(starts.max() - log.submit[0]))
                print(
                    f"  load {load}, {size:,} jobs, {requests} requests, {queue:,.0f} in the queue on average: "
                    f"{1e6 * seconds / size:.2f} us a job"
                )


def what_ifs(log: Workload, times: int) -> None:
    """Print the cost of queries and copies when the queue is longest among some moments, with Python's overhead."""

    def microseconds(action: Callable[[], object]) -> str:
        action()
        runs = [1e6 * timeit(action, number=times, timer=process_time) / times for _ in range(RUNS)]
        return ", ".join(f"{run:.2f}" for run in runs)

    cluster = Cluster(log.machine_nodes, log, requests="real")
    begin = cluster.now
    busiest = cluster.copy()
    for moment in np.linspace(begin, int(log.submit[-1]), 200).astype(int).tolist():
        cluster.advance(moment)
        if cluster.queued > busiest.queued:
            busiest = cluster.copy()
    widths, hours = np.arange(1, log.machine_nodes + 1), np.full(log.machine_nodes, 7200)
    for name, one in (("at its busiest", busiest), ("at its end", cluster)):
        seen = one.snapshot()
        print(f"  {name}: {one.queued} queued, {one.running} running, {len(seen.times)} breakpoints; microseconds:")
        print(f"    what if, half of the nodes: {microseconds(partial(seen.earliest, 50, 3600))}")
        print(f"    what if, one node: {microseconds(partial(seen.earliest, 1, 3600))}")
        print(f"    {len(widths)} what-ifs: {microseconds(partial(seen.earliest_many, widths, hours))}")
        print(f"    with one more job: {microseconds(partial(seen.with_job, 50, 3600))}")
        print(f"    a snapshot: {microseconds(one.snapshot)}")
        print(f"    a copy: {microseconds(one.copy)}")


def simulating(log: Workload) -> None:
    """Print the cost of simulating 500 tasks of 50 minutes in the middle of the log, 16 in the system at a time."""
    for requests in REQUESTS:
        cluster = Cluster(log.machine_nodes, log, requests=requests, max_submitted=16)
        cluster.advance(int(log.submit[len(log) // 2]))
        costs, took = [], 0
        for _ in range(RUNS):
            begin = process_time()
            one = cluster.copy()
            left, inside = 500, 0
            while left or inside:
                while left and one.room():
                    one.submit(1, 3600, 3000)
                    left, inside = left - 1, inside + 1
                inside -= sum(event.kind != "started" for event in one.advance())
            costs.append(1e3 * (process_time() - begin))
            took = one.now - cluster.now
        print(f"  {requests} requests, {took / DAY:.1f} simulated days: {', '.join(f'{c:.1f}' for c in costs)} ms")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    quick = parser.parse_args().quick
    name, log = log_of("kth-sp2", 2_000 if quick else None)
    replaying(name, log)
    if not quick:
        replaying(*log_of("sdsc-sp2", None))
    print("growth:")
    growth((1_000,) if quick else (3_000, 30_000, 300_000))
    print(f"what-ifs on {name}:")
    what_ifs(log, 100 if quick else 10_000)
    print("500 tasks, one job each:")
    simulating(log)


if __name__ == "__main__":
    main()
