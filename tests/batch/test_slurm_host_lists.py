"""Lists of hosts and elements in Slurm's abbreviated notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.batch.slurm.host_lists import chunks, elements, expanded, shortened
from tonnage.errors import TonnageError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("n1", ("n1",)),
        ("n[1-3,5]", ("n1", "n2", "n3", "n5")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("gpu1,n[1-2],login", ("gpu1", "n1", "n2", "login")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("cn-[1,3].site", ("cn-1.site", "cn-3.site")),
    ],
)
def test_lists_of_hosts(text: str, names: tuple[str, ...]) -> None:
    assert expanded(text) == names


@pytest.mark.parametrize(
    ("number", "single"),
    [
        ("7", ("7",)),
        ("7_3", ("7_3",)),
        ("42_[0-2,6,10-11]", ("42_0", "42_1", "42_2", "42_6", "42_10", "42_11")),
        ("4_[2-5%2]", ("4_2", "4_3", "4_4", "4_5")),
        ("4_[1-9:4]", ("4_1", "4_5", "4_9")),
        ("5+0", ("5+0",)),
    ],
)
def test_elements_of_an_array(number: str, single: tuple[str, ...]) -> None:
    assert elements(number) == single


@pytest.mark.parametrize(
    "text", ["n[x-y]", "n[1-99999999]", "n[1-1000]m[1-1000]o[1-10]", "n[1-99999]m[1-99999]o[1-99999]"]
)
def test_a_list_that_cannot_be_right_is_an_error(text: str) -> None:
    with pytest.raises(TonnageError):
        expanded(text)


@given(st.sets(st.integers(0, 500), min_size=1))
def test_what_was_shortened_is_expanded_again(numbers: set[int]) -> None:
    assert elements(f"7_[{shortened(numbers)}]") == tuple(f"7_{number}" for number in sorted(numbers))
    assert expanded(f"n[{shortened(numbers)}]") == tuple(f"n{number}" for number in sorted(numbers))


@given(st.lists(st.text("0123456789_", min_size=1, max_size=12)), st.integers(1, 50))
def test_chunks_hold_everything_in_order(items: list[str], letters: int) -> None:
    parts = list(chunks(items, letters))
    assert [item for part in parts for item in part] == items
    assert all(len(part) == 1 or len(",".join(part)) <= letters for part in parts)
