"""Orders for minders: what a task's attempt is, as a process that is started, limited and measured."""

import re
import shutil
from collections.abc import Mapping
from functools import cache
from posixpath import join

from tonnage.jobs import Resource
from tonnage.run.events import Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.minders import Order
from tonnage.run.orphans import MARK
from tonnage.workflow import Task
from tonnage.workflow.shell import plain_words

__all__ = ["Orders"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
_LIMITED = (Resource.MEMORY, Resource.DISK, Resource.WALL_TIME)


class Orders:
    """Makes an order of every attempt that starts."""

    def __init__(self, files: Files, folder: RunFolder, token: str) -> None:
        self._files = files
        self._logs = str(folder.logs)
        self._token = token

    def order(self, start: Start, task: Task) -> Order:
        """Make an attempt's files ready, and return its order; raises TonnageError or OSError where that cannot be."""
        folder = self._files.prepare(task, start.attempt)
        words, program = _program(task.command or "", folder)
        measured = self._files.measured(start.attempt)
        given = {one.resource: one.amount for one in start.decisions}
        limits = {str(resource): given[resource] for resource in _LIMITED if resource in given}
        if measured is None:
            limits.pop("disk", None)
        log = f"{self._logs}/{start.attempt}-{_safe(task.name)}"
        return Order(
            attempt=start.attempt,
            words=words,
            executable=program,
            folder=folder,
            environment=self._environment(start, given),
            limits=limits,
            measured=measured,
            stdout=f"{log}.out",
            stderr=f"{log}.err",
            machine=start.machine,
        )

    def _environment(self, start: Start, given: Mapping[Resource, float]) -> dict[str, str]:
        """Return what a task finds in its environment: its mark, and what it was given."""
        found = {MARK: f"{self._token}:{start.attempt}"}
        for resource in (Resource.CORES, Resource.MEMORY, Resource.DISK):
            if resource in given:
                found[f"TONNAGE_{resource.upper()}"] = f"{given[resource]:.0f}"
        return found


@cache
def _found_program(name: str) -> str:
    return shutil.which(name) or name


def _program(command: str, folder: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a command and the program that it starts; what needs a shell gets one."""
    words = plain_words(command)
    if words is None:
        return ("sh", "-c", command), "/bin/sh"
    if "/" in words[0]:
        return tuple(words), join(folder, words[0])
    return tuple(words), _found_program(words[0])


def _safe(name: str) -> str:
    """Return a task's name as a file can have it."""
    return _UNSAFE.sub("_", name[:80])
