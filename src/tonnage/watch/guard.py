"""The guard: the process that the user sees, around the minder that does the work.

Two processes watch over each other, because either may be killed with a signal that cannot be caught. When the minder
is killed, the kernel hands the command's processes to the guard, which stops them; when the guard is killed, the minder
stops them. So a job never lives on unwatched.
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

from tonnage.watch.signals import KEEPER_DIED, SIGNALS
from tonnage.watch.system import adopt_orphans, be_readable, die_with_parent, name_process
from tonnage.watch.tree import kill_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FAILED", "KILLED", "Verdict", "end_as", "guard", "let_go_of_streams"]

KILLED, FAILED = "was killed", "failed"
_TO_THE_GROUP = 0.02  # seconds in which a signal to a process group has reached all of it, however busy the machine
_STALE = 0.1
_FROM_KERNEL = 128  # si_code: a stop from the terminal goes to all of the group, and to pass it on late would do harm
_STOPS = {SIGTSTP, SIGTTIN, SIGTTOU}


class Verdict:
    """What the minder says at its end: the exit status, or the signal that the command died of."""

    __slots__ = ("is_signal", "number")

    def __init__(self, number: int, *, is_signal: bool = False) -> None:
        self.number = number
        self.is_signal = is_signal


def guard(work: "Callable[[set[int], int], Verdict]") -> "Verdict | str":
    """Run `work(mask, keeper)` in a child process and return its verdict, or what became of it: KILLED or FAILED.

    `mask` are the signals that were blocked before; `keeper` is this process. Afterwards all processes that the work
    had started are gone.
    """
    mask = pthread_sigmask(SIG_BLOCK, SIGNALS)
    set_handler(SIGCHLD, SIG_DFL)  # where it is ignored, the kernel does not tell of a child's end
    adopt_orphans()
    be_readable()
    keeper = os.getpid()
    reader, writer = os.pipe()
    minder = os.fork()
    if minder == 0:
        die_with_parent(KEEPER_DIED)
        name_process("minder")  # not to be found by "pkill tonnage", which means the guard
        os.close(reader)
        _be_minder(work, mask, keeper, writer)
    os.close(writer)
    let_go_of_streams()
    status = _wait_for(minder)
    said = os.read(reader, 64).split()
    os.close(reader)
    if _reap():
        kill_tree(_reap)
    if len(said) == 2:
        return Verdict(int(said[0]), is_signal=said[1] == b"1")
    return KILLED if os.WIFSIGNALED(status) else FAILED


def _be_minder(work: "Callable[[set[int], int], Verdict]", mask: "set[int]", keeper: int, writer: int) -> None:
    """Work, say how it ended, and never return: two processes must not go on from here."""
    try:
        verdict = work(mask, keeper)
        os.write(writer, f"{verdict.number} {verdict.is_signal:d}".encode())
    except BrokenPipeError:
        pass  # the guard was killed
    except BaseException:
        from sys import exc_info, excepthook

        excepthook(*exc_info())
    finally:
        os._exit(0)


def _wait_for(minder: int) -> int:
    """Wait until the minder ends, and pass signals on to it: it knows which of them the command has got already.

    Return its status, as os.wait gives it.
    """
    while True:
        signal = sigwaitinfo(SIGNALS)
        if signal.si_signo == SIGCHLD:
            pid, status = os.waitpid(minder, os.WNOHANG | os.WUNTRACED)
            if pid == minder and not os.WIFSTOPPED(status):
                return status
            if pid == minder:
                os.kill(minder, SIGCONT)  # it was stopped, and limits would not be kept
        elif signal.si_pid != minder and not (signal.si_signo in _STOPS and signal.si_code == _FROM_KERNEL):
            begin = monotonic()
            sleep(_TO_THE_GROUP)  # the minder's own copy, if it gets one, must arrive before ours
            if signal.si_signo in _STOPS and monotonic() - begin > _STALE:
                continue  # we have just been stopped by it, with the command, and are continued now
            os.kill(minder, signal.si_signo)  # not yet waited for, so the number is still its own


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
    """Return the exit status of a verdict; a command that died of a signal lets this process die of it too."""
    if not verdict.is_signal:
        return verdict.number
    from resource import RLIMIT_CORE, setrlimit

    setrlimit(RLIMIT_CORE, (0, 0))  # the command has left its core dump; ours would be of no use
    if verdict.number != SIGKILL:
        set_handler(verdict.number, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, SIGNALS)
    os.kill(os.getpid(), verdict.number)
    return 128 + verdict.number  # a signal that does not kill
