"""Nextflow traces."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import grows_linearly
from tests.logs.damage import said, said_of, survives
from tonnage.errors import InputError
from tonnage.jobs import Outcome, Resource
from tonnage.logs import nextflow
from tonnage.logs.log import Hints, Log

RAW = {
    "task_id": "4", "hash": "84/6c7dd3", "native_id": "9812", "process": "ALIGN", "tag": "s1", "name": "ALIGN (s1)",
    "status": "COMPLETED", "exit": "0", "cpus": "2", "memory": "1073741824", "time": "14400000", "disk": "-",
    "attempt": "2", "submit": "1674490103249", "start": "1674490105000", "complete": "1674490166000",
    "duration": "62751", "realtime": "60000", "%cpu": "65.5", "peak_rss": "2813952", "peak_vmem": "11571200",
    "rchar": "689316", "hostname": "cpu14",
}  # fmt: skip
# What a run without any settings writes: the shortest forms of everything, and nothing in base units.
DEFAULT = {
    "task_id": "4", "hash": "84/6c7dd3", "native_id": "9812", "name": "NF:ALIGN (s1 (b))", "status": "COMPLETED",
    "exit": "0", "submit": "2023-01-23 16:08:23.249", "duration": "1m 2s", "realtime": "1m", "%cpu": "65.5%",
    "peak_rss": "152.8 MB", "peak_vmem": "1.2 GB", "rchar": "673.2 KB", "wchar": "0",
}  # fmt: skip


def trace(*rows: dict[str, str], separator: str = "\t") -> str:
    return "".join(f"{separator.join(cells)}\n" for cells in (list(rows[0]), *(list(row.values()) for row in rows)))


@pytest.mark.parametrize("separator", ["\t", ","])
def test_a_raw_trace_is_read(separator: str) -> None:
    text = trace(RAW, separator=separator)
    assert nextflow.recognises(text)
    found = said(nextflow, text, "trace.txt")
    attempt = found.only
    assert attempt.native_id == "nextflow:84/6c7dd3:9812:505"
    assert (attempt.task, attempt.category, attempt.number, attempt.run) == ("ALIGN (s1)", "ALIGN", 2, "trace")
    assert (attempt.submitted, attempt.started, attempt.ended) == (1674490103.249, 1674490105, 1674490166)
    assert (attempt.outcome, attempt.exit_status, attempt.signal) == (Outcome.DONE, 0, None)
    assert (attempt.requested.cores, attempt.requested.memory, attempt.requested.wall_time) == (2.0, 2**30, 14400.0)
    assert attempt.requested.disk is None
    assert (attempt.used.memory, attempt.memory_method) == (2813952, "rss")
    assert (attempt.used.wall_time, attempt.host) == (60.0, "cpu14")
    assert attempt.used.cpu_time == pytest.approx(0.655 * 60)
    assert found.assumed == []


def test_a_formatted_trace_is_read() -> None:
    found = said(nextflow, trace(DEFAULT), hints=Hints(zone=ZoneInfo("Europe/Berlin")))
    attempt = found.only
    assert attempt.used.memory == round(152.8 * 2**20)
    assert attempt.used.wall_time == 60.0
    assert attempt.used.cpu_time == pytest.approx(0.655 * 60)
    assert attempt.submitted == datetime(2023, 1, 23, 15, 8, 23, 249000, UTC).timestamp()
    assert (attempt.started, attempt.ended) == (None, 1674486565.249)
    assert attempt.native_id == "nextflow:84/6c7dd3:9812:503"
    assert found.assumed == ["times in the time zone Europe/Berlin"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("352ms", 0.352),
        ("1m 30s", 90),
        ("2h 3m 4s", 7384),
        ("1d 2h", 93600),
        ("12.5s", 12.5),
        ("1500", 1.5),
        ("-", None),
    ],
)
def test_times_in_all_their_forms(text: str, seconds: float | None) -> None:
    assert said(nextflow, trace(DEFAULT | {"realtime": text})).only.used.wall_time == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1 KB", 1024), ("1.5 GB", 3 * 2**29), ("2 TB", 2**41), ("77", 77), ("-", None)]
)
def test_sizes_are_in_powers_of_1024(text: str, size: int | None) -> None:
    attempt = said(nextflow, trace(DEFAULT | {"peak_rss": text})).only
    assert attempt.used.memory == size
    assert attempt.memory_method == (None if size is None else "rss")


@pytest.mark.parametrize(
    ("name", "category"),
    [("NF:ALIGN (s1 (b))", "NF:ALIGN"), ("ALIGN (12)", "ALIGN"), ("ALIGN", "ALIGN"), ("A (b", "A (b")],
)
def test_without_a_column_for_it_the_process_stands_before_the_tag(name: str, category: str) -> None:
    attempt = said(nextflow, trace(DEFAULT | {"name": name})).only
    assert (attempt.category, attempt.task) == (category, name)


def test_a_cached_task_did_not_run() -> None:
    found = said(nextflow, trace(RAW | {"status": "CACHED"}, RAW))
    assert len(found.attempts) == 1
    assert [(entry.line, entry.reason) for entry in found.skipped] == [(2, "cached: it did not run")]


@pytest.mark.parametrize("status", ["RUNNING", "SUBMITTED", "-"])
def test_a_task_that_has_not_ended_is_skipped(status: str) -> None:
    found = said(nextflow, trace(RAW | {"status": status}))
    assert [entry.reason for entry in found.skipped] == ["it has not finished"]


@pytest.mark.parametrize(
    ("facts", "outcome", "exhausted", "signal"),
    [
        ({"exit": "1"}, Outcome.FAILED, None, None),
        ({"exit": "137", "peak_rss": "1073741000"}, Outcome.EXHAUSTED, Resource.MEMORY, 9),
        ({"exit": "137", "peak_rss": "-"}, Outcome.EXHAUSTED, Resource.MEMORY, 9),
        ({"exit": "137", "peak_rss": "100"}, Outcome.FAILED, None, 9),  # it had plenty
        ({"exit": "143"}, Outcome.FAILED, None, 15),
        ({"exit": "-"}, Outcome.FAILED, None, None),
    ],
)
def test_a_task_that_was_killed_near_its_memory_has_exhausted_it(
    facts: dict[str, str], outcome: Outcome, exhausted: Resource | None, signal: int | None
) -> None:
    attempt = said(nextflow, trace(RAW | {"status": "FAILED"} | facts)).only
    assert (attempt.outcome, attempt.exhausted, attempt.signal) == (outcome, exhausted, signal)


def test_an_aborted_task_was_cancelled() -> None:
    assert said(nextflow, trace(RAW | {"status": "ABORTED", "exit": "-"})).only.outcome is Outcome.CANCELLED


def test_a_memory_of_0_was_not_measured() -> None:
    attempt = said(nextflow, trace(RAW | {"peak_rss": "0"})).only
    assert (attempt.used.memory, attempt.memory_method) == (None, None)


def test_an_absurd_virtual_memory_does_no_harm() -> None:
    attempt = said(nextflow, trace(RAW | {"peak_vmem": "99999999999999999999999"})).only
    assert attempt.raw["peak_vmem"] == "99999999999999999999999"


def test_dashes_are_unknown() -> None:
    kept = ("task_id", "hash", "name", "status")
    attempt = said(nextflow, trace({name: value if name in kept else "-" for name, value in RAW.items()})).only
    assert list(attempt.used.known()) == list(attempt.requested.known()) == []
    assert (attempt.native_id, attempt.submitted, attempt.host, attempt.exit_status) == (None, None, None, None)
    assert (attempt.number, attempt.raw) == (1, {"hash": "84/6c7dd3"})


def test_rows_that_cannot_be_used_are_skipped() -> None:
    text = trace(RAW, RAW | {"peak_rss": "lots"}) + "4\t5\n" + trace(RAW).split("\n")[1] + "\tsurplus\n\n"
    found = said(nextflow, text + trace(RAW).split("\n")[1])
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason, entry.found) for entry in found.skipped] == [
        (3, "peak_rss is not a size", "lots"),
        (4, f"expected {len(RAW)} columns", "2 columns"),
        (5, f"expected {len(RAW)} columns", f"{len(RAW) + 1} columns"),
    ]


def test_a_comma_in_a_name_is_quoted_or_the_row_is_skipped() -> None:
    found = said(nextflow, trace(RAW | {"name": '"ALIGN (a,b)"'}, RAW | {"name": "ALIGN (a,b)"}, separator=","))
    assert [attempt.task for attempt in found.attempts] == ["ALIGN (a,b)"]
    assert [entry.line for entry in found.skipped] == [3]


@pytest.mark.parametrize("cell", ["x" * 200_000, "a\rb"])
def test_a_cell_that_no_table_can_hold_costs_only_its_row(cell: str) -> None:
    found = said(nextflow, trace(RAW, RAW | {"tag": cell}, RAW))
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason) for entry in found.skipped] == [(3, "its cells cannot be separated")]


@pytest.mark.parametrize("column", ["realtime", "name", "submit", "peak_rss", "%cpu", "exit"])
@pytest.mark.parametrize("part", ["9", "9.", " (", "1m ", ")", " "])
def test_a_long_cell_takes_as_long_as_it_is(column: str, part: str) -> None:
    assert grows_linearly(lambda letters: said(nextflow, trace(DEFAULT | {column: part * letters + "x"})), 5_000)


@pytest.mark.parametrize("text", ["", "a,b\n", "task_id\thash\tname\n", "\n", '{"a": 1}'])
def test_other_files_are_refused(text: str) -> None:
    assert not nextflow.recognises(text)
    with pytest.raises(InputError, match="is not a Nextflow trace: no column"):
        said(nextflow, text)


whole = st.none() | st.integers(0, 2**50)


@given(st.lists(st.tuples(whole, whole, whole, st.integers(1, 9)), min_size=1), st.sampled_from("\t,"))
def test_what_was_written_is_read_back(
    tasks: list[tuple[int | None, int | None, int | None, int]], separator: str
) -> None:
    rows = [
        RAW
        | {name: "-" if value is None else str(value) for name, value in (("peak_rss", used), ("memory", asked))}
        | {"realtime": "-" if time is None else str(time), "attempt": str(number)}
        for used, asked, time, number in tasks
    ]
    found = said(nextflow, trace(*rows, separator=separator))
    read = [(one.used.memory or 0, one.requested.memory, one.used.wall_time, one.number) for one in found.attempts]
    assert read == [
        (used or 0, asked, None if time is None else time / 1000, number) for used, asked, time, number in tasks
    ]


@pytest.mark.parametrize("text", [trace(RAW, RAW), trace(DEFAULT, DEFAULT), trace(RAW, RAW, separator=",")])
def test_damage_never_crashes_it_and_no_line_goes_missing(text: str) -> None:
    for letters, found in survives(nextflow, text):
        rows = [row for row in letters.split("\n")[1:] if row.strip("\r")]
        # Within quotes a row may have several lines; otherwise each is accounted for.
        assert len(found.attempts) + len(found.skipped) == len(rows) or '"' in letters


@pytest.mark.parametrize(
    ("name", "tasks", "done", "measured"),
    [("chipseq", 2938, 2938, 2937), ("iwd", 1661, 1661, 1661), ("methylseq", 1083, 1011, 1011)],
)
def test_real_traces(data: Path, name: str, tasks: int, done: int, measured: int) -> None:
    log = Log.open(data / "traces" / f"nextflow_{name}.csv")
    assert nextflow.recognises(log.head)
    found = said_of(nextflow, log)
    assert (len(found.attempts), found.skipped) == (tasks, [])
    assert sum(attempt.outcome is Outcome.DONE for attempt in found.attempts) == done
    assert len({attempt.native_id for attempt in found.attempts}) == tasks
    assert sum(attempt.used.memory is not None for attempt in found.attempts) == measured


def test_the_zone_that_is_assumed_does_not_matter_for_which_job_it_is() -> None:
    text = trace(DEFAULT)
    ids = {said(nextflow, text, hints=Hints(zone=ZoneInfo(name))).only.native_id for name in ("UTC", "Asia/Kathmandu")}
    assert len(ids) == 1
