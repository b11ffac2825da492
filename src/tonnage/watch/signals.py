"""Decides which signals to pass on to the command: each one that was meant for it, exactly once.

A signal can come from a process or, as with Ctrl-C, from the kernel, and it can have been sent to our whole process
group, to all processes of a batch job, or only to the guard, the process that the user sees. What reaches us directly
has reached the command too; what comes only through the guard was meant for the command.
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

__all__ = ["OWN_SIGNALS", "PARENT_DIED", "SIGNALS", "Heard", "would_have_ended"]

# All but those that cannot be blocked, and those that report an error in this process itself.
_NEVER = {4, 5, 7, 8, 9, 11, 19}  # ILL, TRAP, BUS, FPE, KILL, SEGV, STOP
SIGNALS = frozenset(range(1, 65)) - _NEVER - {32, 33}  # 32 and 33 are reserved by the C library
PARENT_DIED = 64  # the last real-time signal: nothing else uses it

OWN_SIGNALS = frozenset((SIGCHLD, SIGIO, PARENT_DIED))  # for this process only, never for a command
_HARMLESS = {SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH}  # these do not end a process
_SETTLED = 0.05
_NEVER_AGAIN = float("inf")
_REMEMBERED = 1.0  # the guard may be late on a busy machine
_HANDLED = (b"SigBlk", b"SigIgn", b"SigCgt")


class Heard:
    """Remembers briefly which signals reached us directly."""

    def __init__(self, guard: "int | None") -> None:
        self._guard = guard
        self._recent: list[tuple[float, int]] = []
        self._unsettled: list[tuple[float, int]] = []

    def take(self, signal: "struct_siginfo", *, apart: bool) -> "int | None":
        """Handle a signal; return its number if it must be passed on to the command now.

        `apart` means that signals to our process group do not reach the command.
        """
        number, now = signal.si_signo, monotonic()
        if number in OWN_SIGNALS:
            return None
        if self._guard is None:
            return number
        if signal.si_pid == self._guard:
            return None if self._is_a_copy(number, now) else number
        self._recent = [entry for entry in self._recent if now < entry[0]] + [(now + _REMEMBERED, number)]
        if apart:
            return number
        if number not in _HARMLESS:
            self._unsettled.append((now + _SETTLED, number))
        return None

    def _is_a_copy(self, number: int, now: float) -> bool:
        """Whether the guard passes on a signal that went to all: its copy comes a little later than ours, once."""
        for entry in self._recent:
            if entry[1] == number and now < entry[0]:
                self._recent.remove(entry)
                return True
        return False

    def settle(self) -> "list[int]":
        """Return the signals that reached us a moment ago and should have ended the command if it received them."""
        now = monotonic()
        settled = [number for moment, number in self._unsettled if moment <= now]
        self._unsettled = [entry for entry in self._unsettled if entry[0] > now]
        return settled

    @property
    def next(self) -> float:
        """When `settle` will have something to return."""
        return min([moment for moment, _ in self._unsettled]) if self._unsettled else _NEVER_AGAIN


def would_have_ended(pid: int, number: int) -> bool:
    """Whether a process neither blocks, ignores nor handles a signal, so it cannot have received it and live."""
    lines = (read(f"/proc/{pid}/status") or b"").split(b"\n")
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(_HANDLED)]
    return bool(masks) and not any(mask >> (number - 1) & 1 for mask in masks)
