"""Questions that may not take for ever, and what tells that something else is stored."""

import time

import pytest
from sqlalchemy import text

from tests.archive.conftest import Store
from tests.deadlines import HANGS
from tonnage.archive import Archive, Search, find, forget
from tonnage.archive.engine import connect
from tonnage.archive.maintenance import set_labels
from tonnage.archive.query_timeout import shared, within
from tonnage.errors import TonnageError
from tonnage.jobs import Attempt

_LONG = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "postgresql": "SELECT pg_sleep(600)",
}


def test_a_question_that_takes_too_long_is_given_up_and_the_next_is_answered(archive: Archive) -> None:
    archive.count()  # there is a connection already
    shared(archive.engine)
    with (
        pytest.raises(TonnageError, match="took too long"),
        within(0.1),
        connect(archive.engine) as connection,
    ):
        connection.execute(text(_LONG[archive.engine.dialect.name])).all()
    with within(60):
        assert archive.count() == 0


def test_a_connection_of_many_keeps_little_in_memory(archive: Archive) -> None:
    if not archive.on_sqlite:
        pytest.skip("a server keeps memory of its own")
    shared(archive.engine)
    with connect(archive.engine) as connection:
        assert connection.execute(text("PRAGMA cache_size")).scalar_one() == -32 * 1024


def test_the_state_of_an_archive_changes_with_what_is_stored(archive: Archive, store: Store) -> None:
    def changed(before: tuple[object, ...]) -> tuple[object, ...]:
        deadline = time.monotonic() + HANGS
        while archive.state() == before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert archive.state() != before
        return archive.state()

    empty = archive.state()
    assert archive.state() == empty
    store([Attempt(row=f"{number}", category="align") for number in range(3)])
    full = changed(empty)
    identity = next(iter(find(archive))).identity
    assert identity is not None
    set_labels(archive, {identity: "large"})
    labelled = changed(full)
    forget(archive, Search(label="large"))
    changed(labelled)
