"""The options of ``tonnage watch``, parsed by hand because importing a parser would take longer than many commands.

The help text is generated from the same table (see ``cli/watch.py``).
"""

import os

from tonnage.errors import InputError
from tonnage.units import parse_seconds
from tonnage.watch.limits import Job, parse_limit, read_limits
from tonnage.watch.record import FIELD

__all__ = ["OPTIONS", "Request", "parse"]

# The option's name, the placeholder for its value (None: a flag), whether it can be repeated, its help.
OPTIONS = (
    (
        "--limit",
        "RESOURCE=AMOUNT",
        True,
        "Stop the command when it uses more: memory=300MB, disk=1GB, wall_time=10m, cpu_time=1h, cores=2, "
        "processes=100.",
    ),
    ("--limits", "FILE", False, 'Read limits from a JSON file: {"memory": [300, "MB"]}, where MB means 2^20 bytes.'),
    ("--measure-only", None, False, "Report exceeded limits, but let the command continue."),
    ("--grace", "TIME", False, "On an exceeded limit send SIGTERM, and kill after this time.  [default: kill at once]"),
    ("--summary", "FILE", False, "Write the summary to this file, as JSON.  [default: one line on standard error]"),
    ("--spool", "DIR", False, "Write the summary to a new file in this folder, under a unique name."),
    ("--series", "FILE", False, "Write every sample to this file, as CSV."),
    ("--category", "NAME", False, "Category of the job, for the summary."),
    ("--workflow", "NAME", False, "Workflow of the job, for the summary."),
    ("--field", "KEY=VALUE", True, "Additional field for the summary."),
    ("--dir", "DIR", False, "Measure disk use below this folder.  [default: the working directory]"),
    ("--interval", "TIME", False, "Longest time between two samples.  [default: 1s]"),
    ("--cores-window", "TIME", False, "Average cores over this time window to find the peak.  [default: 20s]"),
    ("--live", None, False, "Show memory, cores, disk and time while the command runs, on a terminal."),
)  # fmt: skip
_KNOWN = {name: (placeholder, repeatable) for name, placeholder, repeatable, _ in OPTIONS} | {"--help": (None, True)}


class Request:
    """What the command line asks for."""

    __slots__ = ("about", "job", "live", "series", "spool", "summary")

    def __init__(self, job: Job, values: "dict[str, list[str]]") -> None:
        self.job = job
        self.summary = _last(values, "--summary")
        self.series = _last(values, "--series")
        self.spool = _last(values, "--spool")
        self.live = "--live" in values
        self.about: dict[str, str] = {}
        for option in ("category", "workflow"):
            value = _last(values, f"--{option}")
            if value is not None:
                self.about[option] = value
        self.about |= dict(_field(text) for text in values.get("--field", ()))


def parse(arguments: "list[str]") -> "Request | None":
    """Parse the arguments after ``tonnage watch``; return None if they ask for help."""
    values, command = _split(arguments)
    if "--help" in values:
        return None
    if not command:
        raise InputError("no command to watch", hint="expected: tonnage watch [OPTIONS] -- COMMAND ...")
    path = _last(values, "--limits")
    limits = read_limits(path) if path is not None else {}
    limits |= dict(parse_limit(text) for text in values.get("--limit", ()))
    _check_files(values)
    folder = _last(values, "--dir") or "."
    if not os.path.isdir(folder):
        raise InputError(f"--dir: {folder} is not a folder")
    job = Job(
        command,
        folder=folder,
        limits=limits,
        measure_only="--measure-only" in values,
        grace=_time(values, "--grace", 0.0, least=0.0),
        interval=_time(values, "--interval", 1.0, least=0.01),
        cores_window=_time(values, "--cores-window", 20.0, least=0.1),
    )
    return Request(job, values)


def _check_files(values: "dict[str, list[str]]") -> None:
    names = [name for option in ("--summary", "--series", "--spool") if (name := _last(values, option)) is not None]
    if "" in names:
        raise InputError("a file name is empty")
    if len(set(names)) < len(names):
        raise InputError(f"{names[0]} is given for more than one of --summary, --series and --spool")


def _split(arguments: "list[str]") -> "tuple[dict[str, list[str]], list[str]]":
    """Separate the options from the command, which begins with the first word that is not an option."""
    values: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name == "--":
            break
        name = "--help" if name == "-h" else name
        if name not in _KNOWN:
            raise InputError(f"no such option: {name}", hint=_similar(name))
        placeholder, repeatable = _KNOWN[name]
        if placeholder is None and equals:
            raise InputError(f"{name} takes no value")
        if placeholder is not None and not equals:
            if not rest:
                raise InputError(f"{name} needs a value: {name} {placeholder}")
            value = rest.pop(0)
        if name in values and not repeatable:
            raise InputError(f"{name} is given twice")
        values.setdefault(name, []).append(value)
    return values, rest


def _similar(name: str) -> str:
    near = [known for known in _KNOWN if known.startswith(name[:4]) and len(name) > 3]
    return f"did you mean {' or '.join(near)}?" if near else "see tonnage watch --help"


def _last(values: "dict[str, list[str]]", name: str) -> "str | None":
    given = values.get(name)
    return given[-1] if given else None


def _time(values: "dict[str, list[str]]", name: str, default: float, least: float) -> float:
    text = _last(values, name)
    if text is None:
        return default
    try:
        seconds = parse_seconds(text)
    except InputError as error:
        raise InputError(f"{name}: {error.message}", hint=error.hint) from None
    if seconds < least:
        raise InputError(f"{name}: {text} is too short; the minimum is {least:g}s")
    return seconds


def _field(text: str) -> "tuple[str, str]":
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f'--field: "{text}" is not KEY=VALUE')
    return FIELD + key, value
