"""Slurm's accounting as JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import said, said_of, survives
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs import sacct, sacct_json
from tonnage.logs.log import Hints, Log

MIB = 2**20
START = 1794777934
Json = dict[str, Any]


def new(number: int | None, *, infinite: bool = False) -> Json:
    """A number as Slurm writes it since 23.02."""
    return {"set": number is not None and not infinite, "infinite": infinite, "number": number or 0}


def tres(**counts: int) -> list[Json]:
    kinds = [name.partition("__") for name in counts]
    return [
        {"type": kind, "name": name or None, "id": place, "count": count}
        for place, ((kind, _, name), count) in enumerate(zip(kinds, counts.values(), strict=True), start=1)
    ]


def step(**changes: Any) -> Json:
    return {
        "tres": {
            "requested": {
                "max": tres(cpu=0, mem=100 * MIB, fs__disk=48642),
                "total": tres(cpu=0, mem=100 * MIB, fs__disk=48642),
            },
            "consumed": {"max": tres(fs__disk=2048), "total": tres(fs__disk=2048)},
            "allocated": tres(cpu=4, mem=400, node=1),
        },
        "time": {"elapsed": 120, "start": START, "end": START + 120, "total": {"seconds": 200, "microseconds": 500000}},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "tasks": {"count": 1},
        "kill_request_user": None,
        "state": "COMPLETED",
        "step": {"job_id": 13, "het": {"component": None}, "id": "batch", "name": "batch"},
    } | changes


def job(*steps: Json, state: object = "COMPLETED", **changes: Any) -> Json:
    """A job as Slurm 22.05 writes it."""
    return {
        "account": "lab",
        "comment": {"administrator": None, "job": "a=1|b=2", "system": None},
        "allocation_nodes": 1,
        "array": {"job_id": 2, "task": None, "task_id": 0},
        "association": {"account": "lab", "cluster": "refs", "user": "ada"},
        "cluster": "refs",
        "time": {
            "elapsed": 120,
            "start": START,
            "end": START + 120,
            "submission": START - 30,
            "limit": 60,
            "total": {"seconds": 0, "microseconds": 0},
        },
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "het": {"job_id": 0, "job_offset": None},
        "job_id": 13,
        "name": "align",
        "nodes": "n1",
        "partition": "main",
        "qos": "normal",
        "required": {"CPUs": 2, "memory": 200},
        "kill_request_user": None,
        "state": {"current": state, "reason": "None"},
        "steps": list(steps),
        "tres": {"allocated": tres(cpu=4, mem=400, node=1), "requested": tres(cpu=2, mem=200, node=1)},
        "user": "ada",
        "working_directory": "/home/ada",
    } | changes


def modern(old: Json) -> Json:
    """The same job as Slurm writes it since about 24.11."""
    time, exit_code = old["time"], old["exit_code"]
    signal = exit_code.get("signal", {}).get("signal_id")
    return old | {
        "array": {"job_id": 2, "task": "", "task_id": new(0)},
        "exit_code": {
            "status": ["SIGNALED" if signal else exit_code["status"]],
            "return_code": new(exit_code["return_code"]),
            "signal": {"id": new(signal), "name": "NONE"},
        },
        "het": {"job_id": 0, "job_offset": new(None)},
        "kill_request_user": "",
        "required": {"CPUs": 2, "memory_per_cpu": new(None), "memory_per_node": new(200)},
        "restart_cnt": 0,
        "state": {"current": [old["state"]["current"]], "reason": "None"},
        "steps": [
            one
            | {
                "state": [one["state"]],
                "step": {"id": "13.batch", "name": "batch"},
                "time": one["time"] | {"start": new(one["time"]["start"]), "end": new(one["time"]["end"])},
                "exit_code": {
                    "status": ["SUCCESS"],
                    "return_code": new(0),
                    "signal": {"id": new(None), "name": "NONE"},
                },
            }
            for one in old["steps"]
        ],
        "submit_line": "sbatch align.sh",
        "time": time | {"limit": new(time["limit"]), "total": {"seconds": 200, "microseconds": 500000}},
    }


def log(*jobs: Json) -> str:
    meta = {"plugin": {"type": "openapi/dbv0.0.38"}, "Slurm": {"release": "22.05.8"}}
    return json.dumps({"meta": meta, "errors": [], "jobs": jobs}, indent=1)


def only(one: Json) -> Attempt:
    return said(sacct_json, log(one)).only


def test_a_job_and_its_steps_are_one_attempt() -> None:
    one = job(step())
    assert only(one) == Attempt(
        native_id=f"slurm:refs:13:{START - 30}:0",
        row=json.dumps(one, sort_keys=True),
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
            "account": "lab",
            "partition": "main",
            "qos": "normal",
            "allocation_nodes": 1,
            "working_directory": "/home/ada",
            "comment": "a=1|b=2",
            "reason": "None",
            "tres": {"cpu": 4, "mem": 400, "node": 1},
            "MaxDiskRead": 48642,
            "MaxDiskWrite": 2048,
        },
    )


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL"])
def test_old_and_new_versions_say_the_same(state: str) -> None:
    old = job(step(), state=state, exit_code={"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 11}})
    before, after = only(old), only(modern(old))
    assert after.command == "sbatch align.sh"
    assert replace(after, row=before.row, command=None) == before
    assert after.signal == 11


def test_it_is_recognised() -> None:
    assert sacct_json.recognises(log(job()))
    assert sacct_json.recognises(log())
    assert sacct_json.recognises(json.dumps({"jobs": [modern(job())], "meta": {}}))
    # squeue and others write jobs, too.
    squeue = {"jobs": [{"job_id": 1, "job_state": "RUNNING"}], "meta": {"plugin": {"type": "openapi/slurmctld"}}}
    for other in (json.dumps(squeue), '{"workflow": {}}', "", "JobID|State|jobs\n", "[1, 2]"):
        assert not sacct_json.recognises(other)


@pytest.mark.parametrize("text", ['{"workflow": {"tasks": []}}', '{"jobs": 5}', '{"jobs": [{"job_state": 1}]}', "[1]"])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match='expected a list "jobs"'):
        said(sacct_json, text)


def test_no_jobs_are_no_error() -> None:
    assert said(sacct_json, log()).attempts == []


@pytest.mark.parametrize(
    ("found", "seconds"),
    [(90, 5400), (new(90), 5400), (new(None), None), (new(1, infinite=True), None), (None, None), (2**32 - 1, None)],
)
def test_a_time_limit_may_be_unset_or_infinite(found: object, seconds: float | None) -> None:
    one = job()
    one["time"]["limit"] = found
    assert only(one).requested.wall_time == seconds


def test_requested_memory_is_that_of_all_nodes() -> None:
    both = job(required={"CPUs": 4, "memory": 300}, tres={"requested": tres(cpu=4, mem=600), "allocated": []})
    assert only(both).requested == Amounts.of(cores=4, memory=600 * MIB, wall_time=3600)


@pytest.mark.parametrize(
    ("required", "mib"),
    [
        ({"CPUs": 3, "memory_per_node": new(300), "memory_per_cpu": new(None)}, 600),
        ({"CPUs": 3, "memory_per_node": new(None), "memory_per_cpu": new(300)}, 900),
        ({"CPUs": 3, "memory_per_node": new(None), "memory_per_cpu": new(None)}, None),
        ({"CPUs": 3, "memory": 300}, None),  # of a node or a core: 22.05 does not say
    ],
)
def test_requested_memory_may_be_of_a_node_or_a_core(required: Json, mib: int | None) -> None:
    one = job(required=required, allocation_nodes=2, tres={"requested": [], "allocated": []})
    assert only(one).requested.memory == (None if mib is None else mib * MIB)


def test_memory_is_the_most_of_a_step_with_all_its_tasks() -> None:
    total = {"requested": {"max": tres(mem=60 * MIB), "total": tres(mem=230 * MIB)}}
    largest_only = {"requested": {"max": tres(mem=60 * MIB), "total": tres(energy=0)}}
    assert only(job(step(), step(tres=total, tasks={"count": 4}))).used.memory == 230 * MIB
    assert only(job(step(), step(tres=largest_only, tasks={"count": 4}))).used.memory == 240 * MIB


@pytest.mark.parametrize("state", ["COMPLETED", "OUT_OF_MEMORY"])
def test_a_step_that_ran_out_of_memory_says_so_for_its_job(state: str) -> None:
    none_seen = {"requested": {"max": tres(mem=0), "total": tres(mem=0)}}
    killed = step(state="OUT_OF_MEMORY", tres=none_seen)
    found = only(job(step(), killed, state=state))
    assert (found.outcome, found.exhausted) == (Outcome.EXHAUSTED, Resource.MEMORY)
    assert (found.used.memory, found.lower_bounds) == (100 * MIB, ("memory",))
    alone = only(job(killed, state=state))
    assert (alone.used.memory, alone.memory_method, alone.lower_bounds) == (None, None, ())


@pytest.mark.parametrize(("user", "exhausted"), [("root", Resource.MEMORY), ("", Resource.MEMORY), ("ada", None)])
def test_a_step_that_slurm_cancelled_above_its_memory_ran_out_of_it(user: str, exhausted: Resource | None) -> None:
    above = {"requested": {"max": tres(mem=500 * MIB), "total": tres(mem=500 * MIB)}, "allocated": tres(mem=400)}
    signalled = {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}
    killed = step(state="CANCELLED", kill_request_user=user, exit_code=signalled, tres=above)
    assert only(job(killed)).exhausted == exhausted


@pytest.mark.parametrize(
    ("state", "code", "exit_status", "signal"),
    [
        ("COMPLETED", {"status": "SUCCESS", "return_code": 0}, 0, None),
        ("FAILED", {"status": "SUCCESS", "return_code": 0}, None, None),  # what 22.05 says of every exit status
        ("FAILED", {"status": ["ERROR"], "return_code": new(200), "signal": {"id": new(None)}}, 200, None),
        (
            "FAILED",
            {"status": ["SIGNALED"], "return_code": new(0), "signal": {"id": new(11), "name": "SEGV"}},
            None,
            11,
        ),
        ("OUT_OF_MEMORY", {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 125}}, None, None),
        ("COMPLETED", None, None, None),
    ],
)
def test_an_exit_code_is_a_status_or_a_signal(
    state: str, code: object, exit_status: int | None, signal: int | None
) -> None:
    found = only(job(state=state, exit_code=code))
    assert (found.exit_status, found.signal) == (exit_status, signal)


def test_flags_of_a_state_come_before_it() -> None:
    first, second = job(state=["PENDING", "REQUEUED"]), job(state=["COMPLETED"])
    second["time"] = second["time"] | {"submission": START + 130, "start": START + 200, "end": START + 300}
    found = said(sacct_json, log(first, second)).attempts
    assert [(one.outcome, one.number) for one in found] == [(Outcome.PREEMPTED, 1), (Outcome.DONE, 2)]
    assert found[0].native_id != found[1].native_id


def test_restarts_number_the_attempts() -> None:
    found = only(job(restart_cnt=2))
    assert (found.number, str(found.native_id).split(":")[-1]) == (3, "2")


def test_components_of_a_heterogeneous_job_have_their_number() -> None:
    array = {"job_id": 0, "task_id": None}
    assert only(job(array=array, het={"job_id": 17, "job_offset": 1})).task == "17+1"
    assert only(job(array=array)).task == "13"


@pytest.mark.parametrize(
    ("state", "start", "reason"),
    [
        ("PENDING", 0, "it has not finished"),
        (["RUNNING"], START, "it has not finished"),
        ("CANCELLED", None, "it never started"),
        ("CANCELLED", 0, "it never started"),
        ([], START, "its state is unknown"),
        ("MELTED", START, "its state is unknown"),
    ],
)
def test_a_job_that_did_not_run_or_end_is_skipped(state: object, start: int | None, reason: str) -> None:
    one = job(state=state)
    one["time"]["start"] = start
    (skipped,) = said(sacct_json, log(one)).skipped
    assert skipped.reason == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"job_id": None}, "it has no job_id"),
        ({"job_id": "x"}, "job_id is not a number"),
        ({"time": {"elapsed": [1]}}, "time.elapsed is not a number"),
        ({"time": {"elapsed": -1}}, "time.elapsed is negative or not plausible"),
        ({"steps": [1]}, "one of its steps is not an object"),
    ],
)
def test_what_cannot_be_used_is_skipped_with_its_line(changes: Json, reason: str) -> None:
    text = f'{{"jobs": [\n{json.dumps(job())},\n{json.dumps(job(**changes))},\n7]}}'
    found = said(sacct_json, text)
    assert len(found.attempts) == 1
    assert [(skipped.line, skipped.reason) for skipped in found.skipped] == [(3, reason), (4, "it is not a job")]


# Slurm has numbers that mean that there is none.
sizes = st.none() | st.integers(1, 2**40).filter(lambda value: value not in {2**32 - 1, 2**32 - 2})


@given(
    name=st.text(min_size=1, max_size=10).filter(lambda text: text.isprintable()),
    requested=sizes,
    minutes=sizes,
    elapsed=st.integers(0, 10**6),
    peaks=st.lists(sizes, max_size=4),
    is_new=st.booleans(),
)
def test_printing_and_parsing_agree(
    name: str, requested: int | None, minutes: int | None, elapsed: int, peaks: list[int | None], is_new: bool
) -> None:
    steps = [step(tres={"requested": {"total": [] if peak is None else tres(mem=peak)}}) for peak in peaks]
    one = job(*steps, name=name, tres={"requested": [] if requested is None else tres(mem=requested), "allocated": []})
    one["required"] = {"CPUs": 2}
    one["time"] |= {"limit": minutes, "elapsed": elapsed}
    found = only(modern(one) | {"required": {"CPUs": 2}} if is_new else one)
    memory = max((peak for peak in peaks if peak), default=None)
    cpu_time = 200.5 if is_new else 200.5 * len(peaks) or None
    assert found.category == name
    assert found.requested == Amounts.of(
        cores=2,
        memory=None if requested is None else requested * MIB,
        wall_time=None if minutes is None else minutes * 60,
    )
    assert found.used == Amounts.of(memory=memory, wall_time=elapsed, cpu_time=cpu_time)


def test_damaged_logs_never_crash() -> None:
    for text in (log(job(step()), job(state="PENDING")), log(modern(job(step(), step())))):
        for _, found in survives(sacct_json, text):
            assert len(found.attempts) + len(found.skipped) <= 9


def comparable(attempt: Attempt) -> Attempt:
    """What both forms of sacct know: the table cuts times after milliseconds, 22.05 has no exit statuses in JSON."""
    cpu_time = None if attempt.used.cpu_time is None else int(attempt.used.cpu_time * 1000 + 1e-6) / 1000
    used = replace(attempt.used, cpu_time=None if cpu_time is None else Amounts.of(cpu_time=cpu_time).cpu_time)
    exit_status = attempt.exit_status or None
    known = None if attempt.outcome == Outcome.FAILED else exit_status
    return replace(attempt, row="", raw={}, used=used, exit_status=known)


def test_the_table_and_the_json_of_real_jobs_agree(data: Path) -> None:
    paths = sorted((data / "logs" / "sacct").glob("*.json"))
    assert len(paths) == 15
    attempts = skipped = 0
    for path in paths:
        assert sacct_json.recognises(Log.open(path).head)
        found = said_of(sacct_json, Log.open(path))
        table = said_of(sacct, Log.open(path.with_suffix(".pipe.txt")), Hints(label="refs8"))
        by_id = {one.native_id: comparable(one) for one in found.attempts}
        assert by_id == {one.native_id: comparable(one) for one in table.attempts}
        assert [one.reason for one in found.skipped] == [one.reason for one in table.skipped]
        assert len(by_id) == len(found.attempts)
        attempts += len(found.attempts)
        skipped += len(found.skipped)
    assert (attempts, skipped) == (20, 2)
