"""What tests of runs share: the command line in a folder of its own, and what its journal must say."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.command_line import Said
from tests.deadlines import HANGS
from tests.processes import with_variable
from tests.warm import Warm
from tonnage.archive import Archive, Search, find
from tonnage.jobs import Outcome, Resource
from tonnage.run.folders import RunFolder, runs_of
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.run.marked_processes import MARK
from tonnage.watch.proc import read as read_bytes
from tonnage.workflow import read
from tonnage.workflow.model import Workflow

MACHINE = "cores=4,memory=1GB,disk=1GB"
TONNAGE = [sys.executable, "-m", "tonnage"]


class Begun(subprocess.Popen[str]):
    """A call that goes on; a test that fails does not wait for its end."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)


class Place:
    """A folder with workflows and an archive of its own, and the command line in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder.parent / "archive.db"
        self.environment = {**os.environ, "TONNAGE_ARCHIVE": str(self.archive)}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def words(self, *arguments: object) -> list[str]:
        """Return a command; a run has the same machine everywhere."""
        words = [*TONNAGE, *map(str, arguments)]
        if arguments[0] == "run" and "--machine" not in arguments:
            words += ["--machine", MACHINE]
        return words

    def call(self, *arguments: object, **options: object) -> Said:
        """Call Tonnage, and wait for its end; with options of `subprocess.run`, it is started by that."""
        words = self.words(*arguments)
        given: Any = {"cwd": self.folder, "env": self.environment, **options}
        if given.keys() <= {"cwd", "env"}:
            with Warm(*words[len(TONNAGE) :], folder=given["cwd"], variables=given["env"]) as process:
                return process.said()
        given = {"timeout": HANGS, **given}
        ended = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, **given)
        assert "\nTraceback" not in f"\n{ended.stderr}", ended.stderr
        return Said(ended.returncode, ended.stdout, ended.stderr)

    def begin(self, *arguments: object, **options: object) -> Begun:
        """Call Tonnage, and do not wait."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given: Any = {"cwd": self.folder, "env": self.environment, **pipes, **options}
        return Begun(self.words(*arguments), text=True, **given)

    def runs(self) -> list[RunFolder]:
        return list(runs_of(self.folder))

    def rows(self, run: RunFolder | None = None) -> list[Row]:
        """Return the attempts of the newest run."""
        with closing(Reader((run or self.runs()[0]).journal)) as reader:
            return list(reader.rows())

    def outcomes(self, run: RunFolder | None = None) -> dict[str, list[str]]:
        """Return how the attempts of each task ended, oldest first."""
        found: dict[str, list[str]] = {}
        for row in self.rows(run):
            found.setdefault(row.task, []).append(str(row.outcome or "running"))
        return found

    def check(self, name: str, *, all_done: bool = True) -> None:
        """Check all that the journal of the newest run promises."""
        check_journal(self.runs()[0], read(self.folder / name), all_done=all_done)
        check_archive(self.archive, self.runs()[0])


def check_journal(run: RunFolder, workflow: Workflow, *, all_done: bool = True) -> None:
    """Check that a journal is whole: done once, after what it waits for, and never more than there is."""
    with closing(sqlite3.connect(run.journal)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with closing(Reader(run.journal)) as reader:
        rows, facts, counts = list(reader.rows()), reader.facts(), reader.counts()
    done = [row for row in rows if row.outcome is Outcome.DONE]
    times = Counter(row.task for row in done)
    assert set(times.values()) <= {1}, "a task was done twice"
    if all_done:
        assert times.keys() == workflow.index.keys()
        assert counts == (len(workflow), len(workflow))
        assert "finished" in facts
        assert all(row.ended is not None for row in rows)
    check_order(rows, workflow)
    check_room(rows, {one: float(facts[one]) for one in Resource if one in facts})


def check_order(rows: list[Row], workflow: Workflow) -> None:
    """Check that nothing started before what it depends on was done."""
    ended = {row.task: row.ended for row in rows if row.outcome is Outcome.DONE}
    for row in rows:
        child = workflow.index[row.task]
        for parent in workflow.graph.parents_of(child).tolist():
            end = ended.get(workflow.tasks[parent].name)
            assert end is not None, f"{row.task} started before {workflow.tasks[parent].name} was done"
            assert row.started >= end - 0.001, f"{row.task} started before {workflow.tasks[parent].name} had ended"


def check_room(rows: list[Row], machine: Mapping[Resource, float]) -> None:
    """Check that what ran at the same time never had more than there is."""
    for resource, most in machine.items():
        events = []
        for row in rows:
            amount = getattr(row.allocated, resource, None) or 0.0
            if row.ended is not None and row.ended > row.started:
                events += [(row.started, 1, amount), (row.ended, 0, -amount)]
        given = 0.0
        for _, _, change in sorted(events):
            given += change
            assert given <= most + 1e-6, f"{given} of {resource} were given, and there is {most}"


def check_archive(path: Path, run: RunFolder) -> None:
    """Check that the archive has the attempts that the journal has."""
    with closing(Reader(run.journal)) as reader:
        token = reader.facts()["token"]
        wanted = Counter((f"tonnage:{token}:{row.attempt}", str(row.outcome)) for row in reader.rows())
    archive = Archive.open(str(path))
    try:
        stored = Counter((one.native_id, str(one.outcome)) for one in find(archive, Search(run=run.id)))
    finally:
        archive.close()
    assert stored == wanted


def check_private(run: RunFolder) -> None:
    """Check that only the owner can read the folder of a run and what is handed to a batch system."""
    names = ("script", "orders", "job.json", "ledger", "workflow.dag", "nodes.jsonl")
    handed = [path for name in names for path in run.path.rglob(name)]
    assert [path for path in (run.path, run.journal, run.logs, *handed) if path.stat().st_mode & 0o077] == []


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def marked(token: str) -> list[int]:
    """Return the processes that belong to attempts of a run."""
    return with_variable(f"{MARK}={token}:")


def running_attempts(token: str) -> set[bytes]:
    """Return the marks of the attempts of a run that have processes, of which each may have several."""
    environments = (read_bytes(f"/proc/{pid}/environ") or b"" for pid in marked(token))
    begin = f"{MARK}={token}:".encode()
    return {word for environment in environments for word in environment.split(b"\0") if word.startswith(begin)}
