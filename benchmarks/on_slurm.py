"""`tonnage run --on slurm` on a real Slurm started for the purpose, next to the alternatives, in the same run.

    python benchmarks/on_slurm.py [--quick] [deep] [bag] [calls] [packed]

deep    A deep workflow among other users' jobs. Each strategy and seed has its own cluster, all at the same time; those
        of a seed get the same stream of other jobs: random widths, lengths and limits, about as much work as the nodes
        can do, and a queue from the beginning. The archive has the run times from a run on an idle cluster. Once with a
        scheduler that runs every second, and once with Slurm's defaults (it backfills every 30 s).
bag     Tasks that fill memory, right-sized and with a whole node each.
calls   How often Slurm's programs are called for many short tasks, and how fast these are done, next to a loop of
        sbatch and to one handwritten job array, which is the fastest possible.
packed  Short tasks in one packed batch job, next to a job array and to a loop of sbatch.

All nodes are on this machine: the programs that start tasks compete with them for its cores.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tonnage.run.journal import Reader

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.slurm.cluster import SlurmCluster, missing  # the tests are not installed

PROGRAMS = ("sbatch", "squeue", "scontrol", "sacct", "scancel", "sinfo", "sacctmgr", "srun")
EVERY_SECOND: dict[str, str] = {}
AS_DELIVERED = {"SchedulerParameters": "bf_interval=30,sched_interval=60,batch_sched_delay=3"}
SCHEDULERS = {"looks every second": (EVERY_SECOND, 1.0), "Slurm's defaults": (AS_DELIVERED, 0.7)}
"""Options, and how much work arrives: if Slurm schedules rarely, nodes idle meanwhile, and the queue would grow."""


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    print(f"\n{title}")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ", row[0].ljust(widths[0]), "  ", "  ".join(cells[1:]), sep="", flush=True)


# A cluster, and Tonnage on it


@dataclass(frozen=True, slots=True)
class Span:
    """When something was submitted, when its first task started and when its last one ended."""

    submitted: float
    first: float
    last: float
    jobs: int = 0
    """The number of its batch jobs."""

    @property
    def whole(self) -> float:
        """Seconds from the submission to the last end."""
        return self.last - self.submitted

    @property
    def running(self) -> float:
        """Seconds from the first start to the last end."""
        return self.last - self.first


@contextmanager
def cluster(
    nodes: int, cpus: int = 4, memory_mib: int = 2000, options: Mapping[str, str] = EVERY_SECOND
) -> Iterator[SlurmCluster]:
    """Start a cluster in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tonnage-bench-") as name:
        partition = "main DefaultTime=5 MaxTime=60"  # as on most clusters, there is a default time limit
        place = Path(name)
        with SlurmCluster(
            place, nodes=nodes, cpus=cpus, memory_mib=memory_mib, options=options, partitions=(partition,)
        ) as it:
            yield it


def tonnage(slurm: SlurmCluster, workflow: str, name: str, archive: Path, *options: str, path: str = "") -> Span:
    """Run a workflow in an empty folder; programs are searched in `path` first."""
    submitted = time.time()
    told = call(slurm, workflow, name, archive, *options, path=path)
    with closing(Reader(Path(json.loads(told)["folder"], "journal.db"))) as journal:
        first, last = journal.read("SELECT min(started), max(ended) FROM attempts")[0]
        jobs = journal.read("SELECT count(*) FROM batch_jobs")[0][0]
    return Span(submitted, first, last, jobs)


def call(slurm: SlurmCluster, workflow: str, name: str, archive: Path, *options: str, path: str = "") -> str:
    """Call tonnage run, and return what it prints."""
    folder = Path(tempfile.mkdtemp(dir=slurm.folder))
    (folder / name).write_text(workflow)
    variables = {"PATH": f"{path}:{os.environ['PATH']}".lstrip(":"), "TONNAGE_ARCHIVE": str(archive)}
    words = [sys.executable, "-m", "tonnage", "run", name, "--on", "slurm", "--quiet", "--json", *options]
    ended = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **slurm.environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(f"{' '.join(words)} failed: {ended.stdout[-1000:]}{ended.stderr[-2000:]}")
    return ended.stdout


# Scripts that a user might write: each task records when it started and ended


def note(slurm: SlurmCluster, command: str) -> tuple[Path, Path]:
    """Return a script that runs a command and records the time before and after it, and the file with these times."""
    folder = Path(tempfile.mkdtemp(dir=slurm.folder))
    script, notes = folder / "script", folder / "notes"
    script.write_text(f"#!/bin/bash\necho $EPOCHREALTIME >>{notes}\n{command}\necho $EPOCHREALTIME >>{notes}\n")
    notes.touch()
    return script, notes


def noted(notes: Path, submitted: float, tasks: int, jobs: int) -> Span:
    """Wait until all tasks have recorded their end."""
    while notes.read_bytes().count(b"\n") < 2 * tasks:
        time.sleep(0.1)
    times = [float(line) for line in notes.read_text().split()]
    return Span(submitted, min(times), max(times), jobs)


def by_array(slurm: SlurmCluster, command: str, tasks: int) -> Span:
    """Run a command this many times as one job array."""
    script, notes = note(slurm, command)
    submitted = time.time()
    slurm.command("sbatch", "--mem=32M", "--output=/dev/null", f"--array=1-{tasks}", str(script))
    return noted(notes, submitted, tasks, 1)


def by_loop(slurm: SlurmCluster, command: str, tasks: int) -> Span:
    """Run a command this many times, each as a separate job."""
    script, notes = note(slurm, command)
    submitted = time.time()
    for _ in range(tasks):
        slurm.command("sbatch", "--mem=32M", "--output=/dev/null", str(script))
    return noted(notes, submitted, tasks, tasks)


# A deep workflow among other users' jobs


@dataclass(frozen=True, slots=True)
class Job:
    """A job of another user."""

    arrives: float
    nodes: int
    cores: int
    """0: whole nodes."""
    seconds: float
    minutes: int


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the experiment is."""

    levels: int
    width: int
    task: float
    """The mean run time of a task, in seconds; they vary by half of it."""
    nodes: int
    backlog: float
    """Seconds of work queued for all nodes when the workflow is submitted."""
    load: float
    """How much work arrives per second, as a fraction of what all nodes can do."""
    longest: float
    """Of other users' jobs, in seconds."""


def deep(shape: Shape, seed: int) -> str:
    """Return a Makeflow workflow of levels in which each task needs two of the level before."""
    draw = random.Random(seed)
    lines = []
    for level in range(shape.levels):
        lines.append(f"CATEGORY=level{level}")
        for number in range(shape.width):
            parents = draw.sample(range(shape.width), min(2, shape.width)) if level else []
            inputs = " ".join(f"t{level - 1}.{parent}" for parent in parents)
            name = f"t{level}.{number}"
            lines.append(f"{name}: {inputs}\n\tsleep {shape.task * draw.uniform(0.5, 1.5):.1f}; touch {name}")
    return "\n".join(lines) + "\n"


def others(shape: Shape, seed: int, horizon: float) -> list[Job]:
    """Return other users' jobs: some at the beginning, the rest over time."""
    draw = random.Random(seed)
    jobs: list[Job] = []
    work, now = 0.0, 0.0
    while now < horizon:
        small = draw.random() < 0.5
        nodes, cores = (1, draw.choice((1, 2, 4))) if small else (draw.choice((1, 1, 2, 2, 3)), 0)
        seconds = draw.uniform(shape.longest / 6, shape.longest)
        limit = max(1, round(seconds * draw.choice((1, 2, 5)) / 60 + 0.5))
        size = seconds * (cores / 4 if cores else nodes) / shape.nodes  # seconds of the whole cluster
        if work + size > shape.backlog:
            now += draw.expovariate(1 / (size / shape.load))
        else:
            work += size
        jobs.append(Job(now, nodes, cores, seconds, limit))
    return jobs


class Feeder(threading.Thread):
    """Submits other users' jobs as they arrive, until stopped."""

    def __init__(self, slurm: SlurmCluster, jobs: Sequence[Job]) -> None:
        super().__init__(daemon=True)
        self._slurm = slurm
        self._jobs = jobs
        self._stop_now = threading.Event()
        self.filled = threading.Event()
        """Set once the initial jobs have been submitted."""

    def run(self) -> None:
        """Submit the jobs at their times."""
        begun: float | None = None
        for job in self._jobs:
            if job.arrives and begun is None:
                begun = time.monotonic()
                self.filled.set()
            if begun is not None and self._stop_now.wait(max(0.0, begun + job.arrives - time.monotonic())):
                return
            size = [f"--cpus-per-task={job.cores}", f"--mem={200 * job.cores}M"] if job.cores else ["--exclusive"]
            words = [f"--nodes={job.nodes}", f"--time={job.minutes}", f"--wrap=sleep {job.seconds:.1f}"]
            self._slurm.command("sbatch", "--output=/dev/null", *size, *words)

    def stop(self) -> None:
        """Stop submitting."""
        self._stop_now.set()
        self.join()


def crossing(
    shape: Shape, seed: int, strategy: str, archive: Path, options: Mapping[str, str]
) -> tuple[Span, list[int]]:
    """Run a workflow among other users' jobs; also return how many of those wait, every two seconds."""
    with cluster(shape.nodes, options=options) as slurm:
        own = slurm.folder / "archive.db"
        shutil.copy(archive, own)
        feeder = Feeder(slurm, others(shape, seed, 1000))
        feeder.start()
        feeder.filled.wait()
        time.sleep(2)
        waiting: list[int] = []
        done = threading.Event()

        def look() -> None:
            while not done.wait(2):
                waiting.append(len(slurm.command("squeue", "-h", "-r", "-t", "PD", "-n", "wrap").split("\n")) - 1)

        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            try:
                found = tonnage(slurm, deep(shape, 0), "deep.mf", own, "--pack", strategy)
            finally:
                done.set()
            looking.result()
        feeder.stop()
        return found, waiting or [0]


def deep_among_others(shape: Shape, strategies: Sequence[str], seeds: Sequence[int], schedulers: Sequence[str]) -> None:
    """Print makespans of a deep workflow among other users' jobs."""
    with tempfile.TemporaryDirectory() as place:
        archive = Path(place, "archive.db")
        with cluster(shape.nodes) as slurm:
            learnt = tonnage(slurm, deep(shape, 0), "deep.mf", archive)
            other = Path(place, "other.db")
            shutil.copy(archive, other)
            call(slurm, deep(shape, 0), "deep.mf", other, "--pack", "glume", "--dry-run")  # compiles packers once
            alone = tonnage(slurm, deep(shape, 0), "deep.mf", other, "--pack", "glume")
        size = f"{shape.levels} levels with {shape.width} tasks of about {shape.task:g} s"
        print(f"\nA workflow of {size}, on {shape.nodes} nodes of 4 cores.")
        print(f"Alone on an idle cluster: {learnt.whole:.1f} s per-task, {alone.whole:.1f} s with glume.", flush=True)
        for scheduler in schedulers:
            every: dict[str, list[float]] = {name: [] for name in strategies}
            rows = []
            options, part = SCHEDULERS[scheduler]
            own = replace(shape, load=part * shape.load)
            pairs = [(seed, name) for seed in seeds for name in strategies]
            with ThreadPoolExecutor(len(pairs)) as pool:
                running = [pool.submit(crossing, own, *pair, archive, options) for pair in pairs]
                found = {pair: one.result() for pair, one in zip(pairs, running, strict=True)}
            for (seed, name), (span, waiting) in found.items():
                base = found[seed, "per-task"][0].whole
                every[name].append(span.whole / base)
                cells = [f"{span.whole:.1f} s", f"{span.first - span.submitted:.1f} s", str(span.jobs)]
                rows.append([f"seed {seed}: {name}", *cells, _waited(waiting), f"{base / span.whole:.2f}"])
            for name in strategies:
                mean = statistics.geometric_mean(every[name])
                rows.append([f"all seeds: {name}", "", "", "", "", f"{1 / mean:.2f}"])
            title = f"A deep workflow among others' jobs, scheduler {scheduler}: from the submission to the last end"
            header = [
                "",
                "makespan",
                "first task after",
                "batch jobs",
                "others waiting: first, mean, last",
                "per-task to it",
            ]
            table(title, header, rows)


def _waited(waiting: Sequence[int]) -> str:
    return f"{waiting[0]}  {statistics.mean(waiting):.0f}  {waiting[-1]}"


# A bag of tasks that fill memory


def bag(tasks: int) -> str:
    """Return tasks that hold 100 to 400 MB for a second and a half."""
    draw = random.Random(1)
    hold = "import time; held = b'x' * {size}; time.sleep(1.5)"
    lines = [f'/usr/bin/python3 -S -c "{hold.format(size=draw.randint(100, 400) * 1_000_000)}"' for _ in range(tasks)]
    return "\n".join(["# category: hold", *lines]) + "\n"


def right_sized(tasks: int, nodes: int) -> None:
    """Print how fast a bag of tasks is done with a whole node each, and right-sized."""
    with cluster(nodes) as slurm:
        archive, other = slurm.folder / "archive.db", slurm.folder / "other.db"
        found = {
            "whole-machine": tonnage(slurm, bag(tasks), "bag.txt", other, "--size", "whole-machine"),
            "auto, nothing known": tonnage(slurm, bag(tasks), "bag.txt", archive, "--size", "auto"),
            "auto, after one run": tonnage(slurm, bag(tasks), "bag.txt", archive, "--size", "auto"),
        }
    base = found["whole-machine"].whole
    rows = [
        [name, f"{span.whole:.1f} s", f"{60 * tasks / span.whole:.0f}", str(span.jobs), f"{base / span.whole:.2f}"]
        for name, span in found.items()
    ]
    title = f"{tasks} tasks that hold 100 to 400 MB, on {nodes} nodes of 4 cores and 2000 MiB"
    table(title, ["--size", "whole", "tasks a minute", "batch jobs", "to whole-machine"], rows)


# How often Slurm's programs are called


def counting(folder: Path) -> tuple[Path, Path]:
    """Return a folder with wrappers of Slurm's programs that log each call, and the log."""
    programs, log = folder / "counted", folder / "calls"
    programs.mkdir()
    log.touch()
    for name in PROGRAMS:
        real = shutil.which(name)
        if real:
            file = programs / name
            file.write_text(f'#!/bin/bash\necho $EPOCHREALTIME {name} >>{log}\nexec {real} "$@"\n')
            file.chmod(0o755)
    return programs, log


def calls(tasks: int, nodes: int) -> None:
    """Print how often Slurm is called for many short tasks, and how fast they are done."""
    with cluster(nodes) as slurm:
        programs, log = counting(slurm.folder)
        command = "/bin/true"
        archive = slurm.folder / "archive.db"
        ours = tonnage(slurm, f"{command}\n" * tasks, "tasks.txt", archive, path=str(programs))
        lines = [line.split() for line in log.read_text().splitlines()]
        slurm.clear()
        array = by_array(slurm, command, tasks)
        slurm.clear()
        loop = by_loop(slurm, command, tasks)
    by_name = Counter(name for _, name in lines)
    by_second = Counter(int(float(moment)) for moment, _ in lines)
    rows = []
    for name, span, called, most in (
        ("tonnage run --pack per-task", ours, len(lines), str(max(by_second.values()))),
        ("a job array by hand", array, 1, "1"),
        ("a loop of sbatch", loop, tasks, "-"),
    ):
        rate = f"{called / span.whole:.2f}"
        cells = [f"{span.whole:.1f} s", f"{60 * tasks / span.whole:,.0f}", f"{called:,}", rate, most]
        rows.append([name, *cells, f"{array.whole / span.whole:.2f}"])
    header = ["", "whole", "tasks a minute", "calls", "calls/s", "most in a second", "speed to the array's"]
    table(f"{tasks:,} times {command} on {nodes} nodes of 4 cores: Slurm's programs called, and speed", header, rows)
    print("  by program:", ", ".join(f"{name} {count}" for name, count in by_name.most_common()))


# Packed speed


def packed(tasks: int, nodes: int) -> None:
    """Print how close short tasks in one packed batch job come to the shortest possible time."""
    seconds, slots = 0.2, 4 * nodes
    command = f"sleep {seconds}"
    ideal = seconds * -(-tasks // slots)
    with cluster(nodes) as slurm:
        archive = slurm.folder / "archive.db"
        tonnage(slurm, f"{command}\n" * 4, "tasks.txt", archive)
        call(slurm, f"{command}\n" * tasks, "tasks.txt", archive, "--pack", "one-job", "--dry-run")  # compiles packers
        found = {
            "tonnage run --pack one-job": tonnage(
                slurm, f"{command}\n" * tasks, "tasks.txt", archive, "--pack", "one-job"
            ),
            "a job array by hand": by_array(slurm, command, tasks),
            "a loop of sbatch": by_loop(slurm, command, tasks),
        }
    rows = [
        [name, f"{span.running:.2f} s", f"{span.running / ideal:.2f}", f"{span.whole:.2f} s", str(span.jobs)]
        for name, span in found.items()
    ]
    title = f"{tasks} times {command} on {nodes} nodes with 4 cores: ideal {ideal:.1f} s"
    table(title, ["", "first start to last end", "to ideal", "from the submission on", "batch jobs"], rows)


def main() -> None:
    """Print everything, or the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small numbers, only to see that it works")
    parser.add_argument("what", nargs="*", choices=["deep", "bag", "calls", "packed", []], help="a part of it")
    given = parser.parse_args()
    if reason := missing():
        print(f"No cluster can be started, and nothing is measured: {reason}")
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each task would compile its monitor
    quick, what = given.quick, given.what or ["deep", "bag", "calls", "packed"]
    if "deep" in what:
        if quick:
            shape = Shape(levels=3, width=3, task=0.6, nodes=4, backlog=2, load=0.5, longest=3)
            deep_among_others(shape, ("per-task", "glume"), (1,), list(SCHEDULERS)[:1])
        else:
            shape = Shape(levels=10, width=5, task=2, nodes=8, backlog=10, load=0.7, longest=10)
            deep_among_others(shape, ("per-task", "glume", "auto"), (1, 2, 3), list(SCHEDULERS))
    if "bag" in what:
        right_sized(*((6, 2) if quick else (96, 4)))
    if "calls" in what:
        calls(*((40, 4) if quick else (2_000, 8)))
    if "packed" in what:
        packed(*((48, 3) if quick else (300, 6)))


if __name__ == "__main__":
    main()
