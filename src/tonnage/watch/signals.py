"""Which signals the command gets from us: each that was meant for it, once.

A signal can come from a process or, as with Ctrl-C, from the kernel, and it can have been sent to everyone in our
process group, to all processes of a batch job, or to the keeper alone, which is the process that the user knows. What
reaches us directly has reached the command too; what comes through the keeper only was meant for the command.
"""

from _signal import (
    SIGCHLD,
    SIGCONT,
    SIGIO,
    SIGTSTP,
    SIGTTIN,
    SIGTTOU,
    SIGURG,
    SIGWINCH,
)
from time import monotonic

from tonnage.watch.proc import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import struct_siginfo

__all__ = ["KEEPER_DIED", "OWN_SIGNALS", "SIGNALS", "Heard", "would_have_ended"]

# All but those that cannot be blocked, and those that report an error of this very process.
_NEVER = {4, 5, 7, 8, 9, 11, 19}  # ILL, TRAP, BUS, FPE, KILL, SEGV, STOP
SIGNALS = frozenset(range(1, 65)) - _NEVER - {32, 33}  # 32 and 33 are the C library's own
KEEPER_DIED = 64  # the last real-time signal: nothing else uses it

OWN_SIGNALS = frozenset((SIGCHLD, SIGIO, KEEPER_DIED))  # what tells this process something, and no command
_HARMLESS = {SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH}  # these end no process
_SETTLED = 0.05
_NEVER_AGAIN = float("inf")
_REMEMBERED = 1.0  # the keeper may be late on a busy machine
_HANDLED = (b"SigBlk", b"SigIgn", b"SigCgt")


class Heard:
    """Remembers for a moment what reached us directly."""

    def __init__(self, keeper: "int | None") -> None:
        self._keeper = keeper
        self._recent: list[tuple[float, int]] = []
        self._unsettled: list[tuple[float, int]] = []

    def take(self, signal: "struct_siginfo", *, apart: bool) -> "int | None":
        """Take in a signal; return its number where the command should get it now.

        `apart` is a command that does not get what is sent to our process group.
        """
        number, now = signal.si_signo, monotonic()
        if number in OWN_SIGNALS:
            return None
        if self._keeper is None:
            return number
        if signal.si_pid == self._keeper:
            return None if self._is_a_copy(number, now) else number
        self._recent = [entry for entry in self._recent if now < entry[0]] + [(now + _REMEMBERED, number)]
        if apart:
            return number
        if number not in _HARMLESS:
            self._unsettled.append((now + _SETTLED, number))
        return None

    def _is_a_copy(self, number: int, now: float) -> bool:
        """Whether the keeper passes on what went to all: its copy comes a little later than ours, and only once."""
        for entry in self._recent:
            if entry[1] == number and now < entry[0]:
                self._recent.remove(entry)
                return True
        return False

    def settle(self) -> "list[int]":
        """Return the signals that reached us a moment ago, and that should have ended the command if it got them."""
        now = monotonic()
        settled = [number for moment, number in self._unsettled if moment <= now]
        self._unsettled = [entry for entry in self._unsettled if entry[0] > now]
        return settled

    @property
    def next(self) -> float:
        """When `settle` will have something to return."""
        return min([moment for moment, _ in self._unsettled]) if self._unsettled else _NEVER_AGAIN


def would_have_ended(pid: int, number: int) -> bool:
    """Whether a process neither blocks, ignores nor handles a signal, so that it cannot have got it."""
    lines = (read(f"/proc/{pid}/status") or b"").split(b"\n")
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(_HANDLED)]
    return bool(masks) and not any(mask >> (number - 1) & 1 for mask in masks)
