"""All log formats by name: recognising a log and finding its reader."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tonnage.errors import InputError
from tonnage.lazy import Deferred

if TYPE_CHECKING:
    from tonnage.logs.log import Log, Reader

__all__ = ["READERS", "Format", "check_format", "reader_of", "recognise"]


class Format(NamedTuple):
    """How a log format is recognised and read: by the functions `recognises` and `read` of its module."""

    description: str
    module: str
    takes_units: bool = False
    """Whether the user can set the units of amounts."""

    @property
    def recognises(self) -> Callable[[str], bool]:
        """The function that tells whether the beginning of a text can only be this format."""
        return Deferred(f"{self.module}:recognises")

    @property
    def read(self) -> "Reader":
        """The function that turns a log into attempts."""
        return Deferred(f"{self.module}:read")


# The order in which formats are tried: the most specific first, tables with any columns last.
READERS = {
    "sacct-json": Format("Slurm: sacct --json", "tonnage.logs.sacct_json"),
    "workflow": Format("WfFormat, DAX and Pegasus with run times", "tonnage.logs.workflows", takes_units=True),
    "summary": Format("tonnage watch and cctools resource_monitor", "tonnage.logs.summaries"),
    "htcondor": Format("HTCondor: condor_history -json, -jsonl or -long", "tonnage.logs.htcondor_history"),
    "htcondor-log": Format("HTCondor: job event logs", "tonnage.logs.htcondor_events"),
    "swf": Format("Standard Workload Format", "tonnage.logs.swf"),
    "nextflow": Format("Nextflow traces", "tonnage.logs.nextflow"),
    "snakemake": Format("Snakemake benchmarks (TSV or JSON lines)", "tonnage.logs.snakemake"),
    "phung": Format("text files with ' -- ' between the columns", "tonnage.logs.phung", takes_units=True),
    "sacct": Format("Slurm: sacct -P", "tonnage.logs.sacct"),
    "csv": Format("tables with a header", "tonnage.logs.table", takes_units=True),
}


def recognise(log: "Log") -> str | None:
    """Return the name of a log's format; None if it is unknown."""
    return next((name for name, format in READERS.items() if format.recognises(log.head)), None)


def reader_of(log: "Log", name: str | None = None) -> "tuple[str, Reader]":
    """Return the name and the reader of a log's format, which is recognised unless `name` is given."""
    found = name or recognise(log)
    if found is None:
        if not log.head.strip():
            raise log.error("is empty")
        known = "; ".join(f"{name}: {format.description}" for name, format in READERS.items())
        raise log.error(
            "is not in a known job log format",
            hint=f"for a table with other columns, use --columns memory=THEIR_NAME; --from sets the format: {known}",
        )
    check_format(found)
    return found, READERS[found].read


def check_format(name: str) -> None:
    """Raise InputError unless this is the name of a log format."""
    if name not in READERS:
        raise InputError(f'"{name}" is not a job log format', hint=f"use one of {', '.join(READERS)}")
