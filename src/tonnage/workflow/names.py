"""Names of tasks: as people know them, in dependencies, with hints for misspelt ones, and unique new ones."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from tonnage.files import Document
from tonnage.wording import closest, one_line

__all__ = ["FreeNames", "Links", "did_you_mean", "line_named", "title_of"]

_LONGEST_TITLE = 60
_LINE = re.compile(r"(?:line\s+)?(\d{1,18})(?:\s*:.*)?", re.IGNORECASE | re.DOTALL)


def title_of(name: str, line: int | None, command: str | None, room: int = _LONGEST_TITLE) -> str:
    """Return what people call a task: its name or, in a list of commands, its line and the head of its command."""
    return name if line is None else one_line(f"line {line}: {command or ''}", room)


def line_named(text: str) -> int | None:
    """Return the line of a list of commands that a user means by ``12``, ``line 12`` or a title; None if none."""
    found = _LINE.fullmatch(text.strip())
    return int(found[1]) if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the name that was probably meant, or None."""
    close = closest(name, known)
    return f'did you mean "{close}"?' if close else None


class FreeNames:
    """Generates unique names: the wanted one, or if it is taken, the same with a number appended."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: Counter[str] = Counter()

    def give(self, wanted: str) -> str:
        """Return a free name like the wanted one, and mark it as taken."""
        name = wanted
        while name in self._taken:
            self._numbers[wanted] += 1
            name = f"{wanted}_{self._numbers[wanted] + 1}"
        self._taken.add(name)
        return name


class Links:
    """Collects dependencies between named tasks and turns them into numbers."""

    def __init__(self, document: Document, numbers: Mapping[str, int]) -> None:
        self._document = document
        self._numbers = numbers
        self.parents: list[int] = []
        self.children: list[int] = []

    def add(self, parent: str, children: Iterable[str], line: int | None = None) -> None:
        """Make each of `children` wait for `parent`; raise an error if a name is not that of a task."""
        first = self._number(parent, line)
        for child in children:
            self.parents.append(first)
            self.children.append(self._number(child, line))

    def _number(self, name: str, line: int | None) -> int:
        number = self._numbers.get(name)
        if number is None:
            hint = did_you_mean(name, self._numbers)
            raise self._document.error(f'a dependency names "{name}", which is not a task', line, hint=hint)
        return number

    @property
    def edges(self) -> tuple[list[int], list[int]]:
        """The dependencies as parents and children."""
        return self.parents, self.children
