"""The ledger of a packed batch job: what is read is what was written, also while it is written and after crashes."""

from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import amounts, decisions
from tonnage.errors import TonnageError
from tonnage.jobs import Outcome, Resource
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.pilot.ledger import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    Ledger,
    LedgerReader,
    MachineLost,
    PilotFinished,
    TaskRefused,
)

TASKS, NODES = ("align", "mêrge\n2", "stats\udcff"), ("n1", "n2")

texts = st.text(max_size=10)
moments = st.floats(0, 2e9)
starts = st.builds(
    Start,
    attempt=st.integers(1, 10**6),
    task=st.integers(0, 2),
    number=st.integers(1, 9),
    machine=st.integers(0, 1),
    decisions=decisions(),
    input_bytes=st.just(nan) | st.floats(0, 1e15),
)
ends = st.builds(
    Ended,
    attempt=st.integers(1, 10**6),
    outcome=st.sampled_from(Outcome),
    used=amounts,
    exhausted=st.none() | st.sampled_from(Resource),
    hopeless=st.booleans(),
    killed=st.booleans(),
    started=st.none() | moments,
    ended=st.none() | moments,
    exit_status=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    host=st.none() | texts,
    memory_method=st.none() | texts,
    lower_bounds=st.lists(texts, max_size=2).map(tuple),
    stdout=st.none() | texts,
    stderr=st.none() | texts,
    note=texts,
)
settleds = st.builds(Settled, st.integers(0, 2), st.sampled_from(State), texts)
entries = st.one_of(
    st.builds(lambda start, now: AttemptStarted(TASKS[start.task], NODES[start.machine], now, start), starts, moments),
    st.builds(lambda end, settled: AttemptEnded(TASKS[settled.task], end, settled), ends, settleds),
    st.builds(lambda settled: TaskRefused(TASKS[settled.task], settled), settleds),
    st.builds(MachineLost, st.sampled_from(NODES), moments),
    st.builds(PilotFinished, texts, moments),
)


def note(ledger: Ledger, entry: Entry) -> None:
    match entry:
        case AttemptStarted():
            ledger.started([entry.start], entry.time)
        case AttemptEnded():
            ledger.ended(entry.end, entry.settled)
        case TaskRefused():
            ledger.refused(entry.settled)
        case MachineLost():
            ledger.machine_lost(NODES.index(entry.node), entry.time)
        case PilotFinished():
            ledger.finish(entry.reason, entry.time)


def same(entry: Entry) -> Entry:
    """Return an entry that equals itself: an unknown size does not."""
    if isinstance(entry, AttemptStarted) and isnan(entry.start.input_bytes):
        return replace(entry, start=replace(entry.start, input_bytes=-1.0))
    return entry


def one_entry(ledger: Ledger) -> None:
    ledger.started([Start(1, 0, 1, 0, (), nan)], 5.0)


@given(st.lists(st.lists(entries, max_size=4), max_size=4))
def test_what_is_read_is_what_was_written(groups: list[list[Entry]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "ledger")
        reader = LedgerReader(path)
        assert reader.new() == []
        ledger = Ledger(path, TASKS, NODES)
        for group in groups:
            for entry in group:
                note(ledger, entry)
            ledger.commit()
            assert list(map(same, reader.new())) == list(map(same, group))
            assert reader.new() == []
        ledger.close()
        assert len(LedgerReader(path).new()) == sum(map(len, groups))
        assert reader.skipped == 0


@given(st.lists(entries, min_size=1, max_size=5), st.data())
def test_any_piece_of_it_can_be_read(listed: list[Entry], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        whole, part = Path(folder, "whole"), Path(folder, "part")
        ledger = Ledger(whole, TASKS, NODES)
        for entry in listed:
            note(ledger, entry)
        ledger.commit()
        ledger.close()
        written = whole.read_bytes()
        reader, read = LedgerReader(part), []
        for cut in sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=4))):
            part.write_bytes(written[:cut])
            read += reader.new()
        part.write_bytes(written)
        read += reader.new()
        assert list(map(same, read)) == list(map(same, listed))
        assert reader.skipped == 0


def test_a_line_that_was_torn_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    first = Ledger(path, TASKS, NODES)
    one_entry(first)
    first.commit()
    first.close()
    path.write_bytes(path.read_bytes() + b'{"event": "sta')
    reader = LedgerReader(path)
    assert len(reader.new()) == 1
    second = Ledger(path, TASKS, NODES)
    one_entry(second)
    second.commit()
    second.close()
    assert len(reader.new()) == 1
    assert reader.skipped == 1


@given(st.binary(max_size=60))
def test_bytes_that_are_no_ledger_are_counted(rubbish: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "ledger")
        path.write_bytes(rubbish + b"\n")
        ledger = Ledger(path, TASKS, NODES)
        one_entry(ledger)
        ledger.commit()
        ledger.close()
        reader = LedgerReader(path)
        (entry,) = reader.new()
        assert isinstance(entry, AttemptStarted)
        assert reader.skipped == sum(bool(line) for line in rubbish.split(b"\n"))


def test_what_is_not_committed_is_not_there(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", TASKS, NODES)
    one_entry(ledger)
    assert LedgerReader(tmp_path / "ledger").new() == []
    ledger.close()


def test_a_ledger_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(TonnageError, match="No such file"):
        Ledger(tmp_path / "none" / "ledger", TASKS, NODES)
    ledger = Ledger(Path("/dev/full"), TASKS, NODES)
    one_entry(ledger)
    with pytest.raises(TonnageError, match="No space left"):
        ledger.commit()
    ledger.close()
