"""Nothing is lost: killed imports, many writers, restarted servers, full disks, read-only files."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.archive.servers import Postgres
from tests.command_line import Said
from tests.deadlines import HANGS
from tests.waiting import until
from tests.warm import Warm, context
from tonnage.archive import Archive, check, find, histories, import_source
from tonnage.archive.engine import explained
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt
from tonnage.logs import synthetic
from tonnage.logs.sources import Source

KILLS = max(3, int(os.environ.get("TONNAGE_SOAK", "0")) // 10)
TONNAGE = [sys.executable, "-m", "tonnage"]
# An import of few rows is one of many batches where these are small.
SMALL = {f"tonnage.archive.importing.{name}": 50 for name in ("_FIRST_BATCH", "_LARGEST_BATCH", "_READ_AT_ONCE")}

PIECEMEAL = {**SMALL, "tonnage.files._CHUNK": 4096}  # a reader of a pipe waits until it has so many bytes


def made(folder: Path, rows: int) -> Path:
    """Write a log in which some rows are equal."""
    lines = synthetic.render(synthetic.generate("trimodal", rows)).splitlines(keepends=True)
    (folder / "jobs.csv").write_text("".join(lines + lines[1:30]))
    return folder / "jobs.csv"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of thirty batches, if they are small."""
    return made(tmp_path_factory.mktemp("log"), 1_500)


def importing(log: Path, url: str, *options: str, constants: Mapping[str, float] | None = None) -> Warm:
    return Warm("archive", "import", log, "--archive", url, *options, constants={**SMALL, **(constants or {})})


def imported(log: Path, url: str, *options: str) -> Said:
    with importing(log, url, *options) as process:
        return process.said()


def contents(url: str) -> list[Attempt]:
    with Archive.open(url) as archive:
        assert check(archive) == []
        return list(find(archive))


def stored(url: str) -> int:
    """Return how many attempts an archive holds, which may not be there yet."""
    try:
        with Archive.open(url) as archive:
            return archive.count()
    except InputError:
        return 0


def begin_to_store(process: Warm, url: str) -> None:
    """Wait until an import has stored something, or is at its end."""
    before = stored(url)
    until(lambda: process.poll() is not None or stored(url) != before)


@contextmanager
def half_of(log: Path, folder: Path) -> Iterator[Path]:
    """Give a pipe with the name and the first lines of a log, whose end does not come: no import of it can finish."""
    pipe = folder / log.name
    os.mkfifo(pipe)
    with pipe.open("r+b", buffering=0) as writing:  # as a reader too, so that it waits for nobody
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 2**20)
        lines = log.read_bytes().splitlines(keepends=True)
        writing.write(b"".join(lines[: len(lines) // 2]))
        yield pipe


@pytest.fixture(scope="module")
def clean(log: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Attempt]:
    """What one undisturbed import gives."""
    url = f"sqlite:///{tmp_path_factory.mktemp('clean')}/archive.db"
    assert imported(log, url).status == 0
    return contents(url)


def kill_again_and_again(log: Path, url: str, folder: Path) -> None:
    """Kill an import in its midst, then at any moment, and do it once more to its end."""
    with half_of(log, folder) as pipe, importing(pipe, url, constants=PIECEMEAL) as process:
        begin_to_store(process, url)
        assert process.poll() is None, process.said()
    chance = random.Random(4)
    for _ in range(KILLS - 1):
        with importing(log, url) as process:
            begin_to_store(process, url)
            time.sleep(chance.uniform(0, 0.03))  # where a disk is memory, it may be at its end by then
    assert imported(log, url).status == 0


def test_an_import_that_is_killed_again_and_again_loses_and_doubles_nothing(
    url: str, log: Path, clean: list[Attempt], tmp_path: Path
) -> None:
    kill_again_and_again(log, url, tmp_path)
    assert contents(url) == clean


@pytest.mark.long
def test_a_long_import_that_is_killed_again_and_again_loses_and_doubles_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.archive.test_robust.SMALL", {})
    log, other = made(tmp_path, 24_000), f"sqlite:///{tmp_path}/clean.db"
    (tmp_path / "pipe").mkdir()
    kill_again_and_again(log, url, tmp_path / "pipe")
    assert imported(log, other).status == 0
    assert contents(url) == contents(other)


def test_an_import_that_is_interrupted_says_so_and_goes_on_later(url: str, log: Path, clean: list[Attempt]) -> None:
    with importing(log, url) as process:
        begin_to_store(process, url)
        process.send_signal(signal.SIGINT)
        said = process.said()
    assert said.status in (0, 130)
    assert said.status == 0 or not said.stderr or "repeat the command to continue" in said.stderr
    assert imported(log, url).status == 0
    assert contents(url) == clean


def test_ctrl_c_is_ctrl_c_even_if_the_driver_fails_to_clean_up_after_it(archive: Archive) -> None:
    driver: Any = archive.engine.dialect.loaded_dbapi
    with pytest.raises(KeyboardInterrupt), explained(archive.engine):
        try:
            raise KeyboardInterrupt
        finally:
            raise driver.ProgrammingError("can't change 'autocommit' now: connection in transaction status ACTIVE")


def write_parts(url: str, name: str, parts: int) -> None:
    with Archive.open(url, create=True) as archive:
        for part in range(parts):
            own = [
                Attempt(
                    row=f"{name} {part} {number}",
                    category=name,
                    run=f"run {part}",
                    task=f"task {number}",
                    used=Amounts.of(memory=number),
                    fields={"part": str(part)},
                )
                for number in range(50)
            ]
            shared = [
                Attempt(native_id=f"shared {part} {number}", category="shared", run="shared") for number in range(50)
            ]
            import_source(archive, Source(name, f"{name} {part}", "csv", iter(own)))
            import_source(archive, Source("shared", "shared", "csv", iter(shared)))


def read_until(url: str, count: int) -> None:
    seen = -1
    with Archive.open(url) as archive:
        while seen < count:
            sizes = {name: len(history) for name, history in histories(archive).items()}
            assert all(size % 50 == 0 for size in sizes.values()), sizes  # a batch is there, or it is not
            assert sum(sizes.values()) >= seen
            seen = sum(sizes.values())


@pytest.mark.parametrize(("writers", "parts"), [(4, 4), pytest.param(8, 12, marks=pytest.mark.long)])
def test_writers_and_readers_at_once(url: str, writers: int, parts: int) -> None:
    total = (writers + 1) * parts * 50
    processes = [context.Process(target=write_parts, args=(url, f"writer {n}", parts)) for n in range(writers)]
    for process in processes:
        process.start()
    until(lambda: stored(url))  # who comes first, makes the archive
    readers = [context.Process(target=read_until, args=(url, total)) for _ in range(2)]
    for process in readers:
        process.start()
    for process in (*processes, *readers):
        process.join(HANGS)
        assert process.exitcode == 0
    with Archive.open(url) as archive:
        assert archive.count() == total
        assert check(archive) == []


def test_an_import_survives_a_restart_of_the_server(postgres: Postgres, log: Path, clean: list[Attempt]) -> None:
    url = postgres.new_schema()
    with importing(log, url) as process:
        begin_to_store(process, url)
        postgres.stop("immediate")
        postgres.start()
        said = process.said()
    assert said.status in (0, 1), said.stderr
    if said.status:
        assert "tonnage: postgresql" in said.stderr
    assert imported(log, url).status == 0
    assert contents(url) == clean


def test_a_server_that_is_not_there_is_an_error_in_words(tmp_path: Path, log: Path) -> None:
    said = imported(log, f"postgresql://me@/jobs?host={tmp_path}")
    assert said.status == 1
    assert "is the server running" in said.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_an_error_and_leaves_the_archive_intact(
    small_disk: Path, log: Path, clean: list[Attempt]
) -> None:
    url = f"sqlite:///{small_disk}/archive.db"
    small = small_disk.parent / "small.csv"
    small.write_text("".join(log.read_text().splitlines(keepends=True)[:201]))
    assert imported(small, url, "--label", "jobs").status == 0
    said = imported(log, url)
    assert said.status == 1
    assert "full" in said.stderr
    assert len(contents(url)) >= 200
    subprocess.run(["mount", "-o", "remount,size=100m", str(small_disk)], check=True)
    assert imported(log, url).status == 0
    assert contents(url) == clean


def test_a_read_only_archive_can_be_read_and_not_written(tmp_path: Path, log: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    folder = Path("/tmp") / f"tonnage-read-only-{os.getpid()}"
    folder.mkdir()
    try:
        url = f"sqlite:///{folder}/archive.db"
        small = folder / "jobs.csv"
        small.write_text("category,memory\na,1\n")
        assert imported(small, url).status == 0
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
