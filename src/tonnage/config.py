"""Persistent settings: the ``tonnage.toml`` files of a project and of the user.

Options take precedence over the environment, which takes precedence over the project's file and then the user's. The
project's file is the nearest ``tonnage.toml`` in the current folder or above it; the user's is in the user's
configuration folder. A project's file may come from someone else, so it cannot choose where data is sent unless the
user trusts its folder.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tonnage.atomic import AtomicFile, make_private_folder
from tonnage.errors import InputError
from tonnage.files import is_file
from tonnage.option_values import amounts, part

__all__ = [
    "SETTINGS",
    "Setting",
    "Value",
    "counting",
    "lookup",
    "project_file",
    "settings",
    "trust",
    "trusted_folders",
    "user_file",
]

NAME = "tonnage.toml"
_TRUSTED = "trusted"
_MOST_BYTES = 1 << 16
_AMOUNTS = ("machine", "minimum")
"""Settings that are amounts of resources, and may be written as a table."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that a file can contain."""

    meaning: str
    variables: tuple[str, ...]
    """The environment variables that set it too; earlier ones take precedence."""
    needs_trust: bool = False
    """Whether a project's file can set it only in a folder that the user trusts."""


SETTINGS = {
    "machine": Setting("resources of the largest machine, or that tasks may use here", ("TONNAGE_MACHINE",)),
    "strategy": Setting("how jobs are sized", ("TONNAGE_STRATEGY",)),
    "minimum": Setting("the least that recommendations give a job", ("TONNAGE_MINIMUM",)),
    "headroom": Setting("how much more they give it than it needs", ("TONNAGE_HEADROOM",)),
    "override-requests": Setting(
        "categories whose tasks may get less than they request, or * for all", ("TONNAGE_OVERRIDE_REQUESTS",)
    ),
    "archive": Setting("where measurements are kept", ("TONNAGE_ARCHIVE",), needs_trust=True),
    "partition": Setting("partition of the batch system", ("TONNAGE_PARTITION", "SBATCH_PARTITION")),
    "account": Setting("account charged for batch jobs", ("TONNAGE_ACCOUNT", "SBATCH_ACCOUNT")),
}
"""All settings that ``tonnage.toml`` can contain."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a setting, and where it comes from."""

    setting: str
    text: str
    origin: str
    """A file or an environment variable."""
    problem: str = ""
    """Why it is ignored; empty if it is not."""


def lookup(setting: str) -> Value | None:
    """Return the value that applies unless an option overrides it."""
    return counting(settings(), setting)


def counting(values: Iterable[Value], setting: str) -> Value | None:
    """Return the first value of a setting that is not ignored."""
    return next((value for value in values if value.setting == setting and not value.problem), None)


def settings() -> Iterator[Value]:
    """Yield all values in the environment and both files; the first of each setting takes precedence."""
    for name, setting in SETTINGS.items():
        for variable in setting.variables:
            if os.environ.get(variable):
                yield Value(name, os.environ[variable], variable)
    project = project_file()
    if project is not None:
        yield from _of_project(project)
    user = user_file()
    if is_file(user):
        yield from (Value(name, text, str(user)) for name, text in _read(user).items())


def _of_project(path: Path) -> Iterator[Value]:
    trusted = path.parent in trusted_folders()
    if not trusted and path.stat().st_uid not in (os.getuid(), 0):
        problem = f"the file belongs to another user (to trust it: tonnage config trust {path.parent})"
        yield from (Value(name, text, str(path), problem) for name, text in _read(path).items())
        return
    for name, text in _read(path).items():
        problem = f"the folder is not trusted (to trust it: tonnage config trust {path.parent})"
        needs = SETTINGS[name].needs_trust and not trusted
        yield Value(name, text, str(path), problem if needs else "")


def project_file() -> Path | None:
    """Return the nearest ``tonnage.toml`` in the current folder or above it."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return None
    return next((folder / NAME for folder in (here, *here.parents) if is_file(folder / NAME)), None)


def user_file() -> Path:
    """Return the path of the user's own settings, whether or not the file exists."""
    return _folder() / NAME


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base and Path(base).is_absolute() else Path("~/.config").expanduser()
    return folder / "tonnage"


def _read(path: Path) -> dict[str, str]:
    """Return the settings in a file; raises InputError if they are invalid."""
    import tomllib

    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise InputError(f"is larger than {_MOST_BYTES >> 10} KiB", path=path)
        found = tomllib.loads(text.decode())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", path=path) from None
    return {name: _text(name, value, path) for name, value in found.items()}


def _text(name: str, value: object, path: Path) -> str:
    if name not in SETTINGS:
        raise InputError(f'"{name}" is not a setting', path=path, hint=f"use one of {', '.join(SETTINGS)}")
    if name in _AMOUNTS and isinstance(value, Mapping):
        value = ",".join(f"{key}={amount}" for key, amount in value.items())
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name}: expected a string", path=path, hint=f'write it in quotes: {name} = "..."')
    _check(name, value, path)
    return value.strip()


def _check(name: str, text: str, path: Path) -> None:
    try:
        if name in _AMOUNTS:
            amounts([text], name)
        elif name == "headroom":
            part(text, name)
    except InputError as error:
        raise InputError(error.message, path=path, hint=error.hint) from None


def trusted_folders() -> set[Path]:
    """Return the folders whose ``tonnage.toml`` may choose where data is sent."""
    try:
        lines = (_folder() / _TRUSTED).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return set()
    return {Path(line) for line in lines if line}


def trust(folder: Path, *, revoke: bool = False) -> None:
    """Trust the ``tonnage.toml`` of a folder from now on, or with `revoke` stop trusting it."""
    folder = folder.resolve()
    folders = trusted_folders() - {folder} if revoke else trusted_folders() | {folder}
    make_private_folder(_folder())
    with AtomicFile(str(_folder() / _TRUSTED)) as file:
        file.write("".join(f"{one}\n" for one in sorted(folders)).encode(errors="surrogateescape"))
