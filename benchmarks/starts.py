"""How long one task alone takes, from the command to the prompt, next to an interpreter that does nothing.

    python benchmarks/starts.py [--quick]

A run of /bin/true is nearly all start and end: reading the workflow, deciding, one journal, one minder, one row in the
archive. It takes turns with the others, round after round, so that all have the same noise; the least of all rounds is
what it costs on a quiet machine, and the ratio is the median of the rounds'.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tonnage.logs import synthetic

GOAL = 0.4  # seconds, on a quiet machine
TONNAGE = [sys.executable, "-m", "tonnage"]


def prepare(place: Path, jobs: int) -> None:
    """Write a list of one command, and an archive of many jobs of others."""
    (place / "one.txt").write_text("/bin/true\n")
    log = place / "jobs.csv"
    log.write_text(synthetic.render(synthetic.generate("trimodal", jobs, categories=30, spread=0.5)))
    words = [*TONNAGE, "archive", "import", str(log), "--archive", str(place / "large.db")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(_run(place, "known.db"), check=True, cwd=place, stdout=subprocess.DEVNULL)


def _run(place: Path, archive: str) -> list[str]:
    return [*TONNAGE, "run", "one.txt", "--new", "--quiet", "--archive", str(place / archive)]


def programs(place: Path, jobs: int) -> dict[str, Callable[[int], list[str]]]:
    """Return what is compared; each is told the number of the round."""
    return {
        "python -c pass": lambda _: [sys.executable, "-c", "pass"],
        "tonnage --help": lambda _: [*TONNAGE, "--help"],
        "tonnage watch": lambda _: [*TONNAGE, "watch", "--", "/bin/true"],
        "tonnage run, a new archive": lambda number: _run(place, f"new-{number}.db"),
        "tonnage run, the task is known": lambda _: _run(place, "known.db"),
        f"tonnage run, {jobs:,} other jobs": lambda _: _run(place, "large.db"),
    }


def seconds(words: list[str], place: Path) -> float:
    """Run a program; return how long it takes."""
    start = time.perf_counter()
    subprocess.run(words, cwd=place, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small numbers, only to see that it works")
    quick = parser.parse_args().quick
    jobs, rounds = (1_000, 2) if quick else (100_000, 15)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        prepare(place, jobs)
        compared = programs(place, jobs)
        found: dict[str, list[float]] = {name: [] for name in compared}
        for number in range(rounds):
            for name, words in compared.items():
                found[name].append(seconds(words(number), place))
    print(f"One task alone, {rounds} rounds (goal: at most {GOAL} s for a run, on a quiet machine)")
    print(f"  {'':34}  {'least':>7}  {'median':>7}  to python -c pass")
    nothing = found["python -c pass"]
    for name, times in found.items():
        ratio = statistics.median(one / none for one, none in zip(times, nothing, strict=True))
        print(f"  {name:34}  {min(times):5.3f} s  {statistics.median(times):5.3f} s  {ratio:.1f}")


if __name__ == "__main__":
    main()
