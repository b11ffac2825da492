"""HTCondor submit descriptions: what a node runs and what it asks for."""

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
"""The settings of a submit description by their names in small letters, macros not expanded."""

_SETTING = re.compile(r"\s*([+A-Za-z_][\w.+]*)\s*=(.*)", re.DOTALL)
_BLOCK = re.compile(r"\s*([+A-Za-z_][\w.+]*)\s*@=(\w+)\s*")
_QUEUE = re.compile(r"\s*queue\b(?!\s*=)", re.IGNORECASE)
_MACRO = re.compile(r"(?<!\$)\$\(([\w.]+)(?::([^()]*))?\)")
_LOOKS_LIKE_MACRO = re.compile(r"(?<!\$)\$(?=\w*\()")
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)b?\s*$", re.IGNORECASE)
# Of the new syntax of `arguments`: what stands in single quotes (two of them inside are one), blanks, other text.
_PIECES = re.compile(r"('(?:[^']|'')*'?)|(\s+)|([^\s']+)")
_LARGEST = 2.0**63
REQUESTS = {
    "cores": "request_cpus",
    "memory": "request_memory",
    "disk": "request_disk",
    "wall_time": "allowed_execute_duration",
    "gpus": "request_gpus",
}
"""The submit command by which a job asks for each resource."""
_GPUS = REQUESTS["gpus"]
_AMOUNTS = [command for command in REQUESTS.values() if command != _GPUS]
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

QUEUE = "queue"
"""Where `parse` keeps what stands behind ``queue``; no setting can have that name."""
JOB_PRIO = "jobprio"
"""What counts only where a description sets no ``priority``, and where DAGMan gives none."""
_FORCED_PRIORITY = "my.jobprio"  # goes into the job as it is, after everything else
_PRIORITY = ("priority", "prio")
OWN_PRIORITY = (*_PRIORITY, _FORCED_PRIORITY)
"""The names under which a description sets the priority of its jobs, whatever DAGMan says."""
WINS = "sets a priority, which wins over the ranking"
"""What is said of such a description."""
PRIORITY_LINE = "priority = $(JOBPRIORITY:0)"
"""What gives a job the priority that the DAG file states in VARS."""
_FROM_MACRO = re.compile(r"\$\(\s*JOBPRIORITY\s*(?::\s*0\s*)?\)", re.IGNORECASE)
CONDITION = "if"
"""Where `parse` keeps an ``if``, which it does not evaluate."""
_CONDITION = re.compile(r"\s*if\b(?!\s*=)", re.IGNORECASE)
_END = "endif"
_END_OF_CONDITION = re.compile(r"\s*endif\b(?!\s*=)", re.IGNORECASE)
_FUNCTION = re.compile(
    r"\$(?:ENV|INT|REAL|STRING|CHOICE|RANDOM_CHOICE|RANDOM_INTEGER|SUBSTR|BASENAME|DIRNAME|EVAL|F[fpduwnxbqa]*)"
    r"\([^()]*\)"
)

# A node is one cluster; of several processes in it the first stands for all. The cluster's number is not known yet.
_FIRST_PROCESS = dict.fromkeys(("process", "procid", "step", "row", "itemindex"), "0")
_LATER = frozenset(("cluster", "clusterid", "dagmanjobid", "dag_parent_names", "retry"))

# A macro may name another one, but a chain this long goes round in a circle.
_DEEPEST = 32
_MOST_EXPANDED = 2**20
_DOLLAR = "\0"  # a dollar that must not be read as the start of a macro again; no text file holds this character


def parse(text: str) -> dict[str, str]:
    """Return the settings of a submit description; of a setting that stands twice the last counts.

    What follows ``queue`` is not read, as DAGMan does not read it either.
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
    """Where a description needs `PRIORITY_LINE`."""

    line: int | None
    """Before which line; the lines' number says at the end, None that it has the line already."""
    overruled: bool
    """Whether it sets another priority above."""
    wins: bool
    """Whether it sets another priority that the line does not reach."""

    @property
    def warning(self) -> str | None:
        """What the user should know about another priority."""
        if self.wins:
            return WINS
        return "sets a priority, which the ranking overrules" if self.overruled else None


def priority_from_macro(text: str) -> MacroPlace:
    """Return where a description needs `PRIORITY_LINE`: before ``queue``, and before an ``if`` around that."""
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
    """Return a line with those that continue it; their leading blanks do not count."""
    parts = [line.rstrip()]
    while parts[-1].endswith("\\"):
        parts[-1] = parts[-1][:-1]
        parts.append(next(lines, "").strip())
    return "".join(parts) if len(parts) > 1 else line


def _block(mark: str, lines: Iterator[str]) -> str:
    """Return the lines up to a mark: the value of a setting that spans several."""
    return "\n".join(takewhile(lambda line: line != mark, (line.strip() for line in lines)))


def _without_itself(name: str, value: str, old: str) -> str:
    """Replace what a setting says of itself by what it was before, so that it does not go on for ever."""
    if "$" not in value:
        return value
    itself = re.compile(rf"\$\({re.escape(name)}(?::([^()]*))?\)", re.IGNORECASE)
    return itself.sub(lambda found: old or found.group(1) or "", value)


def _key(name: str) -> str:
    return f"my.{name[1:].lower()}" if name.startswith("+") else name.lower()


def expand(value: str, macros: Mapping[str, str]) -> str:
    """Replace ``$(name)`` and ``$(name:default)`` as condor_submit does; an unknown name becomes nothing.

    Raises ValueError where the macros grow without end.
    """
    return _expanded(value, macros).replace(_DOLLAR, "$")


def _expanded(value: str, macros: Mapping[str, str]) -> str:
    """Expand all macros, but leave `_DOLLAR` where a dollar was protected."""
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
    """Return the shell command that a node runs, or None where the description does not say or only HTCondor can."""
    if unsupported(description, macros):
        return None
    if "shell" in description:
        return expand(description["shell"], macros)
    program = expand(description.get("executable", ""), macros)
    if not program:
        return None
    arguments = _arguments(expand(description.get("arguments", description.get("args", "")), macros))
    # `sh -c TEXT` is how a command line travels through a submit description: give the text back.
    if program == "/bin/sh" and len(arguments) == 2 and arguments[0] == "-c":
        return arguments[1]
    # HTCondor takes the program from the folder, where a shell would look along its PATH.
    return shlex.join([program if "/" in program else f"./{program}", *arguments])


def unsupported(description: Description, macros: Mapping[str, str]) -> str | None:
    """Return a function of HTCondor's that stands in the command, such as ``$ENV(HOME)``, or None."""
    for name in ("executable", "arguments", "args", "shell"):
        value = description.get(name, "")
        if "$" in value and (found := _FUNCTION.search(_expanded(value, macros))):
            return found.group(0)
    return None


def _arguments(value: str) -> list[str]:
    """Split the value of ``arguments``: the new syntax stands in double quotes, the old one splits at blanks."""
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
    """Return a text as it must stand between single quotes in the new syntax of ``arguments``.

    Of the dollars only those are protected that condor_submit would take for a macro or a function.
    """
    return _LOOKS_LIKE_MACRO.sub("$(DOLLAR)", text.replace("'", "''").replace('"', '""'))


def amounts(description: Description, macros: Mapping[str, str]) -> Amounts:
    """Return what a description requests; an expression that only a pool can evaluate is unknown."""
    return _amounts(*(expand(description.get(name, ""), macros) for name in _AMOUNTS))


@lru_cache(maxsize=4096)  # thousands of nodes ask for the same, and share one value
def _amounts(cpus: str, memory: str, disk: str, seconds: str) -> Amounts:
    return Amounts.of(
        cores=amount(cpus, 1), memory=_whole(memory, 2**20), disk=_whole(disk, 2**10), wall_time=amount(seconds, 1)
    )


def gpus(description: Description, macros: Mapping[str, str]) -> int:
    """Return how many GPUs a description requests; where only a pool can evaluate it, one stands for them."""
    text = expand(description.get(_GPUS, ""), macros)
    if not text.strip():
        return 0
    count = amount(text, 1)
    return 1 if count is None else math.ceil(count)


def amount(text: str, default_unit: int) -> float | None:
    """Return a number with an optional unit (base 1024) in base units, or None where the text is something else."""
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
    """Yield what a reader should know: requests that only a pool can evaluate, and more jobs than one."""
    for name, requested in zip(_AMOUNTS, (request.cores, request.memory, request.disk, request.wall_time), strict=True):
        if requested is None and name in description and (value := expand(description[name], macros)):
            yield f"{name} = {value} is an expression that only a pool can evaluate: unknown"
    if (value := expand(description.get(_GPUS, ""), macros)).strip() and amount(value, 1) is None:
        yield f"{_GPUS} = {value} is an expression that only a pool can evaluate: taken as 1"
    if function := unsupported(description, macros):
        yield f"{function} in the command is a function that only condor_submit evaluates: command unknown"
    if CONDITION in description:
        yield f'"{description[CONDITION]}" is not evaluated: of a setting that stands twice the last counts'
    if description.get(QUEUE, "") not in ("", "1"):
        yield f"queue {description[QUEUE]} stands for several jobs: taken as one task"


def files(description: Description, macros: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the files that a comma-separated setting lists."""
    if name not in description:
        return ()
    listed = expand(description[name], macros).strip('"').split(",")
    return tuple(one.strip() for one in listed if one.strip())
