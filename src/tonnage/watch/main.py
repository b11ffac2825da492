"""The ``tonnage watch`` command, from its arguments to its exit status."""

import os
import sys
from errno import ENOENT, ENOTDIR
from time import time

from tonnage.errors import CannotStartError, TonnageError
from tonnage.watch.cgroup import Cgroup
from tonnage.watch.guard import Verdict, end_as, guard
from tonnage.watch.limits import Job
from tonnage.watch.minder import Minder, Outcome
from tonnage.watch.options import Request, parse
from tonnage.watch.reporting import Reporting, say
from tonnage.watch.system import fill_standard_streams, forget_coerced_locale

__all__ = ["find_program", "main"]

_LIMIT_EXCEEDED, _OWN_FAILURE, _CANNOT_RUN, _NOT_FOUND = 124, 125, 126, 127  # the same as GNU timeout's


def main(arguments: "list[str]") -> "int | None":
    """Run ``tonnage watch`` with these arguments and return its exit status, or None if they ask for help."""
    problem = _unfit_system()
    if problem is not None:
        say(problem)
        return _OWN_FAILURE
    fill_standard_streams()
    forget_coerced_locale()
    try:
        request = parse(arguments)
        if request is None:
            return None
        request.job.executable = find_program(request.job.command[0])
        reporting = Reporting(request)
    except TonnageError as error:
        say(error.report())
        return error.exit_status
    return _run(request, reporting)


def _run(request: Request, reporting: Reporting) -> int:
    """Watch the command from a second process, and guard that process from this one."""
    start = time()
    request.job.cgroup = _cgroup(request.job)
    try:
        verdict = guard(lambda mask, guard_pid: _mind(request, reporting, mask, guard_pid))
    except OSError as error:  # not even a second process could be started
        reporting.discard()
        say(f"the monitor cannot be started: {error.strerror or error}")
        return _OWN_FAILURE
    finally:
        if request.job.cgroup is not None:
            request.job.cgroup.remove()
    if isinstance(verdict, Verdict):
        return end_as(verdict)
    say(f"the monitor {verdict}, so the command was stopped")
    reporting.ended(Outcome.of_killed_monitor(start, time()))
    return _OWN_FAILURE


def _mind(request: Request, reporting: Reporting, mask: "set[int]", guard_pid: int) -> Verdict:
    """Watch the command; runs in the minder process."""
    try:
        outcome = Minder(mask, guard_pid).mind(request.job, reporting)
    except CannotStartError as error:
        reporting.discard()
        say(error.report())
        return Verdict(_CANNOT_RUN)
    written = reporting.ended(outcome)
    return _verdict(outcome) if written else Verdict(_OWN_FAILURE)


def _verdict(outcome: Outcome) -> Verdict:
    if outcome.stopped_because == "limit":
        return Verdict(_LIMIT_EXCEEDED)
    if outcome.stopped_because or outcome.status is None:
        return Verdict(_OWN_FAILURE)
    if os.WIFSIGNALED(outcome.status):
        return Verdict(os.WTERMSIG(outcome.status), is_signal=True)
    return Verdict(os.WEXITSTATUS(outcome.status))


def _cgroup(job: Job) -> "Cgroup | None":
    """Have the kernel enforce the memory limit too, where it permits that and there is no grace period."""
    if "memory" not in job.limits or job.measure_only or job.grace:
        return None
    return Cgroup.make(job.limits["memory"])


def _unfit_system() -> "str | None":
    """Return why commands cannot be watched on this machine; None if they can."""
    if sys.platform != "linux":
        return "watch works on Linux only: it reads /proc"
    try:
        own = os.readlink("/proc/self")
    except OSError:
        own = ""
    if own != str(os.getpid()):
        return "/proc does not show this process: it is not mounted, or it belongs to another PID namespace"
    if not os.path.exists(f"/proc/self/task/{own}/children"):
        return "this kernel does not list the children of a process (CONFIG_PROC_CHILDREN is off)"
    return None


class _CannotRunError(TonnageError):
    """The command does not exist or is not executable."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def find_program(name: str) -> str:
    """Return the path of the program that a shell would run under this name."""
    paths = [name] if "/" in name else [os.path.join(folder or ".", name) for folder in os.get_exec_path()]
    problem = None
    for path in paths:
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
        try:
            os.stat(path)
            problem = "is a folder" if os.path.isdir(path) else "is not executable"
        except OSError as error:
            # An unreadable folder on the PATH is treated like a missing one.
            if path == name and error.errno not in {ENOENT, ENOTDIR}:
                problem = error.strerror
    if problem is not None:
        raise _CannotRunError(f"{name}: {problem}", _CANNOT_RUN)
    raise _CannotRunError(f"{name or '(empty name)'}: command not found", _NOT_FOUND)
