"""How fast `tonnage run` starts tasks, next to other runners of commands in the same run, and how fast it resumes.

    python benchmarks/runs.py [--quick]

Tonnage measures every task and writes a journal and an archive meanwhile; of the others, Makeflow, ninja, HyperQueue
and Snakemake keep some record, and the rest none. All take turns, round after round, so that all have the same noise.
The shortest run of one task is subtracted for the rate: so those that are slow are measured with fewer tasks. CPU time
is that of the program and its tasks together, as the kernel counts it, the least of all rounds. HyperQueue's own client
looks only once a second whether all is done.
"""

import argparse
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, State
from tonnage.run.journal import Journal
from tonnage.run.machines import Room
from tonnage.run.options import Options
from tonnage.run.recovery import recover
from tonnage.run.session import RunSession
from tonnage.workflow import Workflow, read

IDEAL = 0.1  # seconds that a task of the second table sleeps
LEFT = 100  # one task in this many is not done when a run is resumed

THREADS = """
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(int(sys.argv[2])) as pool:
    list(pool.map(lambda _: subprocess.run(sys.argv[3:]), range(int(sys.argv[1]))))
"""
HYPERQUEUE = """
import sys
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=int(sys.argv[2])))
    client, job = cluster.client(), Job()
    for _ in range(int(sys.argv[1])):
        job.program(sys.argv[3:], stdout=None, stderr=None)
    client.wait_for_jobs([client.submit(job)])
"""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The same command a number of times, some at once."""

    count: int
    at_once: int
    command: str


@dataclass(frozen=True, slots=True)
class Spent:
    """The times of a run in seconds; `steady` is from the first start to the last end, if known."""

    wall: float
    cpu: float
    steady: float | None


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that runs tasks, and the file that describes them; {} stands for the file's name."""

    name: str
    words: Callable[[Tasks], list[str]]
    text: Callable[[Tasks], str] = lambda _: ""
    part: int = 1
    """A slow runner gets only one in this many tasks."""

    def run(self, tasks: Tasks) -> Spent:
        """Run tasks in an empty folder."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "tasks.txt")
            file.write_text(self.text(tasks))
            words = [word.replace("{}", str(file)) for word in self.words(tasks)]
            start = time.perf_counter()
            with Path(place, "stdout").open("w") as stdout, Path(place, "stderr").open("w") as stderr:
                process = subprocess.Popen(words, cwd=place, stdout=stdout, stderr=stderr)
                _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status  # already reaped
            wall = time.perf_counter() - start
            if status:
                sys.exit(f"{self.name} failed: {Path(place, 'stderr').read_text()[-2000:]}")
            told = Path(place, "stdout").read_text()
            steady = json.loads(told)["makespan_seconds"] if self.name == "tonnage run" else None
            return Spent(wall, usage.ru_utime + usage.ru_stime, steady)


def runners() -> Iterator[Runner]:
    """Yield ours, and the other runners that are installed."""
    ours = [
        sys.executable,
        "-m",
        "tonnage",
        "run",
        "{}",
        "--new",
        "--quiet",
        "--json",
        "--archive",
        "{}.db",
        "--machine",
    ]
    yield Runner(
        "tonnage run",
        lambda tasks: [*ours, f"cores={tasks.at_once},memory={tasks.at_once}GB,disk={tasks.at_once}GB"],
        lambda tasks: f"{tasks.command}\n" * tasks.count,
    )
    here = {
        "xargs": Runner(
            "xargs -P",
            lambda tasks: ["xargs", "-a", "{}", f"-P{tasks.at_once}", "-n1", *tasks.command.split()[:1]],
            lambda tasks: f"{tasks.command.split()[-1]}\n" * tasks.count,
        ),
        "make": Runner("make -j", lambda tasks: ["make", "-s", f"-j{tasks.at_once}", "-f", "{}"], _makefile),
        "ninja": Runner("ninja", lambda tasks: ["ninja", "--quiet", f"-j{tasks.at_once}", "-f", "{}"], _ninja_file),
        "makeflow": Runner(
            "Makeflow",
            lambda tasks: ["makeflow", "-T", "local", f"-j{tasks.at_once}", f"--local-cores={tasks.at_once}", "{}"],
            lambda tasks: f":\n\t{tasks.command}\n" * tasks.count,
            part=5,
        ),
        "parallel": Runner(
            "GNU parallel",
            lambda tasks: ["parallel", "--will-cite", f"-j{tasks.at_once}", "-a", "{}"],
            lambda tasks: f"{tasks.command}\n" * tasks.count,
            part=10,
        ),
    }
    yield _script("Python threads", THREADS)
    for program, runner in here.items():
        if shutil.which(program):
            yield runner
        else:
            print(f"{runner.name} is not installed, and is left out")
    if importlib.util.find_spec("hyperqueue"):
        yield _script("HyperQueue", HYPERQUEUE)
    else:
        print("HyperQueue is not installed, and is left out")
    if importlib.util.find_spec("snakemake"):
        words = [sys.executable, "-m", "snakemake", "--quiet", "all", "--snakefile", "{}", "--jobs"]
        yield Runner("Snakemake", lambda tasks: [*words, str(tasks.at_once)], _snakefile, part=20)
    else:
        print("Snakemake is not installed, and is left out")


def _script(name: str, text: str) -> Runner:
    words = [sys.executable, "{}"]
    return Runner(
        name,
        lambda tasks: [*words, str(tasks.count), str(tasks.at_once), *tasks.command.split()],
        lambda _: text,
    )


def _makefile(tasks: Tasks) -> str:
    names = [f"t{number}" for number in range(tasks.count)]
    rules = "".join(f"{name}:\n\t{tasks.command}\n" for name in names)
    return f"all: {' '.join(names)}\n.PHONY: all {' '.join(names)}\n{rules}"


def _ninja_file(tasks: Tasks) -> str:
    return f"rule task\n command = {tasks.command}\n" + "".join(f"build t{one}: task\n" for one in range(tasks.count))


def _snakefile(tasks: Tasks) -> str:
    names = f"expand('t{{number}}', number=range({tasks.count}))"
    return f"rule all:\n input: {names}\nrule task:\n output: touch('t{{number}}')\n shell: '{tasks.command}'\n"


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    print(f"\n{title}")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ", row[0].ljust(widths[0]), "  ", "  ".join(cells[1:]), sep="", flush=True)


def measured(
    some: list[Runner], tasks: Tasks, rounds: int, *, all_of_them: bool
) -> dict[str, list[tuple[Spent, Spent]]]:
    """Return the times of a run of one task and of one of many, by runner, in each round."""
    found: dict[str, list[tuple[Spent, Spent]]] = {runner.name: [] for runner in some}
    for _ in range(rounds):
        for runner in some:
            many = replace(tasks, count=_count(runner, tasks, all_of_them))
            found[runner.name].append((runner.run(replace(tasks, count=1)), runner.run(many)))
    return found


def _count(runner: Runner, tasks: Tasks, all_of_them: bool) -> int:
    return tasks.count if all_of_them else max(tasks.count // runner.part, 20)


def rates(some: list[Runner], tasks: Tasks, rounds: int) -> None:
    """Print how many short tasks are run per second, and the cost of each."""
    found = measured(some, tasks, rounds, all_of_them=False)
    ours = 0.0
    rows = []
    for runner in some:
        count = _count(runner, tasks, False)
        runs = found[runner.name]
        start = min(one.wall for one, _ in runs)
        every = [(count - 1) / _without(start, many.wall) for _, many in runs]
        rate = statistics.median(every)
        whole = statistics.median(count / many.wall for _, many in runs)
        cpu = (min(many.cpu for _, many in runs) - min(one.cpu for one, _ in runs)) / (count - 1)
        ours = ours or rate
        cells = [f"{count:,}", f"{whole:,.0f}", f"{rate:,.0f}", f"{1e6 * cpu:,.0f} us", f"{1000 * start:,.0f} ms"]
        rows.append([runner.name, *cells, f"{ours / rate:.2f}", " ".join(f"{one:,.0f}" for one in every)])
        steady = [count / many.steady for _, many in runs if many.steady]
        if steady:
            rate = statistics.median(steady)
            cells = ["", "", f"{rate:,.0f}", "", "", "", " ".join(f"{one:,.0f}" for one in steady)]
            rows.append(["  first start to last end", *cells])
    title = f"{tasks.command}, {tasks.at_once} at once: tasks per second, median of {rounds}"
    header = ["", "tasks", "whole", "without start", "CPU of a task", "one task alone", "ours to theirs", "rounds"]
    table(title, header, rows)


def _without(start: float, wall: float) -> float:
    """Subtract the start-up time from a time: at most half of it, in case noise makes it look longer."""
    return wall - min(start, wall / 2)


def efficiency(some: list[Runner], tasks: Tasks, rounds: int) -> None:
    """Print how close a run of sleeping tasks comes to the shortest possible time."""
    found = measured(some, tasks, rounds, all_of_them=True)
    ideal = IDEAL * tasks.count / tasks.at_once
    rows = []
    for runner in some:
        runs = found[runner.name]
        start = min(one.wall for one, _ in runs) - IDEAL
        every = [ideal / _without(start, many.wall) for _, many in runs]
        whole = statistics.median(ideal / many.wall for _, many in runs)
        cells = [f"{whole:.2f}", f"{statistics.median(every):.2f}", " ".join(f"{one:.2f}" for one in every)]
        rows.append([runner.name, *cells])
        steady = [ideal / many.steady for _, many in runs if many.steady]
        if steady:
            cells = ["", f"{statistics.median(steady):.2f}", " ".join(f"{one:.2f}" for one in steady)]
            rows.append(["  first start to last end", *cells])
    title = f"{tasks.count} times {tasks.command}, {tasks.at_once} at once: ideal time to real time, median of {rounds}"
    table(title, ["", "whole", "without start", "rounds"], rows)


def resume(counts: list[int]) -> None:
    """Print how long it takes to resume a run that was killed when almost everything was done, and once more."""
    rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "tasks.txt")
            file.write_text("/bin/true\n" * count)
            _in_another_process("fill", file)
            for when in ("killed", "stopped"):
                took = _in_another_process("resume", file)
                memory = took.pop("memory")
                cells = [f"{seconds:.2f} s" for seconds in (*took.values(), sum(took.values()))]
                rows.append([f"{count:,}, {when}", *cells, f"{memory / 1e6:,.0f} MB"])
    header = [
        "tasks",
        "read workflow",
        "open journal",
        "what is left",
        "engine",
        "archive, sizes, ranks",
        "all",
        "memory",
    ]
    table(f"Resuming a run of which one task in {LEFT} is left", header, rows)


def _in_another_process(what: str, file: Path) -> dict[str, float]:
    words = [sys.executable, __file__, f"--{what}", str(file)]
    told = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
    return dict(json.loads(told)) if told else {}


def fill_journal(file: Path) -> None:
    """Leave a journal like that of a killed engine: all but a few tasks done, nothing in the archive."""
    prepared = _prepared(read(file))
    engine, journal = prepared.engine, prepared.journal
    used = Amounts.of(cores=0.5, memory=1e6, wall_time=0.01, cpu_time=0.005, processes=1)
    left = len(engine.tasks) // LEFT
    while engine.counts[State.READY] > left:
        starts = engine.admit()
        journal.started(starts, time.time())
        for start in starts:
            now = time.time()
            end = Ended(
                attempt=start.attempt, outcome=Outcome.DONE, used=used, started=now - 0.01, ended=now, exit_status=0
            )
            journal.ended(end, engine.ended(end))
        journal.commit()
    prepared.close()


def resume_journal(file: Path) -> None:
    """Resume a run, and print how long each part takes, in seconds, and the memory."""
    took = {}
    watch = StopWatch()
    workflow = read(file)
    took["read"] = watch.lap()
    prepared = _prepared(workflow)
    whole = watch.lap()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    prepared.close()
    watch.lap()
    journal = Journal(prepared.folder.journal)
    took["journal"] = watch.lap()
    left = recover(journal, prepared.files, prepared.folder, prepared.finished, prepared.backend)
    took["left"] = watch.lap()
    Engine(workflow.tasks, prepared.engine.learner, Room([prepared.machine]), workflow=workflow, done=left.done)
    took["engine"] = watch.lap()
    took["rest"] = whole - took["journal"] - took["left"] - took["engine"]
    journal.close()
    print(json.dumps({**took, "memory": memory}))


def _prepared(workflow: Workflow) -> RunSession:
    machine = {Resource.CORES: 64.0, Resource.MEMORY: 64e9, Resource.DISK: 64e9}
    archive = str(workflow.source.path) + ".db" if workflow.source else None
    return RunSession(workflow, Options(machine=machine, archive=archive))


class StopWatch:
    """Measures the time between its calls."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last call."""
        before, self._since = self._since, time.perf_counter()
        return self._since - before


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small numbers, only to see that it works")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--resume", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fill or given.resume:
        fill_journal(given.fill) if given.fill else resume_journal(given.resume)
        return
    quick = given.quick
    some = list(runners())
    for at_once in (8,) if quick else (8, 2):
        rates(some, Tasks(300 if quick else 10_000, at_once, "/bin/true"), 1 if quick else 5)
    efficiency(some[:3] if quick else some, Tasks(40 if quick else 200, 8, f"sleep {IDEAL}"), 1 if quick else 5)
    resume([10_000] if quick else [100_000, 1_000_000])


if __name__ == "__main__":
    main()
