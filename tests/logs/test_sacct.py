"""Slurm's accounting as a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import said, said_of, survives
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs import sacct
from tonnage.logs.log import Hints, Log

MIB = 2**20
START = 1794777934.0  # 2026-11-15T21:25:34 UTC
HEADER = (
    "JobIDRaw|JobID|JobName|User|Account|State|ExitCode|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS"
    "|NNodes|NTasks|ReqMem|AllocTRES|TotalCPU|MaxRSS|TRESUsageInTot|MaxDiskRead|MaxDiskWrite|NodeList|Comment|WorkDir"
)
NAMES = HEADER.split("|")
JOB = {
    "JobIDRaw": "13",
    "JobID": "2_0",
    "JobName": "align",
    "User": "ada",
    "Account": "lab",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "2026-11-15T21:25:04",
    "Start": "2026-11-15T21:25:34",
    "End": "2026-11-15T21:27:34",
    "ElapsedRaw": "120",
    "TimelimitRaw": "60",
    "AllocCPUS": "4",
    "ReqCPUS": "2",
    "NNodes": "1",
    "ReqMem": "200M",
    "AllocTRES": "billing=4,cpu=4,mem=400M,node=1",
    "TotalCPU": "03:20.500",
    "NodeList": "n1",
    "WorkDir": "/home/ada",
}
STEP = {
    "JobIDRaw": "13.batch",
    "JobID": "2_0.batch",
    "JobName": "batch",
    "Account": "lab",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "2026-11-15T21:25:34",
    "Start": "2026-11-15T21:25:34",
    "End": "2026-11-15T21:27:34",
    "ElapsedRaw": "120",
    "NTasks": "1",
    "AllocTRES": "cpu=4,mem=400M,node=1",
    "TotalCPU": "03:20.500",
    "MaxRSS": "104857600",
    "TRESUsageInTot": "cpu=00:03:20,energy=0,fs/disk=48642,mem=104857600,pages=0,vmem=209715200",
    "MaxDiskRead": "0.05M",
    "MaxDiskWrite": "1.50M",
    "NodeList": "n1",
}


def table(*rows: dict[str, str], names: list[str] = NAMES, delimiter: str = "|", end: str = "\n") -> str:
    cells = [names, *([row.get(name, "") for name in names] for row in rows)]
    return "".join(delimiter.join(row) + end for row in cells)


def numbered(number: int, *rows: dict[str, str]) -> list[dict[str, str]]:
    """The rows as those of another job."""
    return [
        row
        | {"JobIDRaw": row["JobIDRaw"].replace("13", str(number)), "JobID": row["JobID"].replace("2_0", str(number))}
        for row in rows
    ]


def only(*rows: dict[str, str]) -> Attempt:
    return said(sacct, table(*rows)).only


def test_a_job_and_its_steps_are_one_attempt() -> None:
    text = table(JOB, STEP)
    attempt = said(sacct, text, hints=Hints(label="refs")).only
    assert attempt == Attempt(
        native_id=f"slurm:refs:13:{START - 30:.0f}:0",
        row=text.split("\n")[1],
        task="2_0",
        category="align",
        user="ada",
        host="n1",
        submitted=START - 30,
        started=START,
        ended=START + 120,
        outcome=Outcome.DONE,
        exit_status=0,
        requested=Amounts.of(cores=2, memory=200 * MIB, wall_time=3600),
        allocated=Amounts.of(cores=4, memory=400 * MIB),
        used=Amounts.of(memory=100 * MIB, wall_time=120, cpu_time=200.5),
        memory_method="rss",
        raw={
            "Account": "lab",
            "ExitCode": "0:0",
            "NNodes": "1",
            "AllocTRES": "billing=4,cpu=4,mem=400M,node=1",
            "WorkDir": "/home/ada",
            "MaxDiskRead": round(0.05 * MIB),
            "MaxDiskWrite": round(1.5 * MIB),
        },
    )


@pytest.mark.parametrize("delimiter", ["|", "^|^", ",", "\t", ";", " "])
def test_any_delimiter_will_do(delimiter: str) -> None:
    found = said(sacct, table(JOB, STEP, delimiter=delimiter)).only
    assert (found.category, found.used.memory, found.allocated.memory) == ("align", 100 * MIB, 400 * MIB)


def test_a_delimiter_at_the_end_of_each_line_is_no_column() -> None:
    assert said(sacct, table(JOB, STEP, end="|\n")).only.category == "align"


def test_lines_may_end_as_on_windows() -> None:
    assert said(sacct, table(JOB, STEP, end="\r\n")).only.raw["WorkDir"] == "/home/ada"


def test_quoted_cells_of_csv_are_understood() -> None:
    text = 'JobID,JobName,State,AllocTRES\n7,"a, b",COMPLETED,"cpu=1,mem=200M"\n'
    found = said(sacct, text).only
    assert (found.category, found.allocated.memory) == ("a, b", 200 * MIB)


@pytest.mark.parametrize("name", ["JobID", "JobIDRaw"])
def test_a_number_and_a_state_are_enough(name: str) -> None:
    found = said(sacct, f"{name}|State\n7|COMPLETED\n7.batch|COMPLETED\n").only
    assert (found.task, found.outcome, found.native_id) == ("7", Outcome.DONE, None)
    assert found.used == Amounts()


def test_what_is_not_of_sacct_is_refused_with_a_hint() -> None:
    fixed = "JobID           JobName  State ExitCode\n------- ------- ----- ----\n7   align  COMPLETED 0:0\n"
    for text in ("", "a|b\n1|2\n", "JobID|JobName\n1|x\n", fixed):
        assert not sacct.recognises(text)
        with pytest.raises(InputError, match="expected a first line with the columns JobID and State") as error:
            said(sacct, text)
        assert "-P" in str(error.value.hint)


def test_its_header_is_recognised() -> None:
    assert sacct.recognises(table())
    assert sacct.recognises("JobID^|^MaxRSS^|^Elapsed^|^State\n")
    assert not sacct.recognises("JobID,State,colour\n")
    assert not sacct.recognises("task_id\thash\tname\tstatus\n")


def test_headers_and_blank_lines_in_between_are_no_jobs() -> None:
    assert len(said(sacct, table(JOB, STEP) + "\n" + table(*numbered(14, JOB, STEP))).attempts) == 2


# Jobs, steps and copies


def test_rows_of_jobs_may_be_mixed() -> None:
    one, two = numbered(14, JOB, STEP), numbered(15, JOB, STEP | {"TRESUsageInTot": "mem=1M"})
    found = said(sacct, table(two[1], one[0], two[0], one[1])).attempts
    assert {(attempt.task, attempt.used.memory) for attempt in found} == {("14", 100 * MIB), ("15", MIB)}


def test_steps_without_their_job_are_an_attempt_without_requests() -> None:
    first = STEP | {"JobIDRaw": "13.0", "JobID": "2_0.0", "End": "2026-11-15T21:29:34", "TotalCPU": "00:10"}
    found = only(STEP | {"State": "FAILED", "ExitCode": "3:0"}, first)
    assert (found.task, found.category, found.submitted, found.native_id) == ("2_0", None, None, None)
    assert (found.outcome, found.exit_status, found.started, found.ended) == (Outcome.FAILED, 3, START, START + 240)
    assert found.requested == Amounts()
    assert found.used == Amounts.of(memory=100 * MIB, wall_time=240, cpu_time=210.5)


def test_an_extern_step_does_not_say_how_the_job_ended() -> None:
    extern = STEP | {"JobIDRaw": "13.extern", "State": "COMPLETED"}
    failed = STEP | {"JobIDRaw": "13.0", "State": "FAILED"}
    assert only(extern, STEP | {"JobIDRaw": "13.1"}, failed).outcome == Outcome.FAILED


def test_a_requeued_job_is_an_attempt_for_each_time_that_it_ran() -> None:
    again = JOB | {"Submit": "2026-11-15T21:28:00", "Start": "2026-11-15T21:29:00", "End": "2026-11-15T21:31:00"}
    requeued = JOB | {"State": "REQUEUED"}
    first, second = said(sacct, table(requeued, STEP, again, STEP | {"TRESUsageInTot": "mem=2M"})).attempts
    assert (first.number, first.outcome, first.used.memory) == (1, Outcome.PREEMPTED, 100 * MIB)
    assert (second.number, second.outcome, second.used.memory) == (2, Outcome.DONE, 2 * MIB)
    assert first.native_id != second.native_id
    # sacct without -D shows only the last copy: it is the same attempt.
    assert only(again).native_id == second.native_id


def test_copies_of_one_second_are_told_apart() -> None:
    first, second = said(sacct, table(JOB | {"State": "NODE_FAIL"}, JOB)).attempts
    assert [first.native_id, second.native_id] == [f"slurm::13:{START - 30:.0f}:{restart}" for restart in (0, 1)]


def test_logs_that_overlap_hold_the_same_attempts() -> None:
    first, second = said(sacct, table(JOB, STEP) + table(JOB, STEP)).attempts
    assert first == second


def test_the_column_of_restarts_numbers_the_attempts() -> None:
    found = said(sacct, table(JOB | {"Restarts": "2"}, names=[*NAMES, "Restarts"])).only
    assert (found.number, str(found.native_id).split(":")[-1]) == (3, "2")


def test_jobs_of_two_clusters_are_two_jobs() -> None:
    names = [*NAMES, "Cluster"]
    found = said(sacct, table(JOB | {"Cluster": "a"}, JOB | {"Cluster": "b"}, names=names), hints=Hints(label="c"))
    assert [str(attempt.native_id)[:10] for attempt in found.attempts] == ["slurm:a:13", "slurm:b:13"]
    assert [attempt.number for attempt in found.attempts] == [1, 1]


def test_components_of_a_heterogeneous_job_are_attempts() -> None:
    text = "JobID|State|MaxRSS\n17+0|COMPLETED|\n17+0.0|COMPLETED|1M\n17+1|FAILED|\n17+1.0+1|FAILED|2M\n"
    found = said(sacct, text).attempts
    assert [(one.task, one.used.memory, one.outcome) for one in found] == [
        ("17+0", MIB, Outcome.DONE),
        ("17+1", 2 * MIB, Outcome.FAILED),
    ]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_job_that_has_not_ended_is_skipped(state: str) -> None:
    (skipped,) = said(sacct, table(JOB | {"State": state, "End": "Unknown"}, STEP)).skipped
    assert (skipped.line, skipped.reason, skipped.found) == (2, "it has not finished", state)


def test_the_tasks_of_an_array_that_wait_are_skipped() -> None:
    waiting = JOB | {"JobIDRaw": "2", "JobID": "2_[5-9%2]", "State": "PENDING", "Start": "Unknown", "End": "Unknown"}
    found = said(sacct, table(JOB, waiting))
    assert (len(found.attempts), [skipped.reason for skipped in found.skipped]) == (1, ["it has not finished"])
    text = "JobID,State,JobName\n2_[1,3,5-9%2],PENDING,x\n"
    assert [skipped.reason for skipped in said(sacct, text).skipped] == ["it has not finished"]


@pytest.mark.parametrize("start", ["None", "Unknown"])
def test_a_job_that_never_started_is_skipped(start: str) -> None:
    row = JOB | {"State": "CANCELLED by 1000", "Start": start, "NodeList": "None assigned", "ElapsedRaw": "0"}
    (skipped,) = said(sacct, table(row)).skipped
    assert (skipped.line, skipped.reason) == (2, "it never started")
    without = [name for name in NAMES if name != "Start"]
    assert said(sacct, table(row, names=without)).skipped == [skipped]


@pytest.mark.parametrize(
    ("state", "reason"), [("REVOKED", "it ran on another cluster"), ("MELTED", "its state is unknown")]
)
def test_a_state_that_says_nothing_of_a_run_is_skipped(state: str, reason: str) -> None:
    assert [skipped.reason for skipped in said(sacct, table(JOB | {"State": state})).skipped] == [reason]


# How it ended


@pytest.mark.parametrize(
    ("state", "outcome", "exhausted"),
    [
        ("COMPLETED", Outcome.DONE, None),
        ("FAILED", Outcome.FAILED, None),
        ("TIMEOUT", Outcome.EXHAUSTED, Resource.WALL_TIME),
        ("OUT_OF_MEMORY", Outcome.EXHAUSTED, Resource.MEMORY),
        ("OUT_OF_ME+", None, None),
        ("DEADLINE", Outcome.CANCELLED, None),
        ("CANCELLED", Outcome.CANCELLED, None),
        ("CANCELLED+", Outcome.CANCELLED, None),
        ("CANCELLED by 1000", Outcome.CANCELLED, None),
        ("PREEMPTED", Outcome.PREEMPTED, None),
        ("NODE_FAIL", Outcome.LOST, None),
        ("BOOT_FAIL", Outcome.LOST, None),
    ],
)
def test_the_state_says_how_it_ended(state: str, outcome: Outcome | None, exhausted: Resource | None) -> None:
    found = said(sacct, table(JOB | {"State": state}, STEP)).attempts
    assert [(one.outcome, one.exhausted) for one in found] == ([(outcome, exhausted)] if outcome else [])


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "TIMEOUT"])
def test_a_step_that_ran_out_of_memory_says_so_for_its_job(state: str) -> None:
    killed = STEP | {"JobIDRaw": "13.0", "State": "OUT_OF_MEMORY", "ExitCode": "0:125", "TRESUsageInTot": "mem=0"}
    found = only(JOB | {"State": state}, STEP | {"TRESUsageInTot": "mem=225280"}, killed | {"MaxRSS": "0"})
    assert (found.outcome, found.exhausted) == (Outcome.EXHAUSTED, Resource.MEMORY)
    assert (found.used.memory, found.lower_bounds) == (225280, ("memory",))


def test_no_memory_at_all_is_unknown() -> None:
    found = only(JOB | {"State": "OUT_OF_MEMORY"}, STEP | {"MaxRSS": "0", "TRESUsageInTot": "cpu=00:00:00,mem=0"})
    assert (found.used.memory, found.memory_method, found.lower_bounds) == (None, None, ())


@pytest.mark.parametrize(
    ("state", "code", "memory", "exhausted"),
    [
        ("CANCELLED by 0", "0:9", "500M", Resource.MEMORY),
        ("CANCELLED by 0", "0:9", "300M", None),
        ("CANCELLED by 0", "0:15", "500M", None),
        ("CANCELLED by 1000", "0:9", "500M", None),
        ("FAILED", "0:9", "500M", None),
    ],
)
def test_a_step_that_slurm_cancelled_above_its_memory_ran_out_of_it(
    state: str, code: str, memory: str, exhausted: Resource | None
) -> None:
    killed = STEP | {"State": state, "ExitCode": code, "TRESUsageInTot": f"mem={memory}"}
    assert only(JOB, killed).exhausted == exhausted
    # Where a step has no memory of its own, it is the job's that counts.
    assert only(JOB | {"ReqMem": "400M"}, killed | {"AllocTRES": ""}).exhausted == exhausted


@pytest.mark.parametrize(
    ("state", "code", "exit_status", "signal"),
    [
        ("COMPLETED", "0:0", 0, None),
        ("FAILED", "42:0", 42, None),
        ("FAILED", "0:11", None, 11),
        ("FAILED", "0:0", None, None),  # 128 less 128, perhaps
        ("TIMEOUT", "0:0", None, None),
        ("CANCELLED by 5", "0:15", None, 15),
        ("OUT_OF_MEMORY", "0:125", None, None),
        ("COMPLETED", "", None, None),
    ],
)
def test_an_exit_code_is_a_status_or_a_signal(
    state: str, code: str, exit_status: int | None, signal: int | None
) -> None:
    found = only(JOB | {"State": state, "ExitCode": code})
    assert (found.exit_status, found.signal) == (exit_status, signal)


# Amounts


def test_memory_is_the_most_of_a_step_with_all_its_tasks() -> None:
    four = STEP | {"JobIDRaw": "13.0", "NTasks": "4", "MaxRSS": "60M"}
    assert only(JOB, STEP, four | {"TRESUsageInTot": "cpu=00:00:01,mem=230M"}).used.memory == 230 * MIB
    assert only(JOB, STEP, four | {"TRESUsageInTot": "energy=0"}).used.memory == 240 * MIB


@pytest.mark.parametrize(
    ("size", "memory"), [("102400K", 100), ("100M", 100), ("0.5G", 512), ("1T", MIB), ("104857600", 100)]
)
def test_sizes_are_in_powers_of_1024(size: str, memory: int) -> None:
    assert only(JOB, STEP | {"MaxRSS": size, "TRESUsageInTot": ""}).used.memory == memory * MIB


def test_without_the_number_of_tasks_one_is_assumed_and_said() -> None:
    names = ["JobID", "State", "Elapsed", "MaxRSS"]
    assert said(sacct, table(names=names)).assumed == ["one task in each step of a job (no column NTasks)"]


@pytest.mark.parametrize(
    ("text", "mib"),
    [("600M", 600), ("600", 600), ("2G", 2048), ("4Gn", 8192), ("4Gc", 12288), ("0n", None), ("0", None), ("", None)],
)
def test_requested_memory_may_be_of_a_node_or_a_core(text: str, mib: int | None) -> None:
    found = only(JOB | {"ReqMem": text, "NNodes": "2", "ReqCPUS": "3"})
    assert found.requested.memory == (None if mib is None else mib * MIB)


def test_memory_of_a_node_without_their_number_is_unknown() -> None:
    assert said(sacct, "JobID|State|ReqMem\n7|COMPLETED|4Gn\n").only.requested.memory is None


def test_requests_may_stand_in_the_trackable_resources() -> None:
    text = "JobID|State|ReqMem|ReqTRES\n7|COMPLETED|4Gn|billing=4,cpu=4,gres/gpu=1,mem=6G,node=2\n"
    found = said(sacct, text).only
    assert found.requested == Amounts.of(cores=4, memory=6 * 1024 * MIB)
    assert found.raw["ReqTRES"] == "billing=4,cpu=4,gres/gpu=1,mem=6G,node=2"


@pytest.mark.parametrize(
    ("name", "text", "seconds"),
    [
        ("TimelimitRaw", "90", 5400),
        ("TimelimitRaw", "UNLIMITED", None),
        ("TimelimitRaw", "Partition_Limit", None),
        ("Timelimit", "01:30:00", 5400),
        ("Timelimit", "2-00:00:30", 172830),
        ("Timelimit", "UNLIMITED", None),
        ("Timelimit", "Partition_Limit", None),
    ],
)
def test_time_limits(name: str, text: str, seconds: float | None) -> None:
    found = said(sacct, f"JobID|State|{name}\n7|COMPLETED|{text}\n").only
    assert found.requested.wall_time == seconds


def test_times_that_passed() -> None:
    text = "JobID|State|Elapsed|TotalCPU\n7|COMPLETED|1-01:00:01|00:01.250\n8|COMPLETED|00:00:07|1-00:00:00\n"
    first, second = said(sacct, text).attempts
    assert first.used == Amounts.of(wall_time=90001, cpu_time=1.25)
    assert second.used == Amounts.of(wall_time=7, cpu_time=86400)


def test_cpu_time_that_only_steps_have_is_added_up_and_none_is_unknown() -> None:
    other = STEP | {"JobIDRaw": "13.0", "TotalCPU": "00:01.250"}
    assert only(JOB | {"TotalCPU": "00:00:00"}, STEP, other).used.cpu_time == 201.75
    assert only(JOB | {"TotalCPU": "00:00:00"}).used.cpu_time is None


def test_times_without_a_zone_are_taken_in_the_users_and_that_is_said_once() -> None:
    zone = ZoneInfo("America/New_York")
    found = said(sacct, table(JOB, STEP, *numbered(14, JOB, STEP)), hints=Hints(zone=zone))
    assert found.attempts[0].started == START + 5 * 3600
    assert found.assumed == ["times in the time zone America/New_York"]


def test_seconds_since_1970_need_no_zone() -> None:
    found = said(sacct, table(JOB | {"Submit": "1794777904", "Start": "1794777934", "End": "1794778054"}))
    assert (found.only.started, found.assumed) == (START, [])


# Delimiters in names and comments, and rows that cannot be used


def test_a_name_and_a_comment_may_hold_the_delimiter() -> None:
    found = only(JOB | {"JobName": "a|b|c", "Comment": "x=1|y=2"}, STEP | {"JobName": "|"})
    assert (found.category, found.user, found.used.memory) == ("a|b|c", "ada", 100 * MIB)
    # Where the comment ends and the folder begins is not certain, and costs only these.
    assert not {"Comment", "WorkDir"} & found.raw.keys()


def test_a_row_that_can_be_read_in_two_ways_is_skipped_with_its_steps() -> None:
    text = "JobID|JobName|Comment|State|MaxRSS\n7|a|b|c|COMPLETED|\n7.batch|batch||COMPLETED|1M\n8|a|b|COMPLETED|\n"
    found = said(sacct, text)
    assert [attempt.task for attempt in found.attempts] == ["8"]
    (skipped,) = found.skipped
    assert skipped.line == 2
    assert skipped.reason == "a name or a comment contains the delimiter: the columns are ambiguous"


def test_a_comment_that_looks_like_a_state_is_not_certain() -> None:
    text = "JobID|State|Comment|JobName\n7|COMPLETED|x|FAILED|y\n"
    assert [skipped.line for skipped in said(sacct, text).skipped] == [2]
    text = "JobID|JobName|State|ExitCode|Comment\n7|COMPLETED|FAILED|1:0|x|y\n7|a|COMPLETED|0:0|FAILED|1:0\n"
    assert [one.outcome for one in said(sacct, text).attempts] == [Outcome.FAILED, Outcome.DONE]


def test_a_row_with_a_delimiter_too_many_everywhere_is_skipped() -> None:
    found = said(
        sacct, table(JOB | {"Comment": "|" * 100}) + "|".join("x" * 40) + "\nsacct: error: lost the database\n"
    )
    assert [skipped.line for skipped in found.skipped] == [2, 3, 4]
    assert found.attempts == []


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"MaxRSS": "much"}, "MaxRSS is not a size"),
        ({"Start": "yesterday"}, "Start is not a date and time"),
        ({"ExitCode": "one"}, "ExitCode is not a status and a signal"),
        ({"ElapsedRaw": "-5"}, "ElapsedRaw is negative or not plausible"),
        ({"NTasks": "x", "TRESUsageInTot": ""}, "NTasks is not a number"),
    ],
)
def test_a_step_that_cannot_be_used_takes_its_job_with_it(cells: dict[str, str], reason: str) -> None:
    found = said(sacct, table(JOB, STEP, STEP | {"JobIDRaw": "13.0"} | cells, *numbered(14, JOB, STEP)))
    assert [attempt.task for attempt in found.attempts] == ["14"]
    assert [(skipped.line, skipped.reason) for skipped in found.skipped] == [(4, reason)]


def test_a_row_without_a_number_is_skipped() -> None:
    found = said(sacct, table(JOB | {"JobIDRaw": "", "JobID": "x"}))
    assert [(skipped.line, skipped.reason, skipped.found) for skipped in found.skipped] == [(2, "it has no JobID", "x")]


def test_a_long_log_is_read_as_it_comes() -> None:
    read = []

    def pieces() -> Iterator[bytes]:
        yield table().encode()
        for number in range(20_000):
            read.append(number)
            yield "".join(table(*numbered(number, JOB)).splitlines(keepends=True)[1:]).encode()

    entries = sacct.read(Log(pieces(), Path("log")), Hints())
    assert sum(1 for entry, _ in zip(entries, range(5000), strict=False) if isinstance(entry, Attempt)) == 4999
    assert len(read) < 6100


# Printing and parsing agree

sizes = st.none() | st.integers(1, 2**45)
STATES = [
    ("COMPLETED", Outcome.DONE),
    ("FAILED", Outcome.FAILED),
    ("CANCELLED by 1000", Outcome.CANCELLED),
    ("PREEMPTED", Outcome.PREEMPTED),
    ("NODE_FAIL", Outcome.LOST),
]


@dataclass(frozen=True)
class Step:
    largest_task: int | None
    tasks: int
    has_total: bool


@dataclass(frozen=True)
class Job:
    name: str
    state: tuple[str, Outcome]
    kib: int | None
    cores: int
    elapsed: int
    minutes: int
    steps: list[Step]


jobs = st.builds(
    Job,
    name=st.text(st.sampled_from("abc XYZ019_-.é|,;\"'"), min_size=1, max_size=12),
    state=st.sampled_from(STATES),
    kib=sizes,
    cores=st.integers(1, 64),
    elapsed=st.integers(0, 10**6),
    minutes=st.integers(1, 10**4),
    steps=st.lists(st.builds(Step, sizes, st.integers(1, 9), st.booleans()), max_size=4),
)


def printed(number: int, job: Job) -> Iterator[dict[str, str]]:
    (row,) = numbered(number, JOB)
    yield row | {
        "JobName": job.name,
        "State": job.state[0],
        "ReqMem": f"{job.kib}K" if job.kib else "",
        "AllocCPUS": str(job.cores),
        "ElapsedRaw": str(job.elapsed),
        "TimelimitRaw": str(job.minutes),
    }
    (row,) = numbered(number, STEP)
    for place, step in enumerate(job.steps):
        total = f"mem={step.largest_task * step.tasks}" if step.has_total and step.largest_task else "energy=0"
        yield row | {
            "JobIDRaw": f"{number}.{place}",
            "NTasks": str(step.tasks),
            "MaxRSS": str(step.largest_task or ""),
            "TRESUsageInTot": total,
        }


@given(st.lists(jobs, max_size=6), st.sampled_from(["|", "^|^"]), st.permutations(NAMES[1:]))
def test_printing_and_parsing_agree(logged: list[Job], delimiter: str, names: list[str]) -> None:
    # Names hold the delimiter, too: where no other column holds any text, they can always be put together.
    names = [name for name in ("JobIDRaw", *names) if name not in {"Comment", "WorkDir"}]
    rows = [row for number, job in enumerate(logged) for row in printed(number, job)]
    found = said(sacct, table(*rows, names=names, delimiter=delimiter))
    assert found.skipped == []
    assert len(found.attempts) == len(logged)
    for attempt, job in zip(found.attempts, logged, strict=True):
        peaks = [step.largest_task * step.tasks for step in job.steps if step.largest_task]
        assert (attempt.category, attempt.outcome) == (job.name, job.state[1])
        memory = None if job.kib is None else job.kib * 1024
        assert attempt.requested == Amounts.of(cores=2, memory=memory, wall_time=job.minutes * 60)
        assert attempt.allocated == Amounts.of(cores=job.cores, memory=400 * MIB)
        assert attempt.used == Amounts.of(memory=max(peaks, default=None), wall_time=job.elapsed, cpu_time=200.5)


def test_damaged_logs_never_crash_and_every_job_is_accounted_for() -> None:
    rows = [
        *numbered(14, JOB | {"JobName": "a|b", "Comment": "c|d"}, STEP),
        *numbered(15, JOB | {"State": "REQUEUED"}, STEP, JOB, STEP),
        *numbered(16, JOB | {"State": "CANCELLED by 0", "Start": "None"}),
        *numbered(17, JOB | {"ReqMem": "4Gc", "State": "OUT_OF_MEMORY"}, STEP | {"MaxRSS": "0"}),
    ]
    for delimiter in ("|", "^|^", ","):
        for text, found in survives(sacct, table(*rows, delimiter=delimiter)):
            lines = [line for line in text.split("\n")[1:] if line.strip()]
            assert len(found.attempts) + len(found.skipped) <= len(lines)
            # Only steps go into their job; nothing else disappears.
            steps = sum(".batch" in line for line in lines)
            repeated = sum(line.rstrip("\r") == text.split("\n")[0].rstrip("\r") for line in lines)
            assert len(found.attempts) + len(found.skipped) >= len(lines) - steps - repeated


REAL = {
    "ARR": (4, 0),
    "CAN": (1, 0),
    "CANP": (0, 1),
    "DEP": (0, 1),
    "E200": (1, 0),
    "E42": (1, 0),
    "MS": (1, 0),
    "OK": (1, 0),
    "OOM": (1, 0),
    "OOMS": (1, 0),
    "OOM_cgroup": (4, 0),
    "PENDARR": (0, 0),
    "RQ": (2, 0),
    "SEG": (1, 0),
    "TL": (1, 0),
    "TL2": (1, 0),
    "never_started": (0, 3),
}


def test_real_logs(data: Path) -> None:
    folder = data / "logs" / "sacct"
    paths = sorted(folder.glob("*.pipe.txt"))
    found = {path.name.removesuffix(".pipe.txt"): said_of(sacct, Log.open(path)) for path in paths}
    assert all(sacct.recognises(Log.open(path).head) for path in paths)
    assert {name: (len(one.attempts), len(one.skipped)) for name, one in found.items()} == REAL
    assert found["MS"].only.category == "multi step é|x"
    assert found["MS"].only.used.memory == 285274112
    assert [one.task for one in found["ARR"].attempts] == ["2_0", "2_1", "2_2", "2_3"]
    assert [one.number for one in found["RQ"].attempts] == [1, 2]
    assert [one.exhausted for one in found["OOM_cgroup"].attempts] == [Resource.MEMORY] * 3 + [None]


def test_steps_far_from_their_job_are_no_job_of_their_own() -> None:
    header = "JobID|State|MaxRSS|Submit"
    jobs = [f"{number}|COMPLETED||2026-11-15T21:25:34" for number in range(1500)]
    steps = [f"{number}.batch|COMPLETED|5K|2026-11-15T21:25:34" for number in range(1500)]
    found = said(sacct, "\n".join([header, *jobs, *steps]) + "\n")
    assert len(found.attempts) == 1500
    assert {entry.reason for entry in found.skipped} == {"steps of a job whose own row is too far away or missing"}
    assert len(found.skipped) + sum(attempt.used.memory is not None for attempt in found.attempts) == 1500
