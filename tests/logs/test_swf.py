"""Standard Workload Format."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import said, said_of, survives
from tonnage.errors import InputError
from tonnage.jobs import Outcome
from tonnage.logs import swf
from tonnage.logs.log import Hints, Log

HEADER = "; Version: 2.2\n; UnixStartTime: 843480031\n; TimeZoneString: Europe/Stockholm\n;\n"
NAMES = "job submit wait run procs cpu memory req_procs req_time req_memory status user group exe queue part prev think"


def line(**known: object) -> str:
    return " ".join(str(known.get(name, -1)) for name in NAMES.split()) + "\n"


JOB = line(
    job=15, submit=600, wait=30, run=3477, procs=4, cpu=3000, memory=2048, req_procs=8, req_time=7200, req_memory=4096,
    status=1, user=12, group=3, exe=7, queue=2, part=1,
)  # fmt: skip


def test_a_job_is_read() -> None:
    attempt = said(swf, HEADER + JOB, "kth.swf").only
    assert attempt.native_id == "swf:kth:843480031:15"
    assert (attempt.task, attempt.category, attempt.user) == ("15", "executable 7", "user 12")
    assert attempt.outcome is Outcome.DONE
    assert (attempt.submitted, attempt.started, attempt.ended) == (843480631, 843480661, 843484138)
    assert attempt.raw == {"group": "3", "queue": "2", "partition": "1"}
    assert attempt.row == JOB.strip()


def test_cpu_time_and_memory_are_averages_over_the_processors() -> None:
    found = said(swf, HEADER + JOB)
    attempt = found.only
    assert (attempt.used.wall_time, attempt.used.cpu_time) == (3477.0, 4 * 3000.0)
    assert attempt.used.memory == 4 * 2048 * 1024
    assert attempt.allocated.cores == 4.0
    assert (attempt.requested.cores, attempt.requested.wall_time) == (8.0, 7200.0)
    assert attempt.requested.memory == 8 * 4096 * 1024
    assert found.assumed == ["memory in KiB per processor"]


def test_minus_one_is_unknown_and_nothing_is_made_of_it() -> None:
    found = said(swf, HEADER + line(job=3, submit=5, run=10))
    attempt = found.only
    assert attempt.used.wall_time == 10.0
    assert attempt.used.cpu_time is None
    assert attempt.used.memory is None
    assert attempt.allocated.cores is None
    assert list(attempt.requested.known()) == []
    assert (attempt.category, attempt.user, attempt.outcome, attempt.started) == (None, None, None, None)
    assert (attempt.submitted, attempt.raw, found.assumed) == (843480036, {}, [])


def test_averages_over_an_unknown_number_of_processors_say_nothing() -> None:
    attempt = said(swf, line(job=1, run=10, cpu=5, memory=100)).only
    assert attempt.used.cpu_time is None
    assert attempt.used.memory is None


@pytest.mark.parametrize("header", ["", ";\n", "; UnixStartTime: 0\n", "; UnixStartTime: soon\n", "; UnixStartTime:\n"])
def test_without_a_start_times_stay_as_they_are(header: str) -> None:
    attempt = said(swf, header + line(job=1, submit=5, wait=7, run=10)).only
    assert (attempt.submitted, attempt.started, attempt.ended) == (None, None, None)
    assert attempt.raw == {"submit": "5", "wait": "7"}


@pytest.mark.parametrize(
    ("status", "outcome"), [(0, Outcome.FAILED), (1, Outcome.DONE), (5, Outcome.CANCELLED), (-1, None)]
)
def test_the_status_says_how_it_ended(status: int, outcome: Outcome | None) -> None:
    assert said(swf, line(job=1, run=10, status=status)).only.outcome is outcome


def test_parts_of_a_job_are_skipped_because_its_own_line_counts() -> None:
    found = said(swf, "".join(line(job=1, run=10, status=status) for status in (1, 2, 2, 3, 4)))
    assert len(found.attempts) == 1
    assert [(entry.line, entry.found) for entry in found.skipped] == [(2, "1"), (3, "1"), (4, "1"), (5, "1")]
    assert len({entry.reason for entry in found.skipped}) == 1


@pytest.mark.parametrize("run", [-1, 0])
def test_a_job_that_was_cancelled_before_it_ran_is_skipped(run: int) -> None:
    found = said(swf, line(job=9, run=run, procs=4, status=5))
    assert found.attempts == []
    assert [(entry.reason, entry.found) for entry in found.skipped] == [("it never ran", "9")]


def test_a_run_of_0_seconds_was_a_short_one() -> None:
    assert said(swf, line(job=1, run=0, status=1)).only.used.wall_time == 0.0


def test_a_job_of_unknown_run_time_counts_if_anything_else_is_known() -> None:
    found = said(swf, line(job=1, procs=8, cpu=100) + line(job=2, procs=8))
    assert [attempt.used.cpu_time for attempt in found.attempts] == [800.0]
    assert [entry.reason for entry in found.skipped] == ["nothing is known about its run"]


def test_lines_that_are_no_jobs_are_skipped_with_their_number() -> None:
    found = said(swf, f"{HEADER}{JOB}1 2 3\n{JOB.replace('3477', 'long')}{JOB.replace('3477', '-5')}\n  \n{JOB}")
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason, entry.found) for entry in found.skipped] == [
        (6, "expected 18 columns", "3 columns"),
        (7, "run is not a number", "long"),
        (8, "run is negative or not plausible", "-5"),
    ]


def test_the_label_names_the_log_in_the_identity() -> None:
    assert said(swf, JOB, "a.swf.gz", Hints(label="KTH")).only.native_id == "swf:KTH:0:15"


@pytest.mark.parametrize("text", ["", "\n\n", "a,b,c\n1,2,3\n", "1 2 3\n", '{"a": 1}'])
def test_what_is_no_workload_is_refused(text: str) -> None:
    assert not swf.recognises(text)
    with pytest.raises(InputError, match="is not an SWF log"):
        said(swf, text)


def test_a_workload_is_recognised_by_its_first_job() -> None:
    assert swf.recognises(HEADER + JOB)
    assert swf.recognises(f"\r\n{JOB}")
    assert not swf.recognises(HEADER)


values = st.none() | st.integers(0, 10**6) | st.floats(0, 1e6).map(lambda value: round(value, 2))


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES.split(), values)), max_size=8))
def test_what_was_written_is_read_back(jobs: list[dict[str, float | None]]) -> None:
    for job in jobs:
        job |= {"status": 1, "run": job["run"] or 0}
    text = HEADER + "".join(line(**{name: value for name, value in job.items() if value is not None}) for job in jobs)
    found = said(swf, text)
    assert found.skipped == []
    for attempt, job in zip(found.attempts, jobs, strict=True):
        processors, memory = job["procs"], job["memory"]
        assert attempt.used.wall_time == job["run"]
        assert attempt.allocated.cores == (processors or None)
        assert attempt.used.memory == (round(memory * processors * 1024) if processors and memory else None)
        assert attempt.task == (None if job["job"] is None else str(job["job"]))


def test_damage_never_crashes_it_and_every_line_is_accounted_for() -> None:
    for text, found in survives(swf, HEADER + JOB * 3):
        rows = [row for row in text.removeprefix("\ufeff").split("\n") if row.split() and row.split()[0][0] != ";"]
        assert len(found.attempts) + len(found.skipped) == len(rows)


@pytest.mark.parametrize(
    ("name", "jobs", "done"),
    [
        ("hpc2n-part", 3170, 3145),
        pytest.param("kth-sp2", 28476, 20530, marks=pytest.mark.long),
        pytest.param("sdsc-sp2", 54006, 54006, marks=pytest.mark.long),
    ],
)
def test_real_workloads(data: Path, name: str, jobs: int, done: int) -> None:
    log = Log.open(data / "queues" / f"{name}.swf.gz")
    assert swf.recognises(log.head)
    found = said_of(swf, log)
    assert (len(found.attempts), found.skipped) == (jobs, [])
    assert sum(attempt.outcome is Outcome.DONE for attempt in found.attempts) == done
    assert len({attempt.native_id for attempt in found.attempts}) == jobs
