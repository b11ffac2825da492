"""Speed of tasks that Python programs submit: commands and functions, beside the executors of the standard library.

    python benchmarks/executors.py [--quick]

Each task has a process of its own that is measured and limited; the pool of the standard library that does likewise is
the one with a fresh process for each task. Tasks a second depend on what else the machine does; CPU time a task hardly.
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
    """Return what it was given: a function of the program itself, which travels whole."""
    return number


def commands(pool: tonnage.Executor, tasks: int) -> None:
    """Run so many commands that do nothing."""
    wait([pool.command("/bin/true") for _ in range(tasks)])


def functions(pool: Executor, tasks: int, function: Callable[[int], int] = abs) -> None:
    """Call a function so often."""
    wait([pool.submit(function, number) for number in range(tasks)])


def one_by_one(_pool: None, tasks: int, words: tuple[str, ...]) -> None:
    """Run a program so often, one after the other."""
    for _ in range(tasks):
        subprocess.run(words, check=True)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def measure(name: str, tasks: int, opened: "Callable[[], Executor] | None", work: Callable[..., None]) -> None:
    """Print how fast some work is."""
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
