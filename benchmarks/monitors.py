"""Accuracy and cost of `tonnage watch`, next to no monitor, GNU time, con-duct and cctools, in the same run.

    python benchmarks/monitors.py [--quick]

Every command is run under every monitor in turn, repeatedly, so that all see the same noise; the differences and ratios
are what counts. CPU time is that of the monitor and the command together, as counted by the kernel.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ACTOR = HERE.parent / "tests" / "watch" / "programs" / "actor.c"
MB = 2**20

# What a program does (see actor.c), and its peak memory in MB of 2^20 bytes.
CASES = {
    "child of 100 MB, lives 0.12 s": ("fork { take 100 hold 0.1 } wait hold 0.3", 101),
    "500 MB, freed, then idle": ("take 500 free hold 1.5", 501),
    "4 at once, 150 MB, 50 ms each": ("fork { take 150 hold 0.05 } " * 4 + "wait", 601),
    "200 MB shared, 4 x 100 MB own": ("take 200 " + "fork { take 100 hold 0.5 } " * 4 + "wait", 602),
    "daemon of 300 MB": ("daemon { take 300 hold 0.5 } hold 1", 301),
    "daemon, its parent ends at once": ("daemon { take 300 hold 0.5 }", 301),
    "forked from a thread, 500 MB": ("thread { take 500 hold 0.3 } hold 0.5", 501),
}


@dataclass(frozen=True)
class Spent:
    """The cost of one run, and the peak reported by its monitor, in MB."""

    wall: float
    cpu: float
    peak: float | None


@dataclass(frozen=True)
class Monitor:
    """A way to run a command."""

    name: str
    words: Callable[[Path], list[str]]
    peak: Callable[[Path], float | None]

    def run(self, command: list[str]) -> Spent:
        """Run a command in an empty folder."""
        with tempfile.TemporaryDirectory() as place:
            output = Path(place, "output")
            work = Path(place, "work")
            work.mkdir()
            start = time.perf_counter()
            with Path(place, "stderr").open("w") as stderr:
                process = subprocess.Popen([*self.words(output), *command], cwd=work, stderr=stderr, stdout=stderr)
                _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0  # already reaped
            wall = time.perf_counter() - start
            return Spent(wall, usage.ru_utime + usage.ru_stime, self.peak(output))


def _conduct_peak(path: Path) -> float | None:
    peak: float | None = json.loads(path.read_text())["execution_summary"]["peak_rss"]  # null: no sample was taken
    return None if peak is None else peak / MB


def monitors() -> Iterator[Monitor]:
    """Yield no monitor, ours, and the other monitors that are installed."""
    yield Monitor("none", lambda _: [], lambda _: None)
    tonnage = str(Path(sys.executable).parent / "tonnage")
    yield Monitor(
        "tonnage",
        lambda output: [tonnage, "watch", "--summary", f"{output}.json", "--"],
        lambda output: json.loads(Path(f"{output}.json").read_text())["memory"][0],
    )
    if shutil.which("time", path="/usr/bin"):
        yield Monitor(
            "GNU time",
            lambda output: ["/usr/bin/time", "-f", "%M", "-o", str(output)],
            lambda output: float(output.read_text().split()[-1]) / 1024,
        )
    duct = shutil.which("con-duct", path=str(Path(sys.executable).parent))
    if duct:
        yield Monitor(
            "con-duct",
            lambda output: [duct, "run", "-l", "NONE", "-p", f"{output}_", "--"],
            lambda output: _conduct_peak(Path(f"{output}_info.json")),
        )
    cctools = shutil.which("resource_monitor")
    if cctools:
        yield Monitor(
            "cctools",
            lambda output: [cctools, "-O", str(output), "--"],
            lambda output: float(json.loads(Path(f"{output}.summary").read_text())["memory"][0]),
        )


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    print(f"\n{title}")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ", row[0].ljust(widths[0]), "  ", "  ".join(cells[1:]), sep="")


def accuracy(actor: str, cases: dict[str, tuple[str, int]], rounds: int) -> None:
    """Print the peaks reported by each monitor."""
    some = [monitor for monitor in monitors() if monitor.name != "none"]
    rows = []
    for case, (words, truth) in cases.items():
        found = {}
        for monitor in some:
            peaks = [monitor.run([actor, *words.split()]).peak or 0 for _ in range(rounds)]
            low, high = round(min(peaks)), round(max(peaks))
            found[monitor.name] = f"{low}" if low == high else f"{low}-{high}"
        rows.append([case, str(truth), *(found[monitor.name] for monitor in some)])
    table(f"Peak memory, MB ({rounds} runs)", ["", "truth", *(monitor.name for monitor in some)], rows)


def rounds_of(command: list[str], rounds: int) -> dict[str, list[Spent]]:
    """Run a command under every monitor in turn, several times."""
    spent: dict[str, list[Spent]] = {monitor.name: [] for monitor in monitors()}
    for _ in range(rounds):
        for monitor in monitors():
            spent[monitor.name].append(monitor.run(command))
    return spent


def many_processes(count: int, program: list[str], rounds: int) -> None:
    """Print the cost of monitoring many short processes; the minimum of several runs has the least noise."""
    script = f"i=0; while [ $i -lt {count} ]; do {' '.join(program)}; i=$((i+1)); done"
    spent = rounds_of(["/bin/sh", "-c", script], rounds)
    bare = min(one.cpu for one in spent["none"])
    rows = []
    for name, runs in spent.items():
        cpu = min(one.cpu for one in runs)
        rows.append([name, f"{cpu:.2f} s", f"{100 * (cpu / bare - 1):+.1f} %"])
    title = f"{count:,} processes of {program[0]}, {1000 * bare / count:.1f} ms of CPU each: least of {rounds}"
    table(title, ["", "CPU", "over none"], rows)


def sleeping_tree(count: int, seconds: float) -> None:
    """Print the cost of monitoring a large, idle tree."""
    script = f"for i in $(seq {count}); do sleep {seconds} & done; wait"
    spent = rounds_of(["/bin/sh", "-c", script], 1)
    bare = spent["none"][0]
    rows = []
    for name, (run,) in spent.items():
        rows.append([name, f"{run.cpu:.2f} s", f"{100 * (run.cpu - bare.cpu) / run.wall:.1f} %"])
    table(f"{count} sleeping processes for {seconds:g} s", ["", "CPU", "of a core, over none"], rows)


def start_up(rounds: int) -> None:
    """Print the time that each monitor adds to a command that does nothing."""
    spent = rounds_of(["/bin/true"], rounds)
    python = statistics.median(_seconds([sys.executable, "-ISE", "-c", "pass"]) for _ in range(rounds))
    bare = statistics.median(run.wall for run in spent["none"])

    def row(name: str, wall: float) -> list[str]:
        return [name, f"{1000 * wall:.1f} ms", f"{1000 * (wall - bare):+.1f} ms", f"{wall / python:.1f}"]

    rows = [row("python -ISE -c pass", python)]
    rows += [row(name, statistics.median(run.wall for run in runs)) for name, runs in spent.items()]
    # The kernel enables its performance records for the first user and disables them a second after the last.
    alone = next(monitor for monitor in monitors() if monitor.name == "tonnage")
    walls = []
    for _ in range(1 + rounds // 5):
        time.sleep(2.5)
        walls.append(alone.run(["/bin/true"]).wall)
    wall = statistics.median(walls)
    rows.append(row("tonnage, nothing before", wall))
    table(f"Around /bin/true, median of {rounds}", ["", "wall", "over none", "of python's start"], rows)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def own_memory() -> None:
    """Print the memory of the monitors themselves, with shared pages divided."""
    rows = []
    for monitor in monitors():
        if monitor.name == "none":
            continue
        with tempfile.TemporaryDirectory() as place:
            words = monitor.words(Path(place, "output"))
            silent = subprocess.DEVNULL
            process = subprocess.Popen([*words, "sleep", "2"], stdout=silent, stderr=silent)
            time.sleep(1.2)
            size = sum(_share(pid) for pid in _processes(process.pid))
            process.wait()
        rows.append([monitor.name, f"{size / 1000:.1f} MB"])
    table("Own memory", ["", "of all its processes"], rows)


def _processes(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, except the watched sleep."""
    if Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
        yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _processes(int(child))


def _share(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("Pss:"))


def overshoot(actor: str, rounds: int) -> None:
    """Print by how much a growing program exceeds a limit of 300 MB before it is stopped."""
    tonnage = str(Path(sys.executable).parent / "tonnage")
    rows = []
    for rate in (100, 500, 1500):
        over = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as place:
                path = Path(place, "s.json")
                words = [tonnage, "watch", "--limit", "memory=300MiB", "--summary", str(path), "--"]
                command = [*words, actor, "grow", "2000", str(rate)]
                subprocess.run(command, stderr=subprocess.DEVNULL, check=False, cwd=place)
                over.append(json.loads(path.read_text())["memory"][0] - 300)
        rows.append([f"{rate} MB/s", f"{statistics.median(over):.1f} MB", f"{max(over):.1f} MB"])
    table(f"A limit of 300 MB, passed by ({rounds} runs)", ["growth", "median", "most"], rows)


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small numbers, only to see that it works")
    quick = parser.parse_args().quick
    print("monitors:", ", ".join(monitor.name for monitor in monitors()))
    with tempfile.TemporaryDirectory() as place:
        actor = str(Path(place, "actor"))
        subprocess.run(["cc", "-O2", "-o", actor, ACTOR, "-pthread"], check=True)
        start_up(2 if quick else 21)
        own_memory()
        many_processes(100 if quick else 2000, ["/bin/true"], 1 if quick else 9)
        many_processes(50 if quick else 2000, ["/usr/bin/perl", "-e", "1"], 1 if quick else 5)
        sleeping_tree(50 if quick else 500, 1 if quick else 30)
        overshoot(actor, 1 if quick else 5)
        accuracy(actor, dict(list(CASES.items())[:1]) if quick else CASES, 1 if quick else 3)


if __name__ == "__main__":
    main()
