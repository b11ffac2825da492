"""Files that hold command lines are private to their owner, whatever the umask; a task's own files are its own."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from tests.run.batch_jobs import BatchJob, SingleTasks
from tonnage.archive import Archive
from tonnage.archive.remote.outbox import Outbox
from tonnage.archive.remote.server import Server
from tonnage.archive.remote.upload import Parcel
from tonnage.archive.token import make_token
from tonnage.batch.htcondor.dag import Dag, Order, write_dag
from tonnage.cli import main as tonnage
from tonnage.run.backends.htcondor.dag_plan import write_nodes
from tonnage.run.backends.htcondor.post_script import main as post
from tonnage.run.executor.executor import Executor
from tonnage.workflow import Task

OWN = "touch own"  # the task's own file
# Files that others could read during a run, as seen by a task.
SEEN = "find . -perm /077 ! -type l ! -name own ! -name bad ! -name seen >seen"
JOBS = "category,command,memory,wall_time\nalign,bwa --password x,300,10\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's own folder and archive, under a umask that removes no permissions."""
    folder = tmp_path / "here"
    folder.mkdir(0o700)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TONNAGE_ARCHIVE", str(folder / "data" / "archives" / "archive.db"))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "xdg" / "data"))
    (folder / "jobs.csv").touch(0o600)
    (folder / "jobs.csv").write_text(JOBS)
    old = os.umask(0)
    yield folder
    os.umask(old)


def written(name: str, text: str) -> str:
    """Write a workflow, whose mode is up to the user."""
    Path(name).touch(0o600)
    Path(name).write_text(text)
    return name


def import_jobs() -> None:
    assert tonnage(["archive", "import", "jobs.csv"]) == 0
    with Archive.open() as archive:  # its write-ahead log and shared memory exist only while it is open
        assert archive.count() == 1
        assert {path.name for path in Path("data/archives").iterdir()} > {"archive.db", "archive.db-wal"}
        check_all()


def upgrade_an_archive() -> None:
    import_jobs()
    with closing(sqlite3.connect("data/archives/archive.db")) as archive:
        archive.executescript("DROP INDEX attempts_category_memory; UPDATE alembic_version SET version_num = '0001'")
    Archive.open().close()
    assert Path("data/archives/archive.db.backup-0001").is_file()


def export_jobs() -> None:
    import_jobs()
    assert tonnage(["archive", "export", "--output", "export.csv"]) == 0
    assert "password" in Path("export.csv").read_text()


def report_jobs() -> None:
    assert tonnage(["report", "jobs.csv", "--output", "report.html"]) == 0


def watch() -> None:
    options = ["--summary", "summary.json", "--series", "series.csv", "--spool", "spool/here"]
    subprocess.run([sys.executable, "-m", "tonnage", "watch", *options, "--", "sh", "-c", OWN], check=True)


def run_on_this_machine(*options: str) -> None:
    text = f"own seen:\n\techo secret; echo secret >&2; {OWN}; (cd {Path.cwd()}; {SEEN}); touch own seen\n"
    written("w.makeflow", f"{text}bad:\n\ttouch bad; exit 1\n")
    assert tonnage(["run", "w.makeflow", "--machine", "cores=2,memory=1GB,disk=1GB", *options]) == 1
    check_what_was_seen()
    left = [path for path in Path(".tonnage").rglob("bad") if path.is_file()]
    assert len(left) == 1
    left[0].unlink()  # files written by a failed task are its own


def run_in_sandboxes() -> None:
    run_on_this_machine("--sandbox")


def call_functions() -> None:
    with Executor(folder=Path.cwd()) as pool:
        pool.submit(subprocess.run, ["sh", "-c", f"{OWN}; {SEEN}"], check=True).result()
    check_what_was_seen()


def run_a_batch_job() -> None:
    run = SingleTasks(Path.cwd() / "run")
    run.add(f"echo secret; cd {Path.cwd()}; {OWN}; {SEEN}", folder=str(Path.cwd()))
    run.call()
    check_what_was_seen()


def run_a_pilot_job() -> None:
    job = BatchJob(Path.cwd(), nodes=("n1",))
    job.add("one", f"echo secret; {OWN}; {SEEN}")
    job.add("two", "touch bad; exit 1", outputs=("bad",))
    job.go()
    check_what_was_seen()
    (left,) = job.run.rglob("bad")
    left.unlink()


def write_for_htcondor() -> None:
    folder = Path.cwd() / "runs" / "1"
    order = Order(Task("a", "prog --password x"), (), 1)
    nodes = write_dag(Dag(folder=folder, home=Path.cwd(), title="w", orders=[order], children=[[]], retries=1))
    write_nodes(folder, nodes, [0], {})
    assert post([str(folder), "1", "0", "7.0", "0", "1", "1", "1", "0"]) == 1
    assert os.access(folder / "task.sh", os.X_OK)
    work = [str(folder / "task.sh"), str(folder / "monitor.pyz"), f"{folder}/summaries/0.7", f"{folder}/partial/0.7"]
    script = f"echo secret; touch bad; {OWN}; (cd {Path.cwd()}; {SEEN}); exit 1"
    assert subprocess.run([*work, script, "bad"], check=False).returncode == 1
    check_what_was_seen()
    (folder / "partial" / "0.7" / "bad").unlink()


def wait_for_a_server() -> None:
    spool = Outbox(Server.of("http://127.0.0.1:1"))
    spool.put({"label": "x"}, {}, [{"command": "secret"}])
    spool.send(0.0)
    spool._park(Parcel({"label": "x"}, {}, [{}]), {"command": "secret"}, "it is odd")
    make_token()


def check_what_was_seen() -> None:
    """Check that nothing was readable by others while a task ran."""
    assert Path("seen").read_text() == ""
    Path("seen").unlink()


ACTIONS = [
    import_jobs,
    upgrade_an_archive,
    export_jobs,
    report_jobs,
    watch,
    run_on_this_machine,
    run_in_sandboxes,
    call_functions,
    run_a_batch_job,
    run_a_pilot_job,
    write_for_htcondor,
    wait_for_a_server,
]


@pytest.mark.parametrize("act", ACTIONS)
def test_whatever_the_umask_only_the_owner_can_read_what_holds_command_lines(act: Callable[[], None]) -> None:
    act()
    check_all()
    if Path("own").exists():
        assert S_IMODE(Path("own").stat().st_mode) == 0o666


def check_all() -> None:
    """Check that everything below this folder is private, apart from a task's own file."""
    found = [path for path in Path().rglob("*") if not path.is_symlink() and path != Path("own")]
    assert found
    assert [str(path) for path in found if S_IMODE(path.stat().st_mode) & 0o077] == []


def test_existing_files_keep_their_modes_and_the_umask_decides_about_workflows() -> None:
    Path("shared").mkdir(0o755)
    written("shared/archive.db", "")
    Path("shared/archive.db").chmod(0o640)
    assert tonnage(["archive", "import", "jobs.csv", "--archive", "shared/archive.db"]) == 0
    assert tonnage(["generate", "montage", "--tasks", "20", "--output", "w.dag"]) == 0
    assert tonnage(["rank", "w.dag", "--output", "ranked.dag"]) == 0
    expected = {"shared": 0o755, "shared/archive.db": 0o640, "w.dag": 0o666, "ranked.dag": 0o666}
    assert {name: S_IMODE(Path(name).stat().st_mode) for name in expected} == expected
