"""Every workflow format by its name: recognising a file, reading it, writing it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tonnage.errors import InputError
from tonnage.files import Document, without_gz, write_whole
from tonnage.workflow import dagman, dax, dot, makeflow, makeflow_json, pegasus, text, wfformat
from tonnage.workflow.garbage import collector_paused
from tonnage.workflow.model import Workflow

__all__ = ["READERS", "WRITERS", "format_of", "read", "recognise", "write"]


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


# In this order a file's content is tried; a bag of tasks looks like anything, so it comes last and by elimination.
READERS = {
    "dax": Reader((".dax", ".xml"), dax.recognises, dax.read),
    "wfformat": Reader((".json",), wfformat.recognises, wfformat.read),
    "makeflow-json": Reader((".json", ".jx"), makeflow_json.recognises, makeflow_json.read),
    "pegasus": Reader((".yml", ".yaml"), pegasus.recognises, pegasus.read),
    "dagman": Reader((".dag",), dagman.recognises, dagman.read),
    "makeflow": Reader((".mf", ".makeflow"), makeflow.recognises, makeflow.read),
    "text": Reader((".txt", ".sh", ".tasks", ".list", ""), text.recognises, text.read),
}

_GUESSED = "no format recognised: each line is taken as a command (--from text says that this is right)"

# Files that people have beside a workflow, and that a bag of tasks would swallow line by line.
_NO_WORKFLOWS = {
    ".dot": "Graphviz files are written, not read",
    ".gv": "Graphviz files are written, not read",
    ".csv": "tables of jobs are no tasks to run",
    ".tsv": "tables of jobs are no tasks to run",
    ".sub": "a submit description is one job; the DAG file names it",
    ".md": "it is a text for people",
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
        workflow = READERS[name].read(document)
    guessed = format is None and name == "text" and document.ending not in READERS["text"].endings
    return _with_warning(workflow, _GUESSED) if guessed and not text.recognises(document.text) else workflow


def _with_warning(workflow: Workflow, warning: str) -> Workflow:
    if workflow.source is None:
        return workflow
    return replace(workflow, source=replace(workflow.source, warnings=(*workflow.source.warnings, warning)))


def recognise(document: Document) -> str:
    """Return the name of the format that a file is in: by its content first, then by its ending."""
    if not document.text.strip():
        raise document.error("is empty")
    for name, reader in READERS.items():
        if reader.recognises(document.text):
            return name
    if document.ending in _NO_WORKFLOWS:
        raise document.error(f"is not a workflow: {_NO_WORKFLOWS[document.ending]}")
    for name, reader in READERS.items():
        if document.ending in reader.endings:
            return name  # its reader says best what is wrong with it
    return "text"


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
