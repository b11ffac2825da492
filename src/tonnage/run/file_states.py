"""The state of files on disk: size, time and content, and which files a command names without declaring them."""

import hashlib
import os
import re
from pathlib import Path
from posixpath import join, normpath
from stat import S_ISDIR, S_ISREG

from tonnage.run.folders import RUNS
from tonnage.run.up_to_date import Disk, FileState, inputs_of, outputs_of
from tonnage.workflow import Task

__all__ = ["FilesOnDisk", "FrozenDisk", "named_files"]

_LARGEST_READ = 64 * 2**20
"""Larger files are known by size and time alone: to read them would take longer than many a task."""
_CHUNK = 2**20
_BETWEEN_WORDS = re.compile(r"""[\s;&|()<>'"`$={},]+""")
_WRITTEN_TO = re.compile(r"""(?:>>?\|?|&>>?)\s*["']?([^\s;&|()<>'"`]+)""")
_REMEMBERED = 10_000


class FilesOnDisk:
    """Looks at files in the folder of a workflow; not safe for use by several threads."""

    def __init__(self, folder: str, *, network: bool = False) -> None:
        """Look at files below `folder`; on a `network` file system, what a client remembers of files may be old."""
        self._folder = folder
        self._network = network
        self._contents: dict[tuple[str, int, int], str] = {}

    def look(self, place: str) -> FileState | None:
        """Return the state of a file, or None if it does not exist; that of a folder follows from its entries."""
        path = join(self._folder, place)
        try:
            status = self._fresh_status(path) if self._network else os.stat(path)  # noqa: PTH116 (faster)
            if S_ISDIR(status.st_mode):
                return _state_of_folder(path)
        except (OSError, ValueError):  # of a name with a null character
            return None
        if not S_ISREG(status.st_mode):
            return FileState(0, 0)  # a device or a pipe has no state that could be compared
        return FileState(status.st_size, status.st_mtime_ns)

    def is_file(self, place: str) -> bool:
        """Whether there is a regular file."""
        try:
            return S_ISREG(os.stat(join(self._folder, place)).st_mode)  # noqa: PTH116 (faster)
        except (OSError, ValueError):
            return False

    def content(self, place: str, state: FileState) -> str | None:
        """Return the hash of a file's content; None if it is too large, or not in that state any more."""
        if state.content is not None or state.size > _LARGEST_READ or not state.time:
            return state.content  # a device never ends
        key = place, state.size, state.time
        known = self._contents.get(key)
        if known is not None:
            return known
        try:
            found = _content_of(join(self._folder, place))
        except OSError:
            return None
        if self.look(place) != state:
            return None
        if len(self._contents) >= _REMEMBERED:
            self._contents.clear()
        self._contents[key] = found
        return found

    def _fresh_status(self, path: str) -> os.stat_result:
        """Ask the server, as opening a file does."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except PermissionError:
            return os.stat(path)  # noqa: PTH116 (as above)
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)


class FrozenDisk:
    """A disk that looks at each file once: decisions that follow each other agree, and cost little."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._seen: dict[str, FileState | None] = {}

    def look(self, place: str) -> FileState | None:
        """Return the state that a file had at the first look."""
        if place not in self._seen:
            self._seen[place] = self._disk.look(place)
        return self._seen[place]

    def content(self, place: str, state: FileState) -> str | None:
        """Return the hash of a file's content."""
        return self._disk.content(place, state)


def named_files(task: Task, disk: FilesOnDisk, folder: str) -> list[str]:
    """Return the files in the folder of the workflow that a command names, such as scripts, and that are not declared.

    What output is redirected to is no input.
    """
    command = task.command or ""
    found = {
        place: word
        for word in _BETWEEN_WORDS.split(command)
        if word and (place := _below(folder, task.directory, word)) is not None and disk.is_file(place)
    }
    if not found:
        return []
    others = {*inputs_of(task), *outputs_of(task)}
    written = set(_WRITTEN_TO.findall(command)) if ">" in command else set()
    return [place for place, word in found.items() if place not in others and word not in written]


def _below(folder: str, directory: str | None, word: str) -> str | None:
    """Return a path relative to the folder of the workflow; None if it is elsewhere."""
    if word[0] == "/":
        if not word.startswith(f"{folder}/"):
            return None
        word, directory = word[len(folder) + 1 :], None
    place = normpath(join(directory, word)) if directory else normpath(word)
    return None if place.startswith(("..", "/", f"{RUNS.parent}/")) else place


def _state_of_folder(path: str) -> FileState:
    """Return the state of a folder: the names, sizes and times of its entries."""
    digest = hashlib.blake2b(digest_size=16)
    with os.scandir(path) as entries:
        found = sorted((entry.name, *_of_entry(entry)) for entry in entries)
    for entry in found:
        digest.update(repr(entry).encode())
    return FileState(len(found), 0, digest.hexdigest())


def _of_entry(entry: "os.DirEntry[str]") -> tuple[int, int]:
    try:
        status = entry.stat()
    except OSError:  # a link to nothing
        return -1, 0
    return (-1 if S_ISDIR(status.st_mode) else status.st_size), status.st_mtime_ns


def _content_of(path: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with Path(path).open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
