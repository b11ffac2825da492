"""Runs the parts of the test suite one after another, and sums up what ran, what was skipped and how long it took.

``python tests/suite.py`` is `make test`; with ``rest`` it is `make test-all`, which runs everything that the former
leaves out. Every part runs, even if earlier ones failed; the exit status is 1 if any failed.

With ``coverage`` it is `make coverage`: the tests of `make test`, which also count the lines that they run. That takes
a quarter longer, so `make test` does it in CI only.
"""

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

_TOP = Path(__file__).resolve().parents[1]
_CORES = len(os.sched_getaffinity(0))
_SLOWEST = 20
_BUDGET = """\
Budget: on two quiet cores make test takes at most 7 minutes, and .ci/run (make test, test-all and demo) at most 22.
A change of the size of an issue adds at most 15 s to make test and 90 s to make test-all; the rest goes to soak."""


@dataclass(frozen=True)
class Part:
    """A part of the suite: a command that must succeed."""

    name: str
    command: Sequence[str]


def _make(name: str, target: str) -> Part:
    return Part(name, ["make", "--no-print-directory", target])


def _pytest(name: str, marks: str, *options: str) -> Part:
    return Part(name, [sys.executable, "-m", "pytest", "-q", "-m", marks, *options])


def _side_by_side(workers: int) -> tuple[str, ...]:
    # Workers start with neighbouring tests, which share servers, and steal from each other at the end.
    return ("-n", str(workers), "--dist", "worksteal")


_TEST = (
    _make("lint and types", "lint"),
    _pytest("tests", "not (long or browser or cluster)", *_side_by_side(_CORES)),
)
_COVERAGE = (_pytest("tests", "not (long or browser or cluster)", *_side_by_side(_CORES), "--cov=tonnage"),)
_REST = (
    _pytest("on clusters", "cluster", *_side_by_side(_CORES + 1), "tests/slurm", "tests/htcondor"),  # they mostly wait
    _pytest("long forms and browsers", "(long or browser) and not cluster", *_side_by_side(_CORES)),
    _make("documentation", "docs"),
    _make("benchmarks in short", "bench-quick"),
)


@dataclass
class Result:
    """The result of a part."""

    name: str
    failed: bool = False
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    covered: Counter[str] = field(default_factory=Counter)
    """Lines that the tests ran, by room."""
    lines: Counter[str] = field(default_factory=Counter)


def main() -> int:
    """Run the parts, print the summary, and return the exit status."""
    wanted = sys.argv[1:]
    parts = {(): _TEST, ("rest",): _REST, ("coverage",): _COVERAGE}.get(tuple(wanted))
    if parts is None:
        sys.exit("usage: python tests/suite.py [rest | coverage]")
    if parts is _TEST and os.environ.get("TONNAGE_CI"):
        parts = (*(part for part in _TEST if part.name != "tests"), *_COVERAGE)
    results = [_run(part) for part in parts]
    _print_summary(results)
    return 1 if any(result.failed for result in results) else 0


def _run(part: Part) -> Result:
    sys.stdout.write(f"\n== {part.name}\n")
    sys.stdout.flush()
    result, begun = Result(part.name), time.monotonic()
    with TemporaryDirectory() as folder:
        report, coverage = Path(folder) / "junit.xml", Path(folder) / "coverage.json"
        words = [*part.command, f"--junitxml={report}"] if "pytest" in part.command else list(part.command)
        if "--cov=tonnage" in words:
            words.append(f"--cov-report=json:{coverage}")
        own = {**os.environ, "COVERAGE_FILE": str(Path(folder) / "coverage")}  # nothing stays in the work tree
        result.failed = subprocess.run(words, cwd=_TOP, env=own, check=False).returncode != 0
        if report.exists():
            _read_report(report, result)
        if coverage.exists():
            _read_coverage(coverage, result)
    result.seconds = time.monotonic() - begun
    return result


def _read_report(report: Path, result: Result) -> None:
    """Read pytest's results (our own file, so nothing in it is hostile)."""
    for case in ET.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        kind = next((one for one in ("failure", "error", "skipped") if one in kinds), "passed")
        result.counts["failed" if kind in ("failure", "error") else kind] += 1
        result.slowest.append((float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}"))
        for skipped in case.iter("skipped"):
            result.left_out[skipped.get("message", "").removeprefix("Skipped: ")] += 1


def _read_coverage(report: Path, result: Result) -> None:
    for path, facts in json.loads(report.read_text())["files"].items():
        room = Path(path).relative_to("src/tonnage").parts[0]
        result.covered[room] += facts["summary"]["covered_lines"]
        result.lines[room] += facts["summary"]["num_statements"]


def _coverage(result: Result) -> list[str]:
    """Return how much of each room the tests run in their own processes; other processes do not count."""
    rooms = [f"{_percent(result.covered[room], count):>7}    {room}" for room, count in sorted(result.lines.items())]
    total = _percent(result.covered.total(), result.lines.total())
    return ["", "Lines of code that tests ran in their own processes", *rooms, f"{total:>7}    in all"]


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _print_summary(results: list[Result]) -> None:
    counts, left_out = Counter[str](), Counter[str]()
    for result in results:
        counts += result.counts
        left_out += result.left_out
    lines = ["", f"The {_SLOWEST} slowest tests"]
    for seconds, name in sorted((one for result in results for one in result.slowest), reverse=True)[:_SLOWEST]:
        lines.append(f"{seconds:7.1f} s  {name[:150]}")
    lines += ["", "Left out" if left_out else "Nothing was left out"]
    lines += [f"{count:7,}    {reason}" for reason, count in left_out.most_common()]
    lines += [line for result in results if result.lines for line in _coverage(result)]
    lines += ["", "Parts"]
    for result in results:
        ran = ", ".join(f"{number:,} {kind}" for kind, number in sorted(result.counts.items())) or "no tests"
        lines.append(f"{result.seconds:7.0f} s  {'FAILED' if result.failed else 'ok':6}  {result.name} ({ran})")
    lines.append(f"{sum(result.seconds for result in results):7.0f} s  in all")
    lines += ["", _BUDGET, "", f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
