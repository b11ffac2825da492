"""``tonnage status`` tells what runs from what waits in a queue, and both from what waits for others."""

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.command_line import Call
from tonnage.jobs import Outcome
from tonnage.run.batch_jobs import BatchJob, BatchJobs
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.folders import RUNS, Lock, RunFolder
from tonnage.run.journal import Journal

NOW = 1_700_000_000.25
ALONE = BatchJob(id=1, name="j1", native="71", packed=False, first_attempt=1, attempts=1, tasks=3, submitted=NOW)
PACKED = BatchJob(id=2, name="j2", native="72", packed=True, first_attempt=90, attempts=9, tasks=4, submitted=NOW)


class Made:
    """A run of ten tasks that somebody executes, of which one is done and one has failed."""

    def __init__(self, folder: Path, on: str) -> None:
        self.folder = RunFolder(folder / RUNS / "r")
        self.folder.make()
        self.lock = Lock(self.folder)
        self.journal = Journal(self.folder.journal)
        self.jobs = BatchJobs(self.journal)
        self.journal.note({"on": on})
        self.journal.take_tasks([(f"t{number}", "a", b"") for number in range(10)])
        for attempt, outcome, state in ((51, Outcome.DONE, State.DONE), (52, Outcome.FAILED, State.FAILED)):
            self.start(attempt, task=attempt - 43)
            end = Ended(attempt=attempt, outcome=outcome, started=NOW, ended=NOW + 1)
            self.journal.ended(end, Settled(attempt - 43, state))

    def start(self, attempt: int, task: int, machine: int = 0, submitted: float | None = None) -> None:
        """Note an attempt that starts, or that is submitted."""
        self.journal.started([Start(attempt, task, 1, machine, (), math.nan)], NOW, submitted=submitted)


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Made]:
    found = Made(tmp_path, request.param)
    with closing(found.journal):
        yield found
    found.lock.release()


def told(made: Made, call: Call) -> tuple[str, dict[str, int]]:
    """Return what status says in its second line, and its counts."""
    made.journal.commit()
    counts = call("status", made.folder.path, "--json").facts["counts"]
    return call("status", made.folder.path).stdout.splitlines()[1].strip(), counts


@pytest.mark.parametrize("made", ["local"], indirect=True)
def test_on_one_machine_what_has_not_begun_waits(made: Made, command_line: Call) -> None:
    made.start(1, 0)
    made.start(2, 1)
    line, counts = told(made, command_line)
    assert line.startswith("1 of 10 tasks done, 2 running, 6 waiting, 1 failed, ")
    assert counts == {"done": 1, "failed": 1, "running": 2, "queued": 0, "waiting": 6}


@pytest.mark.parametrize("made", ["slurm"], indirect=True)
def test_a_task_that_is_a_batch_job_runs_when_it_was_seen_to(made: Made, command_line: Call) -> None:
    made.jobs.add(ALONE)
    for attempt in (1, 2, 3):
        made.start(attempt, attempt - 1, machine=1, submitted=NOW)
    assert told(made, command_line)[1] == {"done": 1, "failed": 1, "running": 0, "queued": 3, "waiting": 5}
    made.jobs.started(1, NOW + 5)
    made.journal.runs(2, math.floor(NOW))  # a scheduler counts whole seconds
    line, counts = told(made, command_line)
    assert line.startswith("1 of 10 tasks done, 1 running, 2 queued, 5 waiting, 1 failed, ")
    assert counts == {"done": 1, "failed": 1, "running": 1, "queued": 2, "waiting": 5}
    facts = command_line("status", made.folder.path, "--json").facts
    assert [one["task"] for one in facts["running"]] == ["t1"]
    assert [(one["task"], one["submitted"]) for one in facts["queued"]] == [("t0", NOW), ("t2", NOW)]
    assert facts["running"][0]["started"] > NOW


@pytest.mark.parametrize("made", ["slurm"], indirect=True)
def test_tasks_of_a_packed_batch_job_are_queued_until_it_runs(made: Made, command_line: Call) -> None:
    made.jobs.add(PACKED)
    line, counts = told(made, command_line)
    assert line.startswith("1 of 10 tasks done, 0 running, 4 queued, 4 waiting, 1 failed, ")
    assert counts == {"done": 1, "failed": 1, "running": 0, "queued": 4, "waiting": 4}
    made.jobs.started(2, NOW + 5)
    made.start(90, 0, machine=2, submitted=NOW)  # in the same moment, by a clock of whole seconds
    assert told(made, command_line)[1] == {"done": 1, "failed": 1, "running": 1, "queued": 0, "waiting": 7}


@pytest.mark.parametrize("made", ["htcondor"], indirect=True)
def test_on_a_pool_idle_jobs_are_queued(made: Made, command_line: Call) -> None:
    made.jobs.add(PACKED)
    made.jobs.started(2, NOW)
    made.start(90, 0, machine=2, submitted=NOW)
    made.journal.note({"queued": "3"})
    assert told(made, command_line)[1] == {"done": 1, "failed": 1, "running": 1, "queued": 3, "waiting": 4}


@pytest.mark.parametrize("made", ["slurm"], indirect=True)
def test_batch_jobs_are_queued_or_run(made: Made, command_line: Call) -> None:
    made.jobs.add(ALONE)
    made.jobs.add(PACKED)
    made.jobs.started(2, NOW + 5)
    made.journal.commit()
    said = command_line("status", made.folder.path).stdout
    assert "2 batch jobs, 2 not known to have finished: 1 running, 1 queued" in said
    lines = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.startswith("7")}
    assert lines == {"71": "queued", "72": "running"}
    facts = command_line("status", made.folder.path, "--json").facts
    assert [one["state"] for one in facts["batch_jobs"]] == ["queued", "running"]


@pytest.mark.parametrize("made", ["slurm"], indirect=True)
def test_where_nobody_executes_it_nothing_is_known_to_run_or_wait(made: Made, command_line: Call) -> None:
    made.jobs.add(ALONE)
    made.start(1, 0, machine=1, submitted=NOW)
    made.journal.commit()
    made.lock.release()
    facts = command_line("status", made.folder.path, "--json").facts
    assert (facts["running"], facts["queued"]) == ([], [])
    assert facts["counts"] == {"done": 1, "failed": 1, "running": None, "queued": None, "waiting": None}
    assert "1 not known to have finished" in command_line("status", made.folder.path).stdout
    made.lock = Lock(made.folder)
