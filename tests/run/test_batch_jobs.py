"""Batch jobs in the journal: written before they are sent, found again, and with numbers for their attempts."""

from pathlib import Path

import pytest

from tonnage.jobs import Outcome
from tonnage.run.batch_jobs import BatchJob, BatchJobs, batch_jobs
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.journal import Journal, Reader


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "journal.db")
    made.take_tasks([("a", "task", b"1"), ("b", "task", b"2")])
    return made


def job(number: int, *, packed: bool = True, first: int = 1, attempts: int = 20) -> BatchJob:
    return BatchJob(
        id=number,
        name=f"tonnage-{number}",
        packed=packed,
        first_attempt=first,
        attempts=attempts,
        tasks=2,
        nodes=3,
        seconds=60.0,
        reason="because",
        submitted=5.0,
    )


def test_what_becomes_of_a_batch_job_is_in_the_journal(journal: Journal) -> None:
    jobs = BatchJobs(journal)
    jobs.add(job(jobs.next_id()))
    journal.commit()
    assert jobs.open() == [job(1)]
    jobs.accepted(1, "4711")
    jobs.started(1, 6.0)
    assert [(one.native, one.started) for one in jobs.open()] == [("4711", 6.0)]
    jobs.ended(1, 7.0, "its time limit was reached")
    journal.commit()
    assert jobs.open() == []
    assert jobs.next_id() == 2
    reader = Reader(journal.path)
    (found,) = batch_jobs(reader)
    assert (found.ended, found.note, found.reason) == (7.0, "its time limit was reached", "because")
    reader.close()


def test_numbers_that_are_kept_for_a_batch_job_are_nobody_elses(journal: Journal) -> None:
    jobs = BatchJobs(journal)
    jobs.add(job(1, first=journal.next_attempt(), attempts=20))
    assert journal.next_attempt() == 21
    jobs.add(job(2, first=21, attempts=10))
    assert journal.next_attempt() == 31


def test_the_archive_waits_for_attempts_of_which_nobody_has_heard(journal: Journal) -> None:
    jobs = BatchJobs(journal)
    jobs.add(job(1, first=1, attempts=20))
    jobs.add(job(2, first=21, attempts=20))
    journal.started([Start(21, 1, 1, 2, (), 0.0)], 5.0)
    journal.ended(Ended(attempt=21, outcome=Outcome.DONE, ended=6.0), Settled(1, State.DONE))
    assert journal.settled() == 0  # an attempt 1 may have ended before it
    jobs.ended(1, 7.0, "")
    jobs.ended(2, 7.0, "")
    assert journal.settled() == 21
