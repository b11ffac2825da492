"""A command that exceeds a limit is stopped soon, with all its processes."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.processes import commands_with
from tests.watch.conftest import MB, Watched, every_user
from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.watch.limits import RESOURCES, parse_limit, read_limits

Watch = Callable[..., Watched]


@pytest.mark.parametrize("rate", [100, 500, 1500])
@every_user
def test_smooth_growth_is_stopped_within_10_mb(rate: int, watched: Watch, actor: str) -> None:
    result = watched("--limit", "memory=100MiB", command=[actor, *f"take 60 grow 1000 {rate} hold 60".split()])
    summary = result.summary
    assert result.status == 124
    assert summary.exit_type == "limits"
    assert summary.limits_exceeded == {"memory": 100 * MB}
    assert summary.memory is not None
    assert 100 * MB < summary.memory < 110 * MB
    assert "memory" in result.stderr
    assert "105 MB" in result.stderr  # 100 MiB


def test_a_sudden_step_is_stopped_at_once(watched: Watch, actor: str) -> None:
    words = ["hold", "0.3", "grow", "2000", "3000", "hold", "60"]
    summary = watched("--limit", "memory=100MiB", command=[actor, *words]).summary
    assert summary.memory is not None
    assert 100 * MB < summary.memory < 250 * MB
    assert summary.exit_type == "limits"


def test_growth_after_a_shrink_is_not_overlooked(watched: Watch, actor: str) -> None:
    words = "fork { take 80 meet 2 hold 0.2 } " * 2 + "wait "
    words += "fork { take 20 meet 4 hold 60 } meet 4 grow 500 1000 hold 60"
    summary = watched("--limit", "memory=200MiB", command=[actor, *words.split()]).summary
    assert summary.exit_type == "limits"
    assert (summary.memory or 0) < 250 * MB


def test_a_process_whose_first_thread_has_ended_is_stopped(watched: Watch, actor: str) -> None:
    command = [actor, *["leave", "{", "take", "100", "hold", "60", "}"]]
    for limit in ("memory=50MB", "wall_time=0.3s"):
        assert watched("--limit", limit, command=command).status == 124


def test_memory_that_is_mapped_several_times_counts_once_for_the_limit(watched: Watch, actor: str) -> None:
    assert watched("--limit", "memory=150MiB", command=[actor, *["maps", "100", "3", "hold", "0.2"]]).status == 0


def test_after_a_limit_has_passed_it_does_not_look_all_the_time(watched: Watch, workdir: Path) -> None:
    series = workdir / "series.csv"
    options = ["--limit", "wall_time=0.1s", "--measure-only", "--series", str(series)]
    watched(*options, command=["/bin/sleep", "0.8"])
    assert len(series.read_text().splitlines()) < 40


def test_what_is_seen_only_in_the_end_is_noted_and_stops_nothing(watched: Watch, actor: str) -> None:
    result = watched("--limit", "memory=20MB", "--measure-only", command=[actor, *["take", "40"]])
    assert result.status == 0
    assert "memory" in result.summary.limits_exceeded


@every_user
def test_the_whole_tree_is_gone(watched: Watch, actor: str) -> None:
    mark = f"60.{os.getpid()}"
    words = f"daemon {{ hold {mark} }} fork {{ fork {{ hold {mark} }} hold {mark} }} thread {{ hold {mark} }}"
    words += f" take 50 hold {mark}"
    result = watched("--limit", "memory=30MB", command=[actor, *words.split()])
    assert result.status == 124
    assert commands_with(mark) == []


def test_memory_that_is_shared_counts_once_for_the_limit(watched: Watch, actor: str) -> None:
    words = "take 100 " + "fork { take 5 meet 4 hold 0.2 } " * 4 + "wait"
    result = watched("--limit", "memory=150MB", command=[actor, *words.split()])
    assert result.status == 0, result.stderr


def test_copied_pages_count_for_the_limit_though_resident_memory_does_not_grow(watched: Watch, actor: str) -> None:
    words = "take 60 " + "fork { meet 4 hold 0.2 touch hold 60 } " * 4 + "wait"
    result = watched("--limit", "memory=180MB", command=[actor, *words.split()])
    assert result.status == 124
    assert (result.summary.memory or 0) < 240 * MB


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("wall_time=0.3s", "hold 60"),
        ("cpu_time=0.2s", "burn 60"),
        ("disk=20MB", "write f 40 hold 60"),
        ("processes=5", "fork { hold 60 } " * 10 + "hold 60"),
        ("cores=0.02", "burn 60"),  # it gets this much on any machine
    ],
)
def test_every_resource_can_be_limited(limit: str, words: str, watched: Watch, actor: str) -> None:
    result = watched("--limit", limit, "--cores-window", "0.2s", command=[actor, *words.split()])
    assert result.status == 124
    resource = limit.partition("=")[0]
    named = "max_concurrent_processes" if resource == "processes" else resource
    facts = json.loads(result.path.read_text())
    assert list(facts["limits_exceeded"]) == [named]
    assert facts[f"{named}_when_exceeded"][0] > facts["limits_exceeded"][named][0]
    assert facts["stopped_because"] == "limit"


def test_a_command_below_its_limits_is_left_alone(watched: Watch, actor: str) -> None:
    options = ["--limit", "memory=100MB", "--limit", "disk=50MB", "--limit", "wall_time=1h", "--limit", "processes=9"]
    result = watched(
        *options,
        command=[actor, *["take", "50", "write", "f", "20", "fork", "{", "hold", "0.2", "}", "wait", "exit", "5"]],
    )
    assert result.status == 5
    assert result.summary.limits_exceeded == {}
    assert result.stderr == ""


def test_measure_only_reports_and_lets_go_on(watched: Watch, actor: str) -> None:
    result = watched(
        "--limit", "memory=50MB", "--measure-only", command=[actor, *["take", "100", "hold", "0.2", "exit", "4"]]
    )
    assert result.status == 4
    assert result.summary.exit_type == "normal"
    assert result.summary.limits_exceeded == {"memory": pytest.approx(50e6, rel=0.001)}


def beyond_its_limit(trap: str) -> list[str]:
    """Return a script that exceeds a limit of three processes with its last child, after setting its trap."""
    return ["/bin/sh", "-c", f"trap {trap} TERM; for i in 1 2 3; do sleep 60 & done; wait; sleep 60"]


def test_grace_lets_a_command_clean_up(watched: Watch, workdir: Path) -> None:
    script = beyond_its_limit("'echo cleaned > cleaned; exit 0'")
    result = watched("--limit", "processes=3", "--grace", f"{HANGS}s", command=script)
    assert result.status == 124
    assert (workdir / "cleaned").read_text() == "cleaned\n"


def test_grace_ends(watched: Watch) -> None:
    result = watched("--limit", "processes=3", "--grace", "0.4s", command=beyond_its_limit("''"))
    assert result.status == 124
    assert (result.summary.wall_time or 0) > 0.4


def test_a_stopped_command_can_be_killed(watched: Watch) -> None:
    result = watched("--limit", "wall_time=0.3s", command=["/bin/sh", "-c", "kill -STOP $$; sleep 60"])
    assert result.status == 124


def test_a_fork_bomb_is_stopped(watched: Watch) -> None:
    mark = f"fork-bomb-{os.getpid()}"
    bomb = "f() { [ $1 = 0 ] || { f $(($1 - 1)) & f $(($1 - 1)) & sleep 20; }; }; f 8"  # would end by itself
    result = watched("--limit", "processes=40", command=["/bin/bash", "-c", f"{bomb} # {mark}"])
    assert result.status == 124
    assert commands_with(mark) == []


def test_the_resources_are_those_of_the_product() -> None:
    assert list(RESOURCES) == [str(resource) for resource in Resource]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory=300MB", ("memory", 300_000_000)),
        ("disk=1.5GiB", ("disk", 1.5 * 2**30)),
        ("wall_time=1h30m", ("wall_time", 5400)),
        ("cpu_time=90", ("cpu_time", 90)),
        ("cores=2.5", ("cores", 2.5)),
        ("processes=7", ("processes", 7)),
    ],
)
def test_limits_are_parsed(text: str, expected: tuple[str, float]) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize(
    "text",
    ["memory", "memory=", "memory=300", "memory=0B", "ram=3GB", "wall_time=soon", "processes=2.5", "cores=-1", "=3"],
)
def test_bad_limits_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"memory": [300, "MB"]}', {"memory": 300 * 2**20}),
        ('{"memory": 300}', {"memory": 300 * 2**20}),
        ('{"memory": [2, "GB"], "disk": [512, "kB"]}', {"memory": 2**31, "disk": 2**19}),
        ('{"memory": [1000, "B"]}', {"memory": 1000}),
        ('{"wall_time": [10, "s"], "cpu_time": 60}', {"wall_time": 10, "cpu_time": 60}),
        ('{"wall_time": [2, "h"]}', {"wall_time": 7200}),
        ('{"cores": [2, "cores"], "max_concurrent_processes": [4, "procs"]}', {"cores": 2, "processes": 4}),
        ('{"processes": 12}', {"processes": 12}),
        ("{}", {}),
    ],
)
def test_limits_files_honour_units_and_take_bare_numbers(text: str, expected: dict[str, float], tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text(text)
    assert read_limits(str(path)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "memory: 300",
        '{"memory": "300MB"}',
        '{"memory": [300, "parsecs"]}',
        '{"memory": [300]}',
        '{"memory": -1}',
        '{"memory": NaN}',
        '{"memory": true}',
        '{"ram": 3}',
        '{"cores": [2, "MB"]}',
        "[" * 100_000,
    ],
)
def test_bad_limits_files_are_refused_with_their_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"limits\.json"):
        read_limits(str(path))


def test_an_option_goes_before_the_limits_file(watched: Watch, workdir: Path) -> None:
    path = workdir / "limits.json"
    path.write_text('{"wall_time": 60, "memory": [1, "GB"]}')
    path.chmod(0o644)
    result = watched("--limits", str(path), "--limit", "wall_time=0.2s", command=["/bin/sleep", "60"])
    assert result.status == 124
