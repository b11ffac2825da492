"""Slurm's accounting as JSON: ``sacct --json`` of Slurm 22.05 and later.

A number is either plain or ``{"set": true, "infinite": false, "number": 2}``, a state is either a string or a list of
it and its flags. The memory used is in bytes under ``tres.requested`` (``consumed`` is what was written); the requested
memory is in MiB. Slurm 22.05 gives neither the CPU time of jobs nor exit statuses: the former is summed up from the
steps, the latter stay unknown.
"""

import json
import re
from collections.abc import Iterator, Mapping

from tonnage.jobs import Amounts
from tonnage.logs.amounts import number, scaled
from tonnage.logs.json_values import values
from tonnage.logs.log import Entry, Hints, Log, Skipped, UnusableError
from tonnage.logs.slurm_jobs import Copies, Record, Steps, attempt

__all__ = ["read", "recognises"]

_JOBS = re.compile(r'"jobs"\s*:\s*\[')
_ACCOUNTING = re.compile(r"openapi\\?/(dbv|slurmdbd)")  # not what squeue and scontrol write
_MIB = 2**20
_NO_VALUE = frozenset((2**32 - 1, 2**32 - 2, 2**64 - 1, 2**64 - 2))  # Slurm's INFINITE and NO_VAL
_RAW = ("account", "partition", "qos", "group", "constraints", "allocation_nodes", "working_directory")


def recognises(head: str) -> bool:
    """Whether the text has jobs as Slurm's accounting describes them."""
    if not head.lstrip().startswith("{") or not _JOBS.search(head):
        return False
    return bool(_ACCOUNTING.search(head)) or ('"allocation_nodes"' in head and '"submission"' in head)


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each job that ran."""
    copies = Copies()
    any_job = False
    for line, job in values(log, "jobs"):
        if isinstance(job, dict) and "job_id" in job and "state" in job:
            any_job = True
        elif not any_job:
            raise log.error(
                'is not the output of sacct --json: expected a list "jobs" of objects with a job_id and a state'
            )
        else:
            yield Skipped(line, "it is not a job")
            continue
        try:
            yield attempt(_job(job), _steps(job), copies, hints.label)
        except UnusableError as problem:
            yield problem.at(line)
        except RecursionError:
            yield Skipped(line, "it is nested too deeply")


def _job(job: Mapping[str, object]) -> Record:
    requested, allocated = _tres(_in(job, "tres", "requested")), _tres(_in(job, "tres", "allocated"))
    started = _moment(_in(job, "time", "start"), "time.start")
    status, signal = _exit(job)
    id_ = _id(job)
    memory = _bytes(requested.get("mem"), _MIB)
    limit = _number(_in(job, "time", "limit"), "time.limit")
    return Record(
        id=id_,
        state=_state(_in(job, "state", "current")),
        killed_by=_text(job.get("kill_request_user")) or "",
        exit_status=status,
        signal=signal,
        submitted=_moment(_in(job, "time", "submission"), "time.submission"),
        started=started,
        ended=_moment(_in(job, "time", "end"), "time.end"),
        never_started=started is None,
        requested=Amounts.of(
            cores=requested.get("cpu") or _number(_in(job, "required", "CPUs"), "required.CPUs") or None,
            memory=_required_memory(job) if memory is None else memory,
            wall_time=None if limit is None else scaled(str(limit), "time.limit", 60),
        ),
        allocated=Amounts.of(cores=allocated.get("cpu") or None, memory=_bytes(allocated.get("mem"), _MIB)),
        used=_times(job),
        cluster=_text(job.get("cluster")) or "",
        task=_task(job, id_),
        name=_text(job.get("name")),
        user=_text(job.get("user")),
        host=_host(job.get("nodes")),
        command=_text(job.get("submit_line")),
        restarts=_whole(job.get("restart_cnt"), "restart_cnt"),
        row=json.dumps(job, sort_keys=True),
        raw=_raw(job, allocated),
    )


def _steps(job: Mapping[str, object]) -> Steps:
    steps = Steps()
    found = job.get("steps")
    for step in found if isinstance(found, list) else ():
        if not isinstance(step, dict):
            raise UnusableError("one of its steps is not an object")
        steps.add(_step(step))
    return steps


def _step(step: Mapping[str, object]) -> Record:
    total, most = _tres(_in(step, "tres", "requested", "total")), _tres(_in(step, "tres", "requested", "max"))
    memory = total.get("mem") or most.get("mem")
    tasks = 1.0 if total.get("mem") else _number(_in(step, "tasks", "count"), "tasks.count") or 1.0
    status, signal = _exit(step)
    return Record(
        id="",
        step=_text(_in(step, "step", "name")) or "",
        state=_state(step.get("state")),
        killed_by=_text(step.get("kill_request_user")) or "",
        exit_status=status,
        signal=signal,
        started=_moment(_in(step, "time", "start"), "time.start"),
        ended=_moment(_in(step, "time", "end"), "time.end"),
        allocated=Amounts.of(memory=_bytes(_tres(_in(step, "tres", "allocated")).get("mem"), _MIB)),
        used=_times(step, _bytes(memory, tasks)),
        disk_read=most.get("fs/disk"),
        disk_written=_tres(_in(step, "tres", "consumed", "max")).get("fs/disk"),
    )


def _times(record: Mapping[str, object], memory: float | None = None) -> Amounts:
    seconds = _number(_in(record, "time", "total", "seconds"), "time.total")
    microseconds = _number(_in(record, "time", "total", "microseconds"), "time.total")
    return Amounts.of(
        memory=memory,
        wall_time=_number(_in(record, "time", "elapsed"), "time.elapsed"),
        cpu_time=None if seconds is None else seconds + (microseconds or 0) / 1e6,
    )


def _exit(record: Mapping[str, object]) -> tuple[int | None, int | None]:
    code = record.get("exit_code")
    signal = _in(code, "signal", "signal_id") or _in(code, "signal", "id")
    return _whole(_in(code, "return_code"), "exit_code"), _whole(signal, "exit_code")


def _state(state: object) -> str:
    """Return a state; in a list its flags follow it, and like sacct we use the last flag: REQUEUED, not PENDING."""
    if isinstance(state, list):
        state = state[-1] if state else None
    if not isinstance(state, str):
        raise UnusableError("its state is unknown", str(state)[:80])
    return state


def _id(job: Mapping[str, object]) -> str:
    number = _whole(job["job_id"], "job_id")
    if number is None:
        raise UnusableError("it has no job_id")
    return str(number)


def _task(job: Mapping[str, object], id_: str) -> str:
    """Return the job's number as users know it, such as ``2_3`` for a task of an array."""
    array, index = _whole(_in(job, "array", "job_id"), "array"), _whole(_in(job, "array", "task_id"), "array")
    if array and index is not None:
        return f"{array}_{index}"
    het, offset = _whole(_in(job, "het", "job_id"), "het"), _whole(_in(job, "het", "job_offset"), "het")
    if het and offset is not None:
        return f"{het}+{offset}"
    return id_


def _required_memory(job: Mapping[str, object]) -> float | None:
    """Return the requested memory if the TRES do not have it: that per node or core, times their number."""
    shares = {"memory_per_node": job.get("allocation_nodes"), "memory_per_cpu": _in(job, "required", "CPUs")}
    for share, times in shares.items():
        memory, count = _number(_in(job, "required", share), share), _number(times, share)
        if memory and count:
            return _bytes(memory, count * _MIB)
    return None


def _raw(job: Mapping[str, object], allocated: Mapping[str, float]) -> dict[str, object]:
    raw = {name: job[name] for name in _RAW if isinstance(job.get(name), str | int) and job[name] != ""}
    comment, reason = _in(job, "comment", "job"), _in(job, "state", "reason")
    raw |= {name: value for name, value in (("comment", comment), ("reason", reason)) if _text(value)}
    return raw | ({"tres": dict(allocated)} if allocated else {})


def _in(value: object, *names: str) -> object:
    """Return the value at a path of names; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _tres(found: object) -> dict[str, float]:
    """Return the counts in a list of trackable resources by name: ``cpu``, ``mem``, ``gres/gpu``."""
    counts: dict[str, float] = {}
    for resource in found if isinstance(found, list) else ():
        count = _number(_in(resource, "count"), "tres")
        type_, name = _text(_in(resource, "type")), _text(_in(resource, "name"))
        if count is not None and type_:
            counts[f"{type_}/{name}" if name else type_] = count
    return counts


def _number(value: object, what: str) -> float | None:
    """Return a number, either plain or an object that says whether it is set; None if it is not."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableError(f"{what} is not a number", str(value)[:80])
    return None if value in _NO_VALUE else number(str(value), what)


def _whole(value: object, what: str) -> int | None:
    found = _number(value, what)
    return None if found is None else int(found)


def _bytes(count: float | None, unit: float) -> float | None:
    """Return an amount in bytes; 0 means unknown."""
    return scaled(str(count), "memory", unit) if count else None


def _moment(value: object, what: str) -> float | None:
    return _number(value, what) or None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _host(value: object) -> str | None:
    nodes = _text(value)
    return None if nodes == "None assigned" else nodes
