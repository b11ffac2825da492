"""Nothing is lost: killed imports, many writers, restarted servers, full disks, read-only files."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.servers import Postgres
from tonnage.archive import Archive, check, find
from tonnage.errors import InputError
from tonnage.jobs import Attempt
from tonnage.logs import synthetic

KILLS = max(6, int(os.environ.get("TONNAGE_SOAK", "0")) // 10)
TONNAGE = [sys.executable, "-m", "tonnage"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two batches, in which some rows are equal."""
    file = tmp_path_factory.mktemp("log") / "jobs.csv"
    lines = synthetic.render(synthetic.generate("trimodal", 24_000)).splitlines(keepends=True)
    file.write_text("".join(lines + lines[1:500]))
    return file


def importing(log: Path, url: str, *options: str) -> "subprocess.Popen[str]":
    command = [*TONNAGE, "archive", "import", str(log), "--archive", url, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def contents(url: str) -> list[Attempt]:
    with Archive.open(url) as archive:
        assert check(archive) == []
        return list(find(archive))


@pytest.fixture(scope="module")
def clean(log: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Attempt], float]:
    """What one undisturbed import gives, and how long it takes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('clean')}/archive.db"
    begin = time.monotonic()
    assert importing(log, url).wait() == 0
    return contents(url), time.monotonic() - begin


def test_an_import_that_is_killed_again_and_again_loses_and_doubles_nothing(
    url: str, log: Path, clean: tuple[list[Attempt], float]
) -> None:
    expected, seconds = clean
    chance = random.Random(4)
    killed = 0
    for _ in range(KILLS):
        process = importing(log, url)
        time.sleep(chance.uniform(0.1, seconds))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.communicate()
    assert killed >= KILLS // 3
    assert importing(log, url).wait() == 0
    assert contents(url) == expected


def test_an_import_that_is_interrupted_says_so_and_goes_on_later(
    url: str, log: Path, clean: tuple[list[Attempt], float]
) -> None:
    expected, seconds = clean
    process = importing(log, url)
    time.sleep(0.6 * seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    if process.returncode != -signal.SIGINT:  # Python itself was interrupted: a shell sees 130
        assert process.returncode in (0, 130)
        assert "Traceback" not in said
        assert process.returncode == 0 or not said or "the same call goes on" in said
    assert importing(log, url).wait() == 0
    assert contents(url) == expected


WRITER = """
import sys
from tonnage.archive import Archive, import_source
from tonnage.logs.sources import Source
from tonnage.jobs import Amounts, Attempt
url, name = sys.argv[1:]
with Archive.open(url, create=True) as archive:
    for part in range(12):
        own = [Attempt(row=f"{name} {part} {n}", category=name, run=f"run {part}", task=f"task {n}",
                       used=Amounts.of(memory=n), fields={"part": str(part)}) for n in range(50)]
        shared = [Attempt(native_id=f"shared {part} {n}", category="shared", run="shared") for n in range(50)]
        import_source(archive, Source(name, f"{name} {part}", "csv", iter(own)))
        import_source(archive, Source("shared", "shared", "csv", iter(shared)))
"""
READER = """
import sys
from tonnage.archive import Archive, histories
seen = -1
with Archive.open(sys.argv[1]) as archive:
    while seen < 9 * 12 * 50:
        sizes = {name: len(history) for name, history in histories(archive).items()}
        assert all(size % 50 == 0 for size in sizes.values()), sizes  # a batch is there, or it is not
        assert sum(sizes.values()) >= seen
        seen = sum(sizes.values())
"""


def _not_there(url: str) -> bool:
    try:
        Archive.open(url).close()
    except InputError:
        return True
    return False


def test_eight_writers_and_two_readers_at_once(url: str) -> None:
    with_script = [sys.executable, "-c"]
    writers = [subprocess.Popen([*with_script, WRITER, url, f"writer {number}"]) for number in range(8)]
    time.sleep(1)  # who comes first, makes the archive
    while _not_there(url):
        time.sleep(0.1)
    readers = [subprocess.Popen([*with_script, READER, url]) for _ in range(2)]
    assert [process.wait(120) for process in writers] == [0] * 8
    assert [process.wait(60) for process in readers] == [0] * 2
    with Archive.open(url) as archive:
        assert archive.count() == 8 * 12 * 50 + 12 * 50
        assert check(archive) == []


def test_an_import_survives_a_restart_of_the_server(
    server: Postgres, log: Path, clean: tuple[list[Attempt], float]
) -> None:
    expected, seconds = clean
    url = server.new_database()
    for part in (0.4, 0.7):
        process = importing(log, url)
        time.sleep(part * seconds)
        server.stop("immediate")
        time.sleep(0.5)
        server.start()
        _, said = process.communicate()
        assert process.returncode in (0, 1), said
        assert "Traceback" not in said
        if process.returncode:
            assert "tonnage: postgresql" in said
    assert importing(log, url).wait() == 0
    assert contents(url) == expected


def test_a_server_that_is_not_there_is_an_error_in_words(tmp_path: Path, log: Path) -> None:
    process = importing(log, f"postgresql://me@/jobs?host={tmp_path}")
    _, said = process.communicate()
    assert process.returncode == 1
    assert "is the server running" in said
    assert "Traceback" not in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_an_error_and_leaves_the_archive_intact(
    small_disk: Path, log: Path, clean: tuple[list[Attempt], float]
) -> None:
    url = f"sqlite:///{small_disk}/archive.db"
    small = small_disk.parent / "small.csv"
    small.write_text("".join(log.read_text().splitlines(keepends=True)[:2001]))
    assert importing(small, url, "--label", "jobs").wait() == 0
    process = importing(log, url)
    _, said = process.communicate()
    assert process.returncode == 1
    assert "full" in said
    assert "Traceback" not in said
    found = contents(url)
    assert len(found) >= 2000
    subprocess.run(["mount", "-o", "remount,size=100m", str(small_disk)], check=True)
    assert importing(log, url).wait() == 0
    assert contents(url) == clean[0]


def test_a_read_only_archive_can_be_read_and_not_written(tmp_path: Path, log: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    folder = Path("/tmp") / f"tonnage-read-only-{os.getpid()}"
    folder.mkdir()
    try:
        url = f"sqlite:///{folder}/archive.db"
        small = folder / "jobs.csv"
        small.write_text("category,memory\na,1\n")
        assert importing(small, url).wait() == 0
        (folder / "archive.db").chmod(0o644)  # an archive is private unless its owner shares it
        other_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *TONNAGE, "archive"]
        options = {"cwd": "/", "capture_output": True, "text": True}
        read = subprocess.run([*other_user, "query", "--archive", url, "--json"], check=False, **options)  # type: ignore[call-overload]
        assert read.returncode == 0, read.stderr
        assert '"category": "a"' in read.stdout
        small.write_text("category,memory\nb,1\n")
        wrote = subprocess.run([*other_user, "import", str(small), "--archive", url], check=False, **options)  # type: ignore[call-overload]
        assert wrote.returncode == 1
        assert "cannot be written" in wrote.stderr
        assert "Traceback" not in wrote.stderr
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)
