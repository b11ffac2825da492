"""The state of files on disk: size, time and content, and which files a command names without declaring them."""

import hashlib
import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from posixpath import basename, dirname, expanduser, join, normpath, realpath
from stat import S_ISDIR, S_ISREG

from tonnage.run.folders import RUNS
from tonnage.run.up_to_date import Disk, FileState, inputs_of, outputs_of
from tonnage.workflow import Task

__all__ = ["FilesOnDisk", "FrozenDisk", "named_files"]

_LARGEST_READ = 64 * 2**20
"""Larger files are known by size and time alone: to read them would take longer than many a task."""
_CHUNK = 2**20
_BETWEEN_WORDS = re.compile(r"""[\s;&|()<>'"`$={},]+""")
_BETWEEN_ARGUMENTS = re.compile(r"""[\s;&|()<>'"`]+""")
_UNUSUAL = re.compile(r"""['"\\{},=$]""")
_ESCAPED = re.compile(r"""(?:\\.|[^\s;&|()<>'"`\\])+""")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_HERE = re.compile(r"\$PWD\b|\$\{PWD\}|\$\(pwd\)")
_ENTERED = re.compile(r"""(?:^|[\s;&|('"])(?:cd|pushd)\s+(?:"([^"$`]+)"|'([^']+)'|([^\s;&|()<>'"`$]+))""")
_WRITTEN_TO = re.compile(r"""(?:>>?\|?|&>>?)\s*["']?([^\s;&|()<>'"`]+)""")
_REMEMBERED = 10_000


class FilesOnDisk:
    """Looks at files in the folder of a workflow; not safe for use by several threads."""

    def __init__(self, folder: str, *, made: Set[str] = frozenset(), network: bool = False) -> None:
        """Look at files below `folder`; on a `network` file system, what a client remembers of files may be old.

        Files that tasks declare to have `made` have states of their own, and are not part of that of their folder.
        """
        self._folder = folder
        self._made = made
        self._network = network
        self._contents: dict[tuple[str, int, int], str] = {}

    def look(self, place: str) -> FileState | None:
        """Return the state of a file, or None if it does not exist; that of a folder follows from its entries."""
        path = join(self._folder, place)
        try:
            status = self._fresh_status(path) if self._network else os.stat(path)  # noqa: PTH116 (faster)
            if S_ISDIR(status.st_mode):
                return _state_of_folder(self._entries(place))
        except (OSError, ValueError):  # of a name with a null character
            return FileState(0, 0) if os.path.islink(path) else None  # noqa: PTH114 (faster)
        if not S_ISREG(status.st_mode):
            return FileState(0, 0)  # a device or a pipe has no state that could be compared
        return FileState(status.st_size, status.st_mtime_ns)

    def changed_since(self, place: str, moment: float) -> bool:
        """Whether a file, or one in a folder, was modified after a moment, or does not exist any more."""
        state = self.look(place)
        if state is None or state.content is None:
            return state is None or state.time > moment * 1e9
        return any(time > moment * 1e9 for _, _, time in self._entries(place))

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

    def _entries(self, place: str) -> Iterator[tuple[str, int, int]]:
        """Yield the names, sizes and times of what is in a folder and below, except for what tasks made."""
        with os.scandir(join(self._folder, place)) as entries:
            for entry in entries:
                inside = normpath(join(place, entry.name))
                if inside in self._made or inside == str(RUNS.parent):
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    yield inside, *_of_entry(entry)
                    continue
                if inside not in self._folders_made:
                    yield inside, -1, 0
                with suppress(PermissionError):
                    yield from self._entries(inside)

    @cached_property
    def _folders_made(self) -> Set[str]:
        """The folders that exist because of what tasks write there."""
        found: set[str] = set()
        for place in self._made:
            while (place := dirname(place)) and place not in found:
                found.add(place)
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


def named_files(task: Task, disk: FilesOnDisk, folder: str, written: Container[str] = ()) -> list[str]:
    """Return the files in the folder of the workflow that a command names, such as scripts, and that are not declared.

    What output is redirected to is no input. Files that other tasks have `written` need not exist yet.
    """
    return [place for place in _named(task, folder) if disk.is_file(place) or place in written]


def redirected_files(tasks: Iterable[Task], folder: str) -> dict[str, Task]:
    """Return the files that commands redirect their output to without declaring any, and the first task that does."""
    found: dict[str, Task] = {}
    for task in tasks:
        if task.command and ">" in task.command and not task.outputs:
            for word in _WRITTEN_TO.findall(task.command):
                place = _below(folder, task.directory, word)
                if place is not None:
                    found.setdefault(place, task)
    return found


def read_meanwhile(tasks: Sequence[Task], folder: str) -> Iterator[tuple[Task, str, Task]]:
    """Yield tasks that name a file to which another one redirects its output, the file, and that other task."""
    written = redirected_files(tasks, folder)
    for task in tasks if written else ():
        for place in _named(task, folder):
            writer = written.get(place)
            if writer is not None and writer is not task:
                yield task, place, writer


def _named(task: Task, folder: str) -> list[str]:
    """Return what may be undeclared files in the folder of the workflow that a command reads."""
    command = task.command or ""
    words = _words(command)
    found = {
        place: word
        for directory in _directories(task.directory, command)
        for word in words
        if (place := _below(folder, directory, word)) is not None
    }
    if not found:
        return []
    declared = {*inputs_of(task), *outputs_of(task)}
    written = set(_WRITTEN_TO.findall(command)) if ">" in command else set()
    return [place for place, word in found.items() if place not in declared and word not in written]


def _directories(directory: str | None, command: str) -> list[str | None]:
    """Return the folder in which a command starts, and those that it enters: ``cd x && sh run.sh``."""
    found = [directory]
    if "cd" in command or "pushd" in command:
        for words in _ENTERED.findall(command):
            entered = next(filter(None, words))
            found.append(normpath(join(found[-1] or "", entered)))
    return found


def _words(command: str) -> list[str]:
    """Return what may be the name of a file in a command, however it is quoted."""
    command = _HERE.sub(".", command)
    found = _BETWEEN_WORDS.split(command)
    if _UNUSUAL.search(command):
        found += _BETWEEN_ARGUMENTS.split(command)
        found += [word.replace("\\", "") for word in _ESCAPED.findall(command)]
        found += [word for words in _QUOTED.findall(command) for word in words]
    return [word for word in dict.fromkeys(found) if word and word[0] != "-"]


def _below(folder: str, directory: str | None, word: str) -> str | None:
    """Return a path relative to the folder of the workflow; None if it is elsewhere."""
    word = expanduser(word) if word[0] == "~" else word
    path = join(directory, word) if directory else word
    if path[0] == "/":
        if not path.startswith(f"{folder}/"):
            path = join(_real(dirname(path)), basename(path))  # the folder may have several names
            if not path.startswith(f"{_real(folder)}/"):
                return None
            path = path[len(_real(folder)) + 1 :]
        else:
            path = path[len(folder) + 1 :]
    place = normpath(path)
    return None if place.startswith(("..", "/", f"{RUNS.parent}/")) else place


@cache
def _real(folder: str) -> str:
    return realpath(folder)


def _state_of_folder(entries: Iterable[tuple[str, int, int]]) -> FileState:
    """Return the state of a folder: the names, sizes and times of its entries."""
    digest = hashlib.blake2b(digest_size=16)
    found = sorted(entries)
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
