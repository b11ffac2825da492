"""The workflow formats by name, and functions to recognise, read and write files."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tonnage.errors import InputError
from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from tonnage.files import Document
    from tonnage.workflow.model import Workflow

__all__ = ["READERS", "STANDARD_INPUT", "WRITERS", "collector_paused", "format_of", "read", "recognise", "write"]

STANDARD_INPUT = Path("/dev/stdin")


class Reader(NamedTuple):
    """A readable format: recognised and read by the functions `recognises` and `read` of its module."""

    endings: tuple[str, ...]
    """Extensions, or the names that such files have without any."""
    module: str

    @property
    def recognises(self) -> Callable[[str], bool]:
        """Whether a text, from its beginning, can only be this format."""
        return Deferred(f"{self.module}:recognises")

    @property
    def read(self) -> "Callable[[Document], Workflow]":
        """The function that turns a document into a workflow."""
        return Deferred(f"{self.module}:read")


class Writer(NamedTuple):
    """A writable format: written by the function `render` of its module."""

    endings: tuple[str, ...]
    module: str

    @property
    def render(self) -> "Callable[[Workflow], str]":
        """The function that turns a workflow into text."""
        return Deferred(f"{self.module}:render")


# Formats are tried in this order. Anything can look like a list of commands, even a script or a letter, and running it
# could destroy files: so it comes last, and a file counts as one only if its extension or the user says so.
READERS = {
    "dax": Reader((".dax", ".xml"), "tonnage.workflow.formats.dax"),
    "wfformat": Reader((".json",), "tonnage.workflow.formats.wfformat"),
    "makeflow-json": Reader((".json", ".jx"), "tonnage.workflow.formats.makeflow_json"),
    "pegasus": Reader((".yml", ".yaml"), "tonnage.workflow.formats.pegasus"),
    "dagman": Reader((".dag",), "tonnage.workflow.dagman"),
    "makeflow": Reader((".mf", ".makeflow", "Makeflow"), "tonnage.workflow.formats.makeflow"),
    "text": Reader((".txt", ".list", ".cmds", ".tasks"), "tonnage.workflow.formats.text"),
}

WRITERS = {
    "dagman": Writer((".dag",), "tonnage.workflow.dagman"),
    "wfformat": Writer((".json",), "tonnage.workflow.formats.wfformat"),
    "makeflow": Writer((".mf", ".makeflow"), "tonnage.workflow.formats.makeflow"),
    "makeflow-json": Writer((".jx",), "tonnage.workflow.formats.makeflow_json"),
    "dot": Writer((".dot", ".gv"), "tonnage.workflow.formats.dot"),
}


def read(path: Path | str, format: str | None = None) -> "Workflow":
    """Read a workflow file in any format of READERS, recognised by its content unless `format` names it."""
    from tonnage.files import Document

    if format is not None and format not in READERS:
        raise InputError(f'"{format}" is not a format that can be read', hint=f"one of {', '.join(READERS)}")
    document = Document.open(Path(path))
    with collector_paused():
        name = format or recognise(document)
        return READERS[name].read(document)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would scan a million new objects again and again and free none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def recognise(document: "Document") -> str:
    """Return the name of a file's format: by its content first, then by its extension.

    A script, or another file whose lines are not meant to run as tasks, is an error.
    """
    from tonnage.workflow.formats.unrecognised import is_for_another_tool, refusal

    if not document.text.strip():
        raise document.error("is empty")
    if is_for_another_tool(document):
        raise refusal(document)
    for name, reader in READERS.items():
        if reader.recognises(document.text):
            return name
    for name, reader in READERS.items():
        if document.ending in reader.endings or document.path.name in reader.endings:
            return name  # its reader gives the best error message
    if document.path == STANDARD_INPUT:
        return "text"
    raise refusal(document)


def write(workflow: "Workflow", path: Path | str, format: str | None = None) -> None:
    """Write a workflow in a format of WRITERS, by default the one of the file's extension."""
    from tonnage.files import write_atomically

    if format is not None and format not in WRITERS:
        raise InputError(f'"{format}" is not a format that can be written', hint=f"one of {', '.join(WRITERS)}")
    target = Path(path)
    write_atomically(target, WRITERS[format or format_of(target)].render(workflow), mode=0o666)


def format_of(path: Path) -> str:
    """Return the format of WRITERS for a file's extension."""
    from tonnage.files import without_gz

    ending = Path(without_gz(path)).suffix.lower()
    for name, writer in WRITERS.items():
        if ending in writer.endings:
            return name
    known = ", ".join(ending for writer in WRITERS.values() for ending in writer.endings)
    raise InputError(
        f'no workflow format that can be written has the extension "{ending}"',
        path=path,
        hint=f"one of {known}, optionally followed by .gz",
    )
