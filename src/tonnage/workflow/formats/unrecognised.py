"""Files that Tonnage does not read as workflows: what they look like, and what to do with them instead."""

import re
from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.files import Document

__all__ = ["is_for_another_tool", "refusal"]

_AS_A_LIST = "a list of commands, one per line, ends in .txt, .list, .cmds or .tasks, or is read with --from text"
_AS_A_LOG = "read it with tonnage size, report, discover or archive import"
_PAGE = "docs/workflows.md"
_ONE_TASK = "its lines belong together; to run it as one task, name it in a list of commands"


@dataclass(frozen=True, slots=True)
class _Look:
    """A kind of file that users have besides their workflows."""

    what: str
    hint: str
    endings: tuple[str, ...] = ()
    content: re.Pattern[str] | None = None

    def is_in(self, document: Document) -> bool:
        """Whether a file's content can only be this."""
        return self.content is not None and self.content.search(document.text, 0, 100_000) is not None

    def is_named_by(self, document: Document) -> bool:
        """Whether a file has such a name or extension."""
        return document.ending in self.endings or document.path.name in self.endings


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


# The order matters: a batch script is also a shell script, and WDL has lines that Nextflow could have.
_LOOKS = (
    _Look("a Slurm batch script", "submit it with sbatch", content=_line(r"^#SBATCH\s")),
    _Look("a PBS batch script", "submit it with qsub", content=_line(r"^#PBS\s")),
    _Look("an LSF batch script", "submit it with bsub", content=_line(r"^#BSUB\s")),
    _Look(
        "a Snakemake workflow",
        f"run it with snakemake; Tonnage sizes its rules: {_PAGE}#snakemake",
        (".smk", "Snakefile"),
        _line(r"^(rule|checkpoint) \w+\s*:"),
    ),
    _Look(
        "a WDL workflow",
        f"run it with miniwdl or Cromwell; Tonnage sizes its tasks: {_PAGE}#cwl-and-wdl",
        (".wdl",),
        _line(r"^version (1\.|draft)"),
    ),
    _Look(
        "a Nextflow workflow",
        f"run it with nextflow; Tonnage sizes its processes: {_PAGE}#nextflow",
        (".nf",),
        _line(r"^(process|workflow)(\s+\w+)?\s*\{"),
    ),
    _Look(
        "a CWL workflow",
        f"run it with cwltool or another CWL runner; Tonnage sizes its tools: {_PAGE}#cwl-and-wdl",
        (".cwl",),
        _line(r"^\s*\"?cwlVersion\"?\s*:"),
    ),
    _Look("a shell script", _ONE_TASK, content=re.compile(r"\A#!.*sh\b")),
    _Look("a script", _ONE_TASK, (".py", ".pl", ".rb", ".r", ".jl", ".awk"), re.compile(r"\A#!")),
    _Look(
        "a shell script",
        f"{_ONE_TASK}; if it is such a list, read it with --from text",
        (".sh", ".bash", ".zsh", ".ksh", ".csh"),
    ),
    _Look(
        "a Makefile",
        "run it with make; if it is a Makeflow, read it with --from makeflow",
        ("Makefile", "makefile", "GNUmakefile", ".mk", ".mak", ".am"),
    ),
    _Look("a Graphviz file", "Tonnage writes these but does not read them", (".dot", ".gv")),
    _Look("a table of jobs", _AS_A_LOG, (".csv", ".tsv")),
    # These often end in .txt, as lists of commands do.
    _Look("a Nextflow trace", _AS_A_LOG, content=re.compile(r"\A(?=[^\n]*\thash\t)(?=[^\n]*\tstatus\t)[^\n]*\n")),
    _Look("the output of Slurm's sacct", _AS_A_LOG, content=re.compile(r"\A(?=[^\n]*\bJobID)[^\n|]+\|[^\n]*\|")),
    _Look("a submit description", "it is one job; read the DAG file that names it", (".sub", ".submit")),
    _Look("a text document", _AS_A_LIST, (".md", ".rst", ".html", "README")),
)


def is_for_another_tool(document: Document) -> bool:
    """Whether a file is a script, a text or a workflow for another tool, by its content or name.

    Its name counts even if the content could be a workflow: indented code below ``class Tool:`` or ``Usage:`` looks
    like the rule of a Makeflow, and ``clean:`` in a Makefile is one.
    """
    return any(look.is_in(document) or look.is_named_by(document) for look in _LOOKS)


def refusal(document: Document) -> InputError:
    """Return the error for a file that no format recognises."""
    for look in _LOOKS:
        if look.is_in(document) or look.is_named_by(document):
            return document.error(f"is not a workflow that Tonnage reads: it looks like {look.what}", hint=look.hint)
    return document.error("is in no workflow format that Tonnage reads", hint=_AS_A_LIST)
