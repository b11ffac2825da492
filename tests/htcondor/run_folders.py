"""A folder with workflows whose runs go to the stand-in of a pool."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.htcondor.pool import Pool
from tests.run.cli_runs import TONNAGE, Begun, Place, check_archive, check_order, check_private
from tests.waiting import until
from tonnage.jobs import Outcome
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.workflow import read

__all__ = ["PoolPlace", "hungry", "shared"]


def hungry(megabytes: int, output: str, seconds: float = 0.3) -> str:
    """Return a command that takes memory for a while, and writes a file."""
    program = f"x = bytearray({megabytes} * 10**6); import time; time.sleep({seconds})"
    return f'python3 -c "{program}" && echo done > {output}'


def shared(megabytes: int, output: str, seconds: float) -> str:
    """Return a command whose four processes share memory: a pool that adds them up counts it four times."""
    program = f"x = bytearray({megabytes} * 10**6); import os, time; os.fork(); os.fork(); time.sleep({seconds})"
    return f'python3 -c "{program}" && echo done > {output}'


class PoolPlace(Place):
    """The command line in a folder of its own, with the pool's programs on the PATH."""

    def __init__(self, folder: Path, pool: Pool) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.pool = pool
        self.environment = pool.environment(self.environment)

    def words(self, *arguments: object) -> list[str]:
        on = ["--on", "htcondor"] if arguments[0] == "run" else []
        return [*TONNAGE, *map(str, arguments), *on]

    def makeflow(self, **rules: tuple[str, str]) -> Path:
        """Write a workflow: each rule's output with its inputs and its command."""
        text = [f"CATEGORY={out}\n{out}: {inputs}\n\t{command}\n" for out, (inputs, command) in rules.items()]
        return self.write("w.mf", "".join(text))

    def row(self, task: str) -> Row:
        """Return the last attempt of a task."""
        return [row for row in self.rows() if row.task == task][-1]

    def when(self, holds: Callable[[], object], what: str, engine: Begun | None = None) -> None:
        """Wait until something holds."""

        def look() -> bool:
            there = bool(holds())
            assert there or engine is None or engine.poll() is None, f"it ended before {what}: {engine.communicate()}"
            return there

        until(look, what)

    def check_all(self, name: str = "w.mf", *, all_done: bool = True) -> None:
        """Check what the journal of the newest run promises."""
        workflow, run = read(self.folder / name), self.runs()[0]
        with closing(Reader(run.journal)) as reader:
            rows, counts = list(reader.rows()), reader.counts()
        times = Counter(row.task for row in rows if row.outcome is Outcome.DONE)
        assert set(times.values()) <= {1}, "a task was done twice"
        if all_done:
            assert times.keys() >= workflow.index.keys()
            assert counts[0] == counts[1]
            assert all(row.ended is not None for row in rows)
        check_order([row for row in rows if row.task in workflow.index], workflow)
        check_archive(self.archive, run)
        check_private(run)

    def dag(self, number: int = 1) -> Path:
        """Return the folder of a DAG of the newest run."""
        return self.runs()[0].batches / str(number)

    def calls(self, program: str) -> int:
        """Return how often a program was called."""
        return sum(call.program == program for call in self.pool.calls)
