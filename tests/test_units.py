"""Amounts as people write them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.units import format_bytes, format_cores, format_seconds, parse_bytes, parse_cores, parse_seconds


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4GB", 4 * 10**9),
        ("4 GiB", 4 * 2**30),
        ("4gb", 4 * 10**9),
        (" 1.5 TB ", 1_500_000_000_000),
        ("300MB", 300_000_000),
        ("0.5KiB", 512),
        ("1kB", 1000),
        ("17B", 17),
        ("0", 0),
        (".5 MB", 500_000),
    ],
)
def test_bytes(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "4",
        "1024",
        "4G",
        "4 m",
        "4k",
        "1e9",
        "4 QB",
        "-4GB",
        "",
        "GB",
        "4GB 3MB",
        "4,5GB",
        "nan",
        "inf",
        "1..5GB",
        "9999999EB",
        "４GB",
        "0x10B",
    ],
)
def test_bytes_that_are_ambiguous_or_no_amount_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_bytes(text)


def test_an_ambiguous_amount_is_answered_with_the_two_things_it_may_mean() -> None:
    with pytest.raises(InputError) as caught:
        parse_bytes("4G")
    assert "4GB" in caught.value.report()
    assert "4GiB" in caught.value.report()
    with pytest.raises(InputError) as caught:
        parse_bytes("300")
    assert "300MB" in caught.value.report()


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("90", 90),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2 hours", 7200),
        ("1d2h", 93600),
        ("1w", 604800),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("90 min", 5400),
        ("1-02:03:04", 93784),
        ("02:03:04", 7384),
        ("100:00:00", 360000),
        ("00:00:01.5", 1.5),
        ("0", 0),
    ],
)
def test_seconds(text: str, amount: float) -> None:
    assert parse_seconds(text) == pytest.approx(amount)


@pytest.mark.parametrize(
    "text",
    [
        "1:30",
        "30m1h",
        "1h1h",
        "5M",
        "5 x",
        "-5s",
        "",
        "h",
        "1h30",
        "1-2",
        "1-24:00:00",
        "00:60:00",
        "1:2:3:4",
        "a:b:c",
        "1-:00:00",
        "nan",
        "5 m s",
        "1--02:03:04",
    ],
)
def test_times_that_are_ambiguous_or_no_time_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_seconds(text)


@pytest.mark.parametrize(("text", "amount"), [("4", 4), ("0.5", 0.5), ("2 cores", 2), ("1 core", 1)])
def test_cores(text: str, amount: float) -> None:
    assert parse_cores(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "4GB", "four", "1 2", "500m"])
def test_what_is_no_number_of_cores_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_cores(text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_350_000_000, "1.35 GB"), (999_600, "1 MB"), (4 * 10**9, "4 GB")],
)
def test_bytes_are_printed_with_three_digits(amount: int, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0s"),
        (0.35, "350ms"),
        (12.5, "12.5s"),
        (59.99, "1m"),
        (5400, "1h30m"),
        (3599.9, "1h"),
        (93600, "1d2h"),
        (86399, "1d"),
        (84600, "23h30m"),
        (3570, "59m30s"),
        (59.97, "1m"),
        (604800, "7d"),
        (-5400, "-1h30m"),
        (1.0, "1s"),
    ],
)
def test_times_are_printed_with_their_two_largest_units(amount: float, text: str) -> None:
    assert format_seconds(amount) == text


@given(st.integers(0, 2**62))
def test_printed_bytes_are_read_back_to_three_digits(amount: int) -> None:
    assert parse_bytes(format_bytes(amount)) == pytest.approx(amount, rel=0.006)


@given(st.floats(0.001, 1e9))
def test_printed_times_are_read_back_to_their_second_unit(amount: float) -> None:
    assert parse_seconds(format_seconds(amount)) == pytest.approx(amount, rel=0.03)


@given(st.floats(0.01, 1e5))
def test_printed_cores_are_read_back(amount: float) -> None:
    assert parse_cores(format_cores(amount)) == pytest.approx(amount, rel=0.2, abs=0.006)


@given(st.text(max_size=20))
def test_any_text_is_an_amount_or_an_input_error(text: str) -> None:
    for parse in (parse_bytes, parse_seconds, parse_cores):
        try:
            assert parse(text) >= 0
        except InputError as error:
            assert error.exit_status == 2


@pytest.mark.parametrize(
    "text", ["9" * 400, "9" * 400 + ":00:00", "9" * 400 + "-00:00:00", "9" * 400 + "GB", "9" * 5000]
)
def test_numbers_without_end_are_refused(text: str) -> None:
    for parse in (parse_bytes, parse_seconds, parse_cores):
        with pytest.raises(InputError):
            parse(text)


@given(st.floats(60, 1e9))
def test_a_printed_time_is_never_off_by_more_than_half_its_second_unit(amount: float) -> None:
    unit = 3600 if amount >= 86400 - 30 else 60 if amount >= 3600 - 0.5 else 1
    assert abs(parse_seconds(format_seconds(amount)) - amount) <= unit / 2 + 1e-6


def test_units_import_nothing_that_would_slow_the_monitor_down() -> None:
    code = "import sys; before = set(sys.modules); import tonnage.units; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, 'src'); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(loaded.stdout.split()) == {"tonnage", "tonnage.errors", "tonnage.units"}
