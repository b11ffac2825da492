"""Files that are opened before the command starts and appear, whole, when it has ended."""

import os
from stat import S_ISREG

from tonnage.errors import InputError, TonnageError

__all__ = ["Output"]

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}  # a file that they lead to is written to, not replaced


class Output:
    """A file to be written: at first beside its place, under another name."""

    def __init__(self, path: str) -> None:
        """Make sure that the file can be written; one that is no regular file, such as a terminal, is written to."""
        self.path = path
        self._temporary: str | None = None
        try:
            if path in _STREAMS:
                self._descriptor = os.dup(_STREAMS[path])
                return
            self._target = os.path.realpath(path)
            if os.path.lexists(self._target) and not S_ISREG(os.stat(self._target).st_mode):
                self._descriptor = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY)
                return
            folder, name = os.path.split(self._target)
            self._temporary = os.path.join(folder, f".{name[:200]}.{os.getpid()}.tmp")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._temporary, flags, 0o666)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=path) from None

    def write(self, text: str) -> None:
        """Add to the file."""
        data = text.encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def commit(self) -> None:
        """Let the file appear under its name, complete, in place of one that was there."""
        try:
            if self._temporary is not None:
                os.fsync(self._descriptor)
                os.rename(self._temporary, self._target)
            os.close(self._descriptor)
        except OSError as error:
            raise TonnageError(f"{self.path}: cannot be written: {error.strerror}") from None

    def discard(self) -> None:
        """Leave no trace of the file."""
        os.close(self._descriptor)
        if self._temporary is not None:
            os.unlink(self._temporary)
