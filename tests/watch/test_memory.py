"""The memory of a tree whose processes keep running: values are never read at one single moment."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watch.conftest import MB
from tonnage.watch import memory as looking
from tonnage.watch.memory import Memory
from tonnage.watch.proc import Process
from tonnage.watch.tree import Sample

# Maps a file twice, and reads a range of one of the mappings on request.
PROGRAM = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for _ in range(2)]
for line in sys.stdin:
    which, begin, end = map(int, line.split())
    sum(mapped[which][page] for page in range(begin << 20, end << 20, 4096))
    print("done", flush=True)
"""


class Mapping:
    """A process that maps a file."""

    def __init__(self, file: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, file], stdin=pipe, stdout=pipe, text=True)
        self.pid = self._process.pid

    def read(self, begin: int, end: int, *, which: int = 0) -> None:
        """Read a range, given in MB."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(which, begin, end, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def children(tmp_path: Path) -> Iterator[tuple[Mapping, Mapping]]:
    (tmp_path / "file").write_bytes(bytes(100 * MB))
    both = Mapping(tmp_path / "file"), Mapping(tmp_path / "file")
    yield both
    for one in both:
        one.close()


def sample(*children: Mapping) -> Sample:
    processes = [process for child in children if (process := Process.of(child.pid))]
    return Sample(time.monotonic(), processes, 0.0, sum(process.faults for process in processes))


def test_pages_of_one_file_add_up_though_only_one_process_has_read_more_since(
    children: tuple[Mapping, Mapping],
) -> None:
    one, other = children
    one.read(0, 50)
    other.read(0, 1)
    memory = Memory(None)
    memory.see(sample(*children))
    assert memory.peak < 70 * MB
    other.read(50, 100)
    memory.see(sample(*children))
    assert memory.peak > 100 * MB
    memory.see(sample(*children), closely=True)
    assert memory.now == pytest.approx(memory.peak, rel=0.02)


def test_what_is_mapped_again_while_the_monitor_looks_is_not_counted_twice(
    children: tuple[Mapping, Mapping], monkeypatch: pytest.MonkeyPatch
) -> None:
    child, _ = children
    child.read(0, 100)
    memory = Memory(None)
    with monkeypatch.context() as patched:

        class Slow(Process):
            """A process read by a monitor that has to wait for a CPU at that moment."""

            @classmethod
            def of(cls, pid: int) -> "Process | None":
                found = Process.of(pid)
                child.read(0, 40, which=1)
                return found

        patched.setattr(looking, "Process", Slow)
        memory.see(sample(child))
    memory.see(sample(child))
    resident = Process.of(child.pid)
    assert resident is not None
    assert resident.resident > 140 * MB
    assert 100 * MB <= memory.peak < 120 * MB
