"""Jobs as reported by Slurm: those waiting or running, and how others ended.

Two sources report a job's end. The controller remembers it for some minutes (MinJobAge), with the true exit status.
The accounting database, if there is one, keeps it for years and has the job's steps, including which of them ran out
of memory; but an exit status above 127 is reduced by 128 there, and it may be a moment late.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from tonnage.batch.scheduler import JobStatus, QueueEntry, Verdict
from tonnage.batch.slurm.host_lists import elements, expanded
from tonnage.jobs import Outcome, Resource
from tonnage.logs.amounts import whole
from tonnage.logs.log import Hints, Log, UnusableError
from tonnage.logs.sacct import records
from tonnage.logs.slurm_jobs import Record, Steps, ending, parse_exit

__all__ = ["ACCOUNTED", "FIELDS", "RUNS", "accounted", "asked", "joined", "queue_entries", "remembered", "rows"]

FIELDS = ("JobArrayID", "State", "exit_code", "RestartCnt", "StartTime", "EndTime", "NodeList", "Reason")
"""The fields requested from squeue (-O): none in which a user may have written a delimiter."""
ACCOUNTED = (
    "JobIDRaw,JobID,State,ExitCode,Submit,Start,End,ElapsedRaw,NTasks,AllocCPUS,AllocTRES,MaxRSS,TRESUsageInTot,"
    "NodeList"
)
"""The fields requested from sacct; not ReqMem, which is wrong (2^64 MB) just after a job was submitted."""

_WAITS = frozenset(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"))
RUNS = frozenset(("RUNNING", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"))
"""States of jobs that have nodes."""
_NOT_THE_JOBS_FAULT = frozenset(("JobLaunchFailure", "NodeDown", "NodeFail", "PartitionDown", "SystemFailure"))
_MANY = 64
"""For more elements than this, ask for the whole array: the query would be longer than the answer."""
_NOTES = {
    "TIMEOUT": "its time limit was reached",
    "OUT_OF_MEMORY": "it was killed for exceeding its memory",
    "CANCELLED": "it was cancelled",
    "DEADLINE": "it reached its deadline before it was done",
    "PREEMPTED": "it was preempted",
    "REQUEUED": "Slurm put it back into the queue",
    "NODE_FAIL": "one of its nodes failed",
    "BOOT_FAIL": "its nodes did not boot",
    "LAUNCH_FAILED": "it could not be launched",
    "RECONFIG_FAIL": "its nodes could not be configured",
    "REVOKED": "it was moved to another cluster",
}


def rows(text: str, fields: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the rows that squeue prints with a ``|`` after each field; other lines are skipped."""
    for line in text.splitlines():
        cells = line.rstrip().removesuffix("|").split("|")
        if len(cells) == len(fields):
            yield dict(zip(fields, (cell.strip() for cell in cells), strict=True))


def queue_entries(text: str) -> dict[str, QueueEntry]:
    """Parse the waiting and running jobs, by number."""
    found: dict[str, QueueEntry] = {}
    for row in rows(text, FIELDS):
        state = row["State"]
        if state not in _WAITS and state not in RUNS:
            continue
        waits = state in _WAITS
        entry = QueueEntry(
            status=JobStatus.WAITING if waits else JobStatus.RUNNING,
            reason=row["Reason"] if waits else "",
            started=None if waits else _moment(row["StartTime"]),
            restarts=int(row["RestartCnt"]) if row["RestartCnt"].isdigit() else 0,
            nodes=expanded(row["NodeList"]),
        )
        found |= dict.fromkeys(elements(row["JobArrayID"]), entry)
    return found


def remembered(text: str) -> dict[str, Verdict]:
    """Parse the controller's records of finished jobs."""
    found: dict[str, Verdict] = {}
    for row in rows(text, FIELDS):
        status, signal = _status(row["exit_code"])
        record = Record(
            id=row["JobArrayID"],
            state=row["State"],
            exit_status=status,
            signal=signal,
            started=_moment(row["StartTime"]),
            ended=_moment(row["EndTime"]),
            host=row["NodeList"] or None,
        )
        verdict = _verdict(record, Steps(), row["Reason"])
        if verdict is not None:
            found |= dict.fromkeys(elements(record.id), verdict)
    return found


def accounted(text: str) -> dict[str, Verdict]:
    """Parse the accounting database's records of finished jobs, including their steps."""
    jobs: dict[str, Record] = {}
    steps: dict[str, Steps] = defaultdict(Steps)
    for record in records(Log.of(text), Hints()):
        if record.step is None:
            jobs[record.id if record.task is None else record.task] = record
        else:
            steps[record.id].add(record)
    found: dict[str, Verdict] = {}
    for number, record in jobs.items():
        verdict = _verdict(record, steps[record.id], "")
        if verdict is not None:
            found |= dict.fromkeys(elements(number), verdict)
    return found


def joined(controller: Mapping[str, Verdict], accounting: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Combine both sources: the controller's record counts, unless the accounting saw a lack of memory."""
    lacked = {number: one for number, one in accounting.items() if one.exhausted is Resource.MEMORY}
    return {**accounting, **controller, **lacked}


def asked(numbers: Collection[str]) -> list[str]:
    """Return the numbers to query for jobs and elements; arrays with many elements are queried as a whole."""
    arrays: dict[str, list[str]] = defaultdict(list)
    for number in sorted(set(numbers)):
        arrays[number.partition("_")[0]].append(number)
    return [one for array, each in arrays.items() for one in ([array] if len(each) > _MANY else each)]


def _verdict(record: Record, steps: Steps, reason: str) -> Verdict | None:
    """Return how a job ended; None if it has not."""
    try:
        outcome, exhausted = ending(record, steps)
    except UnusableError:
        if record.state != "REVOKED":
            return None
        outcome, exhausted = Outcome.LOST, None
    status, signal = parse_exit(record)
    # A job killed by a signal that it caused itself also has the reason JobLaunchFailure.
    if outcome is Outcome.FAILED and reason in _NOT_THE_JOBS_FAULT and not (status or signal):
        outcome = Outcome.LOST
    facts = {"state": record.state, "reason": reason, "nodes": record.host or "", "cancelled_by": record.killed_by}
    return Verdict(
        outcome=outcome,
        exhausted=exhausted,
        exit_status=status,
        signal=signal,
        # A job that never started has no nodes, and its end as its start time.
        started=record.started if record.host else None,
        ended=record.ended,
        note=_note(record, outcome, exhausted, reason),
        facts={name: value for name, value in facts.items() if value and value != "None"},
    )


def _note(record: Record, outcome: Outcome, exhausted: Resource | None, reason: str) -> str:
    state = "OUT_OF_MEMORY" if exhausted is Resource.MEMORY else record.state
    note = _NOTES.get(state, "")
    if state == "CANCELLED" and record.killed_by:
        note += f" by user {record.killed_by}"
    if state == "NODE_FAIL" and record.host:
        note += f" ({record.host})"
    if not note and outcome is Outcome.LOST:
        note = f"it could not run: {reason}"
    return note


def _status(text: str) -> tuple[int | None, int | None]:
    """Decode the exit status and signal from wait()'s format: the status times 256, or the signal."""
    if ":" in text:
        status, _, number = text.partition(":")
        return whole(status, "exit_code"), whole(number, "exit_code")
    code = whole(text, "exit_code") if text.isdigit() else None
    return (None, None) if code is None else (code >> 8, code & 0x7F)


def _moment(text: str) -> float | None:
    return float(text) if text.isdigit() else None
