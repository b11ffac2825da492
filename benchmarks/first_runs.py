"""How close runs of an unknown workflow come to an oracle: the demo's survey, knowing nothing, then once more.

    python benchmarks/first_runs.py [--quick] [--seeds N]

For each seed, the survey runs for the first time, for the second time, and with the measured peak of each task as its
request. Ended are tasks that were stopped or killed for memory; thrown away is their part of all task-seconds.

A virtual machine gives memory that it does not use back to its host, and getting it again takes seconds a gigabyte. So
before each run a process takes as much as the run may, and ends.
"""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tonnage.jobs import Outcome
from tonnage.run.folders import runs_of
from tonnage.run.journal import Reader
from tonnage.run.state import state_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from survey.oracle import write_oracle  # type: ignore[import-not-found]
from survey.survey import make  # type: ignore[import-not-found]

MACHINE = "cores=12,memory=1GB"
TAKE = "memory = bytearray(1_200_000_000); memory[::4096] = bytes(len(range(0, len(memory), 4096)))"


@dataclass(frozen=True)
class Run:
    """What came of a run."""

    seconds: float
    ended: int
    """Attempts that were ended for memory."""
    thrown_away: float
    """Their part of all task-seconds."""
    grown: int
    paused: int


def run(workflow: Path, archive: str, *options: str) -> Run:
    """Run a workflow once more."""
    words = [sys.executable, "-m", "tonnage", "run", str(workflow), "--new", "--quiet", "--machine", MACHINE]
    words += ["--archive", str(workflow.parent / archive), *options]
    subprocess.run([sys.executable, "-c", TAKE], check=True)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    folder = next(runs_of(workflow.parent))
    journal = Reader(folder.journal)
    rows = list(journal.rows())
    counts = dict(journal.read("SELECT action, count(DISTINCT attempt) FROM adjustments GROUP BY action"))
    journal.close()
    lost = [one for one in rows if one.outcome in (Outcome.EXHAUSTED, Outcome.PREEMPTED)]
    seconds = [sum((one.ended or 0.0) - one.started for one in some) for some in (lost, rows)]
    summary = state_of(folder).summary
    return Run(summary.seconds, len(lost), seconds[0] / seconds[1], counts.get("grow", 0), counts.get("pause", 0))


def survey(seed: int, fields: int, options: list[str]) -> tuple[Run, Run, Run]:
    """Run a survey for the first and the second time, and as an oracle would."""
    with TemporaryDirectory() as folder:
        path = make(Path(folder), fields=fields, speed=1.5, seed=seed)
        first = run(path, "learnt.db", *options)
        second = run(path, "learnt.db", *options)
        oracle = path.with_name("oracle.mf")
        write_oracle(path, path.with_name("learnt.db"), oracle)
        return first, second, run(oracle, "others.db", "--size", "declared", "--enforce", "strict")


def main() -> None:
    """Print ratios for each seed, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one seed, two fields of the sky")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--option", action="append", default=[], help="another option for both runs: --enforce=strict")
    given = parser.parse_args()
    seeds, fields = (1, 2) if given.quick else (given.seeds, 8)
    found = []
    print("seed    first  ended  thrown away  grown  paused   second  ended  thrown away  (makespans: of the oracle's)")
    for seed in range(1, seeds + 1):
        first, second, oracle = survey(seed, fields, given.option)
        row = [first.seconds / oracle.seconds, first.ended, first.thrown_away, first.grown, first.paused]
        row += [second.seconds / oracle.seconds, second.ended, second.thrown_away]
        found.append(row)
        show(str(seed), row)
    show("median", [median(column) for column in zip(*found, strict=True)])


def show(name: str, row: list[float]) -> None:
    """Print one line of the table."""
    first, ended, thrown, grown, paused, second, ended_again, thrown_again = row
    left = f"{name:6} {first:6.2f} {ended:6.0f} {thrown:12.1%} {grown:6.0f} {paused:7.0f}"
    print(f"{left}   {second:6.2f} {ended_again:6.0f} {thrown_again:12.1%}", flush=True)


if __name__ == "__main__":
    main()
