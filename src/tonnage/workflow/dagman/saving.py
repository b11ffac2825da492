"""Write several files at once: either all of them or none."""

import gzip
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from stat import S_ISVTX, S_IWGRP, S_IWOTH, S_IWUSR

from tonnage.atomic import AtomicFile, keep_owner, name_beside
from tonnage.errors import InputError, TonnageError

__all__ = ["NewFile", "save_all"]


@dataclass(frozen=True, slots=True)
class NewFile:
    """The new contents of a file."""

    path: Path
    data: bytes
    """Its contents, not compressed."""
    compressed: bool = False
    """Whether it is compressed with gzip on disk."""


def save_all(files: Sequence[NewFile], *, backup: bool = False) -> list[Path]:
    """Write files, the last one last; if one cannot be written, nothing changes.

    If the final steps fail, renames that were already made are undone; only a process that is killed between two of
    them leaves some files new and some old. Folders are created, except that of the last file. `backup` keeps the old
    contents of a file as NAME.bak, and returns these names before the files that were written.
    """
    for file in files:
        _refuse_protected(file.path)
    with ExitStack() as undo:
        staged = [_staged(file, undo) for file in files[-1:]]
        for file in files[:-1]:
            _make_folder(file.path.parent, undo)
            staged.insert(-1, _staged(file, undo))
        backups = [copy for file in files if backup and (copy := _back_up(file.path, undo)) is not None]
        kept = [_Old(whole, undo) for whole in staged if whole.target is not None]
        for whole in staged:
            whole.commit()
        undo.pop_all()
    for old in kept:
        old.forget()
    return [*backups, *(file.path for file in files)]


class _Old:
    """The old version of a file, which is restored if other files cannot be replaced."""

    def __init__(self, new: AtomicFile, undo: ExitStack) -> None:
        self._new = new
        self._path = Path(new.target or "")
        self._kept: Path | None = None
        undo.callback(self._put_back)
        if self._path.exists():
            self._kept = Path(name_beside(str(self._path)))
            try:
                _keep(self._path, self._kept)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror or error}", path=new.path) from None

    def _put_back(self) -> None:
        try:
            if self._new.committed and self._kept is None:
                self._path.unlink(missing_ok=True)
            elif self._new.committed and self._kept is not None:
                self._kept.rename(self._path)
        except OSError as error:
            where = f": its old contents are now in {self._kept}" if self._kept else ""
            raise TonnageError(f"{self._path}: could not be restored ({error.strerror or error}){where}") from error
        self.forget()

    def forget(self) -> None:
        """Remove the old version."""
        if self._kept is not None:
            with suppress(OSError):
                self._kept.unlink(missing_ok=True)


def _refuse_protected(path: Path) -> None:
    """Reject a write-protected file, because renaming would replace it nevertheless."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # it does not exist, or writing it will give the best error message
    if not mode & (S_IWUSR | S_IWGRP | S_IWOTH) or not os.access(path, os.W_OK):
        raise InputError("cannot be written: it is write-protected", path=path)


def _staged(file: NewFile, undo: ExitStack) -> AtomicFile:
    """Write a temporary file next to the final one."""
    whole = AtomicFile(file.path, 0o666)
    undo.callback(whole.discard)
    whole.write(gzip.compress(file.data, mtime=0) if file.compressed else file.data)
    whole.complete()
    return whole


def _make_folder(folder: Path, undo: ExitStack) -> None:
    missing = takewhile(lambda one: not one.exists(), (folder, *folder.parents))
    for one in reversed(list(missing)):
        try:
            one.mkdir()
        except OSError as error:
            raise InputError(f"cannot be created: {error.strerror or error}", path=one) from None
        undo.callback(_remove_folder, one)


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _back_up(path: Path, undo: ExitStack) -> Path | None:
    """Keep the current contents of a file under another name, and return that name."""
    if not path.is_file():
        return None
    for name in _backup_names(path):
        try:
            _keep(path.resolve(), name)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", path=name) from None
        undo.callback(name.unlink, missing_ok=True)
        return name
    return None


def _backup_names(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.bak")
    for number in count(1):
        yield path.with_name(f"{path.name}.bak{number}")


def _keep(path: Path, name: Path) -> None:
    """Keep the current contents of a file under another name: a hard link, or a copy if that is not possible."""
    if not name.parent.stat().st_mode & S_ISVTX:  # in a sticky folder, a link to another user's file cannot be removed
        try:
            os.link(path, name)
        except FileExistsError:
            raise
        except OSError:
            pass  # another file system, or one without hard links
        else:
            return
    name.touch(0o600, exist_ok=False)
    try:
        shutil.copy2(path, name)
    except BaseException:
        name.unlink()
        raise
    keep_owner(name, path.stat())
