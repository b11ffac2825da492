"""Searches as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.archive import Search
from tonnage.archive.search import search_of, written
from tonnage.errors import InputError
from tonnage.jobs import AMOUNTS, Outcome, Resource
from tonnage.logs.conditions import OPERATORS, Condition

_maybe = st.none() | st.text(min_size=1, max_size=20)
_moments = st.none() | st.floats(0, 4e9).map(lambda value: round(value, 3))


@st.composite
def _conditions(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from([*AMOUNTS, "input_bytes", "exit_status"]))
    whole = name not in AMOUNTS or AMOUNTS[name][1].unit in ("bytes", "processes")
    numbers = st.integers(0, 2**52).map(float) if whole else st.floats(0, 1e9)
    return Condition(name, draw(st.sampled_from(list(OPERATORS))), draw(numbers))


_searches = st.builds(
    Search,
    workflow=_maybe,
    run=_maybe,
    user=_maybe,
    category=st.just("") | _maybe,
    label=_maybe,
    task=_maybe,
    command=_maybe,
    executable=_maybe,
    input=_maybe,
    output=_maybe,
    file=_maybe,
    exit_status=st.none() | st.integers(-1, 255),
    outcome=st.none() | st.sampled_from(Outcome),
    exhausted=st.none() | st.sampled_from(Resource),
    since=_moments,
    until=_moments,
    source=_maybe,
    where=st.lists(_conditions(), max_size=3).map(tuple),
    fields=st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.from_regex(r"\S{1,9}", fullmatch=True)),
)


@given(_searches)
def test_a_search_that_is_written_down_is_read_as_the_same(search: Search) -> None:
    texts: dict[str, object] = {"where": [], "field": []}
    for name, text in written(search):
        if name in ("where", "field"):
            texts[name] = [*texts[name], text]  # type: ignore[misc]
        else:
            texts[name] = int(text) if name == "exit_status" else text
    assert search_of(**texts) == search  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"since": "soon"}, {"where": ["memory>lots"]}, {"field": ["project"]}])
def test_what_makes_no_sense_is_an_error_in_the_users_words(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        search_of(**wrong)  # type: ignore[arg-type]
