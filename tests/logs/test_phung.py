"""The bucketing paper's logs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import said, said_of, survives
from tonnage.errors import InputError
from tonnage.logs import phung
from tonnage.logs.log import Hints, Log

HEADER = "taskid -- core -- memory -- virtual_memory -- disk -- time -- average_cores -- tag\n"
ROW = "28 -- 2 -- 6202 -- 358792 -- 5 -- 256.5 -- 1.5 -- 1\n"
MADE = "1 -- 4 -- 32006 -- 0 -- 4000 -- 500 -- 0 -- 3\n"


def test_a_task_is_read() -> None:
    found = said(phung, HEADER + ROW, "colmena.txt")
    attempt = found.only
    assert (attempt.task, attempt.category, attempt.native_id, attempt.run) == ("28", "1", None, "colmena")
    assert (attempt.used.memory, attempt.used.disk) == (6202 * 10**6, 5 * 10**6)
    assert (attempt.used.wall_time, attempt.used.cpu_time) == (256.5, 1.5 * 256.5)
    assert attempt.used.cores == 2.0
    assert attempt.allocated.cores is None
    assert attempt.raw == {"virtual_memory": 358792, "average_cores": 1.5}
    assert attempt.row == ROW.strip()
    assert found.assumed == ["memory and disk in MB"]


def test_a_0_of_what_was_not_measured_is_unknown() -> None:
    attempt = said(phung, HEADER + MADE).only
    assert attempt.used.cpu_time is None
    assert attempt.raw == {}


@pytest.mark.parametrize(
    "header", [HEADER.replace("tag", "0"), HEADER.replace("tag", "1"), HEADER.replace("taskid", "task_id")]
)
def test_the_last_column_is_the_tag_whatever_it_is_called(header: str) -> None:
    assert phung.recognises(header)
    assert said(phung, header + MADE).only.category == "3"


def test_the_user_may_know_the_units() -> None:
    found = said(phung, HEADER + ROW, hints=Hints(units={"memory": "MiB"}))
    assert (found.only.used.memory, found.only.used.disk) == (6202 * 2**20, 5 * 10**6)
    assert found.assumed == ["disk in MB"]
    assert said(phung, HEADER + ROW, hints=Hints(units={"memory": "MiB", "disk": "GB"})).assumed == []
    with pytest.raises(InputError, match="parsec"):
        said(phung, HEADER + ROW, hints=Hints(units={"memory": "parsec"}))


def test_identical_rows_are_different_tasks() -> None:
    assert len(said(phung, HEADER + ROW + ROW).attempts) == 2


def test_rows_that_cannot_be_used_are_skipped() -> None:
    found = said(phung, f"{HEADER}{ROW}1 -- 2\n\n{ROW.replace('6202', 'much')}{ROW}")
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason, entry.found) for entry in found.skipped] == [
        (3, "expected 8 columns", "2 columns"),
        (5, "memory is not a number", "much"),
    ]


@pytest.mark.parametrize("text", ["", "taskid,core,memory\n1,2,3\n", "a -- b\n", HEADER.replace("core", "cores") + ROW])
def test_other_files_are_refused(text: str) -> None:
    assert not phung.recognises(text)
    with pytest.raises(InputError, match="expected the columns taskid -- core"):
        said(phung, text)


amounts = st.integers(0, 10**6)


@given(st.lists(st.tuples(amounts, amounts, amounts, amounts, st.integers(1, 9)), max_size=9))
def test_what_was_written_is_read_back(tasks: list[tuple[int, int, int, int, int]]) -> None:
    rows = [f"{number} -- {cores} -- {memory} -- 0 -- {disk} -- {time} -- 0 -- {tag}\n"
            for number, (cores, memory, disk, time, tag) in enumerate(tasks)]  # fmt: skip
    found = said(phung, HEADER + "".join(rows))
    assert [
        (one.used.cores or 0.0, one.used.memory, one.used.disk, one.used.wall_time, one.category)
        for one in found.attempts
    ] == [
        (float(cores), memory * 10**6, disk * 10**6, float(time), str(tag)) for cores, memory, disk, time, tag in tasks
    ]


def test_damage_never_crashes_it_and_every_line_is_accounted_for() -> None:
    for text, found in survives(phung, HEADER + ROW * 3 + MADE):
        rows = [row for row in text.split("\n")[1:] if row.strip()]
        assert len(found.attempts) + len(found.skipped) == len(rows)


@pytest.mark.parametrize(
    ("name", "tasks", "categories"),
    [
        ("bimodal_small_std", 2000, 2),
        ("coffea", 1884, 3),
        ("colmena", 228, 1),
        ("exponential_small", 2000, 1),
        ("lobsterCMSanalysis", 1950, 4),
        ("normal_small", 2000, 1),
        ("trimodal", 2000, 3),
        ("uniform_large", 2000, 1),
    ],
)
def test_real_logs(data: Path, name: str, tasks: int, categories: int) -> None:
    log = Log.open(data / "sizing" / f"phung_{name}.txt")
    assert phung.recognises(log.head)
    found = said_of(phung, log)
    assert (len(found.attempts), found.skipped) == (tasks, [])
    assert len({attempt.category for attempt in found.attempts}) == categories
