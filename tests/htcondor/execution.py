"""One execution of a job on a machine of the stand-in: its scratch folder, its processes, and what they use."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.htcondor import transfer
from tests.htcondor.description import environment, is_true, words
from tests.htcondor.machine import Machine, Requests

__all__ = ["Execution", "Order", "kill_tree", "start"]

_PAGE, _TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
_TELL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be executed."""

    commands: Mapping[str, str]
    home: Path
    scratch: Path
    transfers: bool
    ad: Mapping[str, object]
    inherited: Mapping[str, str]
    """The environment of who submitted it, for ``getenv``."""


@dataclass(slots=True)
class Execution:
    """A job that runs."""

    order: Order
    machine: Machine
    slot: str
    given: Requests
    process: subprocess.Popen[bytes]
    began: float
    before: frozenset[str]
    """What was in the scratch folder when it began."""
    memory: int = 0
    """Bytes of the largest resident set of its processes together."""
    disk: int = 0
    """Bytes of the largest contents of its scratch folder."""
    told: tuple[int, float] = (0, 0.0)
    """The memory that the event log knows of, and when it was told."""
    seen: set[int] = field(default_factory=set)
    times: tuple[float, float] = (0.0, 0.0)
    """Seconds of the processors that it had used when it was killed."""

    def measure(self) -> int:
        """Look at the memory of its processes; return what they use now."""
        self.seen = _tree(self.process.pid, self.seen)
        now = sum(map(_resident, self.seen))
        self.memory = max(self.memory, now)
        return now

    def has_news(self) -> bool:
        """Whether the event log is to be told that its memory has grown: at once where it has doubled."""
        told, at = self.told
        now = time.monotonic()
        if self.memory > 2 * told or (self.memory > told and now - at > _TELL_SECONDS):
            self.told = self.memory, now
            return True
        return False

    def measure_disk(self) -> int:
        """Look at its scratch folder; return what is in it now."""
        now = transfer.size(self.order.scratch)
        self.disk = max(self.disk, now)
        return now

    def processor_seconds(self) -> tuple[float, float]:
        """Return what its processes have used of the processors so far: for themselves, and in the kernel."""
        found = [_times(process) for process in _tree(self.process.pid, self.seen)]
        return sum(user for user, _ in found), sum(system for _, system in found)

    def kill(self) -> None:
        """End all its processes."""
        kill_tree(self.process.pid, self.seen)

    def bring_back(self) -> int:
        """Copy its output back; return how many bytes."""
        order = self.order
        if not order.transfers:
            return 0
        for stream, name in (("output", transfer.OUTPUT), ("error", transfer.ERROR)):
            if stream in order.commands:
                shutil.copyfile(order.scratch / name, order.home / order.commands[stream])
        if order.commands.get("when_to_transfer_output", "ON_EXIT").upper() == "ON_SUCCESS" and self.process.returncode:
            return 0
        return transfer.fetch(order.commands, order.home, order.scratch, self.before)


def start(order: Order, machine: Machine, slot: str, given: Requests) -> Execution:
    """Start a job in a scratch folder of its own; raises MissingFileError or OSError where it cannot."""
    scratch, commands = order.scratch, order.commands
    scratch.mkdir(parents=True)
    if order.transfers:
        transfer.bring(commands, order.home, scratch)
    lines = [f"{name} = {_literal(value)}\n" for name, value in order.ad.items() if value is not None]
    (scratch / ".job.ad").write_text("".join(lines))
    (scratch / ".machine.ad").write_text(
        f'Machine = "{machine.name}"\nCpus = {given.cpus}\nMemory = {given.memory}\nDisk = {given.disk}\n'
    )
    before = frozenset(one.name for one in scratch.iterdir())
    where = scratch if order.transfers else order.home
    with ExitStack() as stack:
        out, err = (
            stack.enter_context(_stream(order, *pair).open("wb"))
            for pair in (("output", transfer.OUTPUT), ("error", transfer.ERROR))
        )
        given_in = stack.enter_context((order.home / commands["input"]).open("rb")) if "input" in commands else None
        process = subprocess.Popen(
            [_program(order), *words(commands.get("arguments", ""))],
            cwd=where,
            env=_environment(order, given),
            stdin=given_in or subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    return Execution(order, machine, slot, given, process, time.time(), before)


def _stream(order: Order, command: str, own: str) -> Path:
    if order.transfers:
        return order.scratch / own
    return order.home / order.commands.get(command, "/dev/null")


def _program(order: Order) -> str:
    program = order.home / order.commands["executable"]
    if order.transfers and is_true(order.commands.get("transfer_executable", "true")):
        return str(order.scratch / program.name)
    return str(program)


def _environment(order: Order, given: Requests) -> dict[str, str]:
    """Return what a job finds in its environment: little, unless its description says so."""
    scratch = order.scratch
    inherited = dict(order.inherited) if is_true(order.commands.get("getenv", "false")) else {}
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **inherited,
        "BATCH_SYSTEM": "HTCondor",
        "TMPDIR": str(scratch),
        "TMP": str(scratch),
        "TEMP": str(scratch),
        "OMP_NUM_THREADS": str(given.cpus),
        "_CONDOR_SCRATCH_DIR": str(scratch),
        "_CONDOR_JOB_AD": str(scratch / ".job.ad"),
        "_CONDOR_MACHINE_AD": str(scratch / ".machine.ad"),
        "_CONDOR_JOB_IWD": str(scratch if order.transfers else order.home),
        **environment(order.commands.get("environment", "")),
    }


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


# Processes


def _tree(root: int, seen: set[int]) -> set[int]:
    """Return the processes that come from one: also those whose parents are gone, if they were seen before."""
    found: set[int] = set()
    waiting = [root, *seen]
    while waiting:
        process = waiting.pop()
        if process in found:
            continue
        try:
            children = Path(f"/proc/{process}/task/{process}/children").read_text()
        except OSError:  # it has ended
            continue
        found.add(process)
        waiting += map(int, children.split())
    return found


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _times(process: int) -> tuple[float, float]:
    """Return the processor times of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, user_below, system_below = (int(ticks) / _TICKS for ticks in fields[11:15])
    return user + user_below, system + system_below


def kill_tree(root: int, seen: set[int] | None = None) -> None:
    """Kill a process and all that come from it: stopped first, so that they cannot have more children."""
    known: set[int] = set()
    while new := _tree(root, known | (seen or set())) - known:
        for process in new:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        known |= new
    for process in known:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
