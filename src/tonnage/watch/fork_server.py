"""Warm minders for an engine that runs many short commands: started once, they take one order after another.

Three kinds of processes look after each other. The *engine* holds one socket to each minder and one to the keeper. The
*keeper* is a small process of its own session that forks minders; when one is killed, it inherits the minder's command
and stops it, and nothing else. A *minder* whose engine or keeper is gone stops its command, and leaves what it would
have answered as its result in a file. So no command lives on unwatched, whichever of the three is killed.
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

from tonnage.errors import TonnageError
from tonnage.watch.measure import Measurement
from tonnage.watch.minder import CannotStartError, Minder, Observer, Outcome
from tonnage.watch.order import (
    CANCELLED,
    ENGINE_GONE,
    MONITOR_KILLED,
    NUMBER,
    SLOTS,
    Inbox,
    Outputs,
    answered,
    frame,
    job_of,
    leave_result,
)
from tonnage.watch.proc import children
from tonnage.watch.signals import KEEPER_DIED, SIGNALS
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

_LOOK = 0.5  # seconds between two looks of the keeper at its parent
_LOOK_ANYWAY = Struct("@ll").pack(1, 0)  # and of an idle minder: seconds and microseconds
_SEEN_PAUSE = 0.5
_PATIENCE = 1.0  # of the keeper with a process that cannot be killed: others wait for it
_PIECE = 1 << 16


def main(arguments: "list[str]") -> None:
    """Be the keeper: CONTROL is a socket, FOLDER the engine's, and each HELD a descriptor to keep open."""
    control, folder, *held = arguments
    fill_standard_streams()
    forget_coerced_locale()
    for descriptor in (control, *held):
        os.set_inheritable(int(descriptor), False)
    os.chdir("/")  # not to stay in a folder that a user wants to remove
    os.setsid()  # Ctrl-C is for the engine, which knows what to do about its tasks
    _Keeper(socket(fileno=int(control)), folder).keep()


class _Keeper:
    """Forks a minder for every socket that the engine sends, and says when one has ended and nothing is left of it."""

    def __init__(self, control: socket, folder: str) -> None:
        self._mask = pthread_sigmask(SIG_BLOCK, SIGNALS)
        set_handler(SIGCHLD, SIG_DFL)  # where it is ignored, the kernel does not tell of a child's end
        adopt_orphans()
        be_readable()
        name_process("keeper")
        self._control = control
        self._engine = os.getppid()
        self._folder = folder
        self._minders: dict[int, int] = {}  # the numbers of the processes, and those that the engine knows
        self._unkilled: set[int] = set()
        fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())  # so that one queue of signals tells of everything
        fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) | os.O_ASYNC)
        gc.collect()
        gc.freeze()  # what minders share with us stays shared

    def keep(self) -> None:
        """Go on until the engine has closed its socket and the last minder has ended."""
        listening = True
        while listening or self._minders:
            orphaned = os.getppid() != self._engine
            listening = listening and self._take_orders()
            if listening and orphaned:
                return  # a fork of the engine still holds its sockets, but each minder sees that we are gone
            self._bury()
            if listening or self._minders:
                sigtimedwait(SIGNALS, _LOOK)

    def _take_orders(self) -> bool:
        """Fork the minders that are asked for; whether there may be more."""
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
        keeper = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            self._say(number)  # to the engine, this looks like a minder that was killed
            return
        finally:
            if os.getpid() == keeper:
                orders.close()
        if pid == 0:
            self._be_minder(number, orders, keeper)
        self._minders[pid] = number

    def _be_minder(self, number: int, orders: socket, keeper: int) -> None:
        """Mind what is ordered, and never return: two processes must not go on from here."""
        try:
            die_with_parent(KEEPER_DIED)
            name_process("minder")
            self._control.close()
            _PoolMinder(self._mask, keeper, orders, self._folder, number).serve()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _bury(self) -> None:
        """Wait for minders that ended, stop what they left behind, and then tell the engine."""
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
                os.kill(pid, SIGCONT)  # it was stopped, and limits would not be kept
            else:
                ended.append(self._minders.pop(pid))
        if self._strays():
            kill_tree(self._reap_strays, spare=self._minders.keys() | self._unkilled, patience=_PATIENCE)
            self._unkilled = set(self._strays(given_up=True))
        for number in ended:
            self._say(number)

    def _strays(self, *, given_up: bool = False) -> "list[int]":
        """Return our children that are no minders: what minders that were killed have left behind."""
        strays = [pid for pid in children(os.getpid()) if pid not in self._minders]
        return strays if given_up else [pid for pid in strays if pid not in self._unkilled]

    def _reap_strays(self) -> bool:
        for pid in self._strays():
            os.waitpid(pid, os.WNOHANG)
        return bool(self._strays())

    def _say(self, number: int) -> None:
        try:
            self._control.send(NUMBER.pack(number))
        except OSError:
            pass  # the engine is gone


class _PoolMinder(Minder, Observer):
    """A minder that gets its orders from a socket."""

    asks_when = False

    def __init__(self, mask: "set[int]", keeper: int, orders: socket, folder: str, number: int) -> None:
        Minder.__init__(self, mask)  # no signals come through the keeper, and it must not stop when a command stops
        self._parent = keeper
        self._orders = orders
        orders.setsockopt(SOL_SOCKET, SO_RCVTIMEO, _LOOK_ANYWAY)
        self._inbox = Inbox()
        self._messages: list[Any] = []
        self._folder = folder
        self._unconfirmed: dict[str, Any] | None = None  # the last answer, until the next order shows that it was heard
        self._attempt = 0
        self._next_seen = 0.0
        self._environment = dict(os.environ)
        slot = os.path.join(folder, SLOTS, str(number))
        self._outputs = Outputs(f"{slot}.out", f"{slot}.err")

    def serve(self) -> None:
        """Carry out orders until there can be no more."""
        while (order := self._next_order()) is not None:
            answer = self._unconfirmed = self._carry_out(order)
            if not self._send(answer) or answer["unkilled"]:
                break  # with a child that cannot be killed, the end of the next command would not be noticed
        if self._unconfirmed is not None:
            try:
                leave_result(self._folder, self._unconfirmed)
            except (TonnageError, OSError):
                pass  # the folder is gone, or full: nothing is left to be told
        self._outputs.remove()

    def _next_order(self) -> "dict[str, Any] | None":
        """Wait for the next order; None where no more will come."""
        while True:
            for _ in range(len(self._messages)):
                message = self._messages.pop(0)
                if message is None:
                    self._unconfirmed = None
                    return None
                if isinstance(message, dict):  # else it asks to stop what has ended already
                    return message
            try:
                if not self._receive():
                    return None
            except BlockingIOError:
                if os.getppid() != self._parent:
                    return None

    def _receive(self, flags: int = 0) -> bool:
        """Take in what the engine has sent; whether it is still there."""
        try:
            piece = self._orders.recv(_PIECE, flags)
        except ConnectionError:
            return False
        self._messages += self._inbox.add(piece)
        return bool(piece)

    def _send(self, message: "dict[str, Any]", flags: int = 0) -> bool:
        """Send a message; whether the engine is there to hear it."""
        try:
            self._orders.sendall(frame(message), flags)
        except OSError:
            return False
        return True

    def _carry_out(self, order: "dict[str, Any]") -> "dict[str, Any]":
        """Run what is ordered to its end and return the answer."""
        self._attempt = order["attempt"]
        self._next_seen = monotonic() + _SEEN_PAUSE
        begin, error = time(), None
        try:
            outcome = self.mind(job_of(order, self._environment, self._outputs), self)
        except (CannotStartError, ValueError) as problem:  # a value: a zero byte in a word, or "=" in a variable's name
            outcome, error = Outcome(begin), str(problem)
        return answered(order, outcome, error, self._outputs, self._folder)

    def why_stop(self) -> "str | None":
        """Return why the command must not go on: the keeper or the engine is gone, or the engine wants it."""
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
        return None

    def looked(self, measurement: Measurement) -> None:
        """Send what is seen of a longer command, now and then."""
        now = monotonic()
        if now < self._next_seen:
            return
        self._next_seen = now + _SEEN_PAUSE
        row = measurement.row()
        names = {"memory": "memory", "cores": "cores", "disk": "disk", "seconds": "time"}
        # Small enough to be sent as a whole or, where the engine does not listen for a while, not at all.
        self._send({"attempt": self._attempt, **{name: row.get(key) for name, key in names.items()}}, MSG_DONTWAIT)


if __name__ == "__main__":
    main(sys.argv[1:])
