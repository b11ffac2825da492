"""What signals, a killed engine and a cluster that says no do to a run on Slurm: the same command goes on."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.run.cli_runs import kill
from tests.slurm.cluster import SlurmCluster
from tests.slurm.flows import Does, SlurmPlace, gate
from tonnage.jobs import Amounts, Outcome

SIZE = Amounts.of(cores=4.0)  # so that eight run on the shared cluster, and others wait


def gates(place: SlurmPlace, names: list[str]) -> None:
    """Write a workflow of tasks that take a node each and wait at gates, and one that waits for all of them."""
    listed = [gate(name, SIZE) for name in names]
    place.flow([*listed, ("last", names, Does())])


NAMES = [f"g{number}" for number in range(10)]
soak = pytest.mark.skipif(not os.environ.get("TONNAGE_SOAK"), reason="takes minutes: make soak")


@pytest.fixture
def place(clear_slurm: SlurmCluster, tmp_path: Path) -> SlurmPlace:
    return SlurmPlace(tmp_path / "w", clear_slurm)


def running(place: SlurmPlace) -> list[str]:
    return [number for number, state in place.queued().items() if state == "RUNNING"]


def waiting(place: SlurmPlace) -> list[str]:
    return [number for number, state in place.queued().items() if state == "PENDING"]


def test_ctrl_c_once_cancels_what_waits_and_lets_finish_what_runs(place: SlurmPlace) -> None:
    gates(place, NAMES)
    with place.begin("run") as engine:
        place.when(lambda: len(running(place)) == 8 and len(waiting(place)) == 2, "eight run and two wait", engine)
        engine.send_signal(signal.SIGINT)
        place.when(lambda: not waiting(place), "waiting ones are cancelled", engine)
        assert len(running(place)) == 8
        place.let_go(*NAMES)
        said = place.ends(engine, 130)
    assert "3 tasks remaining" in said
    assert len(place.done()) == 8
    assert [row.outcome for row in place.rows()].count(Outcome.CANCELLED) == 2
    assert place.call("run").status == 0
    place.check_all()


@pytest.mark.parametrize(
    "how", [pytest.param("twice", marks=soak), "terminated", pytest.param("stop --now", marks=soak)]
)
def test_ctrl_c_twice_and_sigterm_cancel_all(how: str, place: SlurmPlace) -> None:
    gates(place, NAMES[:9])
    with place.begin("run") as engine:
        place.when(lambda: len(running(place)) == 8, "eight run", engine)
        if how == "twice":
            engine.send_signal(signal.SIGINT)
            time.sleep(0.2)
            engine.send_signal(signal.SIGINT)
        elif how == "terminated":
            engine.terminate()
        else:
            assert place.call("stop", "last", "--now").status == 0
        place.ends(engine, 130 if how == "twice" else 143)
    assert place.queued() == {}
    assert {row.outcome for row in place.rows()} == {Outcome.CANCELLED}
    place.let_go(*NAMES)
    assert place.call("run").status == 0
    place.check_all()


@pytest.mark.parametrize("pack", ["per-task", pytest.param("one-job", marks=soak)])
def test_a_closed_terminal_leaves_batch_jobs_alone(pack: str, place: SlurmPlace) -> None:
    gates(place, NAMES[:3])
    with place.begin("run", "--pack", pack) as engine:
        place.when(lambda: all(map(place.node_of, NAMES[:3])), "all run", engine)
        before = set(place.queued())
        engine.send_signal(signal.SIGHUP)
        place.ends(engine, 129)
    assert set(place.queued()) == before
    with place.begin("run", "--pack", pack) as engine:
        place.when(lambda: "resumes" in place.runs()[0].log.read_text(), "it resumes", engine)
        place.let_go(*NAMES)
        place.ends(engine)
    place.check_all()
    assert {row.outcome for row in place.rows()} == {Outcome.DONE}


def slow_sbatch(folder: Path, *, before: float, after: float) -> Path:
    """Put an sbatch on the PATH that takes its time, as at sites where it is a script."""
    folder.mkdir()
    script = folder / "sbatch"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *--test-only*) exec /usr/bin/sbatch "$@";; esac\n'
        f"touch {folder}/called\nsleep {before}\n"
        f'said=$(/usr/bin/sbatch "$@") || exit\ntouch {folder}/submitted\nsleep {after}\necho "$said"\n'
    )
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("pack", "moment"),
    [
        ("per-task", "submitted"),
        ("one-job", "called"),
        pytest.param("per-task", "called", marks=soak),
        pytest.param("one-job", "submitted", marks=soak),
        pytest.param("per-task", "unwritten", marks=soak),
        pytest.param("one-job", "unwritten", marks=soak),
    ],
)
def test_an_engine_killed_while_sbatch_answers_submits_nothing_twice(
    pack: str, moment: str, place: SlurmPlace, tmp_path: Path
) -> None:
    place.flow([("a", [], Does(0.1)), ("b", [], Does(0.1)), ("c", ["a", "b"], Does(0.1))])
    slow = slow_sbatch(tmp_path / "bin", before=1, after=1)
    path = {"PATH": f"{slow}:{os.environ['PATH']}"}
    with place.begin("run", "--pack", pack, env=place.environment | path) as engine:
        place.when((slow / ("submitted" if moment == "submitted" else "called")).exists, "sbatch is called", engine)
        kill(engine.pid)
    if moment == "unwritten":  # as if it had been killed a moment before
        (place.runs()[0].batches / "1" / "script").unlink()
    assert [job.native for job in place.jobs()] == [None]
    said = place.call("run", "--pack", pack)
    assert said.status == 0, said
    place.check_all()
    assert {row.outcome for row in place.rows()} == {Outcome.DONE}


@soak
def test_a_controller_that_is_down_while_submitting_is_waited_for(place: SlurmPlace) -> None:
    place.flow([*map(gate, NAMES[:1]), ("a", NAMES[:1], Does(0.1)), ("b", ["a"], Does(0.1))])
    with place.begin("run") as engine:
        place.when(lambda: place.node_of(NAMES[0]) is not None, "the first runs", engine)
        place.cluster.stop_controller()
        place.let_go(NAMES[0])
        place.when(lambda: len(place.jobs()) == 2, "the second is written down", engine)
        place.cluster.start_controller()
        place.ends(engine)
    place.check_all()
    assert {row.outcome for row in place.rows()} == {Outcome.DONE}


@soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_ends_when_it_is_told_to_while_the_controller_is_down(number: signal.Signals, place: SlurmPlace) -> None:
    """It ends as soon as the controller is back, and what was never submitted is not submitted then."""
    place.flow([gate("first"), gate("other"), ("a", ["first"], Does(0.1))])
    with place.begin("run") as engine:
        place.when(lambda: all(map(place.node_of, ("first", "other"))), "two run", engine)
        place.cluster.stop_controller()
        place.let_go("first")
        place.when(lambda: len(place.jobs()) == 2, "a third is written down", engine)
        engine.send_signal(number)
        time.sleep(3)
        place.cluster.start_controller()
        if number == signal.SIGINT:
            place.when(lambda: place.jobs()[-1].ended is not None, "the third is withdrawn", engine)
            place.let_go("other")
        place.ends(engine, 128 + number)
    place.when(lambda: place.queued() == {}, "the controller has heard of all ends")
    assert place.outcomes()["a"] == ["cancelled"]
    place.let_go("other")
    assert place.call("run").status == 0
    place.check_all()


def test_a_controller_that_has_just_started_is_no_reason_to_give_up(place: SlurmPlace) -> None:
    place.flow([("a", [], Does())])
    place.cluster.stop_controller()
    place.cluster.start_controller()
    assert "unknown" in place.cluster.states().values()
    said = place.call("run")
    assert said.status == 0, said
    place.check_all()


def refused(place: SlurmPlace, *options: str, **changes: object) -> str:
    """Call `run` where it cannot work; return the one line that says why."""
    said = place.call("run", *options, **changes)
    assert said.status == 2, said
    assert place.queued() == {}
    assert not list((place.folder / ".tonnage").glob("runs/*")), "a run was left behind"
    lines = [line for line in said.stderr.splitlines() if line.startswith("tonnage: ")]
    assert len(lines) == 1, said.stderr
    return lines[0]


def test_what_cannot_run_is_refused_at_once(place: SlurmPlace, tmp_path: Path) -> None:
    place.flow([("a", [], Does())])
    no_slurm = place.environment | {"PATH": str(tmp_path)}
    assert "Slurm is not available on this machine" in refused(place, env=no_slurm)
    assert 'no such partition: "mian"' in refused(place, "--partition", "mian")
    place.flow([("a", [], Does(request=Amounts.of(memory=4e9)))])
    assert 'task "a" requests 4' in refused(place)
    place.flow([("a", [], Does(request=Amounts.of(cores=8.0)))])
    assert 'task "a" requests 8' in refused(place)
