"""Names in files: looking up parents and children, hints for misspelt ones, and names that are still free."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from tonnage.files import Document

__all__ = ["FreeNames", "Links", "did_you_mean"]

# Comparing thousands of long names would delay a message by minutes.
_LONGEST_COMPARED = 64
_MOST_COMPARED = 5000


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint that names what was probably meant, or None."""
    if len(name) > _LONGEST_COMPARED:
        return None
    short = (one for one in known if len(one) <= _LONGEST_COMPARED)
    close = difflib.get_close_matches(name, list(islice(short, _MOST_COMPARED)), n=1)
    return f'did you mean "{close[0]}"?' if close else None


class FreeNames:
    """Gives out names that are not taken yet: the wanted one, else with a number behind it."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: Counter[str] = Counter()

    def give(self, wanted: str) -> str:
        """Return a free name like the wanted one, and take it."""
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
        """Make each of `children` wait for `parent`; a name that is not a task's is an error."""
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
