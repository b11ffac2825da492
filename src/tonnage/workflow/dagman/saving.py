"""Several new files at once: all of them appear, or none."""

import gzip
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from stat import S_IWGRP, S_IWOTH, S_IWUSR

from tonnage.errors import InputError
from tonnage.whole import WholeFile

__all__ = ["NewFile", "save_all"]


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file as it is to be."""

    path: Path
    data: bytes
    """Its contents, not compressed."""
    compressed: bool = False
    """Whether it is compressed with gzip on the disk."""


def save_all(files: Sequence[NewFile], *, backup: bool = False) -> list[Path]:
    """Write files, the last one last; where one cannot be written, nothing changes.

    Their folders are made, but not that of the last one. `backup` keeps what a file held as NAME.bak, and returns
    these beside the files that were written.
    """
    for file in files:
        _refuse_protected(file.path)
    with ExitStack() as undo, ExitStack() as undo_backups:
        staged = [_staged(file, undo) for file in files[-1:]]
        for file in files[:-1]:
            _make_folder(file.path.parent, undo)
            staged.insert(-1, _staged(file, undo))
        backups = [copy for file in files if backup and (copy := _back_up(file.path, undo_backups)) is not None]
        for whole in staged:
            whole.commit()
            undo_backups.pop_all()  # from now on they are needed
    return [*backups, *(file.path for file in files)]


def _refuse_protected(path: Path) -> None:
    """Refuse a file that nobody may write: renaming would replace it all the same."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # it does not exist, or writing it says best what is wrong
    if not mode & (S_IWUSR | S_IWGRP | S_IWOTH) or not os.access(path, os.W_OK):
        raise InputError("cannot be written: it is write-protected", path=path)


def _staged(file: NewFile, undo: ExitStack) -> WholeFile:
    """Write a file beside its place."""
    whole = WholeFile(file.path)
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
            raise InputError(f"cannot be made: {error.strerror or error}", path=one) from None
        undo.callback(_remove_folder, one)


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _back_up(path: Path, undo: ExitStack) -> Path | None:
    """Keep what a file holds now under another name, and return that."""
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
    try:
        os.link(path, name)  # the new file gets another place on the disk, so the old one stays as it is
    except FileExistsError:
        raise
    except OSError:  # another disk, or one without such links
        with name.open("xb"):
            pass
        shutil.copy2(path, name)
