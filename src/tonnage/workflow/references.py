"""Dependencies by name: looking up what a file calls parents and children."""

import difflib
from collections.abc import Iterable, Mapping

from tonnage.files import Document

__all__ = ["Links"]


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
            close = difflib.get_close_matches(name, list(self._numbers)[:10_000], n=1)
            hint = f'did you mean "{close[0]}"?' if close else None
            raise self._document.error(f'a dependency names "{name}", which is not a task', line, hint=hint)
        return number

    @property
    def edges(self) -> tuple[list[int], list[int]]:
        """The dependencies as parents and children."""
        return self.parents, self.children
