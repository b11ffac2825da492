"""The files of tasks: what they read and must write, and what attempts that did not succeed leave behind."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from posixpath import basename, dirname, isabs, join, normpath

from tonnage.atomic import make_private_folder
from tonnage.errors import TonnageError
from tonnage.run.folders import RunFolder
from tonnage.workflow import Task, Workflow
from tonnage.workflow.shell import own_program

__all__ = ["Files", "made_by"]

_SLACK = 0.05  # seconds by which the clock of a file system may be behind


class Files:
    """The files of a workflow's tasks, below the folder that its names start from."""

    def __init__(self, folder: Path, run: RunFolder, *, sandbox: bool = False) -> None:
        self.folder = folder
        self._run = run
        self._sandbox = sandbox

    # Before a run

    def fingerprints(self, workflow: Workflow) -> list[bytes]:
        """Return what each task is known by across runs: its command, its files, and what outside files are like."""
        made = made_by(workflow)
        outside: dict[str, bytes] = {}
        found = []
        for task in workflow.tasks:
            digest = hashlib.blake2b(repr((task.command, task.directory, task.outputs)).encode(), digest_size=16)
            for name in task.inputs:
                place = _place(task, name)
                if place not in made and place not in outside:
                    outside[place] = self._state_of(place)
                digest.update(repr(place).encode() + outside.get(place, b""))
            found.append(digest.digest())
        return found

    def missing_inputs(self, workflow: Workflow, among: Iterable[int]) -> dict[int, str]:
        """Return the tasks that read a file which cannot be read and which no task writes, with its name."""
        made = made_by(workflow)
        there: dict[str, bool] = {}
        found: dict[int, str] = {}
        for number in among:
            task = workflow.tasks[number]
            for name in task.inputs:
                place = _place(task, name)
                if place in made or number in found or not _is_file(name):
                    continue
                if place not in there:
                    there[place] = os.access(self.folder / place, os.R_OK)
                if not there[place]:
                    found[number] = name
        return found

    def gone(self, workflow: Workflow, done: Sequence[int]) -> set[int]:
        """Return the tasks that are done, but whose outputs are gone while one that is not done still reads them."""
        finished = set(done)
        writer = {
            _place(workflow.tasks[number], name): number for number in done for name in workflow.tasks[number].outputs
        }
        lacking: set[int] = set()
        waiting = [number for number in range(len(workflow)) if number not in finished]
        for number in waiting:  # grows while it is gone through
            task = workflow.tasks[number]
            for name in task.inputs:
                place = _place(task, name)
                origin = writer.get(place)
                if origin is not None and origin not in lacking and not os.path.lexists(self.folder / place):
                    lacking.add(origin)
                    waiting.append(origin)
        return lacking

    def _state_of(self, place: str) -> bytes:
        try:
            status = (self.folder / place).stat()
        except OSError:
            return b"missing"
        return f"{status.st_size} {status.st_mtime_ns}".encode()

    # Around an attempt

    def input_bytes(self, task: Task) -> float:
        """Return how large the files are that a task reads; NaN where it names none, or one cannot be seen."""
        if not task.inputs:
            return nan if task.input_bytes is None else float(task.input_bytes)
        folder = self._home(task)
        try:
            return float(sum(Path(folder, name).stat().st_size for name in task.inputs))
        except OSError:
            return nan

    def prepare(self, task: Task, attempt: int) -> str:
        """Return the folder in which an attempt runs, made ready; raises TonnageError where it lacks an input."""
        home = self._home(task)
        for name in task.inputs:
            if _is_file(name) and not Path(home, name).exists():
                raise TonnageError(f'its input "{name}" is not there')
        if not self._sandbox:
            return home
        place = self._run.sandboxes / str(attempt)
        inside = place / (task.directory or ".")
        make_private_folder(place)
        inside.mkdir(parents=True, exist_ok=True)
        program = own_program(task.command)
        for name in (*task.inputs, *([program] if program else [])):
            target = inside / name
            source = Path(home, name)
            if not isabs(name) and source.exists() and not os.path.lexists(target):
                _stay_inside(place, target, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source.absolute())
        for name in task.outputs:
            if not isabs(name):
                _stay_inside(place, inside / name, name)
                (inside / name).parent.mkdir(parents=True, exist_ok=True)
        return str(inside)

    def measured(self, attempt: int) -> str | None:
        """Return the folder whose growth is an attempt's use of disk: only where no other process writes into it."""
        return str(self._run.sandboxes / str(attempt)) if self._sandbox else None

    def missing_output(self, task: Task, attempt: int, started: float) -> str | None:
        """Return an output that an attempt should have written and did not."""
        if not task.outputs:
            return None
        folder, home = self._folder_of(task, attempt), self._home(task)
        for name in task.outputs:
            # Out of a sandbox, an engine that was killed a moment later may have moved it already.
            moved = self._sandbox and _written(Path(home, name), started)
            if not moved and not os.path.lexists(join(folder, name)) and not _listed(join(folder, name)):
                return name
        return None

    def accept(self, task: Task, attempt: int) -> None:
        """Let the outputs of an attempt that succeeded appear in their places."""
        if not self._sandbox:
            return
        folder, home = self._folder_of(task, attempt), self._home(task)
        for name in task.outputs:
            if not isabs(name) and os.path.lexists(join(folder, name)):
                target = Path(home, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.is_dir() and not target.is_symlink():
                    self._set_aside(target, attempt, name)
                shutil.move(join(folder, name), target)
        shutil.rmtree(self._run.sandboxes / str(attempt), ignore_errors=True)

    def reject(self, task: Task, attempt: int, started: float) -> None:
        """Move away what an attempt that did not succeed has written, so that nothing looks complete."""
        if self._sandbox:
            place = self._run.sandboxes / str(attempt)
            if place.exists():
                make_private_folder(self._run.partial)
                shutil.rmtree(self._run.partial / str(attempt), ignore_errors=True)
                place.rename(self._run.partial / str(attempt))
        for name in task.outputs:
            path = Path(self._home(task), name)
            if _written(path, started):
                self._set_aside(path, attempt, name)

    def disk_of_outputs(self, task: Task, attempt: int) -> int | None:
        """Return how much disk the outputs of an attempt take: the least that it used."""
        if not task.outputs:
            return None
        folder = self._folder_of(task, attempt)
        sizes = []
        for name in task.outputs:
            try:
                sizes.append(os.lstat(join(folder, name)).st_blocks * 512)
            except OSError:
                continue
        return sum(sizes) if sizes else None

    def _set_aside(self, path: Path, attempt: int, name: str) -> None:
        place = self._run.partial / str(attempt)
        target = place / normpath(name).replace("../", "").lstrip("/")
        try:
            make_private_folder(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, target)
        except OSError as error:
            raise TonnageError(f"{path}: cannot be moved away: {error.strerror or error}") from None

    def _home(self, task: Task) -> str:
        return str(self.folder) if task.directory is None else join(self.folder, task.directory)

    def _folder_of(self, task: Task, attempt: int) -> str:
        if not self._sandbox:
            return self._home(task)
        return str(self._run.sandboxes / str(attempt) / (task.directory or "."))


def made_by(workflow: Workflow) -> set[str]:
    """Return the files that tasks of a workflow write, as seen from its folder."""
    return {_place(task, name) for task in workflow.tasks for name in task.outputs}


def _is_file(name: str) -> bool:
    """Whether an input is a file, and not something to be fetched from ``https://...``."""
    return "://" not in name


def _place(task: Task, name: str) -> str:
    """Return a file's name, as seen from the folder of the workflow."""
    return normpath(join(task.directory, name)) if task.directory else normpath(name)


def _written(path: Path, since: float) -> bool:
    """Whether a file was written since then; its own times may be copies of another file's, this is not."""
    try:
        return path.lstat().st_ctime >= since - _SLACK
    except OSError:
        return False


def _listed(path: str) -> bool:
    """Whether a file is in its folder: a network file system may remember for a while that it was not there."""
    try:
        with os.scandir(dirname(path) or ".") as found:
            return any(one.name == basename(path) for one in found)
    except OSError:
        return False


def _stay_inside(place: Path, target: Path, name: str) -> None:
    if not Path(os.path.normpath(target)).is_relative_to(place):
        raise TonnageError(f"{name}: a task in a sandbox can only use files below its folder")
