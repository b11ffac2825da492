"""What the event log of a DAG's jobs means for tasks; the logs are those that HTCondor's own library reads alike."""

from collections.abc import Iterable, Sequence
from datetime import UTC
from pathlib import Path

import pytest

from tests.htcondor import eventlog
from tests.htcondor.eventlog import Amount, Usage
from tonnage.batch.htcondor.dag import Dag, Order, write_dag
from tonnage.jobs import Amounts, Attempt, Decision, Outcome, Resource
from tonnage.run.backends.htcondor.dag_plan import Sent, write_nodes
from tonnage.run.backends.htcondor.event_log import Attempts, Began, EventFile, HeldUp, News, Over, Removed
from tonnage.run.backends.htcondor.post_script import main as post
from tonnage.run.backends.htcondor.submitted_dag import is_left
from tonnage.run.backends.htcondor.verdicts import ended
from tonnage.workflow import Task

HOST = "<127.0.0.1:9618?addrs=127.0.0.1-9618&alias=here>"
TABLE = (Amount("Cpus", 1, 1, 1), Amount("Disk (KB)", 20, 100, 200), Amount("Memory (MB)", 300, 400, 512))
USED = Usage(3.0, 1.0, amounts=TABLE)
OVER = Usage(3.0, 1.0, amounts=(*TABLE[:2], Amount("Memory (MB)", 803, 400, 512)))
OUR_OWN = "The job attribute PeriodicRemove expression 'MemoryUsage > MemoryProvisioned' evaluated to TRUE"
TOO_MUCH = "Error from slot1_1@here: Job has gone over cgroup memory limit of 512 megabytes."
LADDER = (4e8, 8e8, 3e9)


def sent(name: str = "a", before: int = 0) -> Sent:
    memory = Decision(resource=Resource.MEMORY, ladder=LADDER, strategy="s", samples=1, reason="r")
    disk = Decision(resource=Resource.DISK, ladder=(1e8, 2e8), strategy="s", samples=1, reason="r")
    return Sent(name, f"task {name}", 0, before, (memory, disk))


def submitted(cluster: int, node: str = "a") -> str:
    return eventlog.submitted((cluster, 0), HOST, node)


def executing(cluster: int) -> str:
    return eventlog.executing((cluster, 0), HOST, "slot1_1@here", ["Cpus = 1", "Memory = 512"])


def terminated(cluster: int, value: int = 0) -> str:
    return eventlog.terminated((cluster, 0), USED, value)


def evicted(cluster: int, codes: tuple[int, int] | None = None) -> str:
    return eventlog.evicted((cluster, 0), USED, TOO_MUCH if codes else "", codes)


def preempted(cluster: int, usage: Usage = OVER) -> str:
    return eventlog.evicted((cluster, 0), usage, "PREEMPT expression evaluated to True", (1011, 0))


def removed(cluster: int, reason: str = "via condor_rm (by user me)") -> str:
    return eventlog.aborted((cluster, 0), reason)


def held(cluster: int, code: int, subcode: int = 0, reason: str = "because") -> str:
    return eventlog.held((cluster, 0), reason, code, subcode)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "events.log"


def heard(log: Path, events: Iterable[str], *, grows_disk: bool = True, dagman: int = 0, **nodes: int) -> list[News]:
    """Write events, see that HTCondor's library reads as many, and return what they mean."""
    htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")
    text = list(events)
    log.write_text("".join(text))
    theirs = list(htcondor2.JobEventLog(str(log)).events(0))
    assert [f"{event.type.value:03}" for event in theirs] == [event[:3] for event in text]
    found = {name: sent(name, before) for name, before in (nodes or {"a": 0}).items()}
    attempts = Attempts(found, 100, UTC, grows_disk=grows_disk)
    attempts.dagman = dagman
    return [news for event in EventFile(log).new() for news in attempts.take(event)]


def told(news: list[News]) -> list[tuple[object, ...]]:
    """Return the gist of what happened."""
    found: list[tuple[object, ...]] = []
    for one in news:
        match one:
            case Began():
                given = {str(decision.resource): decision.amount for decision in one.decisions}
                found.append(("began", one.attempt, one.number, given["memory"], given["disk"]))
            case Over():
                end = ended(one, None, {})
                found.append((str(end.outcome), one.attempt, end.exhausted))
            case HeldUp():
                found.append(("held", one.code))
            case Removed():
                found.append(("removed",))
    return found


def test_a_job_that_ends_well_is_one_attempt_with_the_pools_figures(log: Path) -> None:
    began, over = heard(log, [submitted(1), executing(1), terminated(1)])
    assert isinstance(began, Began)
    assert isinstance(over, Over)
    end = ended(over, None, {})
    assert (end.outcome, end.exit_status, end.host) == (Outcome.DONE, 0, "here")
    assert (end.used.memory, end.used.disk, end.used.cpu_time) == (300 * 2**20, 20 * 2**10, 4.0)
    assert end.facts == {
        "htcondor": {
            "MemoryUsage": 300 * 2**20,
            "DiskUsage": 20 * 2**10,
            "RemoteCpu": 4.0,
            "RemoteWallClockTime": end.used.wall_time,
            "RequestMemory": 400 * 2**20,
            "RequestDisk": 100 * 2**10,
            "MemoryProvisioned": 512 * 2**20,
            "CpusProvisioned": 1.0,
        }
    }


def test_what_the_monitor_measured_counts_and_the_pools_figures_stand_beside_it(log: Path) -> None:
    over = heard(log, [submitted(1), executing(1), terminated(1)])[1]
    assert isinstance(over, Over)
    monitor = Attempt(outcome=Outcome.DONE, exit_status=0, used=Amounts.of(memory=2e8, cores=0.5), memory_method="pss")
    end = ended(over, monitor, {})
    assert (end.used.memory, end.used.cores, end.memory_method) == (2e8, 0.5, "pss")
    assert end.used.disk == 20 * 2**10, "where the monitor knows nothing, the pool does"
    assert end.facts["htcondor"]["MemoryUsage"] == 300 * 2**20  # type: ignore[index]


def test_a_job_that_ran_out_of_memory_is_submitted_again_with_more_of_it_and_of_nothing_else(log: Path) -> None:
    events = [submitted(1), executing(1), terminated(1, 124), submitted(2), executing(2), held(2, 34, 102), removed(2)]
    assert told(heard(log, [*events, submitted(3), executing(3), terminated(3)])) == [
        ("began", 100, 1, 4e8, 1e8),
        ("failed", 100, None),
        ("began", 101, 2, 8e8, 1e8),
        ("exhausted", 101, Resource.MEMORY),
        ("removed",),
        ("began", 102, 3, 3e9, 1e8),
        ("done", 102, None),
    ]


def test_an_eviction_of_what_took_more_memory_than_it_had_is_exhaustion(log: Path) -> None:
    """It keeps its size until it is removed, and submitted again."""
    events = [submitted(1), executing(1), preempted(1), executing(1), preempted(1), removed(1, OUR_OWN)]
    news = heard(log, [*events, submitted(2), executing(2)])
    assert told(news) == [
        ("began", 100, 1, 4e8, 1e8),
        ("exhausted", 100, Resource.MEMORY),
        ("began", 101, 2, 4e8, 1e8),
        ("exhausted", 101, Resource.MEMORY),
        ("began", 102, 3, 8e8, 1e8),
    ]
    assert {one.reason for one in news if isinstance(one, Over)} == {"PREEMPT expression evaluated to True"}


def test_a_real_pool_that_preempts_what_takes_too_much_memory(data: Path) -> None:
    recorded = data / "logs" / "htcondor" / "sid-preempt-memory.events.log"
    attempts = Attempts({"p1.txt": sent("p1.txt")}, 100, UTC, grows_disk=True)
    found = told([news for event in EventFile(recorded).new() for news in attempts.take(event)])
    ends = [one[0] for one in found if one[0] != "began"]
    assert ends == ["exhausted"] * 12 + ["cancelled", "removed"]


def test_the_reason_of_an_eviction_is_what_htcondor_said_then(log: Path) -> None:
    news = heard(log, [submitted(1), executing(1), evicted(1, (34, 102)), executing(1)])
    assert [one.reason for one in news if isinstance(one, Over)] == [TOO_MUCH]


def test_an_eviction_for_disk_lets_disk_grow(log: Path) -> None:
    events = [submitted(1), executing(1), evicted(1, (34, 104)), executing(1), terminated(1)]
    assert told(heard(log, events))[2] == ("began", 101, 2, 4e8, 2e8)


def test_a_removal_that_follows_an_eviction_is_no_preemption(log: Path) -> None:
    """Nothing is said before it is known which it was."""
    events = [submitted(1), executing(1), evicted(1, (1023, 0))]
    assert told(heard(log, events))[1:] == []
    assert told(heard(log, [*events, removed(1)]))[1:] == [("cancelled", 100, None), ("removed",)]
    without_code = [submitted(1), executing(1), eventlog.evicted((1, 0), OVER), removed(1)]
    assert told(heard(log, without_code))[1:] == [("cancelled", 100, None), ("removed",)]


@pytest.mark.parametrize("suite", ["sid", "trixie"])
def test_a_real_pool_where_jobs_were_held_removed_and_vacated(data: Path, suite: str) -> None:
    recorded = data / "logs" / "htcondor" / f"{suite}-hold-release-vacate-rm.events.log"
    attempts = Attempts({name: sent(name) for name in ("x0.txt", "x1.txt", "x2.txt")}, 100, UTC, grows_disk=True)
    ends: dict[str, list[object]] = {}
    for event in EventFile(recorded).new():
        for news in attempts.take(event):
            if not isinstance(news, Began):
                ends.setdefault(news.sent.node, []).extend(one[0] for one in told([news]))
    assert ends["x0.txt"] == ["lost", "done"], "held and released"
    assert ends["x1.txt"][:2] == ["cancelled", "removed"]
    assert ends["x2.txt"] == ["preempted", "done"], "vacated"


def test_an_eviction_for_any_other_reason_keeps_the_size(log: Path) -> None:
    events = [submitted(1), executing(1), evicted(1), executing(1), terminated(1)]
    assert told(heard(log, events)) == [
        ("began", 100, 1, 4e8, 1e8),
        ("preempted", 100, None),
        ("began", 101, 2, 4e8, 1e8),
        ("done", 101, None),
    ]


@pytest.mark.parametrize(
    ("stop", "note"),
    [
        ([evicted(1, (34, 102))], TOO_MUCH),
        ([eventlog.evicted((1, 0), USED, "Job vacated by schedd", (1022, 0))], "Job vacated by schedd"),
        ([eventlog.evicted((1, 0), USED)], ""),
        ([evicted(1), held(1, 1, 0, "via condor_hold"), eventlog.released((1, 0), "by me")], "via condor_hold"),
        ([evicted(1), eventlog.aborted((1, 0), "via condor_rm")], "via condor_rm"),
    ],
)
def test_why_an_attempt_ended_is_what_htcondor_says_of_its_end(log: Path, stop: list[str], note: str) -> None:
    news = heard(log, [submitted(1), executing(1), *stop, executing(1)])
    (over,) = [one for one in news if isinstance(one, Over)]
    assert ended(over, None, {}).note == note


def test_a_machine_that_is_lost_keeps_the_size(log: Path) -> None:
    lost = [eventlog.disconnected((1, 0), "slot1_1@here", HOST), eventlog.reconnection_failed((1, 0), "slot1_1@here")]
    events = [submitted(1), executing(1), *lost, executing(1), terminated(1)]
    assert told(heard(log, events))[1:3] == [("lost", 100, None), ("began", 101, 2, 4e8, 1e8)]


@pytest.mark.parametrize(
    ("code", "subcode", "outcome", "resource"),
    [
        (34, 102, "exhausted", Resource.MEMORY),
        (34, 104, "exhausted", Resource.DISK),
        (21, 102, "exhausted", Resource.MEMORY),
        (13, 2, "failed", None),
        (12, 2, "failed", None),
        (1, 0, "lost", None),
        (26, 0, "lost", None),
    ],
)
def test_a_hold_ends_an_attempt_and_its_code_says_how(
    log: Path, code: int, subcode: int, outcome: str, resource: Resource | None
) -> None:
    events = [submitted(1), executing(1), evicted(1), held(1, code, subcode)]
    assert told(heard(log, events))[1:] == [(outcome, 100, resource)]


def test_an_attempt_that_was_held_says_so_and_waits_for_its_release(log: Path) -> None:
    over = heard(log, [submitted(1), executing(1), evicted(1), held(1, 1, 0, "via condor_hold")])[-1]
    assert isinstance(over, Over)
    end = ended(over, None, {})
    assert (end.outcome, end.held, end.note) == (Outcome.LOST, True, "via condor_hold")
    assert told(heard(log, [submitted(1), held(1, 1)])) == [("held", 1)], "it did not run"


def test_a_job_that_is_held_and_released_runs_again_with_as_much(log: Path) -> None:
    released = eventlog.released((1, 0), "by me")
    events = [submitted(1), executing(1), held(1, 1), released, executing(1), terminated(1)]
    assert told(heard(log, events))[-2:] == [("began", 101, 2, 4e8, 1e8), ("done", 101, None)]


def test_a_job_that_is_removed_is_cancelled(log: Path) -> None:
    assert told(heard(log, [submitted(1), executing(1), removed(1)]))[1:] == [("cancelled", 100, None), ("removed",)]
    assert told(heard(log, [submitted(1), removed(1)])) == [("removed",)]


def test_a_retry_of_dagmans_is_a_new_job_whose_disk_begins_small_again(log: Path) -> None:
    events = [submitted(1), executing(1), evicted(1, (34, 104)), executing(1), terminated(1, 124)]
    again = [submitted(2), executing(2), terminated(2)]
    found = told(heard(log, [*events, *again], a=4))
    assert found[2:] == [
        ("began", 101, 6, 4e8, 2e8),
        ("failed", 101, None),
        ("began", 102, 7, 8e8, 1e8),
        ("done", 102, None),
    ]


def test_a_rescue_dag_begins_to_count_retries_anew(log: Path) -> None:
    """Its DAGMan is a later job than those that the one before it has submitted."""
    events = [submitted(2), executing(2), terminated(2, 3), submitted(8), executing(8), terminated(8, 124)]
    again = [submitted(9), executing(9)]
    began = [one for one in told(heard(log, [*events, *again], dagman=7)) if one[0] == "began"]
    assert [one[3] for one in began[1:]] == [4e8, 8e8]


def test_where_the_retry_chooses_the_rung_of_both_disk_grows_with_memory(log: Path) -> None:
    tries = [(submitted(number), executing(number), terminated(number, 124)) for number in range(1, 5)]
    events = [line for lines in tries for line in lines]
    found = told(heard(log, events, grows_disk=False))
    assert [one[3:] for one in found if one[0] == "began"] == [(4e8, 1e8), (8e8, 2e8), (3e9, 2e8), (3e9, 2e8)]


def test_what_the_monitor_stopped_is_exhausted(log: Path) -> None:
    over = heard(log, [submitted(1), executing(1), terminated(1, 124)])[1]
    assert isinstance(over, Over)
    monitor = Attempt(outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY, used=Amounts.of(memory=4.1e8))
    end = ended(over, monitor, {})
    assert (end.outcome, end.exhausted, end.lower_bounds) == (Outcome.EXHAUSTED, Resource.MEMORY, ("memory",))


def test_whoever_reads_the_log_again_gets_the_same_numbers(log: Path) -> None:
    events = [submitted(1), submitted(2, "b"), executing(2), executing(1), terminated(2), evicted(1), executing(1)]
    first, second = (told(heard(log, events, a=0, b=0)) for _ in range(2))
    assert first == second
    assert [one[1] for one in first if one[0] == "began"] == [100, 101, 102]


def test_jobs_of_others_in_the_same_log_do_not_matter(log: Path) -> None:
    other = [eventlog.submitted((9, 0), HOST), executing(9), terminated(9), submitted(8, "stranger"), executing(8)]
    assert told(heard(log, [*other, submitted(1), executing(1)])) == [("began", 100, 1, 4e8, 1e8)]


def test_a_log_is_read_by_whole_events_while_it_is_written(log: Path) -> None:
    text = "".join([submitted(1), executing(1), terminated(1)]).encode()
    file, kinds = EventFile(log), list[str]()
    assert file.new() == []
    for end in range(0, len(text) + 1, 7):
        log.write_bytes(text[:end])
        kinds += [event.kind for event in file.new()]
    log.write_bytes(text)
    kinds += [event.kind for event in file.new()]
    assert kinds == ["000", "001", "005"]


# Rescue DAGs


def left(folder: Path, tasks: Sequence[str], memory: Sequence[float] = LADDER, **terms: object) -> Dag:
    decision = Decision(resource=Resource.MEMORY, ladder=tuple(memory), strategy="s", samples=1, reason="r")
    orders = [Order(Task(name, "true"), (decision,), 0) for name in tasks]
    children: list[list[int]] = [[] for _ in orders]
    return Dag(folder=folder, home=folder, title="w", orders=orders, children=children, **terms)  # type: ignore[arg-type]


@pytest.fixture
def rescued(tmp_path: Path) -> Path:
    """The folder of a DAG of three tasks, of which DAGMan has done one."""
    dag = left(tmp_path, "abc")
    write_nodes(tmp_path, write_dag(dag), [0, 0, 0], dag.terms)
    (tmp_path / "workflow.dag.rescue001").write_text("# nothing yet\n")
    (tmp_path / "workflow.dag.rescue002").write_text("# Rescue DAG\nDONE a\nRETRY b 3\n")
    (tmp_path / "workflow.dag.rescue003.old").write_text("DONE a\nDONE b\nDONE c\n")
    return tmp_path


def test_dagman_goes_on_where_nothing_has_changed(rescued: Path) -> None:
    assert is_left(left(rescued, "bc"))
    assert is_left(left(rescued, "bc", memory=(1e8, 3e9))), "what it was given does as well"


def test_dagman_does_not_go_on_where_its_rescue_dag_says_something_else_than_we_know(rescued: Path) -> None:
    assert not is_left(left(rescued, "abc")), "it would leave a task out that is to run again"
    assert not is_left(left(rescued, "c")), "it would repeat what is done"
    (rescued / "workflow.dag.rescue002").rename(rescued / "workflow.dag.rescue002.old")
    assert not is_left(left(rescued, "bc"))


def test_dagman_does_not_go_on_where_a_task_needs_more_than_it_was_given(rescued: Path) -> None:
    assert not is_left(left(rescued, "bc", memory=LADDER[1:]))
    assert not is_left(left(rescued, "bc", memory=(*LADDER, 6e9))), "there are larger machines now"


@pytest.mark.parametrize(
    "terms",
    [
        {"retries": 1},
        {"transfers": True},
        {"commands": ["x = 1"]},
        {"throttles": {"b": 1}},
        {"most": 5},
        {"grows_disk": False},
    ],
    ids=str,
)
def test_dagman_does_not_go_on_where_the_user_or_the_pool_wants_something_else(
    rescued: Path, terms: dict[str, object]
) -> None:
    assert not is_left(left(rescued, "bc", **terms))  # type: ignore[arg-type]


def test_dagman_does_not_go_on_where_programs_are_found_elsewhere_now(
    rescued: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/opt/conda/bin:/usr/bin:/bin")
    assert not is_left(left(rescued, "bc"))


# The POST script


@pytest.fixture
def dag(tmp_path: Path) -> Path:
    """The folder of a DAG whose node number 5 was job 7."""
    for name in ("failures", "kills", "summaries"):
        (tmp_path / name).mkdir()
    return tmp_path


def asked(
    dag: Path, returned: int, retry: int, *, memory: int = 3, disk: int = 1, retries: int = 0, kills: int = 0
) -> int:
    """Return what the POST script says about node 5, that was job 7."""
    return post([str(dag), *map(str, (returned, retry, "7.0", 5, memory, disk, retries, kills))])


@pytest.mark.parametrize(
    ("returned", "status"),
    [
        (0, 0),
        (127, 2),  # there is no such program
        (-1002, 2),  # somebody has removed it
        (124, 2),  # the command's own
    ],
)
def test_the_post_script_tries_nothing_in_vain(dag: Path, returned: int, status: int) -> None:
    assert asked(dag, returned, 0) == status


def test_the_post_script_tries_every_amount_of_what_was_lacking(dag: Path) -> None:
    (dag / "summaries" / "5.7").write_text(
        '{"command": "x", "exit_type": "limits", "start": [1, "s"], "end": [2, "s"], "wall_time": [1, "s"], '
        '"memory": [101, "MB"], "limits_exceeded": {"memory": [100, "MB"]}}'
    )
    assert [asked(dag, 124, retry, disk=5) for retry in range(3)] == [1, 1, 2]
    assert asked(dag, 124, 0, memory=1) == 2


def test_the_post_script_tries_again_what_was_killed_from_outside(dag: Path) -> None:
    assert [asked(dag, -9, retry, kills=2) for retry in range(3)] == [1, 1, 2]  # the monitor itself was
    (dag / "summaries" / "5.7").write_text(
        '{"command": "x", "exit_type": "signal", "signal": 9, "exit_status": 137, "start": [1, "s"], "end": [2, "s"], '
        '"wall_time": [1, "s"]}'
    )
    assert [asked(dag, 137, retry, kills=2) for retry in range(3)] == [1, 1, 2]
    assert [asked(dag, 5, retry, retries=2, kills=2) for retry in (0, 1)] == [1, 1]


def test_the_post_script_counts_failures_by_themselves_and_anew_in_a_rescue_dag(dag: Path) -> None:
    assert [asked(dag, 5, retry, retries=2) for retry in (0, 1, 2, 0, 1, 2)] == [1, 1, 2, 1, 1, 2]
    assert [asked(dag, 124, retry, retries=1) for retry in range(2)] == [1, 2]


@pytest.mark.parametrize(
    ("stop", "reason", "statuses"),
    [
        (held(7, 34, 102), OUR_OWN, [1, 2]),
        (held(7, 34, 104), OUR_OWN, [2, 2]),
        (held(7, 1), "via condor_rm", [2, 2]),
        (preempted(7), OUR_OWN, [1, 2]),
        (preempted(7), "via condor_rm", [2, 2]),
        (preempted(7, USED), OUR_OWN, [2, 2]),
        (held(7, 34, 102) + eventlog.released((7, 0), "by me") + executing(7) + evicted(7), "via condor_rm", [2, 2]),
    ],
    ids=["held for memory", "for disk", "by hand", "evicted above", "and removed", "below", "evicted later"],
)
def test_the_post_script_knows_a_job_that_was_removed_because_it_took_too_much(
    dag: Path, stop: str, reason: str, statuses: list[int]
) -> None:
    others = "".join(submitted(number) + executing(number) for number in range(8, 2000))  # it may be long ago
    before = [submitted(7), executing(7), evicted(7), executing(7)]
    text = "".join([*before, stop, held(77, 34, 102), preempted(77), others, removed(7, reason)])
    (dag / "events.log").write_text(text)
    assert [asked(dag, -1002, retry, memory=2) for retry in range(2)] == statuses
