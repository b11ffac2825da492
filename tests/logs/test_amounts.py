"""Numbers, sizes, times and moments in logs."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import grows_linearly
from tonnage.errors import InputError
from tonnage.logs.amounts import binary_bytes, byte_unit, clock_seconds, is_unknown, moment, number, scaled, whole
from tonnage.logs.log import UnusableError

UNKNOWN = ["", " ", "-", "NA", "n/a", "NaN", "None", "null", "Unknown", "undefined"]
PARSERS: list[Callable[[str], float | None]] = [
    partial(number, what="x"),
    partial(whole, what="x"),
    partial(binary_bytes, what="x"),
    partial(clock_seconds, what="x"),
    partial(scaled, what="x", unit=1024),
    partial(moment, what="x", zone=UTC),
]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("text", UNKNOWN)
def test_what_says_that_nothing_is_known_is_unknown_everywhere(text: str, parse: Callable[[str], float | None]) -> None:
    assert is_unknown(text)
    assert parse(text) is None


@given(st.text(max_size=30) | st.from_regex(r"[-+.:0-9eEKMGTinaf T]{1,30}", fullmatch=True))
def test_any_text_is_an_amount_or_unusable(text: str) -> None:
    for parse in PARSERS:
        try:
            value = parse(text)
        except UnusableError as problem:
            assert problem.reason.startswith("x ")
            assert problem.found == text
        else:
            assert value is None or abs(value) < 2**62


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("text", ["9" * 5000, "1e999", "-inf", f"{'9' * 5000}:00:00", f"0:0:{'9' * 400}", "²", "\0"])
def test_what_cannot_be_right_is_unusable(text: str, parse: Callable[[str], float | None]) -> None:
    with pytest.raises(UnusableError):
        parse(text)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(("part", "end"), [("9", "x"), ("9", ":"), ("1:", ""), (" ", "x"), ("1.", "")])
def test_a_long_text_takes_as_long_as_it_is(part: str, end: str, parse: Callable[[str], float | None]) -> None:
    def parse_long(letters: int) -> None:
        with pytest.raises(UnusableError):
            parse(part * letters + end)

    assert grows_linearly(parse_long, 125_000)


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("12.5", 12.5), (" 7 ", 7), ("1e3", 1000)])
def test_numbers(text: str, value: float) -> None:
    assert number(text, "x") == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [("-3", "x is negative or not plausible"), ("inf", "x is negative or not plausible"), ("ten", "x is not a number")],
)
def test_numbers_that_are_unusable(text: str, reason: str) -> None:
    with pytest.raises(UnusableError) as caught:
        number(text, "x")
    assert (caught.value.reason, caught.value.found) == (reason, text)


@pytest.mark.parametrize(("value", "expected"), [("137", 137), ("-9", -9), (3, 3), (3.0, 3), (None, None), (" 5 ", 5)])
def test_whole_numbers_may_be_negative_and_need_not_be_text(value: object, expected: int | None) -> None:
    assert whole(value, "x") == expected


@pytest.mark.parametrize("value", ["1.5", [], {}, float("nan"), float("inf"), 2**70, "0x10"])
def test_what_is_no_whole_number_is_unusable(value: object) -> None:
    with pytest.raises(UnusableError):
        whole(value, "x")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("152.8 MB", round(152.8 * 2**20)),
        ("200M", 200 * 2**20),
        ("200m", 200 * 2**20),
        ("1 GiB", 2**30),
        ("1.5T", 3 * 2**39),
        ("77", 77),
        ("77 B", 77),
        ("77 bytes", 77),
        (".5K", 512),
    ],
)
def test_sizes_are_in_powers_of_1024(text: str, size: int) -> None:
    assert binary_bytes(text, "x") == size


def test_a_bare_size_is_in_the_unit_of_its_column() -> None:
    assert binary_bytes("3", "x", "K") == 3 * 1024
    assert binary_bytes("3 B", "x", "K") == 3
    assert binary_bytes("3M", "x", "K") == 3 * 2**20


@pytest.mark.parametrize("text", ["-1", "1.2.3", "5 parsec", "MB", "1e3"])
def test_what_is_no_size_is_unusable(text: str) -> None:
    with pytest.raises(UnusableError, match="x is not a size"):
        binary_bytes(text, "x")


@given(st.integers(0, 2**50), st.sampled_from([1, 1024, 10**6]))
def test_bare_numbers_count_units(count: int, unit: int) -> None:
    expected = count * unit
    if expected < 2**62:
        assert scaled(str(count), "x", unit) == pytest.approx(expected, rel=1e-15)
    else:
        with pytest.raises(UnusableError):
            scaled(str(count), "x", unit)


@pytest.mark.parametrize(("name", "size"), [("B", 1), ("kB", 1000), ("KiB", 1024), ("MB", 10**6), ("MiB", 2**20)])
def test_units_that_users_name_are_those_of_the_command_line(name: str, size: int) -> None:
    assert byte_unit(name) == size


@pytest.mark.parametrize("name", ["", "M", "parsec", "0MB", "5 MB", "s"])
def test_a_unit_that_is_none_is_the_users_mistake(name: str) -> None:
    with pytest.raises(InputError):
        byte_unit(name)


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59999))
def test_clock_times(days: int, hours: int, minutes: int, milliseconds: int) -> None:
    seconds = milliseconds / 1000
    total = pytest.approx(days * 86400 + hours * 3600 + minutes * 60 + seconds)
    assert clock_seconds(f"{days}-{hours:02}:{minutes:02}:{seconds:06.3f}", "x") == total
    if not days:
        assert clock_seconds(f"{hours}:{minutes:02}:{seconds:.3f}", "x") == total
        assert clock_seconds(f"{60 * hours + minutes}:{seconds:.3f}", "x") == total


@pytest.mark.parametrize("text", ["12", "1:2:3:4", "a:b", "-1:00", "1-", "UNLIMITED"])
def test_what_is_no_clock_time_is_unusable(text: str) -> None:
    with pytest.raises(UnusableError, match="x is not a time"):
        clock_seconds(text, "x")


def test_a_moment_without_a_zone_is_taken_in_the_given_one() -> None:
    expected = datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()
    assert moment("2026-07-01T14:00:00", "x", ZoneInfo("Europe/Berlin")) == expected
    assert moment("2026-07-01 14:00:00.000", "x", ZoneInfo("Europe/Berlin")) == expected
    assert moment("2026-07-01T12:00:00Z", "x", ZoneInfo("Europe/Berlin")) == expected
    assert moment("2026-07-01T13:00:00+01:00", "x", UTC) == expected


@pytest.mark.parametrize("text", ["2026-02-30T00:00:00", "soon", "0001-01-01T00:00:00+23:59", "12:00:00"])
def test_what_is_no_moment_is_unusable_or_long_ago(text: str) -> None:
    try:
        value = moment(text, "x", UTC)
    except UnusableError as problem:
        assert problem.reason == "x is not a date and time"
    else:
        assert value is not None
        assert value < 0
