"""Logs as workloads: where values come from, and which jobs are left out."""

import gzip
from pathlib import Path

import pytest

from tonnage.batch import REQUESTS, Workload, replay
from tonnage.errors import InputError
from tonnage.logs.log import Log

HEADER = "; Version: 2.2\n; MaxNodes: 8\n; MaxProcs: 16 (two in each node)\n;\n"
NAMES = "job submit wait run procs cpu memory req_procs req_time req_memory status user group exe queue part prev think"


def line(**known: object) -> str:
    return " ".join(str(known.get(name, -1)) for name in NAMES.split()) + "\n"


JOB = line(job=1, submit=0, run=10, procs=2, req_procs=4, req_time=20, status=1, user=7)


def read(text: str, nodes: int | None = None) -> Workload:
    return Workload.read(Log.of(text), nodes=nodes)


def columns(log: Workload) -> list[tuple[int, ...]]:
    return list(zip(*(c.tolist() for c in (log.submit, log.nodes, log.run, log.request, log.user)), strict=True))


def test_a_job_is_read() -> None:
    log = read(HEADER + JOB)
    assert columns(log) == [(0, 4, 10, 20, 7)]
    assert (log.machine_nodes, log.left_out, log.out_of_order, len(log)) == (16, {}, 0, 1)
    assert [log.requests(mode).tolist() for mode in REQUESTS] == [[10], [20]]


@pytest.mark.parametrize(
    ("known", "nodes", "run", "asked"),
    [
        ({"procs": 3, "run": 5, "req_time": 9}, 3, 5, 9),
        ({"procs": 3, "req_procs": 0, "run": 5, "req_time": 9}, 3, 5, 9),
        ({"req_procs": 3, "run": 5}, 3, 5, 5),
        ({"req_procs": 3, "req_time": 9}, 3, 9, 9),
        ({"req_procs": 3, "run": 9, "req_time": 5}, 3, 9, 9),
        ({"req_procs": 3, "run": 0, "req_time": 5}, 3, 1, 5),
        ({"req_procs": 3, "run": 2.5, "req_time": 5.5}, 3, 3, 6),
    ],
)
def test_what_is_not_said_is_taken_from_what_is(known: dict[str, float], nodes: int, run: int, asked: int) -> None:
    assert columns(read(HEADER + line(submit=3, **known))) == [(3, nodes, run, asked, -1)]


def test_what_cannot_be_replayed_is_left_out_and_counted() -> None:
    good = line(submit=5, procs=1, run=3)
    wrong = [
        line(submit=6, procs=17, run=3),
        line(submit=6, procs=99, run=3),
        line(submit=6, procs=0, run=3),
        line(submit=6, procs=1, run=0, req_time=0),
        line(submit=6, procs=1),
        line(procs=1, run=3),
        line(submit=6, procs=1, run=3, status=2),
        line(submit=6, procs=1, run=0, req_time=50, status=5),
        good.replace("5", "five", 1),
        good.replace("3", "-3", 1),
        line(submit=6, procs=1, run=10**15),
        "12 600 -1 34",
    ]
    log = read(HEADER + good + "".join(wrong))
    assert columns(log) == [(5, 1, 3, 3, -1)]
    assert log.left_out == {
        "wider than the machine": 2,
        "no processors": 1,
        "no time": 2,
        "its submission time is unknown": 1,
        "part of a job that has its own line": 1,
        "it never ran": 1,
        "submit is not a number": 1,
        "run is negative or not plausible": 1,
        "not plausible": 1,
        "expected 18 columns": 1,
    }
    assert sum(log.left_out.values()) == len(wrong)
    assert replay(log).tolist() == [5]


def test_jobs_out_of_order_are_sorted_and_those_of_one_second_stay_in_order() -> None:
    rows = [(5, 1), (9, 2), (3, 3), (5, 4), (9, 5)]
    log = read(HEADER + "".join(line(submit=submit, procs=1, run=1, user=user) for submit, user in rows))
    assert log.user.tolist() == [3, 1, 4, 2, 5]
    assert log.out_of_order == 2


def test_the_machine_is_as_large_as_the_log_says_or_the_user() -> None:
    assert read("; MaxNodes: 8\n" + JOB).machine_nodes == 8
    assert read("; MaxNodes: many\n; MaxProcs: 4\n" + JOB).machine_nodes == 4
    assert read(HEADER + JOB, nodes=5).machine_nodes == 5
    assert read(HEADER + JOB, nodes=3).left_out == {"wider than the machine": 1}
    with pytest.raises(InputError, match="does not say how large the machine is"):
        read("; MaxNodes: -1\n" + JOB)


def test_a_log_may_be_compressed_and_hold_no_job(tmp_path: Path) -> None:
    path = tmp_path / "tiny.swf.gz"
    path.write_bytes(gzip.compress((HEADER + JOB).encode()))
    assert columns(Workload.load(path)) == [(0, 4, 10, 20, 7)]
    empty = read(HEADER)
    assert (len(empty), replay(empty).tolist()) == (0, [])
    with pytest.raises(InputError, match="is not an SWF log"):
        read("a,b,c\n")


def test_a_tiny_log_is_replayed_as_by_hand() -> None:
    """Four nodes; the third job is backfilled beside the first, the fourth only where it delays no planned job."""
    rows = [(0, 3, 10, 20), (1, 4, 5, 5), (2, 1, 8, 15), (3, 1, 30, 30)]
    text = "; MaxProcs: 4\n"
    text += "".join(line(submit=s, procs=n, run=run, req_time=asked, status=1) for s, n, run, asked in rows)
    log = read(text)
    # Accurate: the wide job waits for the first (10), the third fits in before it (2 + 8), and the last comes after.
    assert replay(log).tolist() == [0, 10, 2, 15]
    # Real: the wide job is promised 20 and can start at 10, when both others have ended.
    assert replay(log, requests="real").tolist() == [0, 10, 2, 15]
    assert replay(log, policy="easy").tolist() == [0, 10, 2, 15]
    # On nine nodes no job waits.
    assert replay(log, nodes=9).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "jobs", "nodes", "left_out"),
    [("kth-sp2", 28475, 100, {"no processors": 1}), ("sdsc-sp2", 54006, 128, {}), ("hpc2n-part", 3170, 240, {})],
)
def test_real_logs(data: Path, name: str, jobs: int, nodes: int, left_out: dict[str, int]) -> None:
    log = Workload.load(data / "queues" / f"{name}.swf.gz")
    assert (len(log), log.machine_nodes, log.left_out, log.out_of_order) == (jobs, nodes, left_out, 0)
