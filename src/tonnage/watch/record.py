"""The summary of one command: JSON that the readers of cctools' resource_monitor accept.

Each amount is ``[value, "unit"]``, where MB means 2^20 bytes; figures that were not measured are absent. Fields that
cctools does not have stay flat, because its readers reject unknown objects.
"""

import os
from math import isfinite

from tonnage import __version__
from tonnage.watch.limits import CCTOOLS_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tonnage.watch.minder import Outcome

__all__ = ["FIELD", "UNITS", "parse", "quoted", "render", "summary"]

FIELD = "field."  # custom fields have this prefix, so that their names never clash with others

_MB = 2.0**20
UNITS = {
    "wall_time": ("s", 1.0),
    "cpu_time": ("s", 1.0),
    "cores": ("cores", 1.0),
    "cores_avg": ("cores", 1.0),
    "memory": ("MB", _MB),
    "virtual_memory": ("MB", _MB),
    "swap_memory": ("MB", _MB),
    "cgroup_memory": ("MB", _MB),
    "disk": ("MB", _MB),
    "disk_at_start": ("MB", _MB),
    "bytes_read": ("MB", _MB),
    "bytes_written": ("MB", _MB),
    "max_concurrent_processes": ("procs", 1.0),
    "total_processes": ("procs", 1.0),
    "total_files": ("files", 1.0),
    "open_files": ("files", 1.0),
    "context_switches": ("switches", 1.0),
}
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def summary(command: "list[str]", about: "dict[str, str]", outcome: "Outcome") -> "dict[str, object]":
    """Return the summary of a command; `about` holds the fields given by the user."""
    facts: dict[str, object] = {
        "monitor_version": f"tonnage {__version__}",
        "host": os.uname().nodename,
        "command": " ".join(quoted(word) for word in command),
        **about,
        **_ending(outcome),
        "start": [_rounded(outcome.start), "s"],
        "end": [_rounded(outcome.end), "s"],
    }
    facts |= {name: _amount(name, outcome.used[name]) for name in UNITS if name in outcome.used}
    facts["machine_cpus"] = [os.cpu_count() or 1, "cores"]
    if outcome.memory_method:
        facts["memory_method"] = outcome.memory_method
    if outcome.processes_method:
        facts["processes_method"] = outcome.processes_method
    if outcome.cgroup:
        facts["cgroup"] = f"v{outcome.cgroup}"
    if outcome.lower_bounds:
        facts["lower_bounds"] = " ".join(outcome.lower_bounds)
    if outcome.upper_bounds:
        facts["upper_bounds"] = " ".join(outcome.upper_bounds)
    if outcome.exceeded:
        exceeded = {CCTOOLS_NAMES.get(name, name): _amount(name, one.limit) for name, one in outcome.exceeded.items()}
        facts["limits_exceeded"] = exceeded
        for name, one in outcome.exceeded.items():
            facts[f"{CCTOOLS_NAMES.get(name, name)}_when_exceeded"] = _amount(name, one.value)
    facts["peak_times"] = {name: [_rounded(at), "s"] for name, at in sorted(outcome.peak_times.items())}
    return facts


def _ending(outcome: "Outcome") -> "dict[str, object]":
    """Return how the command ended."""
    status = outcome.status
    facts: dict[str, object] = {"exit_type": "normal"}
    if status is not None and os.WIFSIGNALED(status):
        facts = {"exit_type": "signal", "signal": os.WTERMSIG(status), "exit_status": 128 + os.WTERMSIG(status)}
    elif status is not None:
        facts["exit_status"] = os.WEXITSTATUS(status)
    if outcome.stopped_because == "limit":
        facts["exit_type"] = "limits"
    if outcome.stopped_because:
        facts["stopped_because"] = outcome.stopped_because
    return facts


def _amount(name: str, value: float) -> "list[object]":
    """Return an amount with its unit, in cctools' notation."""
    unit, factor = UNITS[CCTOOLS_NAMES.get(name, name)]
    return [_rounded(value / factor), unit]


def _rounded(value: float) -> float:
    value = round(value, 6)
    return int(value) if value == int(value) else value


def render(value: object, indent: str = "\n") -> str:
    """Return a value as JSON. Importing the json module would take longer than everything else after the command."""
    if isinstance(value, str):
        from _json import encode_basestring_ascii

        return str(encode_basestring_ascii(value))
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return repr(value) if isfinite(value) else "null"
    if isinstance(value, list):
        return f"[{', '.join(render(entry) for entry in value)}]"
    if isinstance(value, dict):
        inner = f"{indent}  "
        entries = [f"{inner}{render(str(name))}: {render(entry, inner)}" for name, entry in value.items()]
        return f"{{{','.join(entries)}{indent}}}" if entries else "{}"
    return str(value)


def parse(text: str) -> object:
    """Parse JSON without the json module, whose import takes 10 ms."""
    from _json import make_scanner

    try:
        value, end = make_scanner(_Reading)(text, 0)  # type: ignore[arg-type] # only its attributes are used
    except (StopIteration, SystemError):  # SystemError: the json module, whose error it would raise, is not loaded
        raise ValueError("not valid JSON") from None
    if text[end:].strip():
        raise ValueError("unexpected text after the JSON value")
    return value


class _Reading:
    """The settings of the JSON scanner: the json module's defaults."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: "dict[str, str]" = {}  # noqa: RUF012 (it is never written to)


def quoted(word: str) -> str:
    """Quote a word for a shell, if needed."""
    if word and _SAFE.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"
