"""Long work for pages: done one piece after the other, in processes of their own, and never lost sight of."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.waiting import until
from tonnage.errors import InputError, ServerBusyError
from tonnage.serve.background_jobs import BackgroundJob, BackgroundJobs, State, Tell


@pytest.fixture(autouse=True)
def work_begins_at_once() -> None:
    """Work begins as it does outside of tests."""


def add(tell: Tell, *numbers: int) -> Mapping[str, object]:
    for place, _ in enumerate(numbers):
        tell(place, len(numbers), "adding")
    return {"sum": sum(numbers), "process": os.getpid()}


def refuse(tell: Tell) -> Mapping[str, object]:
    raise InputError("no such thing", hint="try another")


def fall(tell: Tell) -> Mapping[str, object]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def wait(tell: Tell, mark: str) -> Mapping[str, object]:
    written = Path(f"{mark}.new")
    written.write_text(str(os.getpid()))
    written.rename(mark)  # so that the mark has its number as soon as it can be seen
    tell(1, 2, "waiting")
    time.sleep(600)
    return {}


@pytest.fixture
def background_jobs() -> Iterator[BackgroundJobs]:
    made = BackgroundJobs()
    yield made
    made.close()


def eventually(found: Callable[[], BackgroundJob | None], state: State) -> BackgroundJob:
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        piece = found()
        assert piece is not None
        if piece.state is state:
            return piece
        assert not piece.ended, piece
        time.sleep(0.02)
    raise AssertionError(f"it did not become {state}: {found()}")


def test_work_is_done_in_another_process_and_its_result_is_kept(background_jobs: BackgroundJobs) -> None:
    piece = background_jobs.take("sum", add, 1, 2, 3)
    done = eventually(lambda: background_jobs.piece(piece.id), State.DONE)
    assert done.result is not None
    assert done.result["sum"] == 6
    assert done.result["process"] != os.getpid()
    assert (done.done, done.total) == (2, 3)


def test_what_is_wrong_is_said_with_its_hint(background_jobs: BackgroundJobs) -> None:
    piece = background_jobs.take("refusal", refuse)
    failed = eventually(lambda: background_jobs.piece(piece.id), State.FAILED)
    assert (failed.error, failed.hint) == ("no such thing", "try another")


def test_work_whose_process_is_killed_has_failed_and_the_next_is_done(background_jobs: BackgroundJobs) -> None:
    bad, good = background_jobs.take("fall", fall), background_jobs.take("sum", add, 4)
    assert eventually(lambda: background_jobs.piece(bad.id), State.FAILED).error == "it ended unexpectedly"
    eventually(lambda: background_jobs.piece(good.id), State.DONE)


def test_work_can_be_stopped_while_it_goes_on_and_while_it_waits(
    background_jobs: BackgroundJobs, tmp_path: Path
) -> None:
    ended: list[str] = []
    going = background_jobs.take("wait", wait, str(tmp_path / "a"), afterwards=lambda: ended.append("going"))
    waiting = background_jobs.take("wait", wait, str(tmp_path / "b"), afterwards=lambda: ended.append("waiting"))
    eventually(lambda: background_jobs.piece(going.id), State.WORKING)
    until((tmp_path / "a").exists)
    background_jobs.stop(waiting.id)
    background_jobs.stop(going.id)
    last = background_jobs.take("sum", add, 5)
    eventually(lambda: background_jobs.piece(last.id), State.DONE)
    found = [background_jobs.piece(one.id) for one in (going, waiting)]
    assert [one.state for one in found if one] == [State.STOPPED, State.STOPPED]
    assert ended == ["going", "waiting"]
    assert not (tmp_path / "b").exists()
    assert not Path("/proc", (tmp_path / "a").read_text()).exists()


def test_more_than_a_little_work_is_not_taken(background_jobs: BackgroundJobs, tmp_path: Path) -> None:
    first = background_jobs.take("wait", wait, str(tmp_path / "a"))
    eventually(lambda: background_jobs.piece(first.id), State.WORKING)
    with pytest.raises(ServerBusyError):
        for _ in range(100):
            background_jobs.take("sum", add, 1)


def test_nothing_goes_on_after_the_end(tmp_path: Path) -> None:
    background_jobs = BackgroundJobs()
    piece = background_jobs.take("wait", wait, str(tmp_path / "a"))
    until((tmp_path / "a").exists)
    background_jobs.close()
    found = background_jobs.piece(piece.id)
    assert found is not None
    assert found.state is State.STOPPED
    assert not Path("/proc", (tmp_path / "a").read_text()).exists()
    with pytest.raises(ServerBusyError):
        background_jobs.take("sum", add, 1)


def test_unknown_work_is_none(background_jobs: BackgroundJobs) -> None:
    assert background_jobs.piece("nobody") is None
    assert background_jobs.stop("nobody") is None
