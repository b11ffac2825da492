"""Tables of jobs."""

import csv
import io
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archive.attempts import attempts
from tests.growth import grows_linearly
from tests.logs.damage import Said, said, said_of, survives
from tonnage.archive.exporting import csv_lines
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs import table
from tonnage.logs.log import Hints, Log, Skipped
from tonnage.logs.synthetic import PEAKS, generate, render
from tonnage.units import Bytes

MB = 10**6
PUBLIC = "category,cores,memory,disk,cpu_time,wall_time\nalign,2,277,670,1.5,3\n"
BERLIN = Hints(zone=ZoneInfo("Europe/Berlin"))

# Every column by its name, a cell of it, and where an attempt has it.
COLUMNS: dict[str, tuple[str, str, object]] = {
    "cores": ("1.5", "used.cores", 1.5),
    "memory": ("277", "used.memory", 277 * MB),
    "disk": ("0.5", "used.disk", MB // 2),
    "wall_time": ("3", "used.wall_time", 3.0),
    "cpu_time": ("1e3", "used.cpu_time", 1000.0),
    "processes": ("7", "used.processes", 7),
    "requested_cores": ("4", "requested.cores", 4.0),
    "requested_memory": ("1000", "requested.memory", 1000 * MB),
    "requested_disk": ("2", "requested.disk", 2 * MB),
    "requested_wall_time": ("3600", "requested.wall_time", 3600.0),
    "allocated_cores": ("8", "allocated.cores", 8.0),
    "allocated_memory": ("2000", "allocated.memory", 2000 * MB),
    "allocated_disk": ("3", "allocated.disk", 3 * MB),
    "allocated_wall_time": ("7200", "allocated.wall_time", 7200.0),
    "input_size": ("12", "input_bytes", 12 * MB),
    "category": (" align ", "category", "align"),
    "label": ("large", "label", "large"),
    "task": ("align-7", "task", "align-7"),
    "run": ("monday", "run", "monday"),
    "workflow": ("rnaseq", "workflow", "rnaseq"),
    "user": ("ada", "user", "ada"),
    "host": ("n1", "host", "n1"),
    "command": ("bwa mem a b", "command", "bwa mem a b"),
    "executable": ("bwa", "executable", "bwa"),
    "memory_method": ("rss", "memory_method", "rss"),
    "submitted": ("1700000000", "submitted", 1.7e9),
    "started": ("1700000001.5", "started", 1700000001.5),
    "ended": ("2023-11-14T22:13:22Z", "ended", 1700000002.0),
    "outcome": ("Exhausted", "outcome", Outcome.EXHAUSTED),
    "exhausted": ("memory", "exhausted", Resource.MEMORY),
    "exit_status": ("137", "exit_status", 137),
    "signal": ("9", "signal", 9),
    "number": ("3", "number", 3),
    "native_id": ("mine:1", "native_id", "log:mine:1"),  # unique where it comes from
    "workflow_checksum": ("abc", "workflow_checksum", "abc"),
    "identity": ("0123456789abcdef" * 2, "identity", bytes.fromhex("0123456789abcdef" * 2)),
}  # fmt: skip
UNKNOWN = ["", " ", "-", "NA", "n/a", "NaN", "None", "null"]


def of(attempt: object, path: str) -> object:
    for name in path.split("."):
        attempt = getattr(attempt, name)
    return attempt


def rendered(*rows: Sequence[str], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def cell(column: str, text: str, hints: Hints | None = None) -> Said:
    """What is said about one cell in one row; the other column makes it a table of jobs."""
    header = [column, "processes"] if column != "processes" else [column, "cores"]
    return said(table, rendered(header, [text, "1"]), hints=hints)


def memory(header: str, text: str, hints: Hints | None = None) -> int | None:
    return cell(header, text, hints).only.used.memory


def refused(text: str, hints: Hints | None = None) -> str:
    with pytest.raises(InputError) as caught:
        said(table, text, "jobs.csv", hints)
    return caught.value.report()


def test_a_public_data_set_is_read() -> None:
    assert table.recognises(PUBLIC)
    found = said(table, PUBLIC)
    assert found.only == Attempt(
        row="align\x1f2\x1f277\x1f670\x1f1.5\x1f3",
        category="align",
        used=Amounts.of(cores=2, memory=277 * MB, disk=670 * MB, cpu_time=1.5, wall_time=3),
    )
    assert found.assumed == ["memory, disk in MB (10^6 bytes)", "cpu_time, wall_time in seconds"]


def test_the_list_of_columns_above_is_complete() -> None:
    assert set(COLUMNS) == set(table.NAMES)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_goes_where_its_name_says(name: str) -> None:
    text, path, value = COLUMNS[name]
    assert of(cell(name, text).only, path) == value
    assert of(cell(name.upper().replace("_", " "), text).only, path) == value


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_can_have_another_name(name: str) -> None:
    text, path, value = COLUMNS[name]
    found = cell("Their Own", text, Hints(columns={name: "Their Own"}))
    assert of(found.only, path) == value
    assert "Their Own" not in found.only.raw


def test_all_columns_go_together() -> None:
    columns = {name: column for name, column in COLUMNS.items() if name != "identity"}  # which says it all
    attempt = said(table, rendered(list(columns), [text for text, _, _ in columns.values()])).only
    assert {name: of(attempt, path) for name, (_, path, _) in columns.items()} == {
        name: value for name, (_, _, value) in columns.items()
    }


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_unknown_is_none_and_never_0(name: str, text: str) -> None:
    assert of(cell(name, text).only, COLUMNS[name][1]) == (1 if name == "number" else None)


@pytest.mark.parametrize(
    ("other", "name", "text"),
    [
        ("time", "wall_time", "90"),
        ("runtime", "wall_time", "90"),
        ("Walltime", "wall_time", "90"),
        ("cputime", "cpu_time", "90"),
        ("mem", "memory", "90"),
        ("name", "task", "a"),
        ("exit_code", "exit_status", "2"),
        ("Exit Code", "exit_status", "2"),
        ("exit", "exit_status", "2"),
        ("returncode", "exit_status", "2"),
    ],
)
def test_columns_may_have_the_names_that_people_use(other: str, name: str, text: str) -> None:
    assert of(cell(other, text).only, COLUMNS[name][1]) == of(cell(name, text).only, COLUMNS[name][1])


def test_the_proper_name_wins_wherever_it_stands() -> None:
    attempt = said(table, "time,mem,memory,wall_time\n2026-01-01,5,6,7\n").only
    assert (attempt.used.memory, attempt.used.wall_time) == (6 * MB, 7.0)
    assert attempt.raw == {"time": "2026-01-01", "mem": "5"}


@pytest.mark.parametrize("name", ["input_bytes", "input_size_bytes"])
def test_inputs_in_bytes_are_bytes(name: str) -> None:
    found = cell(name, "1234")
    assert found.only.input_bytes == 1234
    assert found.assumed == []
    assert cell(f"{name} (KiB)", "2").only.input_bytes == 2048


@pytest.mark.parametrize(
    ("unit", "size"),
    [("B", 1), ("bytes", 1), ("kB", 1000), ("KB", 1000), ("KiB", 1024), ("mb", MB), ("GB", 10**9), ("GiB", 2**30)],
)
def test_units_of_bytes_stand_in_the_header_or_in_an_option(unit: str, size: int) -> None:
    assert memory(f"memory ({unit})", "3") == 3 * size
    assert memory(f"Memory [ {unit} ]", "3") == 3 * size
    assert memory("memory", "3", Hints(units={"memory": unit})) == 3 * size
    assert memory("memory (TB)", "3", Hints(units={"memory": unit})) == 3 * size
    assert cell(f"memory ({unit})", "3").assumed == []
    assert cell(f"requested_memory({unit})", "3").only.requested.memory == 3 * size
    assert memory(f"peak ({unit})", "3", Hints(columns={"memory": f"peak ({unit})"})) == 3 * size


@pytest.mark.parametrize(("unit", "seconds"), [("s", 1), ("ms", 0.001), ("min", 60), ("hours", 3600), ("d", 86400)])
def test_units_of_time_stand_in_the_header_or_in_an_option(unit: str, seconds: float) -> None:
    assert cell(f"wall_time ({unit})", "3").only.used.wall_time == pytest.approx(3 * seconds)
    assert cell("time", "3", Hints(units={"wall_time": unit})).only.used.wall_time == pytest.approx(3 * seconds)
    assert cell(f"ended [{unit}]", "3").only.ended == pytest.approx(3 * seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5 GB", 1_500_000_000), ("1.5GiB", 3 * 2**29), (" 200 kB ", 200_000), (".5 MB", MB // 2), ("7B", 7)],
)
def test_a_unit_in_the_cell_wins(text: str, size: int) -> None:
    assert memory("memory (KiB)", text) == size
    assert memory("memory", text, Hints(units={"memory": "GB"})) == size


def test_bytes_with_a_unit_are_exact() -> None:
    assert memory("memory (GiB)", "9007199254740991 B") == 9007199254740991


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("250 ms", 0.25), ("02:03:04", 7384), ("1-02:03:04", 93784), ("2 days", 172800)],
)
def test_a_time_in_the_cell_may_have_units(text: str, seconds: float) -> None:
    assert cell("wall_time (ms)", text).only.used.wall_time == seconds


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        ("memory", "-1", "memory is negative or not plausible"),
        ("memory", "1e400", "memory is negative or not plausible"),
        ("memory", "1e15", "memory is negative or not plausible"),  # 10^21 bytes: no column of a database takes it
        ("memory", "inf", "memory is negative or not plausible"),
        ("memory", "many", "memory is not a number"),
        ("memory", "1,5", "memory is not a number"),
        ("memory", "4G", "memory is not an amount"),
        ("memory", "-4 GB", "memory is not an amount"),
        ("memory", "99 EB", "memory is not an amount"),
        ("memory", "4 s", "memory is not an amount"),
        ("disk", "9" * 400, "disk is negative or not plausible"),
        ("wall_time", "-3", "wall_time is negative or not plausible"),
        ("wall_time", "5000000000000000000", "wall_time is negative or not plausible"),
        ("wall_time", "1:30", "wall_time is not an amount"),
        ("wall_time", "3 GB", "wall_time is not an amount"),
        ("cores", "two", "cores is not a number"),
        ("cores", "-2", "cores is negative or not plausible"),
        ("processes", "2.5", "processes is not a whole number"),
        ("input_size", "x", "input_size is not a number"),
        ("exit_status", "1.5", "exit_status is not a whole number"),
        ("signal", "KILL", "signal is not a whole number"),
        ("started", "yesterday", "started is not a date and time"),
        ("started", "2026-02-30", "started is not a date and time"),
        ("started", "-5", "started is not a date and time"),
        ("started", "1700000000000", "started is not plausible"),  # milliseconds of which nobody said so
        ("outcome", "fine", "outcome is not one of done, failed, exhausted, preempted, lost, cancelled"),
        ("exhausted", "gpu", "exhausted is not one of cores, memory, disk, wall_time, cpu_time, processes"),
    ],
)
def test_a_cell_that_cannot_be_right_costs_its_row_and_no_other(column: str, text: str, reason: str) -> None:
    good = COLUMNS[column][0]
    found = said(table, rendered([column, "host", "memory", "cores"][:3], [good, "a", "1"], [text, "b", "1"], [good]))
    assert len(found.attempts) == 1
    assert found.skipped[0].line == 3
    assert found.skipped[0].reason == reason
    assert text in found.skipped[0].found
    assert found.skipped[1] == Skipped(4, "expected 3 columns", "1 columns")


@pytest.mark.parametrize("text", ["0", "0.0", "-9", "-9.0", " 255 "])
def test_whole_numbers_may_have_the_point_that_data_frames_give_them(text: str) -> None:
    assert cell("exit_status", text).only.exit_status == int(float(text))


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("2.0", 2), ("0", 1), ("-1", 1), ("", 1)])
def test_attempts_are_counted_from_1(text: str, number: int) -> None:
    assert cell("number", text).only.number == number


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_its_word(outcome: Outcome) -> None:
    assert cell("outcome", outcome.value).only.outcome is outcome
    assert cell("outcome", f" {outcome.value.upper()} ").only.outcome is outcome


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("COMPLETED", Outcome.DONE),
        ("ok", Outcome.DONE),
        ("0", Outcome.DONE),
        ("Failed", Outcome.FAILED),
        ("1.0", Outcome.FAILED),
        ("CANCELLED by 1000", Outcome.CANCELLED),
        ("TIMEOUT", Outcome.EXHAUSTED),
        ("out of memory", Outcome.EXHAUSTED),
        ("NODE_FAIL", Outcome.LOST),
        ("blue", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("name", ["status", "State"])
def test_a_status_says_how_a_job_ended(name: str, status: str, outcome: Outcome | None) -> None:
    assert cell(name, status).only.outcome is outcome


def test_what_a_job_ran_out_of_follows_from_its_status() -> None:
    assert cell("status", "TIMEOUT").only.exhausted is Resource.WALL_TIME
    assert cell("status", "OUT_OF_MEMORY").only.exhausted is Resource.MEMORY


def test_jobs_that_have_not_ended_are_left_out() -> None:
    found = said(table, "memory,status\n1,RUNNING\n2,done\n3,Pending\n")
    assert [one.used.memory for one in found.attempts] == [2 * MB]
    assert all(one.healthy for one in found.skipped)


def test_an_outcome_is_believed_before_a_status_and_a_status_before_an_exit_status() -> None:
    assert said(table, "memory,status,outcome\n1,ok,failed\n").only.outcome is Outcome.FAILED
    assert said(table, "memory,exit,status\n1,0,timeout\n").only.outcome is Outcome.EXHAUSTED
    assert said(table, "memory,exit,status\n1,3,strange\n").only.outcome is Outcome.FAILED


def test_a_date_without_a_zone_is_taken_in_the_users() -> None:
    found = cell("started", "2026-07-01 12:00:00", BERLIN)
    assert found.only.started == datetime(2026, 7, 1, 10, tzinfo=UTC).timestamp()
    assert found.assumed == ["times without a zone in Europe/Berlin"]


@pytest.mark.parametrize("text", ["2026-07-01T12:00:00+02:00", "2026-07-01T10:00:00Z", "2026-07-01 10:00:00.000+00:00"])
def test_a_date_with_a_zone_stays_in_it(text: str) -> None:
    assert cell("started", text, BERLIN).only.started == datetime(2026, 7, 1, 10, tzinfo=UTC).timestamp()


def test_other_columns_are_kept_as_they_are() -> None:
    attempt = said(table, "memory,Sample,lane (x),empty,none\n1, s1 ,3,,-\n").only
    assert attempt.raw == {"Sample": " s1 ", "lane (x)": "3"}


def test_the_first_of_two_columns_of_one_name_counts() -> None:
    attempt = said(table, "memory,Memory\n1,2\n").only
    assert (attempt.used.memory, attempt.raw) == (MB, {"Memory": "2"})


def test_a_column_that_the_user_names_is_used_instead() -> None:
    attempt = said(table, "memory,rss\n1,2\n", hints=Hints(columns={"memory": "rss"})).only
    assert (attempt.used.memory, attempt.raw) == (2 * MB, {"memory": "1"})


def test_columns_can_change_their_meaning() -> None:
    hints = Hints(columns={"disk": "memory", "memory": "disk"})
    used = said(table, "memory,disk\n1,2\n", hints=hints).only.used
    assert (used.memory, used.disk) == (2 * MB, 1 * MB)


def test_one_column_can_have_two_meanings() -> None:
    hints = Hints(columns={"wall_time": "t", "cpu_time": "t"})
    used = said(table, "t,x\n5,1\n", hints=hints).only.used
    assert (used.wall_time, used.cpu_time) == (5.0, 5.0)


def test_a_name_that_is_none_of_ours_is_an_error() -> None:
    report = refused(PUBLIC, Hints(columns={"memroy": "memory"}))
    assert report.startswith('--columns: "memroy" is not a known column\n  use one of cores, memory,')


def test_a_name_that_is_none_of_theirs_is_an_error() -> None:
    assert refused(PUBLIC, Hints(columns={"memory": "rss"})) == (
        'jobs.csv:1: there is no column "rss"\n  the columns are category, cores, memory, disk, cpu_time, wall_time'
    )


@pytest.mark.parametrize("name", ["memroy", "cores", "category", "exit_status", "mem"])
def test_a_unit_for_what_has_none_is_an_error(name: str) -> None:
    report = refused(PUBLIC, Hints(units={name: "KiB"}))
    assert report.startswith(f'--units: "{name}" is not a column with a unit\n  use one of memory, disk, wall_time,')


@pytest.mark.parametrize(
    ("name", "unit", "hint"),
    [
        ("memory", "parsec", '"parsec" is not one of B, kB, MB'),
        ("memory", "K", "ambiguous: write 1kB"),
        ("memory", "5MB", '"5MB" is not a unit of bytes such as MB or MiB'),
        ("memory", "", '"" is not a unit of bytes'),
        ("memory", "s", '"s" is not one of B'),
        ("wall_time", "M", '"M" is not one of w, d, h, m, s, ms'),
        ("wall_time", "30s", '"30s" is not a unit of time'),
        ("wall_time", "MB", '"MB" is not one of w, d'),
    ],
)
def test_an_unknown_unit_is_an_error(name: str, unit: str, hint: str) -> None:
    report = refused(PUBLIC, Hints(units={name: unit}))
    assert report.startswith(f'jobs.csv:1: "{unit}" is not a unit of {name}\n  {hint}')


@pytest.mark.parametrize("header", ["memory (parsec)", "disk [K]", "wall_time (MB)", "started (UTC)"])
def test_an_unknown_unit_in_the_header_is_an_error(header: str) -> None:
    assert "is not a unit of" in refused(f"{header},cores\n1,1\n")


def test_a_unit_for_a_column_that_is_not_there_does_no_harm() -> None:
    assert said(table, "cores,memory\n1,1\n", hints=Hints(units={"disk": "KiB"})).only.used.memory == MB


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    text = rendered(["category", "memory", "task"], ["a,b;c\td", "5", 'said "x"'], delimiter=delimiter)
    assert table.recognises(text)
    attempt = said(table, text).only
    assert (attempt.category, attempt.used.memory, attempt.task) == ("a,b;c\td", 5 * MB, 'said "x"')


def test_line_ends_and_a_byte_order_mark_are_no_part_of_the_cells() -> None:
    text = "\ufeff" + '"memory","user"\r\n5,ada\r\n'
    attempt = said(table, text).only
    assert (attempt.used.memory, attempt.user) == (5 * MB, "ada")
    assert table.recognises(Log.of(text).head)


def test_lines_are_counted_through_blank_ones_and_breaks_in_cells() -> None:
    text = 'memory,"com\nmand"\n\n1,"a\nb\n\nc"\nx,2\n  \n,\n1\n1,2,3\n"x\n",y\n'
    found = said(table, text)
    assert [attempt.raw for attempt in found.attempts] == [{"com\nmand": "a\nb\n\nc"}]
    assert [(entry.line, entry.reason) for entry in found.skipped] == [
        (8, "memory is not a number"),
        (11, "expected 2 columns"),
        (12, "expected 2 columns"),
        (13, "memory is not a number"),
    ]


def test_a_quote_that_nobody_closes_never_makes_a_job_of_many() -> None:
    found = said(table, 'memory,task\n1,a\n2,"b\n3,c\n4,d\n')
    assert [attempt.task for attempt in found.attempts] == ["a", "c", "d"]
    assert [(entry.line, entry.reason) for entry in found.skipped] == [(3, "its cells cannot be separated")]


@pytest.mark.parametrize("odd", ['"b"c', "b\rc", "x" * 200_000])
def test_cells_that_cannot_be_told_apart_cost_one_row(odd: str) -> None:
    found = said(table, f"memory,task\n1,a\n2,{odd}\n3,c\n")
    assert [attempt.task for attempt in found.attempts] == ["a", "c"]
    assert [(entry.line, entry.reason) for entry in found.skipped] == [(3, "its cells cannot be separated")]


def test_equal_rows_are_different_jobs() -> None:
    found = said(table, "memory,task\n" + "5,a\n" * 3)
    assert len(found.attempts) == 3
    assert len({attempt.row for attempt in found.attempts}) == 1
    assert all(attempt.native_id is None for attempt in found.attempts)


def test_a_header_alone_is_a_table_without_jobs() -> None:
    found = said(table, "memory,task\n")
    assert (found.attempts, found.skipped) == ([], [])


@pytest.mark.parametrize("text", ["", "\n\n", "task,user\na,b\n", "hello\n", "requested_memory,task\n1,a\n", '"a'])
def test_a_table_without_what_jobs_used_is_an_error_that_says_what_was_expected(text: str) -> None:
    assert not table.recognises(text)
    report = refused(text)
    assert report.startswith("jobs.csv:1: is not a table of jobs: no column says what a job used\n")
    assert "expected one of the columns cores, memory, disk, wall_time, cpu_time, processes" in report
    assert "--columns memory=THEIR_NAME" in report


def test_one_column_is_a_table_only_where_the_user_says_so() -> None:
    assert not table.recognises("memory\n5\n")
    assert said(table, "memory\n5\n").only.used.memory == 5 * MB


@pytest.mark.parametrize("header", ["time,value", "name,time", "Time (s);temperature"])
def test_a_time_alone_does_not_make_a_table_of_jobs_unless_the_user_says_so(header: str) -> None:
    assert not table.recognises(f"{header}\n")
    assert table.recognises(f"{header},memory\n".replace(";", ","))
    assert said(table, f"{header}\n").skipped == []


def test_a_time_series_of_one_job_is_no_table_of_jobs(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    subprocess.run([sys.executable, "-m", "tonnage", "watch", "--series", path, "--", "true"], check=True)
    text = path.read_text()
    assert text.count("\n") >= 1
    assert not table.recognises(text)
    assert refused(text) == "jobs.csv:1: is not a table of jobs: its rows are samples of one job over time"


@pytest.mark.parametrize(("part", "parts"), [(" ", 12_500), ("(", 12_500), ("a (", 4_000)])
def test_an_odd_header_takes_as_long_as_it_is(part: str, parts: int) -> None:
    def read_header(parts: int) -> None:
        text = f"a{part * parts}b,cores\n1,1\n"
        table.recognises(text)
        said(table, text)

    assert grows_linearly(read_header, parts)


@given(st.sampled_from(sorted(PEAKS)), st.integers(1, 60), st.integers(0, 2**32), st.floats(0, 2))
def test_synthetic_logs_read_back_with_the_same_numbers(peaks: str, jobs: int, seed: int, spread: float) -> None:
    log = generate(peaks, jobs, seed=seed, spread=spread)
    found = said(table, render(log))
    assert found.skipped == []
    assert [attempt.category for attempt in found.attempts] == [log.categories[kind] for kind in log.category]
    assert [attempt.used.memory for attempt in found.attempts] == [round(memory * MB) for memory in log.memory]
    assert [attempt.used.wall_time for attempt in found.attempts] == log.wall_time.tolist()
    assert [attempt.input_bytes for attempt in found.attempts] == [round(size * MB) for size in log.input_size]
    assert {(attempt.used.cores, attempt.used.disk) for attempt in found.attempts} == {(4.0, 4000 * MB)}
    assert [attempt.used.cpu_time for attempt in found.attempts] == pytest.approx((4 * log.wall_time).tolist())


def as_read(attempt: Attempt) -> Attempt:
    """Return what a table says of an attempt: texts without blanks around them, and no words for unknown."""
    names = ("run", "workflow", "task", "category", "label", "command", "executable", "user", "host")
    texts = {name: (getattr(attempt, name) or "").strip() for name in names}
    known: dict[str, Any] = {name: None if text.lower() in ("", "-", "null") else text for name, text in texts.items()}
    return replace(attempt, **known, row="")


# Above 2^53 bytes numbers in tables are not exact.
_exportable = st.builds(
    lambda one, identity: replace(one, identity=identity, input_bytes=one.input_bytes and Bytes(one.input_bytes >> 10)),
    attempts,
    st.binary(min_size=16, max_size=16),
)


@given(st.lists(_exportable, min_size=1, max_size=5))
def test_what_the_archive_exports_is_read_back(exported: list[Attempt]) -> None:
    text = b"".join(csv_lines(exported)).decode()
    assert table.recognises(text)
    found = said(table, text)
    assert found.skipped == []
    assert [replace(one, row="") for one in found.attempts] == [as_read(one) for one in exported]


_cells = st.text(st.sampled_from("abé ,;\t\"'\n19.-"), max_size=6)


@given(st.lists(st.tuples(st.integers(0, 10**9), _cells, _cells), max_size=8), st.sampled_from(",;\t"))
def test_printing_and_parsing_agree(rows: list[tuple[int, str, str]], delimiter: str) -> None:
    text = rendered(
        ["memory (B)", "x", "command"], *[(str(size), *cells) for size, *cells in rows], delimiter=delimiter
    )
    found = said(table, text)
    assert found.skipped == []
    assert [attempt.used.memory for attempt in found.attempts] == [size for size, _, _ in rows]
    assert [attempt.row.split("\x1f")[1:] for attempt in found.attempts] == [list(cells) for _, *cells in rows]


def test_a_damaged_table_never_crashes_and_every_row_is_accounted_for() -> None:
    rows = [[text for text, _, _ in COLUMNS.values()], [""] * len(COLUMNS), ["-"] * len(COLUMNS)]
    text = rendered(list(COLUMNS), *rows, rows[0])
    read = 0
    for letters, found in survives(table, text, "jobs.csv"):
        read += 1
        _, *others = letters.split("\n")
        if '"' not in letters and "\r" not in letters:  # where each line is a row
            expected = sum(1 for line in others if any(part.strip() for part in line.split(",")))
            assert len(found.attempts) + len(found.skipped) == expected, letters
    assert read > 50


def test_memory_does_not_grow_with_the_table() -> None:
    def peak(pieces: int) -> int:
        row = b"align,2,277,670,1.5,3\n"
        log = Log([b"category,cores,memory,disk,cpu_time,wall_time\n", *[row * 500] * pieces], Path("x"))
        tracemalloc.start()
        assert sum(isinstance(entry, Attempt) for entry in table.read(log, Hints())) == 500 * pieces
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(20) < 2 * peak(2)


@pytest.mark.parametrize(("name", "jobs"), [("bwa.csv", 7754), ("cms_simulation.csv", 30630)])
def test_real_tables_are_read_whole(name: str, jobs: int, data: Path) -> None:
    path = data / "sizing" / name
    found = said_of(table, Log.open(path))
    assert (len(found.attempts), found.skipped) == (jobs, [])
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert Counter(row["category"] for row in rows) == Counter(one.category for one in found.attempts)
    assert [float(row["memory"]) * MB for row in rows] == [one.used.memory for one in found.attempts]
    assert [float(row["wall_time"]) for row in rows] == [one.used.wall_time for one in found.attempts]
