"""JSON logs in pieces: the values do not depend on where the pieces end."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.logs.json_values import parse, values
from tonnage.logs.log import Log

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab\\"é\n', max_size=3), inner, max_size=3),
    max_leaves=8,
)
records = st.lists(st.dictionaries(st.sampled_from(["a", "jobs", "c"]), json_values, max_size=3), max_size=5)
indents = st.sampled_from([None, 0, 2])


def log(text: str, size: int = 2**20) -> Log:
    data = text.encode()
    return Log([data[at : at + size] for at in range(0, len(data), size)], Path("x.json"))


def found(text: str, *lists: str, size: int = 2**20) -> list[object]:
    return [value for _, value in values(log(text, size), *lists)]


@given(st.lists(json_values, max_size=6), indents, st.booleans(), st.integers(1, 40))
def test_a_list_gives_its_elements_wherever_the_pieces_end(
    written: list[object], indent: int | None, ascii_only: bool, size: int
) -> None:
    text = json.dumps(written, indent=indent, ensure_ascii=ascii_only)
    assert found(text, size=size) == json.loads(text)


@given(records, indents, st.sampled_from(["", "\n", " \r\n\t", ",\n"]), st.integers(1, 40))
def test_records_after_each_other_are_found_whatever_stands_between(
    written: list[dict[str, object]], indent: int | None, between: str, size: int
) -> None:
    text = between.join(json.dumps(record, indent=indent) for record in written)
    assert found(text, size=size) == written


@given(records, st.dictionaries(st.sampled_from(["meta", "errors"]), json_values), st.booleans(), st.integers(1, 40))
def test_a_list_within_an_object_is_entered(
    written: list[dict[str, object]], others: dict[str, object], last: bool, size: int
) -> None:
    top = {**others, "jobs": written} if last else {"jobs": written, **others}
    assert found(json.dumps(top, indent=1), "jobs", size=size) == written


@given(st.dictionaries(st.sampled_from(["meta", "errors"]), json_values), st.integers(1, 40))
def test_an_object_without_the_list_is_a_record(record: dict[str, object], size: int) -> None:
    assert found(json.dumps(record), "jobs", size=size) == [record]


@pytest.mark.parametrize("text", ['{"jobs": {"a": 1}}', '{"jobs": null}'])
def test_a_name_that_holds_no_list_is_not_entered(text: str) -> None:
    assert found(text, "jobs") == [json.loads(text)]


@pytest.mark.parametrize(
    "text", ["[1.5, -0.25, 1e+5, 12E-3, true, null, -7]", '["\\ud83d\\ude00", "a\\u00e9"]', "[ ]", ""]
)
def test_every_place_for_a_cut_is_as_good_as_any_other(text: str) -> None:
    expected = json.loads(text or "[]")
    data = text.encode()
    for cut in range(len(data) + 1):
        pieces = [data[:cut], data[cut:]]
        assert [value for _, value in values(Log(pieces, Path("x")))] == expected


def test_every_value_comes_with_the_line_on_which_it_begins() -> None:
    text = '[\n{"a": "x\\ny"},\n\n{"a":\n 1}, {"b": 2}\n,3]'
    for size in (1, 2, 7, 100):
        assert [line for line, _ in values(log(text, size))] == [2, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[1, 2", 1, "the file ends unexpectedly"),
        ('{"a": ', 1, "the file ends unexpectedly|is not JSON"),
        ("[1\n2]", 2, "expected a comma or ]"),
        ('[\n{"a" 1}]', 2, "is not JSON: Expecting ':' delimiter"),
        ("nonsense", 1, "is not JSON"),
        ("[" * 100_000, 1, "is not JSON"),
        ("9" * 5000, 1, "is not JSON"),
        ("[1]]", 1, "is not JSON"),
        ('["a\nb"]', 1, "Invalid control character"),
    ],
)
def test_damage_is_named_with_its_line(text: str, line: int, message: str) -> None:
    for size in (1, 1000, 2**20):
        with pytest.raises(InputError, match=message) as caught:
            found(text, size=size)
        assert caught.value.line == line
        if len(text) > 100:
            return  # letter by letter this would take long


@pytest.mark.parametrize("text", ['{"jobs" [1]}', '{"jobs": [1] 2}', "{1: 2}", '{"jobs": [1]', '{"jobs": [1], '])
def test_damage_around_the_list_is_named(text: str) -> None:
    for size in (1, 100):
        with pytest.raises(InputError, match=r"x\.json:1: "):
            found(text, "jobs", size=size)


def test_a_record_without_an_end_does_not_fill_the_memory() -> None:
    def pieces() -> Sequence[bytes]:
        return [b'["' + b"x" * 2**20, *[b"x" * 2**20] * 60]

    with pytest.raises(InputError, match="Unterminated string"):
        list(values(Log(pieces(), Path("x"))))


@pytest.mark.parametrize("half", ["\\ud800", "\\udc00x", "a\\uD83D"])
def test_half_a_character_becomes_a_question_mark(half: str) -> None:
    text = json.dumps(json.loads(f'{{"{half}": "{half}"}}'))
    for value in (*found(text), *found(f"[{text}]", size=1), parse(text)):
        assert "?" in json.dumps(value, ensure_ascii=False)
        assert json.dumps(value, ensure_ascii=False).encode()


@given(json_values)
def test_a_line_is_parsed_as_the_json_module_does(value: object) -> None:
    assert parse(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1 2", "9" * 5000])
def test_a_line_that_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)
