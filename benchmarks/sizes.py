"""How fast sizes are decided: from histograms, against plain Python; job by job; and how that grows with the jobs.

Run it with ``.venv/bin/python benchmarks/sizes.py``; ``--quick`` takes a few seconds.
"""

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np

from tonnage.jobs import History, Resource
from tonnage.lab.size_protocols import PROTOCOLS
from tonnage.lab.size_replay import replay
from tonnage.size import STRATEGIES, Histogram, Ladder, Records, Settings, sizer
from tonnage.size.optimal import ladder
from tonnage.size.rules import max_throughput, min_waste

JOBS = 538_078  # the paper's own log
WIDTHS = {"cores": 1.0, "memory": 1e6, "disk": 1e6, "wall_time": 10.0}  # its partitions
GB = 1e9


def least(action: Callable[[], object], times: int = 5) -> float:
    """Return the minimum of several run times."""
    best = float("inf")
    for _ in range(times):
        begin = perf_counter()
        action()
        best = min(best, perf_counter() - begin)
    return best


def job_log(jobs: int) -> Records:
    """Return jobs of five categories: memory and disk in several modes with long tails, and informative inputs."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 5, jobs)
    inputs = rng.lognormal(20, 0.6, jobs)
    memory = 0.3 * GB + 0.8 * inputs * (1 + group) * rng.lognormal(0, 0.2, jobs)
    disk = rng.choice([0.2, 1.3, 2.4], jobs) * GB * rng.lognormal(0, 0.1, jobs)
    used = {
        Resource.CORES: rng.choice([1.0, 2.0, 3.0, 5.0], jobs, p=[0.3, 0.6, 0.08, 0.02]),
        Resource.MEMORY: np.minimum(memory, 60 * GB),
        Resource.DISK: np.minimum(disk, 60 * GB),
        Resource.WALL_TIME: rng.lognormal(7, 1, jobs),
    }
    history = History(
        used=used,
        requested={},
        input_bytes=inputs,
        finished=np.ones(jobs, np.bool_),
        ran_out=np.full(jobs, -1, np.int8),
    )
    return Records(tuple("abcde"), group, history)


def plain_waste(histogram: Histogram) -> float:
    """Return the first allocation of Equation 1, in plain Python with running sums."""
    peaks, seconds = histogram.peaks.tolist(), histogram.seconds.tolist()
    total = sum(seconds)
    left, best, first = total, float("inf"), 0.0
    for peak, time in zip(peaks, seconds, strict=True):
        left -= time
        value = peak * total + histogram.largest * left
        if value < best:
            best, first = value, peak
    return first


def plain_throughput(histogram: Histogram) -> float:
    """Return the first allocation of Equation 3, in plain Python with running sums."""
    columns = (histogram.peaks.tolist(), histogram.jobs.tolist(), histogram.seconds.tolist())
    jobs, seconds = sum(columns[1]), sum(columns[2])
    done, late_seconds, best, first = 0.0, seconds, -1.0, 0.0
    for peak, count, time in zip(*columns, strict=True):
        done += count
        late_seconds -= time
        value = (histogram.largest / peak * done + (jobs - done)) / (seconds + late_seconds)
        if value > best:
            best, first = value, peak
    return first


def as_written(histogram: Histogram) -> tuple[float, float]:
    """Return the first allocations of Equations 1 and 3 taken literally: sums for each candidate."""
    columns: list[list[float]] = [part.tolist() for part in (histogram.peaks, histogram.jobs, histogram.seconds)]
    rows: list[tuple[float, float, float]] = list(zip(*columns, strict=True))
    jobs, seconds, largest = sum(row[1] for row in rows), sum(row[2] for row in rows), histogram.largest

    def waste(one: float) -> float:
        return one * seconds + largest * sum(time for peak, _, time in rows if peak > one)

    def throughput(one: float) -> float:
        done = sum(count for peak, count, _ in rows if peak <= one)
        late = sum(time for peak, _, time in rows if peak > one)
        return (largest / one * done + (jobs - done)) / (seconds + late)

    peaks: list[float] = histogram.peaks.tolist()
    return min(peaks, key=waste), max(peaks, key=throughput)


def deciding(jobs: int) -> None:
    """Print how long decisions take, given the histograms."""
    history = job_log(jobs).history
    seconds = history.used[Resource.WALL_TIME]
    histograms = [Histogram.of(history.used[Resource(name)], seconds, width=width) for name, width in WIDTHS.items()]
    buckets = sum(len(one) for one in histograms)
    strategies: tuple[Callable[[Histogram], Ladder], ...] = (min_waste, max_throughput)
    ours = least(lambda: [strategy(one) for one in histograms for strategy in strategies])
    plain = least(lambda: [(plain_waste(one), plain_throughput(one)) for one in histograms], 3)
    for one in histograms:
        assert np.isclose(min_waste(one)[0], plain_waste(one)), "the two disagree"
    print(f"{jobs:,} jobs, four resources, both objectives, {buckets:,} buckets: {1000 * ours:.2f} ms")
    written = least(lambda: [as_written(one) for one in histograms], 1)
    print(f"  plain Python, the equations as they are written: {written:.2f} s, {written / ours:,.0f} times as long")
    print(f"  plain Python with running sums: {1000 * plain:.1f} ms, {plain / ours:.0f} times as long")


def replaying(jobs: int) -> None:
    """Print how many attempts per second the strategies replay online."""
    records = job_log(jobs)
    slow = ("auto", "regression", "k-means", "quantized", "declared", "density")
    names = [name for name in STRATEGIES if not name.startswith("brute-force") and name not in slow]
    for name in names:
        begin = perf_counter()
        (result,) = replay(records, [name], PROTOCOLS["tovar-online"])
        seconds = perf_counter() - begin
        print(f"  replay of {jobs:,} jobs, {name}: {(result.jobs + result.failures) / seconds:,.0f} attempts/s")


def each_job(jobs: int) -> None:
    """Print the cost per job of deciding and learning, by the size of its input."""
    history = job_log(jobs).history
    columns = (history.used[Resource.MEMORY], history.used[Resource.WALL_TIME], history.input_bytes)
    for name in ("auto", "regression", "ladder", "min-waste"):
        made = sizer(name, Settings(capacity=64 * GB))
        begin = perf_counter()
        for peak, seconds, size in zip(*(column.tolist() for column in columns), strict=True):
            made.ladder(size)
            made.observe(peak, seconds, size)
        print(f"  {name}, {jobs:,} jobs of one category: {1000 * (perf_counter() - begin) / jobs:.3f} ms a job")


def growth(sizes: tuple[int, ...]) -> None:
    """Print how the time of the optimal ladder grows with the number of distinct peaks."""
    for size in sizes:
        history = job_log(size).history
        histogram = Histogram.of(history.used[Resource.MEMORY], history.used[Resource.WALL_TIME])
        ladder(histogram)  # compile the kernels
        seconds = least(lambda one=histogram: ladder(one), 3)  # type: ignore[misc]
        print(
            f"  optimal ladder of {len(histogram):,} peaks: {1000 * seconds:.1f} ms, {1e9 * seconds / size:.0f} ns each"
        )


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    quick = parser.parse_args().quick
    deciding(20_000 if quick else JOBS)
    replaying(5_000 if quick else 100_000)
    each_job(300 if quick else 3_000)
    if not quick:
        each_job(30_000)
    growth((10_000,) if quick else (10_000, 100_000, 1_000_000))


if __name__ == "__main__":
    main()
