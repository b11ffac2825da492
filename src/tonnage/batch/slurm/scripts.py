"""The input of sbatch: the options of a request, and the batch script."""

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
_EXCLUDE = "--exclude="
_INSTEAD = ("partition", "account", "qos")
_OURS = frozenset(
    [
        *("array", "chdir", "cpus-per-task", "error", "exclusive", "export", "export-file", "input", "job-name"),
        *("mem", "mem-per-cpu", "mem-per-gpu", "nodes", "ntasks", "ntasks-per-node", "no-kill", "open-mode", "output"),
        *("requeue", "no-requeue", "time", "time-min", "tmp"),  # set by a request
        *("clusters", "help", "hold", "parsable", "quiet", "test-only", "usage", "verbose", "version", "wait", "wrap"),
        *_INSTEAD,
    ]
)


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """Where and under which account to submit; None means the cluster's default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    extra: tuple[str, ...] = ()
    """Additional sbatch options, each as one word: ``--constraint=gpu``."""

    def __post_init__(self) -> None:
        for name in _INSTEAD:
            value = getattr(self, name)
            if value is not None and not re.fullmatch(r"[^\s,'\"\\#-][^\s,'\"\\#]*", value):
                raise InputError(f'"{value}" is not a valid Slurm {name}')
        for option in self.extra:
            _check(option)


def _check(option: str) -> None:
    """Reject an option that would change what a run relies on."""
    found = _LONG.fullmatch(option)
    if not found:
        raise InputError(f'"{option}" is not an sbatch option', hint="write it as one word, such as --constraint=gpu")
    _one_line(option, "an sbatch option")
    name = found[1]
    # sbatch also accepts abbreviated options: --arr=1-9.
    ours = min((known for known in _OURS if known.startswith(name)), default=None)
    if ours in _INSTEAD and name == ours:
        raise InputError(f"{option}: use tonnage's own option --{ours}")
    if ours:
        raise InputError(f"{option}: tonnage sets --{ours} itself", hint="give others, such as --constraint")


def placement(options: SlurmOptions) -> list[str]:
    """Return the options for where a job runs and who pays for it, as far as the user chose."""
    return [f"--{name}={value}" for name in _INSTEAD if (value := getattr(options, name)) is not None]


def script(request: Request, options: SlurmOptions) -> str:
    """Return the script of a batch job, with its options."""
    lines = [f"#SBATCH {_quoted(option)}" for option in _options(request, options)]
    return "\n".join(["#!/bin/sh", *lines, f"exec {command_line(request.words, VARIABLES)}"]) + "\n"


def _options(request: Request, options: SlurmOptions) -> Iterator[str]:
    if not _NAME.fullmatch(request.name):
        raise InputError(f'"{request.name}" is not a valid name for a batch job: expected letters, digits and ._- only')
    yield f"--job-name={request.name}"
    yield from placement(options)
    yield f"--chdir={_path(request.folder)}"
    yield f"--output={_pattern(request)}"  # including standard error
    # A job restarted by Slurm would repeat what is already recorded as done or lost.
    yield from ("--open-mode=append", "--no-requeue", "--export=ALL")
    excluded = [option for option in options.extra if option.startswith(_EXCLUDE)]
    avoided = [*request.avoided, *(option.removeprefix(_EXCLUDE) for option in excluded)]
    if avoided:
        yield f"{_EXCLUDE}{','.join(avoided)}"
    yield from _size(request)
    if request.elements:
        yield f"--array=0-{request.elements - 1}"
    yield from (option for option in options.extra if option not in excluded)


def _size(request: Request) -> Iterator[str]:
    yield f"--nodes={request.nodes}"
    yield "--ntasks-per-node=1"
    if request.whole_nodes:
        # All memory of the nodes; and if one node fails, the others continue.
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
    """Round up to at least one unit; 0 would mean something else: all, or no limit."""
    return max(1, ceil(amount / unit))


def _pattern(request: Request) -> str:
    """Return the output file in sbatch's notation, in which % and a letter is a placeholder."""
    path = _path(request.output)
    if "\\" in path:
        raise InputError(f"{path}: sbatch cannot write to a path with a backslash")
    return path.replace("%", "%%") + (".%a" if request.elements else "")


def _path(path: Path) -> str:
    # A relative path would be relative to where sbatch is called.
    return _one_line(str(path.absolute()), "a path")


def _one_line(text: str, what: str) -> str:
    if any(letter in text for letter in "\n\r\0"):
        raise InputError(f"{what} for sbatch cannot contain a line break: {text!r}")
    return text


def _quoted(option: str) -> str:
    """Quote an option for an ``#SBATCH`` line, where sbatch treats quotes as a shell does."""
    if re.fullmatch(r"[\w@%+=:,./-]+", option, re.ASCII):
        return option
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'
