"""Attempts between machines: what was an attempt is one again, and what is none is refused, by name."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archive.attempts import attempts
from tonnage.archive import record
from tonnage.archive.codec import LONGEST, attempt_of, brief_record, parsed, schema, text_of
from tonnage.errors import InputError
from tonnage.jobs import Attempt

identities = st.none() | st.binary(min_size=16, max_size=16)


@given(attempts, identities)
def test_an_attempt_comes_out_of_its_record_as_it_went_in(attempt: Attempt, identity: bytes | None) -> None:
    sent = replace(attempt, identity=identity)
    assert attempt_of(parsed(text_of(record(sent)))) == replace(sent, row="")


@given(attempts)
def test_a_brief_record_is_the_same_attempt_without_files_and_the_words_of_its_log(attempt: Attempt) -> None:
    expected = replace(attempt, row="", inputs=(), outputs=(), raw={})
    assert attempt_of(parsed(text_of(brief_record(attempt)))) == expected


@given(attempts)
def test_every_record_is_as_its_description_says(attempt: Attempt) -> None:
    jsonschema.validate(json.loads(text_of(record(attempt))), schema())


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(list(record(Attempt()))), _values, max_size=4))
def test_what_is_taken_and_what_is_described_are_the_same(found: dict[str, Any]) -> None:
    """Whatever the description allows is taken; what is taken, but for NaN and the like, it allows."""
    allowed = jsonschema.Draft202012Validator(schema()).is_valid(found)
    try:
        attempt_of(found)
    except InputError:
        assert not allowed or not _finite(found)
    else:
        assert allowed


def _finite(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory", -1),
        ("memory", 1.5),
        ("memory", "4GB"),
        ("memory", True),
        ("memory", 2**63),
        ("memory", float("nan")),
        ("cores", float("inf")),
        ("cores", 10**400),
        ("cores", -0.1),
        ("wall_time", []),
        ("ended", float("-inf")),
        ("outcome", "exploded"),
        ("outcome", ["done"]),
        ("exhausted", "patience"),
        ("identity", "g" * 32),
        ("identity", "0" * 31),
        ("identity", "0" * 32 + "\n"),
        ("number", None),
        ("exit_status", 2**63),
        ("category", 7),
        ("category", "x" * (LONGEST + 1)),
        ("inputs", "a.txt"),
        ("inputs", [1]),
        ("fields", {"a": 1}),
        ("fields", []),
        ("raw", []),
        ("raw", {"a": {"b": [float("inf")]}}),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_the_name_of_its_key(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{key}: expected .*, not "):
        attempt_of({"category": "align", key: value})


def test_a_key_that_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match='"colour" is not a key'):
        attempt_of({"colour": "red"})


@pytest.mark.parametrize("value", [None, [], "attempt", 3])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="an attempt must be a JSON object"):
        attempt_of(value)


def test_what_is_nested_too_deeply_is_refused() -> None:
    nested: dict[str, object] = {}
    for _ in range(60):
        nested = {"a": nested}
    with pytest.raises(InputError, match=r"^raw: expected an object nested at most 50 levels deep"):
        attempt_of({"raw": nested})


@pytest.mark.parametrize(
    "text", ["", "{", '{"memory": NaN}', '{"cores": Infinity}', "[" * 200_000, "1" * 5_000, b"\xff\xfe{}", b"\xff"]
)
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(InputError):
        parsed(text)
