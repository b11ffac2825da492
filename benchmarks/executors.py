"""Speed of tasks submitted by Python programs: commands and functions, next to the standard library's executors.

    python benchmarks/executors.py [--quick]

Each task has its own process, which is measured and limited; the comparable pool of the standard library is the one
with a fresh process per task. Tasks per second depend on what else the machine does; CPU time per task hardly does.
"""

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import tonnage


def own(number: int) -> int:
    """Return the argument: a function of the program itself, which is serialised completely."""
    return number


def commands(pool: tonnage.Executor, tasks: int) -> None:
    """Run this many commands that do nothing."""
    wait([pool.command("/bin/true") for _ in range(tasks)])


def functions(pool: Executor, tasks: int, function: Callable[[int], int] = abs) -> None:
    """Call a function this many times."""
    wait([pool.submit(function, number) for number in range(tasks)])


def one_by_one(_pool: None, tasks: int, words: tuple[str, ...]) -> None:
    """Run a program this many times, one after another."""
    for _ in range(tasks):
        subprocess.run(words, check=True)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the children it has reaped."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def measure(name: str, tasks: int, opened: "Callable[[], Executor] | None", work: Callable[..., None]) -> None:
    """Print the speed of some work."""
    before = cpu_seconds()
    if opened is None:
        begin = perf_counter()
        work(None, tasks)
        seconds = perf_counter() - begin
    else:
        with opened() as pool:
            begin = perf_counter()
            work(pool, tasks)
            seconds = perf_counter() - begin
    cpu = (cpu_seconds() - before) / tasks
    print(f"  {name:<62}{tasks / seconds:>10,.0f}{cpu * 1000:>10.1f}", flush=True)


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    many, few = (50, 10) if quick else (1_000, 200)
    python = (sys.executable, "-c", "pass")
    with TemporaryDirectory() as folder:
        ours = partial(tonnage.Executor, folder=folder, archive=str(Path(folder, "archive.db")))
        pool = partial(ProcessPoolExecutor, os.cpu_count())
        fresh = partial(pool, max_tasks_per_child=1)
        print(f"  {'':<62}{'tasks/s':>10}{'CPU ms':>10}")
        measure("/bin/true, Tonnage", many, ours, commands)
        measure("/bin/true, subprocess.run one by one", many, None, partial(one_by_one, words=("/bin/true",)))
        measure("python -c pass, subprocess.run one by one", few, None, partial(one_by_one, words=python))
        measure("a function of a module, Tonnage", few, ours, functions)
        measure("a function of the program, Tonnage", few, ours, partial(functions, function=own))
        measure("a function of a module, ProcessPoolExecutor, fresh processes", few // 10, fresh, functions)
        measure("a function of a module, ProcessPoolExecutor, warm", few, pool, functions)


if __name__ == "__main__":
    main()
