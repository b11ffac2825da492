"""File transfer: what a job brings along into its scratch folder, and what it brings back."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.htcondor.description import is_true, names

__all__ = ["MissingFileError", "bring", "fetch", "size"]

OUTPUT, ERROR = "_condor_stdout", "_condor_stderr"
_OWN = frozenset([OUTPUT, ERROR, ".job.ad", ".machine.ad"])


class MissingFileError(Exception):
    """A file that was to travel is not there."""


def bring(commands: Mapping[str, str], home: Path, scratch: Path) -> None:
    """Copy a job's inputs into its scratch folder."""
    keeps = is_true(commands.get("preserve_relative_paths", "false"))
    if is_true(commands.get("transfer_executable", "true")):
        program = home / commands["executable"]
        _copy(program, scratch / program.name)
    for name in names(commands.get("transfer_input_files", "")):
        if name.endswith("/") and not keeps:
            _copy_contents(home / name, scratch)
        else:
            _copy(home / name, scratch / _landing(name, keeps))


def fetch(commands: Mapping[str, str], home: Path, scratch: Path, before: frozenset[str]) -> int:
    """Copy a job's outputs back from its scratch folder; return how many bytes."""
    keeps = is_true(commands.get("preserve_relative_paths", "false"))
    remaps = _remaps(commands.get("transfer_output_remaps", ""))
    listed = commands.get("transfer_output_files")
    wanted = names(listed) if listed is not None else _new_files(scratch, before)
    total, missing = 0, list[Exception]()
    for name in wanted:
        landing = _landing(name, keeps)
        try:
            if name.endswith("/") and not keeps:
                total += _copy_contents(scratch / name, home)
            else:
                total += _copy(scratch / name, home / remaps.get(name, remaps.get(landing, landing)))
        except MissingFileError as error:  # the others travel nevertheless
            missing.append(error)
    if missing:
        raise missing[0]
    return total


def size(folder: Path) -> int:
    """Return the bytes that the files below a folder take."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512  # noqa: PTH118 (in a loop that is timed)
            except FileNotFoundError:  # it was there a moment ago
                continue
    return total


def _landing(name: str, keeps: bool) -> str:
    """Return where a file arrives: its name alone, unless relative paths are kept (then no slash at its end counts)."""
    path = Path(name)
    return name if keeps and not path.is_absolute() else path.name


def _remaps(value: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in value.strip().strip('"').split(";"))
    return {name.strip(): target.strip() for name, equals, target in pairs if equals}


def _new_files(scratch: Path, before: frozenset[str]) -> list[str]:
    """Return what HTCondor takes where nothing is listed: the new files of the scratch folder, and no folders."""
    return sorted(one.name for one in scratch.iterdir() if one.is_file() and one.name not in before | _OWN)


def _copy(source: Path, target: Path) -> int:
    if not source.exists():
        raise MissingFileError(str(source))
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
        return size(target)
    shutil.copy2(source, target)
    return target.stat().st_size


def _copy_contents(source: Path, target: Path) -> int:
    if not source.is_dir():
        raise MissingFileError(str(source))
    shutil.copytree(source, target, dirs_exist_ok=True)
    return size(source)
