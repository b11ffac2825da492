"""Orders for minders: the command, limits and environment of an attempt."""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from posixpath import join

from tonnage.jobs import SHARED, Decision, Resource
from tonnage.run.elastic_memory import report_step
from tonnage.run.events import Start
from tonnage.run.files import Files
from tonnage.run.folders import RunFolder
from tonnage.run.machines import Machine
from tonnage.run.marked_processes import MARK
from tonnage.run.minders import Order
from tonnage.workflow import Task
from tonnage.workflow.shell import plain_words

__all__ = ["Orders"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
_REMEMBERED = 1000
_LIMITED = (Resource.MEMORY, Resource.DISK, Resource.WALL_TIME)


@dataclass(frozen=True, slots=True)
class _Given:
    """What decisions mean for a command: the limits that are enforced, and its environment."""

    decisions: tuple[Decision, ...]
    """Kept alive, so that no other object gets their id."""
    limits: Mapping[str, float]
    limits_with_disk: Mapping[str, float]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, decisions: tuple[Decision, ...]) -> "_Given":
        """Derive limits and environment from decisions."""
        given = {one.resource: one.amount for one in decisions}
        limits = {str(resource): given[resource] for resource in _LIMITED if resource in given}
        without_disk = {name: limit for name, limit in limits.items() if name != Resource.DISK}
        environment = {
            f"TONNAGE_{resource.upper()}": f"{given[resource]:.0f}" for resource in SHARED if resource in given
        }
        return cls(decisions, without_disk, limits, environment)


@dataclass(frozen=True, slots=True)
class _MachineLimits:
    """The limits of attempts that may outgrow their allocations on a machine: all that it has."""

    amounts: Mapping[str, float]
    report_growth: float

    @classmethod
    def of(cls, machine: Machine) -> "_MachineLimits":
        """Return the limits on a machine."""
        amounts = {str(resource): amount for resource, amount in machine.amounts().items()}
        return cls(amounts, report_step(machine.memory))

    def instead_of(self, limits: Mapping[str, float]) -> dict[str, float]:
        """Return other limits with those of the machine instead of allocations; what it does not have is not limited.

        A time limit stays, because the task requests it.
        """
        found = {name: self.amounts.get(name) for name in limits if name != Resource.WALL_TIME}
        kept = {name: limit for name, limit in limits.items() if name == Resource.WALL_TIME}
        return {name: limit for name, limit in found.items() if limit is not None} | kept


class Orders:
    """Creates the order of each attempt."""

    def __init__(self, files: Files, folder: RunFolder, token: str, growing_on: Sequence[Machine] = ()) -> None:
        """Prepare for attempts that are killed at their allocation, or may grow: then these are the machines."""
        self._machines = [_MachineLimits.of(one) for one in growing_on]
        self._files = files
        self._logs = str(folder.logs)
        self._token = token
        self._known: dict[int, _Given] = {}

    def order(self, start: Start, task: Task) -> Order:
        """Prepare the files of an attempt, and return its order; raises TonnageError or OSError if that fails."""
        folder = self._files.prepare(task, start.attempt)
        words, program = _program(task.command or "", folder)
        measured = self._files.measured(start.attempt)
        given = self._given(start.decisions)
        limits = given.limits if measured is None else given.limits_with_disk
        grows = self._machines[start.machine] if self._machines else None
        log = f"{self._logs}/{start.attempt}-{_safe(task.name)}"
        return Order(
            attempt=start.attempt,
            words=words,
            executable=program,
            folder=folder,
            environment={MARK: f"{self._token}:{start.attempt}", **given.environment},
            limits=limits if grows is None else grows.instead_of(limits),
            measured=measured,
            stdout=f"{log}.out",
            stderr=f"{log}.err",
            machine=start.machine,
            report_growth=None if grows is None else grows.report_growth,
        )

    def _given(self, decisions: tuple[Decision, ...]) -> _Given:
        # Cached, because many tasks in a row have the same decisions.
        known = self._known.get(id(decisions))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[id(decisions)] = _Given.of(decisions)
        return known


@cache
def _found_program(name: str) -> str:
    return shutil.which(name) or name


def _program(command: str, folder: str) -> tuple[tuple[str, ...], str]:
    """Return the arguments of a command and the program to execute, which is a shell if the command needs one."""
    words = plain_words(command)
    if words is None:
        return ("sh", "-c", command), "/bin/sh"
    if words[0].startswith("/"):
        return tuple(words), words[0]
    if "/" in words[0]:
        return tuple(words), join(folder, words[0])
    return tuple(words), _found_program(words[0])


def _safe(name: str) -> str:
    """Turn the name of a task into a valid file name."""
    return _UNSAFE.sub("_", name[:80])
