"""The memory of this machine: limits of control groups, page cache, pressure, and kills by the kernel."""

import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from tonnage.run.this_machine import SystemMemory, this_machine

MB = 10**6


def test_there_is_memory_left_and_less_than_the_machine_has(tmp_path: Path) -> None:
    memory = SystemMemory()
    assert 0 < memory.available() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert not memory.explains_end(time.time(), killed=True)
    assert this_machine(tmp_path).memory < inf


class Group:
    """The files of a control group of version 2."""

    def __init__(self, folder: Path, *, limit: str = "max", high: str = "max") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.write(**{"memory.max": limit, "memory.high": high, "memory.current": "0", "memory.stat": ""})
        self.kills(0)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(f"{text}\n")

    def kills(self, count: int) -> None:
        self.write(**{"memory.events": f"oom {count}\noom_kill {count}"})

    def stalls(self, seconds: float) -> None:
        full = f"full avg10=0.00 avg60=0.00 avg300=0.00 total={seconds * 1e6:.0f}"
        self.write(**{"memory.pressure": f"some avg10=0.00 avg60=0.00 avg300=0.00 total=99\n{full}"})


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Group]]:
    """Make control groups of version 2, the innermost first, and put this process into them."""

    def make(*options: dict[str, str]) -> list[Group]:
        made = [Group(tmp_path / f"group{number}", **own) for number, own in enumerate(options)]
        monkeypatch.setattr("tonnage.run.this_machine._cgroups", lambda: [one.folder for one in made])
        return made

    return make


def test_the_smallest_limit_of_all_groups_around_us_counts_and_page_cache_is_not_use(
    groups: Callable[..., list[Group]], tmp_path: Path
) -> None:
    inner, outer = groups({"limit": f"{800 * MB}"}, {"limit": f"{500 * MB}"})
    assert this_machine(tmp_path).memory == pytest.approx(475 * MB)
    memory = SystemMemory()
    inner.write(**{"memory.current": f"{300 * MB}"})
    outer.write(**{"memory.current": f"{300 * MB}"})
    assert memory.available() == 200 * MB
    cache = f"inactive_file {150 * MB}\nactive_file {50 * MB}\nslab_reclaimable {10 * MB}"
    outer.write(**{"memory.stat": f"anon {20 * MB}\nshmem {70 * MB}\n{cache}"})
    assert memory.available() == 410 * MB, "what is on a tmpfs is use"
    inner.write(**{"memory.high": f"{350 * MB}"})
    assert SystemMemory().available() == 50 * MB
    assert this_machine(tmp_path).memory < 350 * MB


def test_without_word_about_pressure_there_is_none_and_short_waits_mean_nothing(
    groups: Callable[..., list[Group]],
) -> None:
    (group,) = groups({"limit": f"{500 * MB}"})
    assert SystemMemory().available() == 500 * MB
    group.stalls(3)
    memory = SystemMemory()
    assert memory.available() == 500 * MB
    group.stalls(3.1)
    assert memory.available() == 500 * MB
    group.stalls(10_000)
    assert memory.available() == 0
    assert memory.available() == 500 * MB, "it was said"


def test_a_kill_by_the_kernel_explains_one_end(groups: Callable[..., list[Group]]) -> None:
    (group,) = groups({})
    group.kills(3)
    memory, began = SystemMemory(), time.time()
    assert not memory.explains_end(began, killed=True), "that was before"
    group.kills(5)
    assert memory.explains_end(began, killed=True)
    assert not memory.explains_end(time.time() + 60, killed=True), "it began after that"
    assert memory.explains_end(began, killed=False)
    assert not memory.explains_end(began, killed=True)
