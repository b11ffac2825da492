"""Regular expressions for like(): matched in time proportional to the text, whatever the pattern.

Python's own ``re`` takes exponential time on patterns such as ``(a*)*b``, and patterns here come from files. A pattern
is compiled to a small program, all of whose possible positions are followed at once, one character at a time.
"""

import re
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeAlias

from tonnage.workflow.jx.values import Budget, JXError

__all__ = ["matches"]

Step: TypeAlias = tuple[Callable[[str], object] | None, tuple[int, ...]]
"""Which characters a step accepts (None: it reads none), and the offsets at which the program can continue."""
Program: TypeAlias = list[Step]

_PART = re.compile(
    r"(?P<count>\{\d+(?:,\d*)?\})|(?P<set>\[\^?\]?(?:\[:\w+:\]|[^\]])*\])|(?P<escape>\\.)|(?P<sign>[*+?()|^$\[\\])|.",
    re.DOTALL | re.ASCII,
)
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
}
_LONGEST_PATTERN = 1_000
_LONGEST = 5_000
_DEEPEST = 50


def matches(pattern: str, text: str, budget: Budget) -> bool:
    """Whether a pattern in the syntax of ``grep -E`` matches a whole text."""
    program = _Compiler(pattern).program()
    budget.spend((len(program) + 1) * (len(text) + 1))
    places = _reachable(program, [0])
    for character in text:
        read = ((place, program[place]) for place in places if place < len(program))
        onward = [place + by for place, (reads, jumps) in read if reads and reads(character) for by in jumps]
        places = _reachable(program, onward)
    return len(program) in places


def _reachable(program: Program, places: Iterable[int]) -> set[int]:
    """Return the places that read the next character, or the end, that can be reached without reading one."""
    found: set[int] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            if place < len(program) and program[place][0] is None:
                waiting += (place + by for by in program[place][1])
    return found


class _Compiler:
    """Reads a pattern from left to right; each method returns the program of one rule of the grammar."""

    def __init__(self, pattern: str) -> None:
        # The whole text must match, so anchors at the ends have no effect.
        ends = pattern[:-1] if re.search(r"(?<!\\)(?:\\\\)*\$$", pattern) else pattern
        self._pattern = pattern
        if len(pattern) > _LONGEST_PATTERN:
            self._fail("it is too long")
        self._parts = list(_PART.finditer(ends.removeprefix("^")))[::-1]
        self._depth = 0

    def program(self) -> Program:
        program = self._alternatives()
        if self._parts:
            self._fail('there is an extra ")"')
        return program

    def _alternatives(self) -> Program:
        program = self._sequence()
        while self._sign() == "|":
            self._parts.pop()
            other = self._sequence()
            program = [(None, (1, len(program) + 2)), *program, (None, (len(other) + 1,)), *other]
        return program

    def _sequence(self) -> Program:
        program: Program = []
        while self._parts and self._sign() not in ("|", ")"):
            program += self._repeated(self._atom())
            if len(program) > _LONGEST:
                self._fail("it is too long")
        return program

    def _repeated(self, one: Program) -> Program:
        while self._parts and (self._sign() in ("*", "+", "?") or self._parts[-1]["count"]):
            part = self._parts.pop()
            least, most = _bounds(part.group())
            if (most or least + 1) * (len(one) + 1) > _LONGEST:
                self._fail("it is too long")
            optional = [(None, (1, len(one) + 1)), *one]
            for_ever = [(None, (1, len(one) + 2)), *one, (None, (-len(one) - 1,))]
            one = one * least + (for_ever if most is None else optional * (most - least))
        return one

    def _atom(self) -> Program:
        part = self._parts.pop()
        found, sign = part.group(), part["sign"]
        if sign == "(":
            return self._group()
        if sign or part["count"]:
            self._fail(f'"{found}" is not allowed there')
        if part["set"]:
            return [(self._set(found), (1,))]
        if found == ".":
            return [(lambda _: True, (1,))]
        return [(found[-1].__eq__, (1,))]

    def _group(self) -> Program:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail("it is nested too deeply")
        program = self._alternatives()
        if not self._parts:
            self._fail('a "(" is not closed')
        self._parts.pop()
        self._depth -= 1
        return program

    def _set(self, found: str) -> Callable[[str], object]:
        inside = found[2:-1] if found.startswith("[^") else found[1:-1]
        inside = re.sub(r"\\|\[(?!:)|[&~|](?=[&~|])|(?<=[&~|])[&~|]", lambda one: "\\" + one.group(), inside)
        inside = re.sub(r"\[:(\w+):\]", lambda name: _CLASSES.get(name.group(1), ""), inside)
        inside = "\\" + inside if inside.startswith(("]", "^")) else inside
        try:
            return re.compile(f"[{'^' if found.startswith('[^') else ''}{inside}]", re.DOTALL).match
        except re.error as error:
            self._fail(str(error))

    def _sign(self) -> str | None:
        return self._parts[-1]["sign"] if self._parts else None

    def _fail(self, why: str) -> NoReturn:
        raise JXError(f"like(): the pattern {self._pattern[:60]!r} is not valid: {why}")


def _bounds(repetition: str) -> tuple[int, int | None]:
    """Return the minimum and maximum number of repetitions; None means unlimited."""
    if repetition in ("*", "+", "?"):
        return int(repetition == "+"), 1 if repetition == "?" else None
    least, comma, most = repetition[1:-1][:20].partition(",")
    if not comma:
        return int(least), int(least)
    return int(least), int(most) if most else None
