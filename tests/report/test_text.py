"""Numbers and names in the words of a page."""

import pytest

from tonnage.jobs import Resource
from tonnage.report.figures import Palette, plain
from tonnage.report.text import hours, ladder_text, percent, said, saved
from tonnage.wording import counted


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0.0, "0 GB*h"),
        (3.6e9, "1 MB*h"),
        (1.8e11, "50 MB*h"),
        (3.6e12, "1 GB*h"),
        (1.2345 * 3.6e12, "1.23 GB*h"),
        (12345 * 3.6e12, "12,345 GB*h"),
        (3.6e7, "10 kB*h"),
    ],
)
def test_amounts_times_hours_need_no_powers_of_ten(amount: float, told: str) -> None:
    assert hours(Resource.MEMORY, amount) == told


@pytest.mark.parametrize(
    ("part", "told"),
    [(None, ""), (0.0, "0%"), (1e-9, "0.1%"), (0.5, "50%"), (0.9951, "99.5%"), (0.999999, "99.9%"), (1.0, "100%")],
)
def test_what_is_not_all_is_not_printed_as_all(part: float | None, told: str) -> None:
    assert percent(part) == told


@pytest.mark.parametrize(("given", "other", "told"), [(25, 100, "75% less"), (200, 100, "2 times as much"), (1, 0, "")])
def test_what_was_saved_is_said_against_another_way(given: float, other: float, told: str) -> None:
    assert saved(given, other) == told


def test_things_are_counted() -> None:
    assert [counted(number, "category") for number in (0, 1, 2000)] == [
        "0 categories",
        "1 category",
        "2,000 categories",
    ]


def test_a_long_ladder_is_cut_in_the_middle() -> None:
    ladder = tuple(number * 1e9 for number in range(1, 8))
    assert ladder_text(Resource.MEMORY, ladder) == "1 GB, then 2 GB, then 3 GB, then …, then 7 GB"


def test_what_all_names_begin_with_is_left_out() -> None:
    names = ["NFCORE_RNASEQ:RNASEQ:ALIGN:STAR", "NFCORE_RNASEQ:RNASEQ:FASTQC"]
    palette = Palette.of(names)
    assert [palette.short(name) for name in names] == ["ALIGN:STAR", "FASTQC"]
    assert palette.short("NFCORE_RNASEQ:RNASEQ:FASTQC (sample 1)") == "FASTQC (sample 1)"
    assert palette.short("another") == "another"


@pytest.mark.parametrize(
    "names", [["alone:in:the:world"], ["alignment-1", "alignment-2"], ["a:b", "a:c"], [], ["", "x"]]
)
def test_what_says_something_stays(names: list[str]) -> None:
    palette = Palette.of(names)
    assert [palette.short(name) for name in names] == [name or "(none)" for name in names]


def test_texts_of_users_are_cut_and_what_cannot_be_seen_is_marked() -> None:
    assert len(said("x" * 10_000)) < 310
    assert said("a\x1b[31m\nb") == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"
    assert plain("<b>&amp;") == "&lt;b&gt;&amp;amp;"
