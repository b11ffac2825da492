"""Every workflow format by its name: recognising a file, reading it, writing it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tonnage.errors import InputError
from tonnage.files import Document, write_whole
from tonnage.workflow import dagman, dax, dot, makeflow, makeflow_json, pegasus, text, wfformat
from tonnage.workflow.model import Workflow

__all__ = ["READERS", "WRITERS", "read", "recognise", "write"]


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
    "text": Reader((".txt", ".sh", ".tasks", ".list"), text.recognises, text.read),
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
    document = Document.open(Path(path))
    with _collector_paused():
        return READERS[format or recognise(document)].read(document)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the search for garbage: among a million new objects that all stay it finds none, again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def recognise(document: Document) -> str:
    """Return the name of the format that a file is in: by its content first, then by its ending."""
    if not document.text.strip():
        raise document.error("is empty")
    for name, reader in READERS.items():
        if reader.recognises(document.text):
            return name
    ending = Path(document.path.name.removesuffix(".gz")).suffix.lower()
    for name, reader in READERS.items():
        if ending in reader.endings:
            return name  # its reader says best what is wrong with it
    return "text"


def write(workflow: Workflow, path: Path | str, format: str | None = None) -> None:
    """Write a workflow in a format of WRITERS, by default the one that the file's ending names."""
    target = Path(path)
    write_whole(target, WRITERS[format or _by_ending(target)].render(workflow))


def _by_ending(path: Path) -> str:
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    for name, writer in WRITERS.items():
        if ending in writer.endings:
            return name
    known = ", ".join(ending for writer in WRITERS.values() for ending in writer.endings)
    raise InputError(f'the ending "{ending}" names no format that can be written', path=path, hint=f"one of {known}")
