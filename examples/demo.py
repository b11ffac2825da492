"""What `make demo` runs: Tonnage on real workflows that ship with it, each command printed before its output."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from survey.survey import make

from tonnage.archive import Archive, Search, find
from tonnage.cli.tables import print_table
from tonnage.jobs import Amounts, Outcome, Resource
from tonnage.run.folders import runs_of
from tonnage.run.state import Summary, state_of
from tonnage.units import format_seconds
from tonnage.workflow import read, write

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
OUTPUT = TOP / "demo"
SURVEY = OUTPUT / "survey"
MACHINE = "cores=12,memory=1GB"
MARGIN = 1.03  # what the oracle adds to a peak: no two runs of a program use the same to a byte


def tonnage(*arguments: str) -> None:
    """Print a command as a user would type it, and run it."""
    print(f"\n$ tonnage {shlex.join(arguments)}\n", flush=True)
    subprocess.run([sys.executable, "-m", "tonnage", *arguments], check=True, cwd=TOP)


def run(workflow: str, *, size: str, archive: str) -> Summary:
    """Run a workflow, and return what came of it."""
    shown = () if sys.stderr.isatty() else ("--quiet",)
    path = f"demo/survey/{workflow}"
    tonnage("run", path, "--size", size, "--machine", MACHINE, "--archive", f"demo/survey/{archive}", *shown)
    return state_of(next(runs_of(SURVEY))).summary


def write_oracle() -> None:
    """Write the survey once more, its tasks asking for what they are known to need."""
    workflow = read(SURVEY / "survey.mf")
    peaks: dict[str, float] = {}
    with Archive.open(str(SURVEY / "learnt.db")) as archive:
        for attempt in find(archive, Search(workflow=workflow.checksum)):
            if attempt.task and attempt.outcome is Outcome.DONE and attempt.used.memory:
                peaks[attempt.task] = max(peaks.get(attempt.task, 0.0), attempt.used.memory)
    little = 10**8  # of disk, of which there is enough
    requests = {name: Amounts.of(cores=1, memory=peak * MARGIN, disk=little) for name, peak in peaks.items()}
    write(workflow.with_requests(requests), SURVEY / "oracle.mf")


def show() -> None:
    """Show and draw a workflow, and make one with the structure of a published application."""
    print("A workflow of 26 jobs that counts DNA k-mers, written for HTCondor's DAGMan with two splices:")
    tonnage("show", "examples/kmers/kmers.dag", "--dot", "demo/kmers.dot")
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "demo/kmers.dot", "-o", "demo/kmers.svg"], check=True, cwd=TOP)
        print("\nIts picture: demo/kmers.svg")
    else:
        print("\nIts picture, for Graphviz: demo/kmers.dot")
    print("\nThe same for a mosaic of the sky, generated with run times from stated distributions:")
    tonnage("generate", "montage", "--tasks", "500", "--seed", "1", "-o", "demo/montage.json")
    tonnage("show", "demo/montage.json")


def learn() -> None:
    """Import a job log, and say how much to give the next jobs, by their categories or by what they used."""
    print("\nAn archive remembers what jobs used, also those of other tools, and says how much to give the next:")
    tonnage("generate", "jobs", "--peaks", "trimodal", "-o", "demo/jobs.csv")
    tonnage("archive", "import", "demo/jobs.csv", "--archive", "demo/archive.db")
    tonnage("size", "demo/archive.db", "--machine", "cores=16,memory=64GB,disk=100GB", "--resource", "memory")
    print("\nKinds of jobs can also be found by what they used, whatever they are called:")
    tonnage("discover", "demo/jobs.csv")


def execute() -> None:
    """Run a survey of real processes: with whole machines, twice with what was learnt, and with all peaks known."""
    shutil.rmtree(SURVEY, ignore_errors=True)
    make(SURVEY, speed=1.5)
    print("\nNow real processes: a survey of the sky, whose tasks use 15 to 600 MB and do not say so (see")
    print("examples/survey). They mostly wait, so that memory limits how many run at once, whatever this machine has.")
    tonnage("show", "demo/survey/survey.mf")
    print("\nWithout any sizes, each task gets the whole machine (this takes a minute):")
    whole = run("survey.mf", size="whole-machine", archive="others.db")
    print("\nTonnage's first run: nothing is known at first, and it learns from every task that ends:")
    first = run("survey.mf", size="auto", archive="learnt.db")
    print("\nThe second run begins with what the first has learnt:")
    second = run("survey.mf", size="auto", archive="learnt.db")
    print("\nAnd an oracle: every task asks for the peak that was measured, and 3 % more:")
    write_oracle()
    oracle = run("oracle.mf", size="declared", archive="others.db")
    print()
    compare({"whole machines": whole, "first run": first, "second run": second, "oracle": oracle})
    print(f"\nThe second run is {whole.seconds / second.seconds:.2f} times faster than whole machines")
    print(f"and takes {second.seconds / oracle.seconds:.2f} times as long as the oracle.")


def compare(runs: dict[str, Summary]) -> None:
    """Print runs of the same tasks side by side."""
    header = ["", "makespan", "memory wasted", "attempts", "tasks retried"]
    rows = []
    for name, one in runs.items():
        waste = one.accounts[Resource.MEMORY].waste_fraction or 0.0
        rows.append([name, format_seconds(round(one.seconds, 1)), f"{waste:.0%}", f"{one.attempts}", f"{one.retried}"])
    print_table(header, rows, right=header[1:])


def main() -> None:
    """Show workflows, learn from a log, and run a survey."""
    OUTPUT.mkdir(exist_ok=True)
    show()
    learn()
    execute()


if __name__ == "__main__":
    main()
