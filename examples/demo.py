"""What `make demo` runs: Tonnage on a real workflow that ships with it, each command printed before its output."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
OUTPUT = TOP / "demo"


def tonnage(*arguments: str) -> None:
    """Print a command as a user would type it, and run it."""
    print(f"\n$ tonnage {shlex.join(arguments)}\n", flush=True)
    subprocess.run([sys.executable, "-m", "tonnage", *arguments], check=True, cwd=TOP)


def main() -> None:
    """Show and draw the k-mer workflow, then one with the structure of a published application."""
    OUTPUT.mkdir(exist_ok=True)
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
    print("\nWhat jobs used is measured, and remembered in an archive that also takes other tools' logs:")
    for file in ("examples/kmers/kmers.dag", "examples/demo.py"):
        tonnage("watch", "--spool", "demo/spool", "--category", "sorting", "--", "sort", file, "--output", os.devnull)
    tonnage("generate", "jobs", "--peaks", "trimodal", "-o", "demo/jobs.csv")
    tonnage("archive", "import", "demo/spool", "demo/jobs.csv", "--archive", "demo/archive.db")
    tonnage("archive", "stats", "--archive", "demo/archive.db")
    print("\nFrom that it says how much to give each job, and what that saves:")
    tonnage("size", "demo/archive.db", "--machine", "cores=16,memory=64GB,disk=100GB", "--resource", "memory")
    print("\nKinds of jobs can also be found by what they used, whatever they are called:")
    tonnage("generate", "jobs", "--peaks", "bimodal", "-o", "demo/kinds.csv")
    tonnage("discover", "demo/kinds.csv")


if __name__ == "__main__":
    main()
