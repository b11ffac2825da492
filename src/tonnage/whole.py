"""Files that appear whole, under their name, or not at all.

This module is imported by ``watch`` before it starts a command, so it imports little.
"""

import os
from errno import EDQUOT, EIO, ENOENT, ENOSPC
from stat import S_IMODE, S_ISREG

from tonnage.errors import InputError, TonnageError

__all__ = ["WholeFile"]

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_WORK_FAILED = (ENOSPC, EDQUOT, EIO)


class WholeFile:
    """A file that is being written: at first beside its place, under a name of its own.

    A link stays a link, and what it points to is replaced, with the same permissions. What is no regular file, such as
    a pipe or standard output, is not replaced but written to.
    """

    def __init__(self, path: object) -> None:
        """Make sure that the file can be written."""
        self.path = os.fspath(path)  # type: ignore[call-overload]
        self._temporary: str | None = None
        self._descriptor = -1
        try:
            self._open()
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> "WholeFile":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Let the file appear, or after an error leave no trace of it."""
        if kind is not None:
            self.discard()
            return
        try:
            self.commit()
        except BaseException:
            self.discard()
            raise

    def write(self, data: bytes) -> None:
        """Add to the file."""
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BrokenPipeError:
            raise  # whoever reads it has seen enough
        except OSError as error:
            raise self._error(error) from None

    def complete(self) -> None:
        """Bring everything to the disk and close the file, so that only its name is missing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if self._temporary is not None:
                os.fsync(descriptor)
            os.close(descriptor)
        except OSError as error:
            raise self._error(error) from None

    def commit(self) -> None:
        """Let the file appear under its name, complete, in place of one that was there."""
        self.complete()
        try:
            if self._temporary is not None:
                os.rename(self._temporary, self._target)
                self._temporary = None
        except OSError as error:
            raise self._error(error) from None

    def discard(self) -> None:
        """Leave no trace of the file."""
        try:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            if self._temporary is not None:
                os.unlink(self._temporary)
        except OSError:
            pass  # whatever the reason, there is nothing more to do

    def _open(self) -> None:
        stream = _STREAMS.get(self.path)
        if stream is None and self.path.startswith("/dev/fd/"):
            stream = int(self.path.removeprefix("/dev/fd/"))
        if stream is not None:
            self._descriptor = os.dup(stream)
            return
        self._target = os.path.realpath(self.path)
        mode: int | None = None
        if os.path.lexists(self._target):
            mode = os.stat(self._target).st_mode
            if not S_ISREG(mode):
                flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
                self._descriptor = os.open(self._target, flags)
                return
        name = os.path.join(os.path.dirname(self._target), f".tonnage-{os.urandom(6).hex()}")
        self._descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._temporary = name
        if mode is not None:
            os.fchmod(self._descriptor, S_IMODE(mode))

    def _error(self, error: OSError) -> TonnageError:
        if error.errno == ENOENT:
            problem = f"cannot be written: there is no folder {os.path.dirname(self.path) or '.'}"
        else:
            problem = f"cannot be written: {error.strerror or error}"
        if error.errno in _WORK_FAILED:
            return TonnageError(f"{self.path}: {problem}")
        return InputError(problem, path=self.path)
