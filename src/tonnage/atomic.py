"""Files that appear complete under their name, or not at all.

This module is imported by ``watch`` before it starts a command, so it imports little.
"""

import os
from errno import EDQUOT, EIO, ENOENT, ENOSPC
from stat import S_IMODE, S_ISREG

from tonnage.errors import InputError, TonnageError

__all__ = ["AtomicFile", "keep_owner", "make_private_file", "make_private_folder", "name_beside", "private_opener"]

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_WORK_FAILED = (ENOSPC, EDQUOT, EIO)


class AtomicFile:
    """A file that is being written: at first next to its destination, under a temporary name.

    A link stays a link, and its target is replaced, with the same permissions and, if allowed, the same owner. Anything
    but a regular file, such as a pipe or standard output, is written to instead of being replaced.

    A new file is private to its owner: most files contain command lines, which can contain passwords. With the mode
    0o666 the umask decides, as for any other file of the user.
    """

    def __init__(self, path: object, mode: int = 0o600) -> None:
        """Open the temporary file; raises an error if it cannot be written."""
        self._mode = mode
        self.path = os.fspath(path)  # type: ignore[call-overload]
        self.target: str | None = None
        """The file to replace; None if it is written to directly."""
        self._temporary: str | None = None
        self._descriptor = -1
        try:
            self._open()
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> "AtomicFile":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Put the file in place, or discard it after an error."""
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
            raise  # the reader has closed the pipe
        except OSError as error:
            raise self._error(error) from None

    def complete(self) -> None:
        """Flush everything to disk and close the file, so that only its name is missing."""
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
        """Put the complete file in place under its name, replacing any previous one."""
        self.complete()
        try:
            if self._temporary is not None and self.target is not None:
                os.rename(self._temporary, self.target)
                self._temporary = None
        except OSError as error:
            raise self._error(error) from None

    @property
    def committed(self) -> bool:
        """Whether the file has been put in place."""
        return self.target is not None and not (self._temporary and os.path.lexists(self._temporary))

    def discard(self) -> None:
        """Close and remove the temporary file."""
        try:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            if self._temporary is not None:
                os.unlink(self._temporary)
        except OSError:
            pass  # nothing more can be done

    def _open(self) -> None:
        stream = _STREAMS.get(self.path)
        if stream is None and self.path.startswith("/dev/fd/"):
            stream = int(self.path.removeprefix("/dev/fd/"))
        if stream is not None:
            self._descriptor = os.dup(stream)
            return
        target = os.path.realpath(self.path)
        old = os.stat(target) if os.path.lexists(target) else None
        if old is not None and not S_ISREG(old.st_mode):
            self._descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY)
            return
        self.target = target
        name = name_beside(target)
        mode = self._mode if old is None else 0o600  # until it gets the mode of the file that it replaces
        self._descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        self._temporary = name
        if old is not None:
            os.fchmod(self._descriptor, S_IMODE(old.st_mode))
            keep_owner(self._descriptor, old)

    def _error(self, error: OSError) -> TonnageError:
        if error.errno == ENOENT:
            missing = self.target if self.target and os.path.islink(self.path) else self.path
            problem = f"cannot be written: there is no folder {os.path.dirname(missing) or '.'}"
        else:
            problem = f"cannot be written: {error.strerror or error}"
        if error.errno in _WORK_FAILED:
            return TonnageError(f"{self.path}: {problem}")
        return InputError(problem, path=self.path)


def name_beside(path: str) -> str:
    """Return an unused temporary name in the folder of a file."""
    return os.path.join(os.path.dirname(path), f".tonnage-{os.urandom(6).hex()}")


def private_opener(path: str, flags: int) -> int:
    """Open a file for ``open(..., opener=private_opener)``: a new one is private to its owner."""
    return os.open(path, flags, 0o600)


def make_private_file(path: object) -> None:
    """Create an empty file that is private to its owner, unless it exists.

    An existing file is not even opened: closing it would drop the locks that SQLite holds on it for this process.
    """
    target = os.path.realpath(os.fspath(path))  # type: ignore[call-overload]
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass


def make_private_folder(path: object) -> None:
    """Create a folder and its missing parents, private to their owner; existing ones keep their modes."""
    folder: str = os.fspath(path)  # type: ignore[call-overload]
    try:
        os.mkdir(folder, 0o700)
    except FileNotFoundError:
        above = os.path.dirname(folder)
        if above in ("", folder):
            raise
        make_private_folder(above)
        make_private_folder(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def keep_owner(file: "int | os.PathLike[str]", old: os.stat_result) -> None:
    """Give a path or an open file the owner and the group of another file, as far as allowed."""
    for owner in (old.st_uid, -1):  # members of a group may set the group alone
        try:
            os.chown(file, owner, old.st_gid)
        except OSError:
            continue
        return
