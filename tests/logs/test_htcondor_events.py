"""HTCondor's job event log."""

import re
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import Said, said, survives
from tests.logs.packages import package
from tonnage.errors import InputError
from tonnage.jobs import Attempt, Outcome, Resource
from tonnage.logs import htcondor_events
from tonnage.logs.log import Hints, Log

KIB, MIB = 2**10, 2**20
BEGIN = datetime(2024, 1, 5, 10, 0, 0, tzinfo=UTC)
SUBMIT_HOST = "<192.0.2.1:9618?addrs=192.0.2.1-9618+[2001-db8--1]-9618&alias=ap1.example.org&noUDP&sock=schedd_7>"
NODE = "<192.0.2.9:40123?addrs=192.0.2.9-40123&alias=node9.example.org&noUDP&sock=startd_3>"


def at(seconds: float) -> float:
    return (BEGIN + timedelta(seconds=seconds)).timestamp()


def event(kind: str, seconds: float, text: str, job: str = "371.000.000") -> str:
    return f"{kind} ({job}) {BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} {text}\n...\n"


def submit(seconds: float = 0, notes: str = "", job: str = "371.000.000") -> str:
    return event("000", seconds, f"Job submitted from host: {SUBMIT_HOST}{notes}", job)


def execute(seconds: float = 60, properties: str = "", job: str = "371.000.000") -> str:
    return event("001", seconds, f"Job executing on host: {NODE}{properties}", job)


def grow(seconds: float, memory: int, resident: int) -> str:
    return event(
        "006",
        seconds,
        f"Image size of job updated: 999999\n\t{memory}  -  MemoryUsage of job (MB)\n"
        f"\t{resident}  -  ResidentSetSize of job (KB)",
    )


def rusage(user: str, system: str, what: str) -> str:
    return f"\t\tUsr {user}, Sys {system}  -  {what} Usage"


def table(*rows: str) -> str:
    return "".join(f"\n\t{row}" for row in rows)


TABLE = table(
    "Partitionable Resources :    Usage  Request Allocated Assigned",
    "   Cpus                 :     0.80        2         2 ",
    "   Disk (KB)            :    45       1024     50000 ",
    '   GPUs                 :                 1         1 "CUDA0 CUDA1"',
    "   Memory (MB)          :   600       1024      1152 ",
    "   TimeExecute (s)      :  3590                     ",
    "   TimeSlotBusy (s)     :  3601                     ",
)
OWN_ACCORD = "\n\n\tJob terminated of its own accord at 2024-01-05T11:01:00Z with exit-code 0."


def terminate(
    seconds: float = 3660,
    how: str = "(1) Normal termination (return value 0)",
    resources: str = TABLE + OWN_ACCORD,
    job: str = "371.000.000",
) -> str:
    usage = "\n".join(
        [
            rusage("0 00:50:00", "0 00:00:10", "Run Remote"),
            rusage("0 00:00:00", "0 00:00:00", "Run Local"),
            rusage("1 00:50:00", "0 00:00:20", "Total Remote"),
            rusage("0 00:00:00", "0 00:00:00", "Total Local"),
        ]
    )
    sent = "\n".join(f"\t{n}  -  {what} By Job" for n, what in enumerate(["Run Bytes Sent", "Run Bytes Received"]))
    total = "\n".join(f"\t{n}  -  {what} By Job" for n, what in enumerate(["Total Bytes Sent", "Total Bytes Received"]))
    return event("005", seconds, f"Job terminated.\n\t{how}\n{usage}\n{sent}\n{total}{resources}", job)


def evict(seconds: float, codes: str = "", kind: str = "(0) CPU times", after: str = "") -> str:
    usage = rusage("0 00:01:00", "0 00:00:01", "Run Remote") + "\n" + rusage("0 00:00:00", "0 00:00:00", "Run Local")
    sent = "\t0  -  Run Bytes Sent By Job\n\t0  -  Run Bytes Received By Job"
    return event("004", seconds, f"Job was evicted.{codes}\n\t{kind}\n{usage}\n{sent}{after}")


def hold(seconds: float, code: int, subcode: int, reason: str = "Error from slot1@node9.example.org: it failed") -> str:
    return event("012", seconds, f"Job was held.\n\t{reason}\n\tCode {code} Subcode {subcode}")


OVER_LIMIT = (
    "Error from slot1_1@node9: Job has gone over cgroup memory limit of 1152 megabytes. Peak usage: 1151 megabytes."
)


def remove(seconds: float, reason: str = "via condor_rm (by user ada)") -> str:
    return event("009", seconds, f"Job was aborted.\n\t{reason}")


PREEMPT = " Code 1011 Subcode 0"
OVER_MEMORY = TABLE.replace("600       1024      1152", "1300       1024      1152")
OVER_DISK = TABLE.replace("   45       1024     50000", "50001       1024     50000")
OVER_CORES = TABLE.replace("0.80        2", "2.20        2")
BY_POLICY = "The job attribute PeriodicRemove expression 'MemoryUsage > MemoryProvisioned' evaluated to TRUE"


def attempts(*events: str) -> list[Attempt]:
    found = said(htcondor_events, "".join(events))
    assert found.skipped == []
    return found.attempts


def test_a_job_is_read() -> None:
    notes = '\n    [ DAGNodeName = "align \\"3\\""; JobBatchName = "exome.dag+370" ]\n    pool:local'
    properties = '\n\tSlotName: slot1_7@node9.example.org\n\tCondorScratchDir = "/x"\n\tCpus = 4\n\tMemory = 2048'
    found = said(htcondor_events, submit(0, notes) + execute(60, properties) + grow(100, 500, 511000) + terminate())
    attempt = found.only
    assert attempt.native_id is None
    assert (attempt.run, attempt.workflow, attempt.task) == ("370@ap1.example.org", "exome.dag", 'align "3"')
    assert (attempt.host, attempt.number, attempt.category) == ("node9.example.org", 1, None)
    assert (attempt.submitted, attempt.started, attempt.ended) == (at(0), at(60), at(3660))
    assert (attempt.outcome, attempt.exit_status, attempt.signal) == (Outcome.DONE, 0, None)
    assert (attempt.requested.cores, attempt.requested.memory, attempt.requested.disk) == (2.0, 1024 * MIB, 1024 * KIB)
    assert (attempt.allocated.cores, attempt.allocated.memory, attempt.allocated.disk) == (2.0, 1152 * MIB, 50000 * KIB)
    assert (attempt.used.memory, attempt.used.disk) == (600 * MIB, 45 * KIB)
    assert (attempt.used.wall_time, attempt.used.cpu_time) == (3600.0, 3010.0)
    assert attempt.memory_method == "rss"
    assert attempt.raw == {
        "JobBatchName": "exome.dag+370",
        "LogNotes": "pool:local",
        "CpusUsage": 0.8,
        "RequestGPUs": 1,
        "GPUs": 1,
        "TimeExecuteUsage": 3590,
        "TimeSlotBusyUsage": 3601,
    }
    assert attempt.row == execute(60, properties).removesuffix("\n...\n")  # the same when the log has grown
    assert found.assumed == ["times in the time zone UTC"]


def test_old_notes_name_the_node_in_a_line() -> None:
    (attempt,) = attempts(submit(0, "\n    DAG Node: merge"), execute(), terminate())
    assert (attempt.task, attempt.run, attempt.workflow) == ("merge", None, None)


def test_an_evicted_execution_is_an_attempt_of_its_own() -> None:
    first, second = attempts(
        submit(), execute(60), grow(70, 20, 19000), grow(80, 10, 9000), evict(660), execute(1000), terminate(4600)
    )
    assert (first.outcome, first.number, first.started, first.ended) == (Outcome.PREEMPTED, 1, at(60), at(660))
    assert (first.used.wall_time, first.used.cpu_time, first.used.memory) == (600.0, 61.0, 19000 * KIB)
    assert (second.outcome, second.number, second.used.wall_time) == (Outcome.DONE, 2, 3600.0)
    assert first.row != second.row


def test_an_evicted_execution_may_have_its_own_table() -> None:
    attempt, _ = attempts(execute(), evict(660, after=TABLE), execute(1000), terminate())
    assert (attempt.used.memory, attempt.requested.memory) == (600 * MIB, 1024 * MIB)


@pytest.mark.parametrize(
    ("how", "outcome", "exit_status", "signal"),
    [
        ("(1) Normal termination (return value 3)", Outcome.FAILED, 3, None),
        ("(0) Abnormal termination (signal 11)\n\t(0) No core file", Outcome.FAILED, None, 11),
        ("(0) Abnormal termination (signal 6)\n\t(1) Corefile in: /home/ada/core", Outcome.FAILED, None, 6),
    ],
)
def test_how_a_job_ended(how: str, outcome: Outcome, exit_status: int | None, signal: int | None) -> None:
    (attempt,) = attempts(submit(), execute(), terminate(how=how))
    assert (attempt.outcome, attempt.exit_status, attempt.signal) == (outcome, exit_status, signal)


@pytest.mark.parametrize(
    ("events", "exhausted"),
    [
        ([hold(600, 34, 102, OVER_LIMIT)], Resource.MEMORY),
        ([hold(600, 34, 0, OVER_LIMIT)], Resource.MEMORY),
        ([hold(600, 34, 104)], Resource.DISK),
        ([hold(600, 21, 102)], Resource.MEMORY),
        ([hold(600, 47, 0)], Resource.WALL_TIME),
        ([evict(600), hold(601, 34, 102)], Resource.MEMORY),
        ([event("007", 600, "Shadow exception!\n\tError from slot1"), hold(601, 34, 102)], Resource.MEMORY),
        ([evict(600, " Code 34 Subcode 102")], Resource.MEMORY),
    ],
)
def test_an_execution_that_needed_more_than_it_had_is_exhausted(events: list[str], exhausted: Resource) -> None:
    (attempt,) = attempts(submit(), execute(), grow(100, 900, 920000), *events)
    assert (attempt.outcome, attempt.exhausted) == (Outcome.EXHAUSTED, exhausted)
    assert (attempt.ended, attempt.used.wall_time) == (at(600), 540.0)
    assert attempt.used.memory == 920000 * KIB
    assert attempt.lower_bounds == (exhausted,)


@pytest.mark.parametrize(
    ("table", "exhausted"), [(OVER_MEMORY, Resource.MEMORY), (OVER_DISK, Resource.DISK), (OVER_CORES, None)]
)
def test_an_eviction_of_what_took_more_than_it_was_given_is_exhaustion(table: str, exhausted: Resource | None) -> None:
    """``PREEMPT_IF_MEMORY_EXCEEDED`` evicts with a code that is not about memory; nobody is evicted for a busy core."""
    first, second = attempts(submit(), execute(), evict(600, PREEMPT, after=table), execute(700), terminate())
    assert first.outcome is (Outcome.EXHAUSTED if exhausted else Outcome.PREEMPTED)
    assert (first.exhausted, first.lower_bounds) == (exhausted, (exhausted,) if exhausted else ())
    assert second.outcome is Outcome.DONE


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ([evict(600, after=OVER_MEMORY), remove(600)], Outcome.CANCELLED),
        ([evict(600, PREEMPT, after=OVER_MEMORY), remove(630, BY_POLICY)], Outcome.EXHAUSTED),
        ([evict(600, PREEMPT, after=TABLE), remove(630, BY_POLICY)], Outcome.CANCELLED),
        ([evict(600, after=OVER_MEMORY), hold(600, 1, 0)], Outcome.CANCELLED),
        ([evict(600, after=OVER_MEMORY), hold(600, 13, 2)], Outcome.FAILED),
        ([event("024", 600, "Job reconnection failed"), evict(600, after=OVER_MEMORY), execute(700)], Outcome.LOST),
    ],
)
def test_what_follows_an_eviction_says_what_it_was(events: list[str], outcome: Outcome) -> None:
    """The table alone does not: the memory in it may be that of an earlier execution."""
    found = said(htcondor_events, "".join([submit(), execute(), *events]))
    assert found.attempts[0].outcome is outcome


def test_nothing_is_concluded_from_an_eviction_before_something_follows_it() -> None:
    """A log that is still written may be imported, and its attempts are stored once."""
    log = submit() + execute() + evict(600, after=OVER_MEMORY)
    found = said(htcondor_events, log)
    assert found.attempts == []
    assert [(one.reason, one.healthy) for one in found.skipped] == [("it has not finished", True)]
    assert [one.outcome for one in said(htcondor_events, log + remove(600)).attempts] == [Outcome.CANCELLED]


def test_an_attempt_that_ran_out_of_something_has_the_same_name_as_in_the_history() -> None:
    ad = event("028", 61, 'Job ad information event triggered.\n\tProc = 0\n\tGlobalJobId = "ap1#371.0#17"')
    (attempt,) = attempts(submit(), execute(), ad, evict(600, PREEMPT, after=OVER_MEMORY), remove(630, BY_POLICY))
    assert attempt.native_id == "htcondor:ap1#371.0#17:1"


def ends(data: Path, name: str) -> dict[str, list[str]]:
    """Return the outcomes of each node's attempts in a log that a real pool has written."""
    found: dict[str, list[str]] = {}
    for one in said(htcondor_events, (data / "logs" / "htcondor" / f"{name}.events.log").read_text()).attempts:
        found.setdefault(str(one.task), []).append(str(one.exhausted or one.outcome))
    return found


def test_a_real_pool_that_preempts_what_takes_too_much_memory(data: Path) -> None:
    assert ends(data, "sid-preempt-memory") == {"p1.txt": ["memory"] * 12 + ["cancelled"]}


@pytest.mark.parametrize("suite", ["sid", "trixie"])
def test_a_real_pool_where_jobs_were_held_removed_and_vacated(data: Path, suite: str) -> None:
    found = ends(data, f"{suite}-hold-release-vacate-rm")
    assert found["x0.txt"] == ["cancelled", "done"], "held and released"
    assert found["x1.txt"][0] == "cancelled", "removed"
    assert found["x2.txt"] == ["preempted", "done"], "vacated"


def test_a_real_dag_that_was_removed(data: Path) -> None:
    found = ends(data, "trixie-dag-removed")
    assert {tuple(outcomes) for outcomes in found.values()} == {("cancelled",)}


def test_the_limit_of_memory_stands_in_the_reason_where_nothing_else_says_it() -> None:
    (attempt,) = attempts(submit(), execute(), hold(600, 34, 102, OVER_LIMIT))
    assert attempt.allocated.memory == 1152 * MIB
    (attempt,) = attempts(submit(), execute(60, "\n\tMemory = 2048"), hold(600, 34, 102, OVER_LIMIT))
    assert attempt.allocated.memory == 2048 * MIB


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ([hold(600, 1, 0, "via condor_hold (by user ada)")], Outcome.CANCELLED),
        ([evict(600), hold(600, 1, 0)], Outcome.CANCELLED),
        ([hold(600, 13, 2)], Outcome.FAILED),
        ([event("012", 600, "Job was held.")], Outcome.FAILED),
        ([event("007", 600, "Shadow exception!\n\tIt died")], Outcome.LOST),
        ([event("007", 600, "Shadow exception!\n\tIt died"), hold(600, 13, 2)], Outcome.LOST),
        ([event("024", 600, "Job reconnection failed\n    Not found"), evict(600)], Outcome.LOST),
        ([remove(600)], Outcome.CANCELLED),
        ([evict(600), remove(600)], Outcome.CANCELLED),
        ([evict(600, " Code 1023 Subcode 0"), remove(600)], Outcome.CANCELLED),
        ([event("024", 600, "Job reconnection failed\n    Not found"), evict(600), remove(601)], Outcome.LOST),
        ([evict(600), event("013", 700, "Job was released.")], Outcome.PREEMPTED),
    ],
)
def test_how_an_execution_was_stopped(events: list[str], outcome: Outcome) -> None:
    (attempt,) = attempts(submit(), execute(), *events)
    assert (attempt.outcome, attempt.ended, attempt.exhausted) == (outcome, at(600), None)


def test_a_job_that_ended_by_itself_and_was_put_back_has_its_exit_status() -> None:
    requeued = evict(
        600, kind="(0) Job terminated and was requeued", after="\n\t(1) Normal termination (return value 7)"
    )
    (attempt,) = attempts(submit(), execute(), requeued)
    assert (attempt.outcome, attempt.exit_status) == (Outcome.FAILED, 7)


def test_an_execution_that_was_started_again_without_an_end_is_lost() -> None:
    first, second = attempts(submit(), execute(60), execute(900), terminate())
    assert (first.outcome, first.ended, first.used.wall_time) == (Outcome.LOST, None, None)
    assert (second.outcome, second.number) == (Outcome.DONE, 2)


def test_a_held_job_that_is_released_runs_again() -> None:
    first, second = attempts(
        submit(), execute(60), hold(600, 34, 102), event("013", 700, "Job was released."), execute(900), terminate(4500)
    )
    assert (first.outcome, second.outcome, second.number) == (Outcome.EXHAUSTED, Outcome.DONE, 2)


def test_jobs_are_told_apart() -> None:
    names = ["371.000.000", "371.001.000", "372.000.000"]
    found = attempts(*(make(job=name) for make in (submit, execute, terminate) for name in names))
    assert [attempt.number for attempt in found] == [1, 1, 1]


def test_an_event_with_the_jobs_attributes_names_it() -> None:
    ad = event("028", 61, 'Job ad information event triggered.\n\tProc = 0\n\tGlobalJobId = "ap1#371.0#17"')
    first, second = attempts(submit(), execute(), ad, evict(600), execute(700), terminate())
    assert first.native_id == "htcondor:ap1#371.0#17:1"
    assert second.native_id == "htcondor:ap1#371.0#17"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2024-01-05 10:01:00", 60),
        ("2024-01-05T10:01:00", 60),
        ("2024-01-05 10:01:00.250", 60.25),
        ("2024-01-05 10:01:00Z", 60),
        ("2024-01-05 12:01:00+02:00", 60),
    ],
)
def test_dates_in_every_form(header: str, seconds: float) -> None:
    text = submit() + f"001 (371.000.000) {header} Job executing on host: {NODE}\n...\n" + terminate()
    assert said(htcondor_events, text).only.started == at(seconds)


def test_times_without_a_zone_are_taken_in_the_users() -> None:
    hints = Hints(zone=timezone(timedelta(hours=-6)))
    found = said(htcondor_events, execute() + terminate(), hints=hints)
    assert found.only.started == at(60) + 6 * 3600
    assert found.assumed == ["times in the time zone UTC-06:00"]
    zoned = (execute() + terminate()).replace(" Job", "Z Job", 1).replace(" Job terminated.", "Z Job terminated.", 1)
    assert said(htcondor_events, zoned, hints=hints).assumed == []


NO_YEAR = "dates have no year: it is known how long jobs took, but not when they ran"


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("01/05 10:11:12", "01/05 11:11:12", 3600),
        ("12/31 23:00:00", "01/01 01:00:00", 7200),
        ("02/28 23:00:00", "03/01 01:00:00", 7200),
        ("02/29 23:00:00", "03/01 01:00:00", 7200),
        ("02/28 23:00:00", "02/29 01:00:00", 7200),
        ("11/03 02:00:00", "11/03 01:00:00", None),
    ],
)
def test_without_a_year_only_how_long_it_took_is_known(start: str, end: str, seconds: float | None) -> None:
    text = f"001 (1.000.000) {start} Job executing on host: <192.0.2.9:40123>\n...\n"
    text += f"005 (1.000.000) {end} Job terminated.\n\t(1) Normal termination (return value 0)\n...\n"
    found = said(htcondor_events, text)
    attempt = found.only
    assert (attempt.submitted, attempt.started, attempt.ended) == (None, None, None)
    assert (attempt.used.wall_time, attempt.host) == (seconds, "192.0.2.9")
    assert found.assumed == [NO_YEAR]


def test_a_log_may_have_got_its_years_in_the_middle() -> None:
    found = said(
        htcondor_events, f"001 (371.000.000) 01/05 10:01:00 Job executing on host: {NODE}\n...\n" + terminate()
    )
    assert (found.only.started, found.only.ended, found.only.used.wall_time) == (None, at(3660), None)
    assert found.assumed == [NO_YEAR, "times in the time zone UTC"]


def test_memory_that_nobody_measured_is_unknown() -> None:
    nothing = TABLE.replace("600  ", "  0  ")
    (attempt,) = attempts(submit(), execute(), grow(61, 0, 0), terminate(resources=nothing))
    assert (attempt.used.memory, attempt.memory_method) == (None, None)
    (attempt,) = attempts(
        submit(), execute(), event("006", 61, "Image size of job updated: 4711"), terminate(resources="")
    )
    assert (attempt.used.memory, attempt.used.disk, attempt.requested.memory) == (None, None, None)


def test_cells_of_old_tables_may_be_wider_than_their_columns() -> None:
    wide = table(
        "Partitionable Resources :    Usage  Request Allocated",
        "   Cpus                 :                 1         1",
        "   Disk (KB)            : 123456789012 123456789012 1234567890123",
        "   Memory (MB)          :       26               2048",
    )
    (attempt,) = attempts(submit(), execute(), terminate(resources=wide))
    assert (attempt.used.disk, attempt.requested.disk) == (123456789012 * KIB, 123456789012 * KIB)
    assert (attempt.used.memory, attempt.requested.memory, attempt.allocated.memory) == (26 * MIB, None, 2048 * MIB)
    assert (attempt.requested.cores, attempt.raw.get("CpusUsage")) == (1.0, None)


def test_an_end_whose_start_is_not_in_the_log_still_says_what_it_used() -> None:
    (attempt,) = attempts(terminate())
    assert (attempt.started, attempt.ended, attempt.used.wall_time, attempt.used.memory) == (
        None,
        at(3660),
        3590.0,
        600 * MIB,
    )


@pytest.mark.parametrize(
    ("events", "reason", "line"),
    [
        ([submit()], "it has not finished", 1),
        ([submit(), execute()], "it has not finished", 3),
        ([submit(), submit(5), execute(), terminate()], "it has not finished", 1),
        ([submit(), event("009", 5, "Job was aborted.")], "it was removed before it started", 3),
        ([submit(), evict(5), execute(), terminate()], "it was stopped before it started", 3),
        ([evict(5)], "its start is not in this log", 1),
        ([hold(5, 34, 102)], "its start is not in this log", 1),
        ([event("009", 5, "Job was aborted.")], "its start is not in this log", 1),
        ([execute(), event("005", 70, "Job terminated.\n\tsomehow")], "the event does not say how the job ended", 3),
        ([execute(), terminate(), "some words\n...\n"], "is not an event", 23),
        ([execute(), terminate(), submit().removesuffix("...\n")], "the event is incomplete", 23),
        ([submit().removesuffix("...\n"), execute(), terminate()], "the event is incomplete", 1),
        (
            [execute(), terminate(), event("001", 0, "Job").replace("2024-01-05", "2024-02-30")],
            "the date is not a date and time",
            23,
        ),
    ],
)
def test_what_cannot_be_used_is_skipped_with_its_reason(events: list[str], reason: str, line: int) -> None:
    (skipped,) = said(htcondor_events, "".join(events)).skipped
    assert (skipped.reason, skipped.line) == (reason, line)


def test_events_that_say_nothing_about_a_job_are_passed_over() -> None:
    others = [
        event("008", 1, "Global JobLog: ctime=1704448800 id=1 sequence=1 size=0 events=0", "000.000.000"),
        event("035", 2, "Cluster submitted from host: x", "371.-01.-01"),
        event("040", 30, "Started transferring input files\n\tTransferring to host: <192.0.2.9:1>"),
        event("016", 4000, "POST Script terminated.\n\t(1) Normal termination (return value 0)\n    DAG Node: align"),
    ]
    assert len(attempts(others[0], others[1], submit(), others[2], execute(), terminate(), others[3])) == 1


def test_only_event_logs_are_recognised() -> None:
    assert htcondor_events.recognises(submit())
    assert htcondor_events.recognises("000 (85.000.000) 08/29 08:46:15 Job submitted from host: <192.0.2.1:43563>\n")
    for text in ("", "...\n", "000 1 2", "005 (1.2) 2024-01-05 10:11:12", "[1]", '{"Cluster": 1}', "<a/>", "a,b\n"):
        assert not htcondor_events.recognises(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<?xml version="1.0"?>\n<c>\n<a n="EventTypeNumber"><i>0</i></a>\n</c>\n', "is XML"),
        ('{\n  "MyType": "SubmitEvent",\n  "EventTypeNumber": 0\n}\n', "is JSON"),
    ],
)
def test_other_forms_of_the_log_are_recognised_and_refused(text: str, message: str) -> None:
    assert htcondor_events.recognises(text)
    with pytest.raises(InputError, match=message):
        said(htcondor_events, text)


@pytest.mark.parametrize("text", ["", "hello\n...\n", "a,b\n1,2\n"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not an HTCondor job event log"):
        said(htcondor_events, text)


# What HTCondor's own reader says, in the same words.


def truth_of(text: str, folder: Path) -> list[Any]:
    path = folder / "job.log"
    path.write_text(text)
    return list(package("htcondor2", "htcondor").JobEventLog(str(path)).events(0))


def in_utc(text: str) -> str:
    """Return events with the mark of UTC: HTCondor takes the others in the zone of this machine."""
    return re.sub(r"^(\d{3} \(\S+\) \S+ [\d:]+)", r"\1Z", text, flags=re.MULTILINE)


def test_events_are_read_as_htcondor_reads_them(tmp_path: Path) -> None:
    notes = '\n    [ DAGNodeName = "align"; JobBatchName = "exome.dag+370" ]'
    text = in_utc(
        submit(0, notes)
        + execute(60, "\n\tSlotName: slot1_7@node9.example.org\n\tCpus = 4\n\tMemory = 2048")
        + grow(100, 500, 511000)
        + evict(600)
        + hold(601, 34, 102, OVER_LIMIT)
        + event("013", 700, "Job was released.\n\tvia condor_release")
        + execute(800)
        + terminate(4400)
    )
    submitted, started, grown, evicted, held, _, _, terminated = truth_of(text, tmp_path)
    found = said(htcondor_events, text)
    first, second = found.attempts
    assert (found.skipped, found.assumed) == ([], [])
    assert first.task == submitted["StructuredNotes"]["DAGNodeName"]
    assert (first.submitted, first.started, first.ended) == (submitted.timestamp, started.timestamp, evicted.timestamp)
    assert first.host == started["SlotName"].partition("@")[2]
    assert first.allocated.memory == started["ExecuteProps"]["Memory"] * MIB
    assert first.used.memory == grown["ResidentSetSize"] * KIB
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"], first.exhausted) == (34, 102, Resource.MEMORY)
    assert second.ended == terminated.timestamp
    assert_same(second, terminated)


def assert_same(attempt: Attempt, event: Any) -> None:
    assert attempt.exit_status == event.get("ReturnValue")
    assert attempt.signal == event.get("TerminatedBySignal")
    assert attempt.requested.cores == event.get("RequestCpus")
    assert attempt.requested.memory == times(event.get("RequestMemory"), MIB)
    assert attempt.requested.disk == times(event.get("RequestDisk"), KIB)
    assert attempt.allocated.cores == event.get("Cpus")
    assert attempt.allocated.memory == times(event.get("Memory"), MIB)
    assert attempt.allocated.disk == times(event.get("Disk"), KIB)
    assert attempt.used.memory == (times(event.get("MemoryUsage"), MIB) or None)
    assert attempt.used.disk == times(event.get("DiskUsage"), KIB)
    for name in ("CpusUsage", "RequestGPUs", "GPUs", "GPUsUsage", "TimeExecuteUsage"):
        assert attempt.raw.get(name) == event.get(name)
    days, time = event["RunRemoteUsage"].removeprefix("Usr ").split(",")[0].split(" ")
    hours, minutes, seconds = map(int, time.split(":"))
    assert attempt.used.cpu_time == ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds + 10.0


def times(value: float | None, unit: int) -> int | None:
    return None if value is None else round(value * unit)


@dataclass(frozen=True)
class Row:
    """A row of the table of resources: usage, request, allocated and what is assigned; each may be missing."""

    name: str
    cells: tuple[str, str, str]
    assigned: str = ""


LABELS = {"Memory": "Memory (MB)", "Disk": "Disk (KB)", "TimeExecute": "TimeExecute (s)"}


def render(rows: list[Row]) -> str:
    """Return a table as HTCondor lays it out: columns as wide as what is in them, whole numbers before the point."""
    fractions = [any("." in row.cells[column] for row in rows) for column in range(3)]
    padded = [
        [f"{cell}   " if cell.isdigit() and fractions[column] else cell for column, cell in enumerate(row.cells)]
        for row in rows
    ]
    widths = [max([len(cells[column]) for cells in padded] + [least]) for column, least in enumerate((8, 8, 9))]
    assigned = "Assigned" if any(row.assigned for row in rows) else ""
    names = ("Usage", "Request", "Allocated")
    lines = ["\tPartitionable Resources : " + " ".join(map(str.rjust, names, widths)) + f" {assigned}"]
    lines += [
        f"\t   {LABELS.get(row.name, row.name):20} : " + " ".join(map(str.rjust, cells, widths)) + f" {row.assigned}"
        for row, cells in zip(rows, padded, strict=True)
    ]
    return "\n" + "\n".join(lines)


_cells = st.one_of(st.just(""), st.integers(0, 10**10).map(str), st.integers(1, 10**6).map(lambda n: f"{n / 100:.2f}"))
_tables = st.permutations(["Cpus", "Disk", "GPUs", "Memory", "TimeExecute", "AVeryLongNameOfAResource"]).flatmap(
    lambda names: st.tuples(
        *(
            st.builds(Row, st.just(name), st.tuples(_cells, _cells, _cells), st.sampled_from(["", '"CUDA0"']))
            for name in names
        )
    )
)


@given(_tables)
def test_tables_are_read_as_htcondor_reads_them(
    tmp_path_factory: pytest.TempPathFactory, rows: tuple[Row, ...]
) -> None:
    text = in_utc(execute() + terminate(resources=render(list(rows))))
    _, terminated = truth_of(text, tmp_path_factory.getbasetemp())
    assert_same(said(htcondor_events, text).only, terminated)


@dataclass(frozen=True)
class Execution:
    start: int
    seconds: int
    memory: int
    exit_status: int | None
    """None is an eviction."""


_executions = st.builds(
    Execution, st.integers(0, 10**6), st.integers(0, 10**7), st.integers(1, 10**6), st.none() | st.integers(0, 255)
)
_queues = st.lists(
    st.lists(_executions, min_size=1, max_size=3).map(
        # Only the last execution of a job ends it.
        lambda runs: [Execution(run.start, run.seconds, run.memory, None) for run in runs[:-1]] + runs[-1:]
    ),
    min_size=1,
    max_size=4,
)


@given(_queues, st.randoms(use_true_random=False))
def test_what_was_written_is_read_back(queue: list[list[Execution]], dice: Any) -> None:
    stories = [written(f"{number + 1}.000.000", runs) for number, runs in enumerate(queue)]
    log = ""
    while any(stories):  # events of different jobs stand between each other
        log += dice.choice([story for story in stories if story]).pop(0)
    found = said(htcondor_events, log)
    waiting = sum(runs[-1].exit_status is None for runs in queue)
    expected = [
        (str(number + 1), k + 1, run)
        for number, runs in enumerate(queue)
        for k, run in enumerate(runs)
        if run.exit_status is not None or k + 1 < len(runs)
    ]
    assert [one.reason for one in found.skipped] == ["it has not finished"] * waiting
    assert len(found.attempts) == len(expected)
    by_name = {(attempt.task, attempt.number): attempt for attempt in found.attempts}
    for name, number, run in expected:
        attempt = by_name[name, number]
        assert (attempt.started, attempt.used.wall_time) == (at(run.start), float(run.seconds))
        assert (attempt.used.memory, attempt.exit_status) == (run.memory * MIB, run.exit_status)
        done = {None: Outcome.PREEMPTED, 0: Outcome.DONE}
        assert attempt.outcome == done.get(run.exit_status, Outcome.FAILED)


def written(job: str, runs: list[Execution]) -> list[str]:
    texts = [submit(0, f"\n    DAG Node: {job.partition('.')[0]}", job)]
    for run in runs:
        memory = table(f"Partitionable Resources : {'Usage':>8}", f"   Memory (MB)          : {run.memory:8}")
        texts.append(execute(run.start, job=job))
        if run.exit_status is None:
            texts.append(event("004", run.start + run.seconds, f"Job was evicted.\n\t(0) CPU times{memory}", job))
        else:
            how = f"(1) Normal termination (return value {run.exit_status})"
            texts.append(terminate(run.start + run.seconds, how, memory, job))
    return texts


def test_damage_never_stops_the_reader() -> None:
    text = (
        submit(0, "\n    DAG Node: align")
        + execute()
        + grow(100, 500, 511000)
        + evict(600)
        + execute(700)
        + terminate()
    )
    text += execute(5000) + hold(6000, 34, 102, OVER_LIMIT)
    for _, found in survives(htcondor_events, text, "job.log"):
        assert isinstance(found, Said)


def test_memory_does_not_grow_with_the_log() -> None:
    def pieces() -> Any:
        for number in range(1500):
            job = f"{number}.000.000"
            yield (submit(job=job) + execute(job=job) + terminate(job=job)).encode()

    tracemalloc.start()
    count = sum(1 for _ in htcondor_events.read(Log(pieces(), Path("job.log")), Hints()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1501  # and what was assumed
    assert peak < MIB
