"""Every workflow format by its name: recognising a file, reading it, writing it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tonnage.errors import InputError
from tonnage.files import Document, without_gz, write_whole
from tonnage.workflow import dagman, dax, dot, makeflow, makeflow_json, pegasus, text, wfformat
from tonnage.workflow.garbage import collector_paused
from tonnage.workflow.model import Workflow
from tonnage.workflow.unrecognised import is_for_another_tool, refusal

__all__ = ["READERS", "STANDARD_INPUT", "WRITERS", "format_of", "read", "recognise", "write"]

STANDARD_INPUT = Path("/dev/stdin")


@dataclass(frozen=True, slots=True)
class Reader:
    """How a format is recognised and read."""

    endings: tuple[str, ...]
    recognises: Callable[[str], bool]
    """Whether a text, from its beginning, can only be this format."""
    read: Callable[[Document], Workflow]


@dataclass(frozen=True, slots=True)
class Writer:
    """How a format is written."""

    endings: tuple[str, ...]
    render: Callable[[Workflow], str]


# In this order a file's content is tried. A list of commands looks like anything, a script or a letter, and running it
# may destroy what is there: so it comes last, and a file is one only if its author says so, by its ending or otherwise.
READERS = {
    "dax": Reader((".dax", ".xml"), dax.recognises, dax.read),
    "wfformat": Reader((".json",), wfformat.recognises, wfformat.read),
    "makeflow-json": Reader((".json", ".jx"), makeflow_json.recognises, makeflow_json.read),
    "pegasus": Reader((".yml", ".yaml"), pegasus.recognises, pegasus.read),
    "dagman": Reader((".dag",), dagman.recognises, dagman.read),
    "makeflow": Reader((".mf", ".makeflow"), makeflow.recognises, makeflow.read),
    "text": Reader((".txt", ".list", ".cmds", ".tasks"), text.recognises, text.read),
}

WRITERS = {
    "dagman": Writer((".dag",), dagman.render),
    "wfformat": Writer((".json",), wfformat.render),
    "makeflow": Writer((".mf", ".makeflow"), makeflow.render),
    "makeflow-json": Writer((".jx",), makeflow_json.render),
    "dot": Writer((".dot", ".gv"), dot.render),
}


def read(path: Path | str, format: str | None = None) -> Workflow:
    """Read a workflow file in any format of READERS, recognised by its content unless `format` names it."""
    if format is not None and format not in READERS:
        raise InputError(f'"{format}" is not a format that can be read', hint=f"one of {', '.join(READERS)}")
    document = Document.open(Path(path))
    with collector_paused():
        name = format or recognise(document)
        return READERS[name].read(document)


def recognise(document: Document) -> str:
    """Return the name of the format that a file is in: by its content first, then by its ending."""
    if not document.text.strip():
        raise document.error("is empty")
    if is_for_another_tool(document):
        raise refusal(document)
    for name, reader in READERS.items():
        if reader.recognises(document.text):
            return name
    for name, reader in READERS.items():
        if document.ending in reader.endings:
            return name  # its reader says best what is wrong with it
    if document.path == STANDARD_INPUT:
        return "text"
    raise refusal(document)


def write(workflow: Workflow, path: Path | str, format: str | None = None) -> None:
    """Write a workflow in a format of WRITERS, by default the one that the file's ending names."""
    if format is not None and format not in WRITERS:
        raise InputError(f'"{format}" is not a format that can be written', hint=f"one of {', '.join(WRITERS)}")
    target = Path(path)
    write_whole(target, WRITERS[format or format_of(target)].render(workflow), mode=0o666)


def format_of(path: Path) -> str:
    """Return the format of WRITERS that a file's ending names."""
    ending = Path(without_gz(path)).suffix.lower()
    for name, writer in WRITERS.items():
        if ending in writer.endings:
            return name
    known = ", ".join(ending for writer in WRITERS.values() for ending in writer.endings)
    raise InputError(
        f'the ending "{ending}" names no format that can be written',
        path=path,
        hint=f"one of {known}, or these with .gz",
    )
