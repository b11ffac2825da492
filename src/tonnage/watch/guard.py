"""The guard: the process that the user sees, around the minder that does the work.

Two processes watch each other, because either can be killed by a signal that cannot be caught. When the minder is
killed, the kernel makes the guard the parent of the command's processes, and the guard stops them; when the guard is
killed, the minder stops them. A command never keeps running unwatched.
"""

import os
from _signal import (
    SIG_BLOCK,
    SIG_DFL,
    SIG_UNBLOCK,
    SIGCHLD,
    SIGCONT,
    SIGKILL,
    SIGTSTP,
    SIGTTIN,
    SIGTTOU,
    pthread_sigmask,
    sigwaitinfo,
)
from _signal import signal as set_handler
from time import monotonic, sleep

from tonnage.watch.signals import PARENT_DIED, SIGNALS
from tonnage.watch.system import adopt_orphans, be_readable, die_with_parent, name_process
from tonnage.watch.tree import kill_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FAILED", "KILLED", "Verdict", "end_as", "guard", "let_go_of_streams"]

KILLED, FAILED = "was killed", "failed"
_TO_THE_GROUP = 0.02  # seconds until a signal has reached a whole process group, even on a busy machine
_STALE = 0.1
_FROM_KERNEL = 128  # si_code: a terminal stop goes to the whole group; passing it on late would do harm
_STOPS = {SIGTSTP, SIGTTIN, SIGTTOU}


class Verdict:
    """The minder's final result: the command's exit status, or the signal that killed it."""

    __slots__ = ("is_signal", "number")

    def __init__(self, number: int, *, is_signal: bool = False) -> None:
        self.number = number
        self.is_signal = is_signal


def guard(work: "Callable[[set[int], int], Verdict]") -> "Verdict | str":
    """Run `work(mask, guard_pid)` in a child process and return its verdict, or KILLED or FAILED if there is none.

    `mask` is the set of signals that were blocked before; `guard_pid` is this process. When this returns, all processes
    that `work` started are gone.
    """
    mask = pthread_sigmask(SIG_BLOCK, SIGNALS)
    set_handler(SIGCHLD, SIG_DFL)  # if it is ignored, the kernel does not report a child's end
    adopt_orphans()
    be_readable()
    guard_pid = os.getpid()
    reader, writer = os.pipe()
    minder = os.fork()
    if minder == 0:
        die_with_parent(PARENT_DIED)
        name_process("minder")  # "pkill tonnage" must only find the guard
        os.close(reader)
        _run_minder(work, mask, guard_pid, writer)
    os.close(writer)
    let_go_of_streams()
    status = _wait_for(minder)
    fields = os.read(reader, 64).split()
    os.close(reader)
    if _reap():
        kill_tree(_reap)
    if len(fields) == 2:
        return Verdict(int(fields[0]), is_signal=fields[1] == b"1")
    return KILLED if os.WIFSIGNALED(status) else FAILED


def _run_minder(work: "Callable[[set[int], int], Verdict]", mask: "set[int]", guard_pid: int, writer: int) -> None:
    """Do the work, send the verdict, and never return: two processes must not continue from here."""
    try:
        verdict = work(mask, guard_pid)
        os.write(writer, f"{verdict.number} {verdict.is_signal:d}".encode())
    except BrokenPipeError:
        pass  # the guard was killed
    except BaseException:
        from sys import exc_info, excepthook

        excepthook(*exc_info())
    finally:
        os._exit(0)


def _wait_for(minder: int) -> int:
    """Wait until the minder ends and return its status, as os.wait does.

    Signals are passed on to the minder, which knows which of them have already reached the command.
    """
    while True:
        signal = sigwaitinfo(SIGNALS)
        if signal.si_signo == SIGCHLD:
            pid, status = os.waitpid(minder, os.WNOHANG | os.WUNTRACED)
            if pid == minder and not os.WIFSTOPPED(status):
                return status
            if pid == minder:
                os.kill(minder, SIGCONT)  # while stopped, it would not enforce limits
        elif signal.si_pid != minder and not (signal.si_signo in _STOPS and signal.si_code == _FROM_KERNEL):
            begin = monotonic()
            sleep(_TO_THE_GROUP)  # the minder's own copy, if any, must arrive before ours
            if signal.si_signo in _STOPS and monotonic() - begin > _STALE:
                continue  # it has just stopped us, with the command, and we were continued
            os.kill(minder, signal.si_signo)  # not reaped yet, so the process id is still valid


def let_go_of_streams() -> None:
    """Close standard input and output: a pipe must close when the command closes it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _reap() -> bool:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def end_as(verdict: Verdict) -> int:
    """Return the exit status of a verdict; if a signal killed the command, die of the same signal."""
    if not verdict.is_signal:
        return verdict.number
    from resource import RLIMIT_CORE, setrlimit

    setrlimit(RLIMIT_CORE, (0, 0))  # the command has left its core dump; ours would be useless
    if verdict.number != SIGKILL:
        set_handler(verdict.number, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, SIGNALS)
    os.kill(os.getpid(), verdict.number)
    return 128 + verdict.number  # the signal does not kill
