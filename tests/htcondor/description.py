"""Submit descriptions as HTCondor's own library expands them, and what their commands ask for."""

import re
from collections.abc import Mapping, Sequence

import classad2
import htcondor2

from tests.htcondor.dag import Variable
from tests.htcondor.machine import Requests

__all__ = ["amount", "environment", "evaluated", "expanded", "is_true", "names", "requests", "words"]

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MIB, _KIB = 2**20, 2**10
_DEFAULT_MEMORY, _DEFAULT_DISK = 128, 2**20  # MiB, KiB


def expanded(text: str, variables: Sequence[Variable], cluster: int) -> dict[str, str]:
    """Return the commands of a description, all macros expanded, under lower-case names."""
    before = [one for one in variables if not one.appended]
    # A line cannot hold every value: the lines are there for conditions, and the values are set below.
    lines = [f"{one.name} = {_on_a_line(one.value)}\n" for one in before]
    description = htcondor2.Submit("".join(lines) + text + "\n")  # it takes no line without an end
    for one in before:
        if description.get(one.name) == _on_a_line(one.value):  # the description has no other
            description[one.name] = one.value
    macros = {"Cluster": str(cluster), "ClusterId": str(cluster), "Process": "0", "ProcId": "0"}
    for name, value in [*macros.items(), *((one.name, one.value) for one in variables if one.appended)]:
        description[name] = value
    return {name.lower(): description.expand(name) for name in description if description.get(name)}


def _on_a_line(value: str) -> str:
    """Return a value without what a line cannot end in: blanks, and backslashes that would continue it."""
    return value.strip().rstrip("\\ \t").strip()


def words(value: str) -> list[str]:
    """Return the arguments of a job, in the old or the new syntax."""
    text = value.strip()
    if not text.startswith('"'):
        return text.replace('\\"', '"').split()
    return _new_words(text[1:-1].replace('""', '"'))


def _new_words(text: str) -> list[str]:
    """Split at blanks; single quotes hold them together, and two of them in quotes are one."""
    found: list[str] = []
    word: str | None = None
    quoted, place = False, 0
    while place < len(text):
        letter = text[place]
        if letter == "'" and quoted and text[place + 1 : place + 2] == "'":
            word, place = (word or "") + "'", place + 1
        elif letter == "'":
            quoted, word = not quoted, word or ""
        elif letter.isspace() and not quoted:
            found += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + letter
        place += 1
    return found + ([] if word is None else [word])


def environment(value: str) -> dict[str, str]:
    """Return the variables of a job, in the old or the new syntax."""
    pairs = words(value) if value.strip().startswith('"') else value.split(";")
    return {name.strip(): text for name, equals, text in (pair.partition("=") for pair in pairs) if equals}


def names(value: str) -> list[str]:
    """Return a list of files."""
    return [name for name in (one.strip() for one in value.strip().strip('"').split(",")) if name]


def is_true(value: str) -> bool:
    """Whether a setting says yes."""
    return value.strip().lower() in ("true", "yes", "t", "y", "1")


def evaluated(expression: str, ad: Mapping[str, object]) -> object:
    """Return what a ClassAd expression is for an ad; None where that is undefined or an error."""
    try:
        found = classad2.ExprTree(expression).eval(classad2.ClassAd(dict(ad)))
    except classad2.ClassAdException as error:
        raise ValueError(f"{expression}: {error}") from None
    return None if isinstance(found, classad2.Value) else found


def amount(value: str, unit: int, ad: Mapping[str, object] | None = None) -> int:
    """Return an amount in a unit: ``2 GB``, a number of the unit itself, or an expression."""
    found = _AMOUNT.fullmatch(value.strip())
    if not found:
        number = evaluated(value, ad or {})
        if not isinstance(number, int | float):
            raise ValueError(f"{value} is no amount")
        return int(number)
    size = float(found[1]) * (_UNITS[found[2].upper()] if found[2] else unit)
    return int(-(-size // unit))


def requests(commands: Mapping[str, str]) -> Requests:
    """Return what a job asks for at first."""
    return Requests(
        cpus=amount(commands.get("request_cpus", "1"), 1),
        memory=amount(commands.get("request_memory", str(_DEFAULT_MEMORY)), _MIB),
        disk=amount(commands.get("request_disk", str(_DEFAULT_DISK)), _KIB),
    )
