"""Watched programs: an actor whose true use is known, run as root and as an ordinary user."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

import tonnage
from tests.deadlines import HANGS
from tonnage import Summary

MB = 2**20
NOBODY = 65534
_SOURCE = Path(__file__).parent / "programs" / "actor.c"


@dataclass(frozen=True)
class Watched:
    """The result of one call of ``tonnage watch``."""

    status: int
    stdout: str
    stderr: str
    path: Path

    @property
    def summary(self) -> Summary:
        return Summary.read(self.path)


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that every user can read: pytest's own are private."""
    folder = Path(mkdtemp(prefix="tonnage-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _build(place: Path, name: str, *flags: str) -> str:
    target = place / name
    subprocess.run(["cc", "-O2", "-o", target, _SOURCE, "-pthread", *flags], check=True)
    return str(target)


@pytest.fixture(scope="session")
def actor(place: Path) -> str:
    """The program that acts out its arguments; see programs/actor.c."""
    return _build(place, "actor")


@pytest.fixture(scope="session")
def static_actor(place: Path) -> str:
    return _build(place, "actor-static", "-static")


@pytest.fixture(scope="session")
def open_monitor(place: Path) -> list[str]:
    """The monitor in a form that any user can run: a copy of the package, with the system's own Python."""
    shutil.copytree(Path(tonnage.__file__).parent, place / "lib" / "tonnage")
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    return [
        python,
        "-c",
        f"import sys; sys.path.insert(0, {str(place / 'lib')!r}); import tonnage.__main__ as m; m.main()",
    ]


# A shell that runs tests in the background makes them, and every command that they start, ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)

USERS = ["nobody", "root"] if os.getuid() == 0 else ["user"]

# For tests that depend on the user's privileges: fork records, control groups, others' processes. Elsewhere the user
# makes no difference, and make test uses only one.
every_user = pytest.mark.parametrize("user", USERS)


@pytest.fixture(params=[USERS[0], *(pytest.param(user, marks=pytest.mark.long) for user in USERS[1:])])
def user(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def workdir(place: Path, user: str) -> Iterator[Path]:
    """An empty folder that the user can write to."""
    folder = Path(mkdtemp(prefix="work-", dir=place))
    if user == "nobody":
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def monitor(open_monitor: list[str], user: str) -> list[str]:
    """The words before the options of ``tonnage watch``."""
    if user == "nobody":
        identity = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        return ["setpriv", *identity, "--", *open_monitor, "watch"]
    return [sys.executable, "-m", "tonnage", "watch"]


@pytest.fixture
def watched(monitor: list[str], workdir: Path, user: str) -> Callable[..., Watched]:
    """Run a command under the monitor: ``watched("--limit", "memory=1GB", command=[...])``."""

    def run(*options: str, command: list[str]) -> Watched:
        path = workdir.parent / f"{workdir.name}.json"
        path.unlink(missing_ok=True)
        if user == "nobody":
            spool = workdir.parent / f"{workdir.name}.d"
            spool.mkdir(exist_ok=True)
            os.chown(spool, NOBODY, NOBODY)
            path = spool / "summary.json"
        ended = subprocess.run(
            [*monitor, "--summary", str(path), *options, "--", *command],
            cwd=workdir,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        return Watched(ended.returncode, ended.stdout, ended.stderr, path)

    return run
