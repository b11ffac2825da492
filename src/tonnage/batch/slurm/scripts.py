"""What sbatch is given: the options of a request, and the script with them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isinf
from pathlib import Path

from tonnage.batch.scheduler import Request, command_line
from tonnage.batch.slurm.inside import VARIABLES
from tonnage.errors import InputError

__all__ = ["SlurmOptions", "placement", "script"]

_MIB = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LONG = re.compile(r"--([a-z][a-z0-9-]*)(=.*)?", re.DOTALL)
_INSTEAD = ("partition", "account", "qos")
_OURS = frozenset(
    [
        *("array", "chdir", "cpus-per-task", "error", "exclusive", "export", "export-file", "input", "job-name"),
        *("mem", "mem-per-cpu", "mem-per-gpu", "nodes", "ntasks", "ntasks-per-node", "no-kill", "open-mode", "output"),
        *("requeue", "no-requeue", "time", "time-min", "tmp"),  # what a request says
        *("clusters", "help", "hold", "parsable", "quiet", "test-only", "usage", "verbose", "version", "wait", "wrap"),
        *_INSTEAD,
    ]
)


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """Where and as whom a user submits; None is what the cluster does by default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    extra: tuple[str, ...] = ()
    """More options of sbatch, each as one word: ``--constraint=gpu``."""

    def __post_init__(self) -> None:
        for name in _INSTEAD:
            value = getattr(self, name)
            if value is not None and not re.fullmatch(r"[^\s,'\"\\#-][^\s,'\"\\#]*", value):
                raise InputError(f'"{value}" is no {name} of Slurm')
        for option in self.extra:
            _check(option)


def _check(option: str) -> None:
    """Refuse an option that would change what a run relies on."""
    found = _LONG.fullmatch(option)
    if not found:
        raise InputError(f'"{option}" is no option of sbatch', hint="write it as one word, such as --constraint=gpu")
    _one_line(option, "an option of sbatch")
    name = found[1]
    # sbatch takes options by their first letters, too: --arr=1-9.
    ours = min((known for known in _OURS if known.startswith(name)), default=None)
    if ours in _INSTEAD and name == ours:
        raise InputError(f"{option}: the {ours} is given by an option of its own")
    if ours:
        raise InputError(f"{option}: tonnage sets --{ours} itself", hint="give options that tell which nodes, say")


def placement(options: SlurmOptions) -> list[str]:
    """Return the options that say where a job runs and who pays for it, as far as the user chose."""
    return [f"--{name}={value}" for name in _INSTEAD if (value := getattr(options, name)) is not None]


def script(request: Request, options: SlurmOptions) -> str:
    """Return the script of a batch job, with its options."""
    lines = [f"#SBATCH {_quoted(option)}" for option in _options(request, options)]
    return "\n".join(["#!/bin/sh", *lines, f"exec {command_line(request.words, VARIABLES)}"]) + "\n"


def _options(request: Request, options: SlurmOptions) -> Iterator[str]:
    if not _NAME.fullmatch(request.name):
        raise InputError(f'"{request.name}" is no name of a batch job: letters, digits and ._- only')
    yield f"--job-name={request.name}"
    yield from placement(options)
    yield f"--chdir={_path(request.folder)}"
    yield f"--output={_pattern(request)}"  # and standard error with it
    # A job that Slurm started again would do what is recorded as done, or as lost, already.
    yield from ("--open-mode=append", "--no-requeue", "--export=ALL")
    yield from _size(request)
    if request.elements:
        yield f"--array=0-{request.elements - 1}"
    yield from options.extra


def _size(request: Request) -> Iterator[str]:
    yield f"--nodes={request.nodes}"
    yield "--ntasks-per-node=1"
    if request.avoided:
        yield f"--exclude={','.join(request.avoided)}"
    if request.whole_nodes:
        # All memory of the nodes; and the others go on where one of them dies.
        yield from ("--exclusive", "--mem=0", "--no-kill")
    else:
        yield f"--cpus-per-task={request.cores or 1}"
        if request.memory is not None:
            yield f"--mem={_at_least_one(request.memory, _MIB)}M"
    if request.disk:
        yield f"--tmp={_at_least_one(request.disk, _MIB)}M"
    if request.gpus:
        yield f"--gres=gpu:{request.gpus}"
    if request.seconds is not None:
        yield "--time=UNLIMITED" if isinf(request.seconds) else f"--time={_at_least_one(request.seconds, 60)}"


def _at_least_one(amount: float, unit: int) -> int:
    """Return how many units; 0 would mean something else: all, or no limit."""
    return max(1, ceil(amount / unit))


def _pattern(request: Request) -> str:
    """Return the file of what it prints as sbatch takes it, which puts other words for a % and a letter."""
    path = _path(request.output)
    if "\\" in path:
        raise InputError(f"{path}: sbatch cannot write into a file with a backslash in its path")
    return path.replace("%", "%%") + (".%a" if request.elements else "")


def _path(path: Path) -> str:
    # A relative path would be taken from where sbatch is called.
    return _one_line(str(path.absolute()), "a path")


def _one_line(text: str, what: str) -> str:
    if any(letter in text for letter in "\n\r\0"):
        raise InputError(f"{what} cannot go to sbatch with a line break in it: {text!r}")
    return text


def _quoted(option: str) -> str:
    """Return an option as it stands on a line ``#SBATCH``, of which sbatch takes quotes as a shell does."""
    if re.fullmatch(r"[\w@%+=:,./-]+", option, re.ASCII):
        return option
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'
