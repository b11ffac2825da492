"""The fork server: forks minders that stay warm and run one order after another, for engines with many short commands.

Three kinds of processes watch each other. The *engine* holds one socket to each minder and one to the fork server. The
*fork server* is a small process in its own session that forks minders; when a minder is killed, the fork server
inherits its command and stops it, and does nothing else. A *minder* whose engine or fork server is gone stops its
command and leaves its answer in a result file. No command keeps running unwatched, whichever of the three is killed.
"""

import fcntl
import gc
import os
import sys
from _signal import SIG_BLOCK, SIG_DFL, SIGCHLD, SIGCONT, pthread_sigmask, sigtimedwait
from _signal import signal as set_handler
from _socket import (
    CMSG_LEN,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    SCM_RIGHTS,
    SO_RCVTIMEO,
    SOL_SOCKET,
    socket,
)
from struct import Struct
from time import monotonic, time

from tonnage.errors import CannotStartError, TonnageError
from tonnage.watch.limits import Job
from tonnage.watch.measure import Measurement
from tonnage.watch.minder import Minder, Observer, Outcome
from tonnage.watch.order import (
    CANCELLED,
    CONTINUE,
    ENGINE_GONE,
    MONITOR_KILLED,
    NUMBER,
    PAUSE,
    SLOTS,
    Inbox,
    Outputs,
    answered,
    frame,
    job_of,
    leave_result,
)
from tonnage.watch.proc import children
from tonnage.watch.signals import PARENT_DIED, SIGNALS
from tonnage.watch.system import (
    adopt_orphans,
    be_readable,
    die_with_parent,
    fill_standard_streams,
    forget_coerced_locale,
    name_process,
)
from tonnage.watch.tree import kill_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]

_LOOK = 0.5  # seconds between the fork server's checks of its parent
_LOOK_ANYWAY = Struct("@ll").pack(1, 0)  # the same for an idle minder: seconds and microseconds
_SEEN_PAUSE = 0.5
_KILL_TIMEOUT = 1.0  # seconds for a process that cannot be killed: all others wait meanwhile
_PIECE = 1 << 16
_FIRST_VICTIM = b"1000"


def main(arguments: "list[str]") -> None:
    """Run the fork server: CONTROL is a socket, FOLDER the engine's, and each HELD a descriptor to keep open."""
    control, folder, *held = arguments
    fill_standard_streams()
    forget_coerced_locale()
    for descriptor in (control, *held):
        os.set_inheritable(int(descriptor), False)
    os.chdir("/")  # do not occupy a folder that the user may want to remove
    os.setsid()  # Ctrl-C is for the engine, which knows what to do with its tasks
    _ForkServer(socket(fileno=int(control)), folder).serve()


class _ForkServer:
    """Forks a minder for every socket that the engine sends, and reports when one is gone with all its processes."""

    def __init__(self, control: socket, folder: str) -> None:
        self._mask = pthread_sigmask(SIG_BLOCK, SIGNALS)
        set_handler(SIGCHLD, SIG_DFL)  # if it is ignored, the kernel does not report a child's end
        adopt_orphans()
        be_readable()
        name_process("fork-server")
        self._control = control
        self._engine = os.getppid()
        self._folder = folder
        self._minders: dict[int, int] = {}  # process id to the engine's number
        self._unkilled: set[int] = set()
        fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())  # so that all events arrive in one signal queue
        fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) | os.O_ASYNC)
        gc.collect()
        gc.freeze()  # memory shared with minders stays shared

    def serve(self) -> None:
        """Run until the engine has closed its socket and the last minder has ended."""
        listening = True
        while listening or self._minders:
            orphaned = os.getppid() != self._engine
            listening = listening and self._take_orders()
            if listening and orphaned:
                return  # a fork of the engine still holds its sockets, but each minder sees that we are gone
            self._reap_minders()
            if listening or self._minders:
                sigtimedwait(SIGNALS, _LOOK)

    def _take_orders(self) -> bool:
        """Fork the requested minders; return whether more requests can follow."""
        while True:
            try:
                data, rights, _, _ = self._control.recvmsg(NUMBER.size, CMSG_SPACE(4), MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            for level, kind, descriptor in rights:
                if (level, kind, CMSG_LEN(len(descriptor))) == (SOL_SOCKET, SCM_RIGHTS, CMSG_LEN(4)):
                    self._fork(NUMBER.unpack(data)[0], int.from_bytes(descriptor, sys.byteorder))

    def _fork(self, number: int, descriptor: int) -> None:
        orders = socket(fileno=descriptor)
        fork_server = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            self._report(number)  # to the engine, this looks like a minder that was killed
            return
        finally:
            if os.getpid() == fork_server:
                orders.close()
        if pid == 0:
            self._run_minder(number, orders, fork_server)
        self._minders[pid] = number

    def _run_minder(self, number: int, orders: socket, fork_server: int) -> None:
        """Run the minder and never return: two processes must not continue from here."""
        try:
            die_with_parent(PARENT_DIED)
            name_process("minder")
            self._control.close()
            _PoolMinder(self._mask, fork_server, orders, self._folder, number).serve()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _reap_minders(self) -> None:
        """Reap minders that ended, kill the processes they left behind, and only then report to the engine."""
        ended: list[int] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid not in self._minders:
                continue
            if os.WIFSTOPPED(status):
                os.kill(pid, SIGCONT)  # while stopped, it would not enforce limits
            else:
                ended.append(self._minders.pop(pid))
        if self._strays():
            kill_tree(self._reap_strays, spare=self._minders.keys() | self._unkilled, patience=_KILL_TIMEOUT)
            self._unkilled = set(self._strays(include_unkilled=True))
        for number in ended:
            self._report(number)

    def _strays(self, *, include_unkilled: bool = False) -> "list[int]":
        """Return our children that are not minders: processes left behind by minders that were killed."""
        strays = [pid for pid in children(os.getpid()) if pid not in self._minders]
        return strays if include_unkilled else [pid for pid in strays if pid not in self._unkilled]

    def _reap_strays(self) -> bool:
        for pid in self._strays():
            os.waitpid(pid, os.WNOHANG)
        return bool(self._strays())

    def _report(self, number: int) -> None:
        try:
            self._control.send(NUMBER.pack(number))
        except OSError:
            pass  # the engine is gone


class _PoolMinder(Minder, Observer):
    """A minder that receives orders through a socket."""

    asks_when = False

    def __init__(self, mask: "set[int]", fork_server: int, orders: socket, folder: str, number: int) -> None:
        Minder.__init__(self, mask)  # the fork server passes on no signals, and must not stop when a command stops
        self._parent = fork_server
        self._orders = orders
        orders.setsockopt(SOL_SOCKET, SO_RCVTIMEO, _LOOK_ANYWAY)
        self._inbox = Inbox()
        self._messages: list[Any] = []
        self._folder = folder
        self._unconfirmed: dict[str, Any] | None = None  # the last answer, until the next order confirms its receipt
        self._attempt = 0
        self._next_seen = 0.0
        self._reported = 0.0  # the memory in the last report
        self._growth: float | None = None  # how much more is reported at once
        self._oom_score = _OomScore()
        self._environment = dict(os.environ)
        slot = os.path.join(folder, SLOTS, str(number))
        self._outputs = Outputs(f"{slot}.out", f"{slot}.err")

    def serve(self) -> None:
        """Execute orders until no more can come."""
        while (order := self._next_order()) is not None:
            answer = self._unconfirmed = self._execute(order)
            if not self._send(answer) or answer["unkilled"]:
                break  # with an unkillable child, the end of the next command would go unnoticed
        if self._unconfirmed is not None:
            try:
                leave_result(self._folder, self._unconfirmed)
            except (TonnageError, OSError):
                pass  # the folder is gone or full: the answer cannot be left anywhere
        self._outputs.remove()

    def _next_order(self) -> "dict[str, Any] | None":
        """Wait for the next order; return None when no more will come."""
        while True:
            for _ in range(len(self._messages)):
                message = self._messages.pop(0)
                if message is None:
                    self._unconfirmed = None
                    return None
                if isinstance(message, dict):  # otherwise a request to stop an attempt that has already ended
                    return message
            try:
                if not self._receive():
                    return None
            except BlockingIOError:
                if os.getppid() != self._parent:
                    return None

    def _receive(self, flags: int = 0) -> bool:
        """Read what the engine has sent; return whether the engine still exists."""
        try:
            piece = self._orders.recv(_PIECE, flags)
        except ConnectionError:
            return False
        self._messages += self._inbox.add(piece)
        return bool(piece)

    def _send(self, message: "dict[str, Any]", flags: int = 0) -> bool:
        """Send a message; return whether the engine still exists."""
        try:
            self._orders.sendall(frame(message), flags)
        except OSError:
            return False
        return True

    def _execute(self, order: "dict[str, Any]") -> "dict[str, Any]":
        """Run the ordered command to its end and return the answer."""
        self._attempt = order["attempt"]
        self.pausing = False
        self._next_seen = monotonic() + _SEEN_PAUSE
        self._reported, self._growth = 0.0, order["report_growth"]
        begin, error = time(), None
        try:
            outcome = self.mind(job_of(order, self._environment, self._outputs), self)
        except (CannotStartError, ValueError) as problem:  # ValueError: a zero byte in a word, "=" in a variable's name
            outcome, error = Outcome(begin), str(problem)
        return answered(order, outcome, error, self._outputs, self._folder)

    def why_stop(self) -> "str | None":
        """Return why to stop the command: the fork server or the engine is gone, or the engine cancelled it."""
        if os.getppid() != self._parent:
            return MONITOR_KILLED
        try:
            if not self._receive(MSG_DONTWAIT):
                return ENGINE_GONE
        except BlockingIOError:
            pass
        while self._messages:
            message = self._messages.pop(0)
            if message is None:
                return ENGINE_GONE
            if message == self._attempt:
                return CANCELLED
            if message == (PAUSE, self._attempt):
                self.pausing = True
            elif message == (CONTINUE, self._attempt):
                self.pausing = False
        return None

    def spawn(self, job: Job) -> int:
        """Start a command that the kernel kills before any other process if the machine runs out of memory."""
        self._oom_score.write(_FIRST_VICTIM)  # it inherits ours
        try:
            return Minder.spawn(self, job)
        finally:
            self._oom_score.restore()

    def measured(self, measurement: Measurement) -> None:
        """Report the current use of a longer command from time to time, and at once if its memory changes much."""
        now, memory = monotonic(), measurement.memory.at_most or 0
        changed = self._growth is not None and abs(memory - self._reported) >= self._growth
        if now < self._next_seen and not changed:
            return
        row = measurement.row()
        seen = {"memory": measurement.memory.at_most, "cores": row.get("cores"), "disk": row.get("disk")}
        # Small enough to be sent completely or, if the engine is not reading at the moment, not at all.
        if self._send({"attempt": self._attempt, **seen, "seconds": row.get("time")}, MSG_DONTWAIT):
            self._next_seen, self._reported = now + _SEEN_PAUSE, memory


class _OomScore:
    """How likely the kernel is to kill this process, and those that it starts, when memory runs out."""

    def __init__(self) -> None:
        self._descriptor: int | None
        try:
            self._descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._ours = os.pread(self._descriptor, 16, 0)
        except OSError:
            self._descriptor = None

    def write(self, score: bytes) -> None:
        """Change it."""
        if self._descriptor is None:
            return
        try:
            os.pwrite(self._descriptor, score, 0)
        except OSError:
            self._descriptor = None  # not permitted here

    def restore(self) -> None:
        """Change it back to what it was at the beginning."""
        if self._descriptor is not None:
            self.write(self._ours)


if __name__ == "__main__":
    main(sys.argv[1:])
