"""How fast jobs are imported into the archive and read back.

    .venv/bin/python benchmarks/archives.py [--quick]

The import of a CSV file is compared with Debian's `sqlite3` shell, which loads the same rows into the same tables and
indexes in the same run: as statements with all values ready, in one transaction, with the same cache. (The shell's
`.import` cannot load NULL or a BLOB.) 538,078 is the number of summaries in the job sizing paper's archive.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tonnage.archive import Archive, Search, find, histories, stats
from tonnage.jobs import Resource
from tonnage.logs import synthetic

PAPER = 538_078


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def generate(jobs: int, folder: Path) -> Path:
    """Write a log of jobs in 30 categories with different run times."""
    file = folder / f"jobs-{jobs}.csv"
    file.write_text(synthetic.render(synthetic.generate("trimodal", jobs, categories=min(30, jobs), spread=0.5)))
    return file


def tonnage_import(file: Path, archive: Path) -> float:
    """Import a log in a separate process, as a user does; return the seconds."""
    command = [sys.executable, "-m", "tonnage", "archive", "import", str(file), "--archive", str(archive)]
    return timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def shell_load(archive: Path, folder: Path) -> float | None:
    """Load the rows of an archive into a new one with the sqlite3 shell; return the seconds."""
    shell = shutil.which("sqlite3")
    if shell is None:
        return None
    dump, copy = folder / "rows.sql", folder / "copy.db"
    schema = "SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    with dump.open("w") as output:
        output.write("PRAGMA journal_mode = WAL; PRAGMA cache_size = -262144;\n")
        output.flush()
        subprocess.run([shell, str(archive), schema], stdout=output, check=True)
        output.write("BEGIN;\n")
        output.flush()
        for table in ("sources", "attempts"):
            subprocess.run(
                [shell, str(archive), f".mode insert {table}", f"SELECT * FROM {table}"], stdout=output, check=True
            )
        output.write("COMMIT;\n")
    with dump.open() as commands:
        seconds = timed(
            lambda: subprocess.run([shell, str(copy)], stdin=commands, stdout=subprocess.DEVNULL, check=True)
        )
    dump.unlink()
    copy.unlink()
    return seconds


def compare(jobs: int, folder: Path) -> None:
    """Print the import time next to the shell's, and how long it takes to read everything back."""
    file, archive = generate(jobs, folder), folder / "compared.db"
    ours = tonnage_import(file, archive)
    again = tonnage_import(file, archive)
    shell = shell_load(archive, folder)
    print(f"\n{jobs:,} jobs from CSV into SQLite")
    print(f"  tonnage archive import   {ours:6.1f} s   {1e6 * ours / jobs:5.1f} us a job")
    if shell is not None:
        print(f"  sqlite3 shell            {shell:6.1f} s   {1e6 * shell / jobs:5.1f} us a job")
        print(f"  ratio                    {ours / shell:6.2f}     (goal: at most 3)")
    print(f"  the same file again      {again:6.1f} s   nothing is stored twice")
    with Archive.open(str(archive)) as opened:
        names = sorted(histories(opened, resources=[Resource.MEMORY]))
        some = [Resource.MEMORY, Resource.WALL_TIME]
        one = timed(lambda: histories(opened, Search(category=names[0]), resources=some))
        every = timed(lambda: [histories(opened, Search(category=name), resources=some) for name in names])
        print(f"  peaks and times as arrays: one category {one:.3f} s, each of {len(names)} in turn {every:.2f} s")
        print(f"    all in one query {timed(lambda: histories(opened, resources=some)):.2f} s", end="")
        print(
            f", with every column {timed(lambda: histories(opened)):.2f} s, stats {timed(lambda: stats(opened)):.2f} s"
        )
        first = timed(lambda: list(find(opened, Search(category=names[-1]), sort="memory", limit=50)))
        print(f"    the 50 largest of a category {first:.3f} s")
    for old in folder.glob("compared.db*"):
        old.unlink()
    file.unlink()


def growth(sizes: list[int], folder: Path) -> None:
    """Print how the cost of a job grows with the number of jobs."""
    print("\nGrowth of the import")
    for jobs in sizes:
        file, archive = generate(jobs, folder), folder / "growing.db"
        seconds = tonnage_import(file, archive)
        with Archive.open(str(archive)) as opened:
            reading = timed(lambda: histories(opened, resources=[Resource.MEMORY, Resource.WALL_TIME]))
        size = archive.stat().st_size
        print(
            f"  {jobs:>9,} jobs  {seconds:7.1f} s  {1e6 * seconds / jobs:6.1f} us a job"
            f"  read back {1e6 * reading / jobs:5.2f} us a job  {size / jobs:4.0f} bytes a job"
        )
        for old in [file, *folder.glob("growing.db*")]:
            old.unlink()


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: only that everything works")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as place:
        compare(5_000 if quick else PAPER, Path(place))
        growth([1_000, 4_000] if quick else [50_000, 500_000, 5_000_000], Path(place))


if __name__ == "__main__":
    main()
