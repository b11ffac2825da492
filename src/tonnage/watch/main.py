"""``tonnage watch``: what happens between the call and its exit status."""

import os
import sys
from errno import EACCES, ENOENT, ENOTDIR
from time import time

from tonnage.errors import TonnageError
from tonnage.watch.guard import Verdict, end_as, guard
from tonnage.watch.minder import Minder, Outcome
from tonnage.watch.options import Request, parse
from tonnage.watch.reporting import Reporting, say

__all__ = ["find_program", "main"]

_LIMIT_EXCEEDED, _OWN_FAILURE, _CANNOT_RUN, _NOT_FOUND = 124, 125, 126, 127  # as GNU timeout has them


def main(arguments: "list[str]") -> "int | None":
    """Run ``tonnage watch`` with these arguments and return its exit status; None where they ask for help."""
    if sys.platform != "linux":
        say("watch works on Linux only: it reads /proc")
        return _OWN_FAILURE
    _fill_standard_streams()
    try:
        request = parse(arguments)
        if request is None:
            return None
        request.job.executable = find_program(request.job.command[0])
        reporting = Reporting(request)
    except TonnageError as error:
        say(error.report())
        return error.exit_status
    start = time()
    verdict = guard(lambda mask, keeper: _mind(request, reporting, mask, keeper))
    if verdict is not None:
        return end_as(verdict)
    outcome = Outcome(start)
    outcome.end = time()
    outcome.used["wall_time"] = outcome.end - start
    outcome.stopped_because = "monitor killed"
    say("the monitor was killed, so the command was stopped")
    reporting.ended(outcome)
    return _OWN_FAILURE


def _fill_standard_streams() -> None:
    """Let no file of ours get the number of a standard stream that was closed; the command still finds it closed."""
    descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.close(descriptor)


def _mind(request: Request, reporting: Reporting, mask: "set[int]", keeper: int) -> Verdict:
    """Mind the command, in a process of its own."""
    try:
        outcome = Minder(mask, keeper).mind(request.job, reporting)
    except OSError as error:
        reporting.discard()
        say(f"{request.job.command[0]}: {error.strerror or error}")
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


class _CannotRunError(TonnageError):
    """The command is not there, or is no program."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def find_program(name: str) -> str:
    """Return the path of the program that a shell would run under this name."""
    folders = [""] if "/" in name else os.get_exec_path()
    problem: OSError | None = None
    for folder in folders:
        path = os.path.join(folder or ".", name) if "/" not in name else name
        try:
            if os.path.isdir(path) or not os.access(path, os.X_OK):
                os.stat(path)
                raise PermissionError(EACCES, "is a folder" if os.path.isdir(path) else "is not executable")
            return path
        except OSError as error:
            if error.errno not in {ENOENT, ENOTDIR}:
                problem = error
    if problem is not None:
        raise _CannotRunError(f"{name}: {problem.strerror}", _CANNOT_RUN)
    raise _CannotRunError(f"{name}: command not found", _NOT_FOUND)
