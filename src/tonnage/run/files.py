"""The files of tasks: inputs, required outputs, sandboxes, and partial outputs of failed attempts."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from math import inf, nan
from pathlib import Path
from posixpath import basename, dirname, isabs, join, normpath
from stat import S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG

from tonnage.atomic import make_private_folder
from tonnage.errors import TonnageError
from tonnage.run.folders import RunFolder
from tonnage.workflow import Task, Workflow
from tonnage.workflow.shell import own_program

__all__ = ["LATE", "Files", "is_file_name", "made_by", "place_of"]

_SLACK = 0.05  # seconds by which the clock of a file system may lag behind
LATE = 2.0
"""Seconds by which batch systems and the clocks of other machines may be wrong about when an attempt began or ended."""


class Files:
    """The files of a workflow's tasks; their names are relative to `folder`."""

    def __init__(self, folder: Path, run: RunFolder, *, sandbox: bool = False) -> None:
        self.folder = folder
        self._run = run
        self._sandbox = sandbox
        self._before: dict[int, dict[str, int]] = {}
        """When outputs that existed before an attempt started had changed last, by their names."""

    # Before a run

    def fingerprints(self, workflow: Workflow) -> list[bytes]:
        """Return what identifies each task across sessions: its command, its files, and the state of its inputs."""
        made = made_by(workflow)
        outside: dict[str, bytes] = {}
        found = []
        for task in workflow.tasks:
            digest = hashlib.blake2b(repr((task.command, task.directory, task.outputs)).encode(), digest_size=16)
            for name in task.inputs:
                place = place_of(task, name)
                if place not in made and place not in outside:
                    outside[place] = self._state_of(place)
                digest.update(repr(place).encode() + outside.get(place, b""))
            found.append(digest.digest())
        return found

    def missing_inputs(self, workflow: Workflow, among: Iterable[int]) -> dict[int, str]:
        """Return the tasks with an unreadable input that no task writes, and the name of that input."""
        made = made_by(workflow)
        there: dict[str, bool] = {}
        found: dict[int, str] = {}
        for number in among:
            task = workflow.tasks[number]
            for name in task.inputs:
                place = place_of(task, name)
                if place in made or number in found or not is_file_name(name):
                    continue
                if place not in there:
                    there[place] = os.access(self.folder / place, os.R_OK)
                if not there[place]:
                    found[number] = name
        return found

    def _state_of(self, place: str) -> bytes:
        try:
            status = (self.folder / place).stat()
        except OSError:
            return b"missing"
        return f"{status.st_size} {status.st_mtime_ns}".encode()

    # Around an attempt

    def input_bytes(self, task: Task) -> float:
        """Return the total size of a task's inputs; NaN if it names none, or if one of them is not accessible."""
        if not task.inputs:
            return nan if task.input_bytes is None else float(task.input_bytes)
        folder = self._home(task)
        try:
            return float(sum(Path(folder, name).stat().st_size for name in task.inputs))
        except OSError:
            return nan

    def prepare(self, task: Task, attempt: int) -> str:
        """Prepare and return the folder in which an attempt runs; raises TonnageError if an input is missing."""
        home = self._home(task)
        for name in task.inputs:
            if is_file_name(name) and not Path(home, name).exists():
                raise TonnageError(f'its input "{name}" does not exist')
        if task.outputs:
            found = ((name, _changed(join(home, name))) for name in task.outputs)
            self._before[attempt] = {name: time for name, time in found if time is not None}
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
        """Return the folder whose growth is an attempt's disk use: its sandbox, into which nothing else writes."""
        return str(self._run.sandboxes / str(attempt)) if self._sandbox else None

    def missing_output(self, task: Task, attempt: int, started: float) -> str | None:
        """Return an output that an attempt should have written but did not."""
        if not task.outputs:
            return None
        folder, home = self._folder_of(task, attempt), self._home(task)
        for name in task.outputs:
            # An engine that was killed afterwards may already have moved it out of the sandbox.
            moved = self._sandbox and _written(Path(home, name), started)
            if not moved and not os.path.lexists(join(folder, name)) and not _listed(join(folder, name)):
                return name
        return None

    def accept(self, task: Task, attempt: int) -> None:
        """Move the outputs of a successful attempt out of its sandbox."""
        self._before.pop(attempt, None)
        if not self._sandbox:
            return
        folder, home = self._folder_of(task, attempt), self._home(task)
        for name in task.outputs:
            if not isabs(name) and os.path.lexists(join(folder, name)):
                target = Path(home, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                _move(Path(folder, name), target)
        shutil.rmtree(self._run.sandboxes / str(attempt), ignore_errors=True)

    def reject(self, task: Task, attempt: int, started: float, ended: float = inf) -> None:
        """Move away what an unsuccessful attempt wrote between two moments, so that nothing looks complete.

        What was in a folder before stays there.
        """
        before = self._before.pop(attempt, None)
        if before is None:
            before = {}  # an earlier session prepared it; since then, the user may have gone on by hand
        else:
            ended = inf
        if self._sandbox:
            place = self._run.sandboxes / str(attempt)
            if place.exists():
                make_private_folder(self._run.partial)
                shutil.rmtree(self._run.partial / str(attempt), ignore_errors=True)
                place.rename(self._run.partial / str(attempt))
        for name in task.outputs:
            path = Path(self._home(task), name)
            untouched = name in before and before[name] == _changed(path)  # the clock may have been set back
            if untouched or not _written(path, started, ended) or self._run.path.is_relative_to(normpath(path)):
                continue
            for one in _newly_written(path, started, ended, new=name not in before):
                self._set_aside(one, attempt, join(name, one.relative_to(path)))

    def disk_of_outputs(self, task: Task, attempt: int) -> int | None:
        """Return the disk use of an attempt's outputs, which is a lower bound of its own."""
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
    """Return the files that tasks of a workflow write, relative to its folder."""
    return {place_of(task, name) for task in workflow.tasks for name in task.outputs}


def is_file_name(name: str) -> bool:
    """Whether an input is a local file, not a URL such as ``https://...``."""
    return "://" not in name


def place_of(task: Task, name: str) -> str:
    """Return a file's name relative to the folder of the workflow."""
    return normpath(join(task.directory, name)) if task.directory else normpath(name)


def _written(path: str | Path, since: float, until: float = inf) -> bool:
    """Whether a file was written then: a modification time can be copied from another file, st_ctime cannot."""
    changed = _changed(path)
    return changed is not None and since - _SLACK <= changed / 1e9 <= until + LATE


def _changed(path: str | Path) -> int | None:
    """Return when a file changed last, in nanoseconds; None if it does not exist."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return None


def _newly_written(path: Path, since: float, until: float, *, new: bool) -> list[Path]:
    """Return a file that was written or, of a folder, the files in it that were written then.

    A `new` folder is returned itself if it contains nothing older. Devices are not returned: writing keeps them.
    """
    mode = path.lstat().st_mode
    if not S_ISDIR(mode):
        return [path] if S_ISREG(mode) or S_ISLNK(mode) or S_ISFIFO(mode) else []
    found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    written = [one for one in found if _written(one, since, until)]
    return [path] if new and len(written) == len(found) else written


def _move(source: Path, target: Path) -> None:
    """Move a file to its place; the content of a folder is added to that of an existing one."""
    into_folder = target.is_dir() and not target.is_symlink()
    if into_folder and source.is_dir() and not source.is_symlink():
        for one in list(source.iterdir()):
            _move(one, target / one.name)
    elif into_folder:
        raise TonnageError(f"{target}: is a folder")
    else:
        shutil.move(source, target)


def _listed(path: str) -> bool:
    """Whether a file is listed in its folder: a network file system may cache for a while that it did not exist."""
    try:
        with os.scandir(dirname(path) or ".") as found:
            return any(one.name == basename(path) for one in found)
    except OSError:
        return False


def _stay_inside(place: Path, target: Path, name: str) -> None:
    if not Path(os.path.normpath(target)).is_relative_to(place):
        raise TonnageError(f"{name}: a task in a sandbox can only use files below its folder")
