"""What `make demo` runs: Tonnage on real workflows that ship with it, each command printed before its output."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from survey.oracle import write_oracle
from survey.survey import make

from tonnage.cli.tables import print_table
from tonnage.jobs import Resource
from tonnage.run.folders import RunFolder, runs_of
from tonnage.run.state import Summary, state_of
from tonnage.units import format_seconds

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
OUTPUT = TOP / "demo"
SURVEY = OUTPUT / "survey"
MACHINE = "cores=12,memory=1GB"


def tonnage(*arguments: str) -> None:
    """Print a command as a user would type it, and run it."""
    print(f"\n$ tonnage {shlex.join(arguments)}\n", flush=True)
    subprocess.run([sys.executable, "-m", "tonnage", *arguments], check=True, cwd=TOP)


def run(workflow: str, *options: str, size: str, archive: str) -> Summary:
    """Run a workflow from its beginning, and return what came of it."""
    path, memory = f"demo/survey/{workflow}", f"demo/survey/{archive}"
    tonnage("run", path, "--new", "--size", size, "--machine", MACHINE, "--archive", memory, *options)
    return state_of(next(runs_of(SURVEY))).summary


def show() -> None:
    """Show and draw a workflow, and make one with the structure of a published application."""
    print("All of this takes about two minutes.")
    print("\nFirst, a workflow of 26 jobs that counts DNA k-mers, written for HTCondor's DAGMan:")
    tonnage("show", "examples/kmers/kmers.dag", "--dot", "demo/kmers.dot")
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "demo/kmers.dot", "-o", "demo/kmers.svg"], check=True, cwd=TOP)
        print("\nIts picture: demo/kmers.svg")
    else:
        print("\nIts picture, for Graphviz: demo/kmers.dot")
    print("\nThe same for one that makes a mosaic of the sky, with made-up run times:")
    tonnage("generate", "montage", "--tasks", "500", "--seed", "1", "-o", "demo/montage.json")
    tonnage("show", "demo/montage.json")


def learn() -> None:
    """Import a job log, and say how much to give the next jobs, by their categories or by what they used."""
    print("\nTonnage remembers what jobs used, also those of other tools, and says how much to give the next ones.")
    print("Here it reads a table of jobs, as a batch system or another workflow tool could have written it:")
    tonnage("generate", "jobs", "--peaks", "trimodal", "-o", "demo/jobs.csv")
    tonnage("archive", "import", "demo/jobs.csv", "--archive", "demo/archive.db")
    tonnage("size", "demo/archive.db", "--machine", "cores=16,memory=64GB,disk=100GB", "--resource", "memory")
    print("\nJobs that need about the same can also be found by what they used, whatever they are called:")
    tonnage("discover", "demo/jobs.csv")


def execute() -> None:
    """Run a survey of real processes: with whole machines, twice with what was learnt, and with all peaks known."""
    shutil.rmtree(SURVEY, ignore_errors=True)
    make(SURVEY, speed=1.5)
    print("\nNow 201 real processes: a survey of the sky, whose tasks use 15 to 600 MB and do not say so (see")
    print("examples/survey). All together may use 1 GB, so that memory limits how many run at the same time.")
    tonnage("show", "demo/survey/survey.mf")
    print("\nTo compare with: each task gets all of that memory, so they run one after the other (about a minute):")
    whole = run("survey.mf", size="whole-machine", archive="others.db")
    print("\nTonnage's first run: it knows nothing about these tasks, and learns from each one that ends:")
    first = run("survey.mf", size="auto", archive="learnt.db")
    print("\nThe second run begins with what was learnt in the first:")
    second = run("survey.mf", size="auto", archive="learnt.db")
    learnt = next(runs_of(SURVEY))
    print("\nAs fast as it can be: an oracle, which gives every task what it was measured to need, and 3 % more:")
    write_oracle(SURVEY / "survey.mf", SURVEY / "learnt.db", SURVEY / "oracle.mf")
    oracle = run("oracle.mf", "--enforce", "strict", size="declared", archive="others.db")
    print()
    compare({"whole machines": whole, "first run": first, "second run": second, "oracle": oracle})
    slowest, unknown, learned = (one.seconds / oracle.seconds for one in (whole, first, second))
    print(f"\nThe first run, which knew nothing, took {unknown:.2f} times as long as the oracle,")
    print(f"the second {learned:.2f} times, and whole machines {slowest:.2f} times.")
    draw(learnt)


def draw(run: RunFolder) -> None:
    """Write the report of a run, and say which page to open."""
    print("\nWhat ran when, what each task had and used, and what to change stands in a report:")
    tonnage("report", str(run.path.relative_to(TOP)), "-o", "demo/report.html")
    print("\nOpen demo/report.html in a browser.")


def compare(runs: dict[str, Summary]) -> None:
    """Print runs of the same tasks side by side."""
    header = ["", "took", "memory wasted", "attempts", "tasks retried"]
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
