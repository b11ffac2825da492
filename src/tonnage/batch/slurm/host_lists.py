"""Slurm's abbreviated lists of hosts and array elements: ``n[1-3,5]``, ``7_[0-9%2]``."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from math import prod

from tonnage.errors import TonnageError

__all__ = ["chunks", "elements", "expanded", "shortened"]

_MOST = 1_000_000
"""Most entries in a list: no cluster has more, so a longer list is an error in the text."""
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_NOTHING = frozenset(("", "(null)", "None", "None assigned", "N/A", "n/a"))
_ELEMENTS = re.compile(r"(\d+)_\[([\d,:-]+)(?:%\d+)?\]")


def expanded(text: str) -> tuple[str, ...]:
    """Expand a host list: ``n[1-2,5],gpu1`` is n1, n2, n5, gpu1."""
    if text.strip() in _NOTHING:
        return ()
    names: list[str] = []
    for item in _split(text.strip()):
        parts = re.split(r"\[([^\[\]]*)\]", item)
        # Text in brackets is at the odd positions.
        choices = [list(_numbers(part)) if place % 2 else [part] for place, part in enumerate(parts)]
        if len(names) + prod(map(len, choices)) > _MOST:
            raise TonnageError(f"a list of more than {_MOST} hosts: {text[:80]}")
        names += ("".join(one) for one in product(*choices))
    return tuple(names)


def elements(number: str) -> tuple[str, ...]:
    """Expand an array's number into its elements: ``7_[1,3]`` is 7_1 and 7_3."""
    found = _ELEMENTS.fullmatch(number)
    return tuple(f"{found[1]}_{one}" for one in _numbers(found[2])) if found else (number,)


def shortened(numbers: Iterable[int]) -> str:
    """Abbreviate numbers as ranges: ``0-3,5``."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def chunks(items: Collection[str], letters: int) -> Iterator[list[str]]:
    """Yield items in lists of about this many letters each, because command lines are limited."""
    chunk: list[str] = []
    size = 0
    for item in items:
        if chunk and size + len(item) > letters:
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += len(item) + 1
    if chunk:
        yield chunk


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not in brackets."""
    depth = begin = 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of ranges, padded to the width of the first: ``08-10`` is 08, 09, 10."""
    for item in text.split(","):
        found = _RANGE.fullmatch(item)
        if not found:
            raise TonnageError(f'Slurm printed a list that cannot be parsed: "[{text[:80]}]"')
        first, last, step = found[1], found[2] or found[1], int(found[3] or 1)
        if (int(last) - int(first)) // max(step, 1) > _MOST:
            raise TonnageError(f"a list of more than {_MOST} numbers: {item}")
        yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1, max(step, 1)))
