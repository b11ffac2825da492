"""HTCondor submit descriptions: what a node runs and what it requests."""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from tonnage.jobs import Amounts

__all__ = [
    "JOB_PRIO",
    "OWN_PRIORITY",
    "PRIORITY_LINE",
    "WINS",
    "Description",
    "MacroPlace",
    "amount",
    "amounts",
    "command",
    "expand",
    "files",
    "gpus",
    "oddities",
    "parse",
    "priority_from_macro",
    "quoted_argument",
]

Description: TypeAlias = Mapping[str, str]
"""The settings of a submit description by their lower-case names, with macros not expanded."""

_SETTING = re.compile(r"\s*([+A-Za-z_][\w.+]*)\s*=(.*)", re.DOTALL)
_BLOCK = re.compile(r"\s*([+A-Za-z_][\w.+]*)\s*@=(\w+)\s*")
_QUEUE = re.compile(r"\s*queue\b(?!\s*=)", re.IGNORECASE)
_MACRO = re.compile(r"(?<!\$)\$\(([\w.]+)(?::([^()]*))?\)")
_LOOKS_LIKE_MACRO = re.compile(r"(?<!\$)\$(?=\w*\()")
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)b?\s*$", re.IGNORECASE)
# In the new syntax of `arguments`: text in single quotes (doubled ones stand for one), blanks, other text.
_PIECES = re.compile(r"('(?:[^']|'')*'?)|(\s+)|([^\s']+)")
_LARGEST = 2.0**63
REQUESTS = {
    "cores": "request_cpus",
    "memory": "request_memory",
    "disk": "request_disk",
    "wall_time": "allowed_execute_duration",
    "gpus": "request_gpus",
}
"""The submit command that requests each resource."""
_GPUS = REQUESTS["gpus"]
_AMOUNTS = [command for command in REQUESTS.values() if command != _GPUS]
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

QUEUE = "queue"
"""The key under which `parse` keeps what follows ``queue``; no setting can have that name."""
JOB_PRIO = "jobprio"
"""A setting that only takes effect if neither the description nor DAGMan sets a ``priority``."""
_FORCED_PRIORITY = "my.jobprio"  # goes into the job unchanged, after everything else
_PRIORITY = ("priority", "prio")
OWN_PRIORITY = (*_PRIORITY, _FORCED_PRIORITY)
"""The names of settings that override DAGMan's priority."""
WINS = "sets a priority, which overrides the ranking"
"""The warning about such a description."""
PRIORITY_LINE = "priority = $(JOBPRIORITY:0)"
"""The line that gives a job the priority in the DAG file's VARS."""
_FROM_MACRO = re.compile(r"\$\(\s*JOBPRIORITY\s*(?::\s*0\s*)?\)", re.IGNORECASE)
CONDITION = "if"
"""The key under which `parse` keeps an ``if``, which it does not evaluate."""
_CONDITION = re.compile(r"\s*if\b(?!\s*=)", re.IGNORECASE)
_END = "endif"
_END_OF_CONDITION = re.compile(r"\s*endif\b(?!\s*=)", re.IGNORECASE)
_FUNCTION = re.compile(
    r"\$(?:ENV|INT|REAL|STRING|CHOICE|RANDOM_CHOICE|RANDOM_INTEGER|SUBSTR|BASENAME|DIRNAME|EVAL|F[fpduwnxbqa]*)"
    r"\([^()]*\)"
)

# A node is one cluster; if it has several processes, the first represents all. Its number is not known yet.
_FIRST_PROCESS = dict.fromkeys(("process", "procid", "step", "row", "itemindex"), "0")
_LATER = frozenset(("cluster", "clusterid", "dagmanjobid", "dag_parent_names", "retry"))

# A macro can refer to another one, but a chain this long is circular.
_DEEPEST = 32
_MOST_EXPANDED = 2**20
_DOLLAR = "\0"  # a dollar that must not be read as the start of a macro again; no text file contains this character


def parse(text: str) -> dict[str, str]:
    """Return the settings of a submit description; if a setting occurs twice, the last one counts.

    Anything after the ``queue`` line is ignored, as in DAGMan.
    """
    settings: dict[str, str] = {}
    for _, name, value in _statements(text):
        if name != _END:
            settings[name] = _without_itself(name, value, settings.get(name, ""))
    return settings


def _statements(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line's index, name and value of each setting, ``if`` and ``endif``, and of the ``queue`` at the end."""
    numbered = enumerate(text.split("\n"))
    lines = (line for _, line in numbered)
    for index, line in numbered:
        if line.lstrip().startswith("#"):
            continue
        whole = _continued(line, lines)
        if found := _QUEUE.match(whole):
            yield index, QUEUE, whole[found.end() :].strip()
            return
        if _CONDITION.match(whole):
            yield index, CONDITION, whole.strip()
        elif _END_OF_CONDITION.match(whole):
            yield index, _END, ""
        if found := _BLOCK.fullmatch(whole):
            yield index, _key(found.group(1)), _block(f"@{found.group(2)}", lines)
        elif found := _SETTING.match(whole):
            yield index, _key(found.group(1)), found.group(2).strip()


class MacroPlace(NamedTuple):
    """Where `PRIORITY_LINE` must be inserted into a description."""

    line: int | None
    """The index of the line before which to insert it; the number of lines means the end, None not at all."""
    overruled: bool
    """Whether the description sets another priority before that line."""
    wins: bool
    """Whether the description sets another priority that the line does not override."""

    @property
    def warning(self) -> str | None:
        """The warning about another priority, if there is one."""
        if self.wins:
            return WINS
        return "sets a priority, which the ranking overrides" if self.overruled else None


def priority_from_macro(text: str) -> MacroPlace:
    """Return where a description needs `PRIORITY_LINE`: before ``queue``, and before an enclosing ``if``."""
    place, last = text.count("\n") + 1, ""
    opened: list[tuple[int, str]] = []  # each `if` that is open, and the priority above it
    inside = forced = False
    for index, name, value in _statements(text):
        if name == CONDITION:
            opened.append((index, last))
        elif name == _END:
            opened = opened[:-1]
            inside = inside and bool(opened)
        elif name == QUEUE:
            place, last = opened[0] if opened else (index, last)
        elif name == _FORCED_PRIORITY:
            forced = True
        elif name in _PRIORITY and not (opened and _FROM_MACRO.fullmatch(value)):
            last, inside = value, bool(opened)
    has_it = _FROM_MACRO.fullmatch(last) is not None
    return MacroPlace(None if has_it else place, bool(last) and not has_it, inside or forced)


def _continued(line: str, lines: Iterator[str]) -> str:
    """Return a line joined with its continuation lines, without their leading blanks."""
    parts = [line.rstrip()]
    while parts[-1].endswith("\\"):
        parts[-1] = parts[-1][:-1]
        parts.append(next(lines, "").strip())
    return "".join(parts) if len(parts) > 1 else line


def _block(mark: str, lines: Iterator[str]) -> str:
    """Return the lines up to a mark: the value of a multi-line setting."""
    return "\n".join(takewhile(lambda line: line != mark, (line.strip() for line in lines)))


def _without_itself(name: str, value: str, old: str) -> str:
    """Replace references of a setting to itself with its old value, so that expansion ends."""
    if "$" not in value:
        return value
    itself = re.compile(rf"\$\({re.escape(name)}(?::([^()]*))?\)", re.IGNORECASE)
    return itself.sub(lambda found: old or found.group(1) or "", value)


def _key(name: str) -> str:
    return f"my.{name[1:].lower()}" if name.startswith("+") else name.lower()


def expand(value: str, macros: Mapping[str, str]) -> str:
    """Replace ``$(name)`` and ``$(name:default)`` as condor_submit does; an unknown name becomes nothing.

    Raises ValueError if the macros grow without end.
    """
    return _expanded(value, macros).replace(_DOLLAR, "$")


def _expanded(value: str, macros: Mapping[str, str]) -> str:
    """Expand all macros, but leave `_DOLLAR` in place of protected dollars."""
    if "$" not in value:
        return value
    grown = 0

    def replacement(found: re.Match[str]) -> str:
        nonlocal grown
        text = _replacement(found, macros)
        grown += len(text)
        if grown > _MOST_EXPANDED:
            raise ValueError(f"macros grow beyond {_MOST_EXPANDED:,} characters")
        return text

    for _ in range(_DEEPEST):
        value, count = _MACRO.subn(replacement, value)
        if not count:
            break
    return value


def _replacement(found: re.Match[str], macros: Mapping[str, str]) -> str:
    name = found.group(1).strip().lower()
    if name == "dollar":
        return _DOLLAR
    if macros.get(name):
        return macros[name]
    if name in _FIRST_PROCESS:
        return _FIRST_PROCESS[name]
    if name in _LATER:
        return f"{_DOLLAR}({found.group(1)})"
    return found.group(2) or ""


def command(description: Description, macros: Mapping[str, str]) -> str | None:
    """Return the shell command that a node runs, or None if there is none or only HTCondor can evaluate it."""
    if unsupported(description, macros):
        return None
    if "shell" in description:
        return expand(description["shell"], macros)
    program = expand(description.get("executable", ""), macros)
    if not program:
        return None
    arguments = _arguments(expand(description.get("arguments", description.get("args", "")), macros))
    # `sh -c TEXT` is how a command line is written in a submit description: return the text.
    if program == "/bin/sh" and len(arguments) == 2 and arguments[0] == "-c":
        return arguments[1]
    # HTCondor takes the program from the folder, whereas a shell would search its PATH.
    return shlex.join([program if "/" in program else f"./{program}", *arguments])


def unsupported(description: Description, macros: Mapping[str, str]) -> str | None:
    """Return an HTCondor function in the command, such as ``$ENV(HOME)``, or None."""
    for name in ("executable", "arguments", "args", "shell"):
        value = description.get(name, "")
        if "$" in value and (found := _FUNCTION.search(_expanded(value, macros))):
            return found.group(0)
    return None


def _arguments(value: str) -> list[str]:
    """Split the value of ``arguments``: the new syntax is in double quotes, the old one is split at blanks."""
    if not (len(value) >= 2 and value.startswith('"') and value.endswith('"')):
        return value.replace('\\"', '"').split()
    if "'" not in value:
        return value[1:-1].replace('""', '"').split()
    words: list[str] = []
    word: str | None = None
    for quoted, blank, plain in _PIECES.findall(value[1:-1].replace('""', '"')):
        if not blank:
            word = (word or "") + (plain or quoted[1:-1].replace("''", "'"))
        elif word is not None:
            words.append(word)
            word = None
    return words if word is None else [*words, word]


def quoted_argument(text: str) -> str:
    """Escape a text for use between single quotes in the new syntax of ``arguments``.

    Only those dollars are protected that condor_submit would take for a macro or a function.
    """
    return _LOOKS_LIKE_MACRO.sub("$(DOLLAR)", text.replace("'", "''").replace('"', '""'))


def amounts(description: Description, macros: Mapping[str, str]) -> Amounts:
    """Return what a description requests; expressions that only a pool can evaluate count as unknown."""
    return _amounts(*(expand(description.get(name, ""), macros) for name in _AMOUNTS))


@lru_cache(maxsize=4096)  # thousands of nodes request the same, and share one value
def _amounts(cpus: str, memory: str, disk: str, seconds: str) -> Amounts:
    return Amounts.of(
        cores=amount(cpus, 1), memory=_whole(memory, 2**20), disk=_whole(disk, 2**10), wall_time=amount(seconds, 1)
    )


def gpus(description: Description, macros: Mapping[str, str]) -> int:
    """Return how many GPUs a description requests; an expression that only a pool can evaluate counts as one."""
    text = expand(description.get(_GPUS, ""), macros)
    if not text.strip():
        return 0
    count = amount(text, 1)
    return 1 if count is None else math.ceil(count)


def amount(text: str, default_unit: int) -> float | None:
    """Return a number with an optional unit (base 1024) in base units, or None if the text is something else."""
    found = _AMOUNT.match(text)
    if not found:
        return None
    number, unit = found.groups()
    value = float(number) * (_UNITS[unit.lower()] if unit else default_unit)
    return value if value < _LARGEST else None


def _whole(text: str, default_unit: int) -> int | None:
    value = amount(text, default_unit)
    return None if value is None else round(value)


def oddities(description: Description, macros: Mapping[str, str], request: Amounts) -> Iterator[str]:
    """Yield warnings: about requests that only a pool can evaluate, and about more than one job."""
    for name, requested in zip(_AMOUNTS, (request.cores, request.memory, request.disk, request.wall_time), strict=True):
        if requested is None and name in description and (value := expand(description[name], macros)):
            yield f"{name} = {value} is an expression that only a pool can evaluate: treated as unknown"
    if (value := expand(description.get(_GPUS, ""), macros)).strip() and amount(value, 1) is None:
        yield f"{_GPUS} = {value} is an expression that only a pool can evaluate: treated as 1"
    if function := unsupported(description, macros):
        yield f"{function} in the command can only be evaluated by condor_submit: the command is unknown"
    if CONDITION in description:
        yield f'"{description[CONDITION]}" is not evaluated: if a setting occurs twice, the last one counts'
    if description.get(QUEUE, "") not in ("", "1"):
        yield f"queue {description[QUEUE]} submits several jobs: treated as one task"


def files(description: Description, macros: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the files in a comma-separated setting."""
    if name not in description:
        return ()
    listed = expand(description[name], macros).strip('"').split(",")
    return tuple(one.strip() for one in listed if one.strip())
