"""Being told to end: signals as something that can be waited for, together with everything else."""

import os
import signal
from contextlib import suppress
from types import FrameType

__all__ = ["Ending"]


class Ending:
    """Notes which signal told this process to end; one that waits for `descriptor`, too, wakes up then."""

    def __init__(self) -> None:
        """Listen to signals, for good."""
        self.signal: int | None = None
        self.descriptor, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._hear)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def told(self) -> bool:
        """Whether this process was told to end; whoever waits wakes up again only for the next signal."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        return self.signal is not None

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
