"""Time zones of logs."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.logs.amounts import moment
from tonnage.logs.log import UnusableError
from tonnage.logs.user_times import zone


def hours(text: str, name: str | None) -> float:
    """Return by how many hours a clock in the zone is ahead of UTC."""
    seconds = moment(text, "started", zone(name))
    assert seconds is not None
    return (datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() - seconds) / 3600


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("2026-01-15T12:00:00", 1),
        ("2026-07-15T12:00:00", 2),
        ("2026-03-29T01:59:59", 1),
        ("2026-03-29T03:00:00", 2),
        ("2026-10-25T01:59:59", 2),
        ("2026-10-25T02:30:00", 2),  # the clock shows it twice; the first is meant
        ("2026-10-25T03:00:00", 1),
    ],
)
def test_summer_time_counts(text: str, ahead: float) -> None:
    assert hours(text, "Europe/Berlin") == ahead


@pytest.mark.parametrize("name", ["UTC", "utc", "Utc"])
def test_utc_is_utc(name: str) -> None:
    assert zone(name) is UTC
    assert hours("2026-07-15T12:00:00", name) == 0


@pytest.mark.parametrize(("name", "ahead"), [("Asia/Kolkata", 5.5), ("America/New_York", -4), ("Etc/GMT-3", 3)])
def test_zones_have_their_own_names(name: str, ahead: float) -> None:
    assert hours("2026-07-15T12:00:00", name) == ahead
    assert str(zone(name)) == name


@pytest.mark.parametrize(
    "name",
    ["", "Mars/Olympus", "Europe", "Berlin", "../../etc/passwd", "/etc/passwd", "zone.tab", "x" * 5000, "é", "\0"],
)
def test_an_unknown_name_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(InputError) as caught:
        zone(name)
    assert caught.value.report() == f'"{name}" is not a time zone\n  use one such as Europe/Berlin or UTC'


@given(st.text(max_size=20))
def test_any_text_is_a_zone_or_refused(name: str) -> None:
    try:
        found = zone(name)
    except InputError:
        return
    assert found.utcoffset(datetime(2026, 1, 1)) is not None


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
def test_by_default_it_is_this_machines_zone(name: str) -> None:
    times = [datetime(2026, 1, 1) + timedelta(hours=n) for n in range(0, 365 * 24, 7)]
    times += [datetime(2026, 10, 25, 2, 30, fold=fold) for fold in (0, 1)]  # twice on one day in Berlin
    expected = [when.replace(tzinfo=ZoneInfo(name)).timestamp() for when in times]
    program = (
        "from datetime import datetime\n"
        "from tonnage.logs.user_times import zone\n"
        "here = zone()\n"
        "print(here)\n"
        "while line := input():\n"
        "    text, fold = line.split()\n"
        "    print(datetime.fromisoformat(text).replace(tzinfo=here, fold=int(fold)).timestamp())\n"
    )
    lines = "".join(f"{when.isoformat()} {when.fold}\n" for when in times)
    environment = os.environ | {"TZ": name}
    done = subprocess.run(
        [sys.executable, "-c", program], input=f"{lines}\n", env=environment, capture_output=True, text=True, check=True
    )
    shown, *found = done.stdout.split("\n")[:-1]
    assert shown.endswith(" (this machine's)")
    assert shown.split()[0] == datetime(2026, 1, 1, tzinfo=ZoneInfo(name)).tzname()
    assert [float(line) for line in found] == expected


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
@pytest.mark.parametrize("name", [None, "UTC", "Europe/Berlin", "Pacific/Kiritimati"])
def test_the_first_and_the_last_moments_are_known_or_refused(text: str, name: str | None) -> None:
    try:
        seconds = moment(text, "started", zone(name))
    except UnusableError:
        return
    assert seconds is not None
    assert abs(seconds - datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) < 86400
