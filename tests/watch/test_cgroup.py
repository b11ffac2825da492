"""The kernel's own enforcement of the memory limit, where a control group can be made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.watch import Summary, watch
from watch.conftest import MB

# Tries to make a control group, in a process of its own.
TRY = "from tonnage.watch.cgroup import Cgroup; g = Cgroup.enter(1e9); g and (g.leave(), g.remove()); print(bool(g))"


@pytest.fixture(scope="module")
def cgroup() -> None:
    found = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, check=True).stdout
    if found != "True\n":
        pytest.skip("this user cannot make a memory control group here")


def left_behind() -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").rglob("tonnage-*") if path.is_dir()]


@pytest.mark.usefixtures("cgroup")
def test_growth_between_two_looks_is_stopped_by_the_kernel(actor: str) -> None:
    """Twenty processes grow together, faster than anyone could look."""
    words = ("fork { hold 0.3 take 400 hold 9 } " * 20 + "wait").split()
    summary = watch([actor, *words], limits={"memory": 300 * MB}, stderr=subprocess.DEVNULL)
    assert summary.limits_exceeded == {"memory": 300 * MB}
    assert summary.cgroup in ("v1", "v2")
    assert summary.cgroup_memory is not None
    assert summary.cgroup_memory < 340 * MB


@pytest.mark.usefixtures("cgroup")
def test_the_group_is_removed(actor: str) -> None:
    for words in ("hold 0.1", "take 400 hold 9", "daemon { hold 0.2 }"):
        watch([actor, *words.split()], limits={"memory": 100 * MB}, stderr=subprocess.DEVNULL)
    assert [path for path in left_behind() if f"-{os.getpid()}-" in path.name] == []
    assert left_behind() == []


@pytest.mark.usefixtures("cgroup")
def test_files_that_are_read_do_not_count_as_memory(actor: str, tmp_path: Path) -> None:
    """The kernel counts them in the group, but gives them up before it kills."""
    summary: Summary = watch(
        [actor, *f"write {tmp_path}/f 300 read {tmp_path}/f take 50 hold 0.2".split()], limits={"memory": 100 * MB}
    )
    assert summary.ok
    assert summary.memory == pytest.approx(51 * MB, rel=0.06)
