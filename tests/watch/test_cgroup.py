"""The kernel's own enforcement of the memory limit, where a control group can be created."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.processes import minder_and_command
from tests.waiting import until
from tests.watch.conftest import MB, NOBODY
from tonnage import Summary, measure
from tonnage.watch.cgroup import _homes

# Tries to create a control group, in its own process.
TRY = "from tonnage.watch.cgroup import Cgroup; g = Cgroup.make(1e9); g and g.remove(); print(bool(g))"

# Creates a control group as root, gives some of its files to a user, becomes that user, enters and leaves the group.
ENTER = """\
import os, sys
from glob import glob
from tonnage.watch.cgroup import Cgroup

outer, *owned = sys.argv[1:]
group = Cgroup.make(1e9)
(folder,) = glob(outer + "/tonnage-*")
for name in owned:
    os.chown(os.path.join(folder, name), 65534, 65534)
os.setuid(65534)
print(group.enter())
group.leave()
print(open(os.path.join(folder, "memory.limit_in_bytes")).read().strip())
"""


@pytest.fixture(scope="module")
def cgroup() -> None:
    found = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, check=True).stdout
    if found != "True\n":
        pytest.skip("this user cannot make a memory control group here")


@pytest.fixture
def outer(cgroup: None) -> Iterator[Path]:
    """A version 1 control group inside ours."""
    home = next((path for version, path in _homes() if version == 1), None)
    if home is None:
        pytest.skip("only where control groups are of version 1")
    folder = Path(home, f"outer-{os.getpid()}")
    folder.mkdir()
    yield folder
    folder.rmdir()


def inside(group: Path, words: list[str]) -> list[str]:
    """Return the words that run a command in a control group."""
    return ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *words]


def groups_of(guard: int) -> list[Path]:
    """Return the groups that a monitor has created."""
    return [path for path in Path("/sys/fs/cgroup").rglob(f"tonnage-*{guard}-*") if path.is_dir()]


def begun(actor: str, words: str, limit: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tonnage", "watch", "--limit", f"memory={limit}", "--summary", "/dev/null", "--"]
    return subprocess.Popen([*command, actor, *words.split()], stderr=subprocess.DEVNULL)


@pytest.mark.usefixtures("cgroup")
def test_growth_between_two_looks_is_stopped_by_the_kernel(actor: str) -> None:
    """Twenty processes grow together, faster than any sampling."""
    words = ("fork { meet 20 take 200 hold 60 } " * 20 + "wait").split()
    summary = measure([actor, *words], limits={"memory": 100 * MB}, stderr=subprocess.DEVNULL)
    assert summary.limits_exceeded == {"memory": 100 * MB}
    assert summary.cgroup in ("v1", "v2")
    assert summary.cgroup_memory is not None
    assert summary.cgroup_memory < 120 * MB


@pytest.mark.usefixtures("cgroup")
def test_what_the_kernel_stops_is_reported_as_our_limit(actor: str, tmp_path: Path) -> None:
    """Memory that no sample can see: a file in /dev/shm."""
    path = Path("/dev/shm", f"tonnage-test-{os.getpid()}")
    try:
        summary = measure([actor, "write", str(path), "200"], limits={"memory": 50 * MB}, stderr=subprocess.DEVNULL)
    finally:
        path.unlink(missing_ok=True)
    assert summary.limits_exceeded == {"memory": 50 * MB}
    assert (summary.exit_type, summary.stopped_because) == ("limits", "limit")


@pytest.mark.usefixtures("cgroup")
@pytest.mark.parametrize("words", ["hold 0.1", "take 100 hold 60", "daemon { hold 0.2 }"])
def test_the_group_is_removed(words: str, actor: str) -> None:
    process = begun(actor, words, "50MB")
    assert process.wait(HANGS) in (0, 124)
    assert groups_of(process.pid) == []


@pytest.mark.usefixtures("cgroup")
def test_the_group_is_removed_when_the_minder_is_killed(actor: str) -> None:
    process = begun(actor, "hold 60", "1GB")
    minder, _ = until(lambda: minder_and_command(process.pid))
    assert groups_of(process.pid)
    os.kill(minder, signal.SIGKILL)
    assert process.wait(HANGS) == 125
    assert groups_of(process.pid) == []


def test_a_limit_of_somebody_else_is_not_taken_for_ours(outer: Path, actor: str, tmp_path: Path) -> None:
    (outer / "memory.limit_in_bytes").write_text(str(100 * MB))
    path = tmp_path / "s.json"
    words = [sys.executable, "-m", "tonnage", "watch", "--limit", "memory=1GB", "--summary", str(path), "--"]
    subprocess.run(inside(outer, [*words, actor, *["take", "150", "hold", "60"]]), check=False)
    summary = Summary.read(path)
    assert summary.limits_exceeded == {}
    assert (summary.exit_type, summary.signal) == ("signal", signal.SIGKILL)


@pytest.mark.parametrize("user", ["nobody"], indirect=True)
@pytest.mark.parametrize(("words", "status"), [("hold 0.1", 0), ("take 200 hold 9", 124)])
def test_a_group_that_could_be_entered_but_not_left_is_not_made(
    outer: Path, monitor: list[str], workdir: Path, actor: str, words: str, status: int
) -> None:
    """HTCondor up to 25.9 gives a job the folder of its group, but not the files in it."""
    os.chown(outer, NOBODY, NOBODY)
    path = workdir / "s.json"
    options = ["--limit", f"memory={50 * MB}B", "--summary", str(path), "--"]
    ended = subprocess.run(
        inside(outer, [*monitor, *options, actor, *words.split()]), capture_output=True, text=True, check=False
    )
    assert ended.returncode == status, ended.stderr
    assert Summary.read(path).cgroup is None
    assert [one.name for one in outer.iterdir() if one.is_dir()] == []


@pytest.mark.parametrize(
    ("owned", "entered", "limited"),
    [
        ([], "False", True),
        (["cgroup.procs", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], "True", False),
    ],
)
def test_a_group_that_cannot_be_entered_or_left_stops_nobody(
    outer: Path, owned: list[str], entered: str, limited: bool
) -> None:
    present = [name for name in owned if (outer / name).exists()]
    words = [sys.executable, "-c", ENTER, str(outer), *present]
    said = subprocess.run(inside(outer, words), capture_output=True, text=True, check=True).stdout.split()
    for folder in outer.glob("tonnage-*"):
        folder.rmdir()
    assert said[0] == entered
    assert (int(said[1]) < 2e9) == limited


@pytest.mark.usefixtures("cgroup")
def test_files_that_are_read_do_not_count_as_memory(actor: str, tmp_path: Path) -> None:
    """The kernel counts them in the group, but drops them before it kills."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    if kind == "tmpfs\n":
        pytest.skip(f"files in {tmp_path} are nothing but memory")
    summary: Summary = measure(
        [actor, *f"write {tmp_path}/f 150 read {tmp_path}/f take 50 hold 0.2".split()], limits={"memory": 100 * MB}
    )
    assert summary.ok
    assert summary.memory == pytest.approx(51 * MB, rel=0.06)
