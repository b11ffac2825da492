"""Changes to the bytes of one file: words of statements are replaced, lines added; every other byte stays the same."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tonnage.files import Document
from tonnage.workflow.dagman.statements import WORD, Statement, pieces

__all__ = ["Patch", "Patches"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Patch:
    """The changes to a file. The same change made twice counts once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._lines = document.text.split("\n")
        crlf = len(self._lines) > 1 and self._lines[0].endswith("\r")
        self._line_end = "\r\n" if crlf else "\n"
        self._replaced: dict[int, dict[int, tuple[int, str]]] = {}
        self._inserted: dict[int, str] = {}
        self._added: list[str] = []

    @property
    def changed(self) -> bool:
        """Whether there is anything to change."""
        return bool(self._replaced or self._inserted or self._added)

    def replace(self, statement: Statement, begin: int, end: int, new: str) -> None:
        """Replace the word from `begin` to `end` of a statement's text."""
        touched = list(self._located(statement, begin, end))
        for index, first, last in touched:
            # A word whose quotes span several lines is put on the last of them, which must not become empty.
            text = new if index == touched[-1][0] else ""
            self._replaced.setdefault(index, {})[first] = last, text

    def replace_word(self, statement: Statement, place: int, new: str) -> None:
        """Replace one of a statement's words, by its index."""
        words = [found.span() for found in WORD.finditer(statement.text)]
        self.replace(statement, *words[place], new)

    def insert(self, index: int, line: str) -> None:
        """Add a line before the one with this index, or at the end if there is none."""
        if index < len(self._lines):
            self._inserted[index] = line
        else:
            self._added.append(line)

    def add(self, line: str) -> None:
        """Add a line at the end."""
        self._added.append(line)

    @property
    def data(self) -> bytes:
        """The file's bytes after the changes."""
        if not self.changed:
            return self.document.data
        lines = self._lines.copy()
        for index, words in self._replaced.items():
            for first, (last, new) in sorted(words.items(), reverse=True):
                lines[index] = lines[index][:first] + new + lines[index][last:]
        for index, line in self._inserted.items():
            lines[index] = f"{line}{self._line_end}{lines[index]}"
        text = "\n".join(lines)
        if self._added:
            text = f"{text}{self._gap(text)}{self._line_end.join(self._added)}{self._line_end}"
        mark = _BYTE_ORDER_MARK if self.document.data.startswith(_BYTE_ORDER_MARK) else b""
        return mark + text.encode()

    def _gap(self, text: str) -> str:
        """Return the line ends needed before an added line: the last line can lack one, or be continued."""
        last = text[text.rfind("\n", 0, max(len(text) - 1, 0)) + 1 :]
        end = "" if not last or last.endswith("\n") else self._line_end
        return end + self._line_end if last.rstrip().endswith("\\") else end

    def _located(self, statement: Statement, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the lines that contain a part of a statement's text, with the first and last column."""
        found = list(pieces(self._lines, statement))
        # The statement's text is the end of the joined pieces.
        position = len(statement.text) - sum(len(text) + 1 for _, _, text in found) + 1
        for index, column, text in found:
            first, last = max(begin - position, 0), min(end - position, len(text))
            if first < last:
                yield index, column + first, column + last
            position += len(text) + 1


class Patches:
    """The changes to a DAG's file and to those that it includes; several paths can name the same file."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_path: dict[Path, Patch] = {}
        self._real: dict[Path, Patch] = {}
        for document in documents:
            if document.path not in self._by_path:
                patch = self._real.setdefault(document.path.resolve(), Patch(document))
                self._by_path[document.path] = patch

    @property
    def real(self) -> Mapping[Path, Patch]:
        """The changes by the files' real paths."""
        return self._real

    def patch_for(self, document: Document) -> Patch:
        """Return the changes to one of the files."""
        return self._by_path[document.path]

    def at(self, path: Path) -> Patch:
        """Return the changes to the file that the DAG includes from this path."""
        return self._by_path[path]
