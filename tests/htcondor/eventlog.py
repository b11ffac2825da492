"""The events of HTCondor's job event log, in its plain format with ISO dates."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "OF_DAGMAN",
    "Amount",
    "Job",
    "Usage",
    "aborted",
    "append",
    "disconnected",
    "ended_and_requeued",
    "evicted",
    "executing",
    "grown",
    "held",
    "post_script_ended",
    "reconnection_failed",
    "released",
    "submitted",
    "terminated",
    "transferring",
]

Job = tuple[int, int]
"""A job's cluster and its number in it."""

OF_DAGMAN = frozenset(["000", "001", "002", "004", "005", "007", "009", "012", "013", "016", "024"])
"""The events that DAGMan asks for in its own log."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A row of the table of resources; what is not known is left out."""

    name: str
    used: float | None
    requested: int | None = None
    allocated: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What an execution used: seconds of processor time, bytes that travelled, and the table of resources."""

    user: float = 0.0
    system: float = 0.0
    sent: int = 0
    received: int = 0
    amounts: tuple[Amount, ...] = ()


def append(path: Path, event: str) -> None:
    """Write an event at the end of a log, in one piece: readers follow it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, event.encode())
    finally:
        os.close(descriptor)


def submitted(job: Job, host: str, node: str | None = None) -> str:
    """A job came into the queue."""
    return _event("000", job, f"Job submitted from host: {host}", _notes(node))


def executing(job: Job, host: str, slot: str | None = None, properties: Iterable[str] = ()) -> str:
    """A job was started on a machine."""
    lines = [] if slot is None else [f"\tSlotName: {slot}"]
    return _event("001", job, f"Job executing on host: {host}", [*lines, *(f"\t{one}" for one in properties)])


def evicted(job: Job, usage: Usage, reason: str = "", codes: tuple[int, int] | None = None) -> str:
    """A job was stopped, and waits again, is held or removed; older versions tell no codes."""
    head = "Job was evicted." + (f" Code {codes[0]} Subcode {codes[1]}" if codes else "")
    said = [f"\tReason: {reason}" if codes else f"\t{reason}"] if reason else []
    return _event("004", job, head, ["\t(0) CPU times", *_run(usage), *_bytes("Run", usage), *said, *_table(usage)])


def ended_and_requeued(job: Job, signal: int) -> str:
    """A job died by a signal and is to be started again."""
    usage = Usage()
    ending = [f"\t(0) Abnormal termination (signal {signal})", "\t(0) No core file"]
    said = "\tThe job attribute OnExitRemove expression evaluated to FALSE"
    lines = ["\t(0) Job terminated and was requeued", *_run(usage), *_bytes("Run", usage), *ending, said]
    return _event("004", job, "Job was evicted.", lines)


def terminated(job: Job, usage: Usage, value: int) -> str:
    """A job ended by itself: with an exit status, or by a signal, which is a negative value."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    how = f"exit-code {value}" if value >= 0 else f"signal {-value}"
    core = [] if value >= 0 else ["\t(0) No core file"]
    return _event(
        "005",
        job,
        "Job terminated.",
        [
            _ending(value),
            *core,
            *_run(usage),
            *_run(usage, "Total"),
            *_bytes("Run", usage),
            *_bytes("Total", usage),
            *_table(usage),
            "",
            f"\tJob terminated of its own accord at {moment} with {how}.",
        ],
    )


def grown(job: Job, kibibytes: int) -> str:
    """A job uses more memory than before."""
    megabytes = -(-kibibytes // 1024)
    lines = [f"\t{megabytes}  -  MemoryUsage of job (MB)", f"\t{kibibytes}  -  ResidentSetSize of job (KB)"]
    return _event("006", job, f"Image size of job updated: {kibibytes}", lines)


def aborted(job: Job, reason: str) -> str:
    """A job was removed from the queue."""
    return _event("009", job, "Job was aborted.", [f"\t{reason}"])


def held(job: Job, reason: str, code: int, subcode: int) -> str:
    """A job was put on hold."""
    return _event("012", job, "Job was held.", [f"\t{reason}", f"\tCode {code} Subcode {subcode}"])


def released(job: Job, reason: str) -> str:
    """A job on hold waits again."""
    return _event("013", job, "Job was released.", [f"\t{reason}"])


def post_script_ended(job: Job, node: str, value: int) -> str:
    """DAGMan's POST script of a node ended."""
    return _event("016", job, "POST Script terminated.", [_ending(value), *_notes(node)])


def disconnected(job: Job, slot: str, host: str) -> str:
    """The machine of a job does not answer."""
    lines = [
        "    Socket between submit and execute hosts closed unexpectedly",
        f"    Trying to reconnect to {slot} {host}",
    ]
    return _event("022", job, "Job disconnected, attempting to reconnect", lines)


def reconnection_failed(job: Job, slot: str) -> str:
    """The machine of a job is gone."""
    lines = ["    Job not found at execution machine", f"    Can not reconnect to {slot}, rescheduling job"]
    return _event("024", job, "Job reconnection failed", lines)


def transferring(job: Job, what: str, host: str | None = None) -> str:
    """Files travel: ``Started transferring input files``."""
    return _event("040", job, what, [] if host is None else [f"\tTransferring to host: {host}"])


def _event(kind: str, job: Job, head: str, lines: Iterable[str] = ()) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    return "\n".join([f"{kind} ({job[0]:03}.{job[1]:03}.000) {moment} {head}", *lines, "...", ""])


def _notes(node: str | None) -> list[str]:
    return [] if node is None else [f"    DAG Node: {node}"]


def _ending(value: int) -> str:
    if value >= 0:
        return f"\t(1) Normal termination (return value {value})"
    return f"\t(0) Abnormal termination (signal {-value})"


def _run(usage: Usage, which: str = "Run") -> list[str]:
    remote = f"Usr {_clock(usage.user)}, Sys {_clock(usage.system)}"
    local = f"Usr {_clock(0)}, Sys {_clock(0)}"
    return [f"\t\t{remote}  -  {which} Remote Usage", f"\t\t{local}  -  {which} Local Usage"]


def _clock(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    return f"{days} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _bytes(which: str, usage: Usage) -> list[str]:
    return [
        f"\t{usage.sent}  -  {which} Bytes Sent By Job",
        f"\t{usage.received}  -  {which} Bytes Received By Job",
    ]


def _table(usage: Usage) -> list[str]:
    """Return the table of resources; its columns are as wide as their widest cell."""
    if not usage.amounts:
        return []
    rows = [["Partitionable Resources", "Usage", "Request", "Allocated"]]
    for one in usage.amounts:
        rows.append([f"   {one.name}", *map(_cell, (one.used, one.requested, one.allocated))])
    label, *widths = (max(len(row[column]) for row in rows) for column in range(4))
    used, requested, allocated = (max(width, 8) for width in widths)
    return [f"\t{row[0]:<{label}} : {row[1]:>{used}} {row[2]:>{requested}} {row[3]:>{allocated}} " for row in rows]


def _cell(amount: float | None) -> str:
    if amount is None:
        return ""
    return str(amount) if isinstance(amount, int) else f"{amount:.2f}"
