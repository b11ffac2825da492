"""HTCondor's finished jobs, as condor_history prints them: ``-json``, ``-jsonl`` or ``-long``.

One job is one attempt: its last run. How often it was started is in `raw`; earlier runs are only in the job event log
(htcondor_events.py). The units are HTCondor's own: MiB of memory, KiB of resident sets and disk, seconds.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePath

from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.classads import ClassAd, read_ads
from tonnage.logs.log import Entry, Hints, Log, Skipped, UnusableError
from tonnage.units import Bytes

__all__ = ["exhausted_by", "names", "native_id", "read", "recognises"]

_KIB, _MIB = 2**10, 2**20
_OWN = ("ClusterId", "ProcId", "JobStatus")
_REMOVED, _COMPLETED, _HELD = 3, 4, 5
_NO_JOBS = re.compile(r"\[\s*\]")
_STATES = {1: "idle", 2: "running", _HELD: "held", 6: "transferring output", 7: "suspended"}

# The newer syntax of arguments: words in which blanks are enclosed in single quotes, and two quotes stand for one.
_WORD = re.compile(r"(?:'(?:[^']|'')*'|[^\s'])+")
_QUOTED = re.compile(r"'((?:[^']|'')*)'")

_OUT_OF_RESOURCES, _STOPPED_BY_MACHINE = 34, 21
_TOO_LONG = frozenset((46, 47))
_SUBCODES = {101: Resource.CORES, 102: Resource.MEMORY, 104: Resource.DISK}
_NAMES = {Resource.MEMORY: ("memory", "residentsetsize"), Resource.DISK: ("disk",)}

# Of a job's hundreds of attributes, those that help to understand it and have no typed field.
_RAW = (
    *("ClusterId", "ProcId", "JobUniverse", "NumJobStarts", "NumShadowStarts", "NumHolds", "NumVacates"),
    *("RemoteWallClockTime", "CommittedTime", "CumulativeSuspensionTime", "CpusUsage", "ProportionalSetSizeKb"),
    *("MemoryUsage", "ImageSize", "BytesSent", "BytesRecvd", "RequestGPUs", "GPUsProvisioned", "GPUsUsage"),
    *("HoldReason", "HoldReasonCode", "HoldReasonSubCode", "RemoveReason", "ExitReason", "LastRemoteHost"),
    *("LastHoldReason", "LastHoldReasonCode", "LastHoldReasonSubCode", "AccountingGroup", "JobBatchName"),
)


def recognises(head: str) -> bool:
    """Whether the text has the attributes that every HTCondor job has."""
    if head.lstrip()[:1] in ("[", "{"):
        return '"GlobalJobId"' in head or all(f'"{name}"' in head for name in _OWN)
    return all(re.search(rf"^{name}\s*=\s*\d+\s*$", head, re.MULTILINE) for name in _OWN)


def read(log: Log, hints: Hints) -> Iterator[Entry]:  # noqa: ARG001
    """Yield an attempt for each job that ran and finished."""
    _refuse_others(log)
    for line, ad in read_ads(log):
        try:
            if isinstance(ad, UnusableError):
                raise ad
            yield _attempt(ad)
        except UnusableError as problem:
            yield problem.at(line)
        except RecursionError:
            yield Skipped(line, "a value is nested too deeply")


def _refuse_others(log: Log) -> None:
    head = log.head.strip()
    if head.startswith("<"):
        raise log.error("is XML: only the -json, -jsonl and -long output of condor_history is supported")
    if "jobstatus" not in head.lower() and not _NO_JOBS.fullmatch(head):
        raise log.error("is not the output of condor_history: no job has the attribute JobStatus")


def exhausted_by(code: int | None, subcode: int | None) -> Resource | None:
    """Return the resource that a job ran out of, given the code and subcode of a hold or an eviction."""
    if code in _TOO_LONG:
        return Resource.WALL_TIME
    if code in (_OUT_OF_RESOURCES, _STOPPED_BY_MACHINE) and subcode in _SUBCODES:
        return _SUBCODES[subcode]
    # Before there were subcodes, HTCondor used this code for memory only.
    return Resource.MEMORY if code == _OUT_OF_RESOURCES else None


def names(reason: str, resource: Resource) -> bool:
    """Whether the reason of a removal, most often the expression of a policy, names a resource."""
    return any(name in reason.lower() for name in _NAMES[resource])


def native_id(global_id: str | None, run: int | None) -> str | None:
    """Return HTCondor's name for the job, with the number of the run if it can be released and run again."""
    if global_id is None:
        return None
    return f"htcondor:{global_id}" if run is None else f"htcondor:{global_id}:{run}"


def _attempt(ad: ClassAd) -> Attempt:
    status, starts = _status(ad), ad.whole("NumJobStarts")
    started, used = ad.positive("JobCurrentStartDate", "JobStartDate"), _used(ad)
    if status == _REMOVED and started is None and not starts:
        raise UnusableError("it was removed before it started")
    requested = _requested(ad)
    exhausted = _exhausted(ad, status, used, requested)
    by_signal = ad.get("ExitBySignal") is True
    global_id = ad.text("GlobalJobId")
    schedd = global_id.split("#")[0] if global_id and "#" in global_id else None
    dagman, executable = ad.whole("DAGManJobId"), _executable(ad)
    attempt_number = max(starts or 1, 1)
    input_bytes = ad.positive("TransferInputSizeMB", unit=_MIB)
    return Attempt(
        native_id=native_id(global_id, attempt_number if exhausted else None),
        row=json.dumps(ad.attributes, sort_keys=True),
        run=None if dagman is None else f"{dagman}@{schedd}" if schedd else str(dagman),
        workflow=_workflow(ad, dagman),
        task=ad.text("DAGNodeName"),
        number=attempt_number,
        category=ad.text("Category") or executable,
        command=_command(ad),
        executable=executable,
        user=ad.text("Owner") or ad.text("User"),
        host=(ad.text("LastRemoteHost") or "").rpartition("@")[2] or None,
        submitted=ad.positive("QDate"),
        started=started,
        ended=ad.positive("CompletionDate", "EnteredCurrentStatus"),
        outcome=_outcome(ad, status, exhausted),
        exhausted=exhausted,
        exit_status=ad.whole("ExitCode") if status == _COMPLETED and not by_signal else None,
        signal=ad.whole("ExitSignal") if status == _COMPLETED and by_signal else None,
        requested=requested,
        allocated=Amounts.of(
            cores=ad.number("CpusProvisioned"),
            memory=ad.number("MemoryProvisioned", unit=_MIB),
            disk=ad.number("DiskProvisioned", unit=_KIB),
        ),
        used=used,
        # The pool's own figure, MemoryUsage, is also the resident set unless the pool defines it otherwise.
        memory_method=None if used.memory is None else "rss",
        lower_bounds=() if exhausted is None else (exhausted.value,),
        input_bytes=None if input_bytes is None else Bytes(round(input_bytes)),
        inputs=ad.words("TransferInput"),
        outputs=ad.words("TransferOutput"),
        raw={name: value for name in _RAW if (value := ad.get(name)) is not None},
    )


def _status(ad: ClassAd) -> int:
    """Return how the job left the queue; a job held because it needed more has also finished."""
    status = ad.whole("JobStatus")
    if status is None:
        raise UnusableError("it has no JobStatus")
    if status in (_REMOVED, _COMPLETED):
        return status
    if status == _HELD and _exhausted_by_hold(ad, "Hold"):
        return status
    raise UnusableError("it has not finished", _STATES.get(status, str(status)), healthy=True)


def _used(ad: ClassAd) -> Amounts:
    user, system = ad.number("RemoteUserCpu"), ad.number("RemoteSysCpu")
    return Amounts.of(
        memory=_memory(ad),
        disk=ad.number("DiskUsage_RAW", "DiskUsage", unit=_KIB),
        wall_time=_wall_time(ad),
        cpu_time=None if user is None and system is None else (user or 0.0) + (system or 0.0),
    )


def _memory(ad: ClassAd) -> float | None:
    """Return the peak of the resident set; HTCondor rounds it up by up to a quarter, but also keeps the exact value.

    MemoryUsage is an expression in most pools. Every job needs memory: 0 means that it ended before the first sample.
    """
    exact, rounded = ad.positive("ResidentSetSize_RAW", unit=_KIB), ad.positive("ResidentSetSize", unit=_KIB)
    return exact or ad.positive("MemoryUsage", unit=_MIB) or rounded


def _wall_time(ad: ClassAd) -> float | None:
    """Return the seconds of the last run; RemoteWallClockTime includes evicted runs."""
    if seconds := ad.positive("LastRemoteWallClockTime", "CommittedTime"):
        return seconds
    started, completed = ad.positive("JobCurrentStartDate"), ad.positive("CompletionDate")
    if started and completed and completed >= started:
        return completed - started
    return ad.positive("RemoteWallClockTime") if (ad.whole("NumJobStarts") or 1) <= 1 else None


def _requested(ad: ClassAd) -> Amounts:
    return Amounts.of(
        cores=ad.number("RequestCpus"),
        memory=ad.number("RequestMemory", unit=_MIB),
        disk=ad.number("RequestDisk", unit=_KIB),
        wall_time=ad.number("AllowedExecuteDuration"),
    )


def _exhausted(ad: ClassAd, status: int, used: Amounts, requested: Amounts) -> Resource | None:
    """Return the resource that the last run ran out of."""
    if status == _COMPLETED:
        return None
    if held_for := _exhausted_by_hold(ad, "Hold"):
        return held_for
    # A job that was released after a hold ran again: the hold says nothing about its last run.
    if ad.whole("LastJobStatus") in (None, _HELD) and (held_for := _exhausted_by_hold(ad, "LastHold")):
        return held_for
    # A policy that names memory may have removed it for another reason: its use must confirm it.
    reason = ad.text("RemoveReason") or ""
    if names(reason, Resource.MEMORY) and _exceeds(used.memory, requested.memory):
        return Resource.MEMORY
    return Resource.DISK if names(reason, Resource.DISK) and _exceeds(used.disk, requested.disk) else None


def _exhausted_by_hold(ad: ClassAd, prefix: str) -> Resource | None:
    return exhausted_by(ad.whole(f"{prefix}ReasonCode"), ad.whole(f"{prefix}ReasonSubCode"))


def _exceeds(used: float | None, requested: float | None) -> bool:
    return used is not None and requested is not None and used > requested


def _outcome(ad: ClassAd, status: int, exhausted: Resource | None) -> Outcome | None:
    if exhausted:
        return Outcome.EXHAUSTED
    if status == _REMOVED:
        return Outcome.CANCELLED
    if ad.get("ExitBySignal") is True:  # otherwise ExitSignal may be from an earlier run
        return Outcome.FAILED
    exit_code = ad.whole("ExitCode")
    if exit_code is None:
        return None
    return Outcome.DONE if exit_code == (ad.whole("JobSuccessExitCode") or 0) else Outcome.FAILED


def _workflow(ad: ClassAd, dagman: int | None) -> str | None:
    """Return the name of the batch without the number that DAGMan adds, which differs in each run."""
    name = ad.text("JobBatchName")
    return name and (name.removesuffix(f"+{dagman if dagman is not None else ad.whole('ClusterId')}") or None)


def _executable(ad: ClassAd) -> str | None:
    return PurePath(ad.text("Cmd") or "").name or None


def _command(ad: ClassAd) -> str | None:
    """Return the command in shell syntax; Arguments is the newer syntax with quotes, Args the older one."""
    program = ad.text("Cmd")
    if program is None:
        return None
    arguments = ad.text("Arguments")
    if arguments is None:
        return shlex.join([program, *(ad.text("Args") or "").split()])
    words = [_QUOTED.sub(lambda found: found[1].replace("''", "'"), word) for word in _WORD.findall(arguments)]
    return shlex.join([program, *words])
