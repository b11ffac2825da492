"""Every verb through its real entry point, a process of its own; what verbs do is tested without one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import CommandLine, verbs
from tests.deadlines import HANGS
from tests.pack.swf_logs import busy_log
from tests.report.journals import Try, write_run
from tonnage.workflow import write
from tonnage.workflow.families import FAMILIES

KMERS = Path(__file__).resolve().parents[2] / "examples" / "kmers"
JOBS = "category,memory,wall_time\n" + "".join(
    f"{'ab'[n % 2]},{1000 + 4000 * (n % 2) + n},{60 + n}\n" for n in range(40)
)
CALLS = {
    "show": (["kmers/kmers.dag", "--json"], '"tasks": 26'),
    "generate cybershake": (["--tasks", "50", "-o", "small.dag"], "small.dag: 50 tasks, 92 dependencies, 4 levels"),
    "generate jobs": (["--jobs", "30", "-o", "made.csv"], "made.csv: 30 jobs"),
    "watch": (["--", "echo", "hello"], "hello"),
    "archive import": (["jobs.csv"], "40 rows read"),
    "archive query": (["--category", "a", "--csv"], "1000000000"),
    "archive stats": (["--json"], '"jobs": 20'),
    "archive export": (["-o", "out.csv"], "40 jobs"),
    "archive forget": (["--keep", "1"], "38 jobs would be removed"),
    "archive check": ([], "40 jobs, no problems"),
    "archive migrate": ([], "has version"),
    "archive send": (["--archive", "http://localhost:9"], "0 attempts sent, 0 waiting"),
    "size": (["jobs.csv", "--strategy", "max-seen"], "1.04 GB"),
    "discover": (["jobs.csv", "--eps", "100"], "2 clusters"),
    "rank": (["kmers/kmers.dag", "-o", "order.csv"], "order.csv: written"),
    "pack": (["w.json", "--queue", "busy.swf", "--strategy", "one-job", "--json"], '"strategy": "one-job"'),
    "run": (["--help"], "Usage: tonnage run"),
    "status": ([], "made-20231114-221320"),
    "logs": (["--help"], "Usage: tonnage logs"),
    "stop": (["--help"], "Usage: tonnage stop"),
    "report": (["jobs.csv", "-o", "jobs.html"], "jobs.html: "),
    "serve": (["--help"], "Usage: tonnage serve"),
    "replay pack": (["w.json", "--queue", "busy.swf", "--every", "1d", "--strategies", "one-job,zhang"], "one-job"),
    "replay rank": (["w.json", "--samples", "2", "--runs", "2"], "prio"),
    "replay run": (["jobs.csv", "--machines", "2x4c16GB"], "40 jobs on 2 machines"),
    "help": (["run"], "Usage: tonnage run"),
    "config trust": (["--help"], "Usage: tonnage config trust"),
    "replay size": (["jobs.csv", "--strategies", "max-seen"], "40 jobs by category"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a little of everything; no verb changes what another one reads."""
    folder = tmp_path_factory.mktemp("verbs")
    shutil.copytree(KMERS, folder / "kmers")
    (folder / "jobs.csv").write_text(JOBS)
    write(FAMILIES["epigenomics"].generate(30), folder / "w.json")
    busy_log(folder)
    write_run(folder, [("a", "align")], [Try(0)], finished="1700000001")
    CommandLine(folder, environment(folder))("archive", "import", "jobs.csv")
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TONNAGE_ARCHIVE": str(folder / "archive.db")}


@pytest.mark.parametrize("verb", CALLS)
def test_every_verb_works_as_a_process(folder: Path, verb: str) -> None:
    words, said = CALLS[verb]
    command = [sys.executable, "-m", "tonnage", *verb.split(), *words]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout + done.stderr


def test_no_verb_is_left_out() -> None:
    families = {f"generate {name}" for name in FAMILIES} - {"generate cybershake"}  # one piece of code makes them all
    assert set(CALLS) == {name for name, _ in verbs()} - families
