"""Random attempts for property tests."""

from hypothesis import strategies as st

from tests.strategies import amounts
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.units import Bytes

__all__ = ["attempts"]

# What databases stumble over: quotes, letters outside of ASCII, line breaks, SQL.
_texts = st.text(st.sampled_from(list("ab 0'\"%_\\;-é漢😀\n\t")), min_size=1, max_size=12) | st.sampled_from(
    ["'; DROP TABLE attempts; --", "%", "_", "NULL", "a" * 300]
)
_maybe_text = st.none() | _texts
_moment = st.none() | st.floats(0, 4e9).map(lambda value: round(value, 3))
_json = st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts, st.lists, max_leaves=4)


def _four(value: Amounts) -> Amounts:
    """Of requests and allocations, the archive keeps four resources."""
    return Amounts(value.cores, value.memory, value.disk, value.wall_time)


attempts = st.builds(
    Attempt,
    native_id=st.none() | st.uuids().map(str),
    row=_texts,
    run=_maybe_text,
    workflow=_maybe_text,
    workflow_checksum=st.none() | st.sampled_from(["abc", "def"]),
    task=_maybe_text,
    number=st.integers(1, 9),
    category=_maybe_text,
    label=_maybe_text,
    command=_maybe_text,
    executable=_maybe_text,
    user=_maybe_text,
    host=_maybe_text,
    submitted=_moment,
    started=_moment,
    ended=_moment,
    outcome=st.none() | st.sampled_from(Outcome),
    exhausted=st.none() | st.sampled_from(Resource),
    exit_status=st.none() | st.integers(-1, 255),
    signal=st.none() | st.integers(1, 64),
    requested=amounts.map(_four),
    allocated=amounts.map(_four),
    used=amounts,
    memory_method=st.none() | st.sampled_from(["pss", "rss"]),
    lower_bounds=st.sampled_from([(), ("memory",), ("memory", "cpu_time")]),
    input_bytes=st.none() | st.integers(0, 2**60).map(Bytes),
    inputs=st.lists(_texts, unique=True, max_size=2).map(lambda names: tuple(sorted(names))),
    outputs=st.lists(_texts, unique=True, max_size=2).map(lambda names: tuple(sorted(names))),
    fields=st.dictionaries(_texts, _texts, max_size=2),
    raw=st.dictionaries(_texts, _json, max_size=2),
)
