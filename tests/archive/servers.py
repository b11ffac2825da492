"""A PostgreSQL server of the tests' own: on a socket in a folder of its own, started and stopped by them.

The fixtures `postgres` and `url` are known to all tests (tests/conftest.py).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["Postgres", "postgres", "url"]


class Postgres:
    """One server; each test gets an empty place in it."""

    def __init__(self, *, durable: bool = False) -> None:
        """Start a server; one that is not durable does not wait for the disk."""
        self._bin = _programs()
        self._durable = durable
        self._folder = Path(tempfile.mkdtemp(prefix="tonnage-pg-", dir="/tmp"))
        self._folder.chmod(0o755)
        self._data = self._folder / "data"
        self._count = 0
        self._as = []
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self._folder, "postgres", "postgres")
            self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses='' -c fsync={'on' if self._durable else 'off'}"
        options += " -c max_connections=60"
        options += "" if self._durable else " -c full_page_writes=off"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-l", log, "-o", options, "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        name = self._new("DATABASE")
        return f"postgresql://tester@/{name}?host={self._folder}"

    def new_schema(self) -> str:
        """Return a URL that is as good as that of an empty database, and made in no time."""
        name = self._new("SCHEMA")
        return f"postgresql://tester@/postgres?host={self._folder}&options=-csearch_path%3D{name}"

    def _new(self, what: str) -> str:
        import psycopg

        self._count += 1
        name = f"test{self._count}"
        with psycopg.connect(f"host={self._folder} user=tester dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE {what} {name}")
        return name

    def close(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._bin / program), *arguments]
        with (self._folder / "output").open("w") as output:  # a server that keeps a pipe open would make us wait
            done = subprocess.run(command, stdout=output, stderr=output, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {(self._folder / 'output').read_text()}")


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    message = "PostgreSQL is not installed (Debian package postgresql)"
    if os.environ.get("TONNAGE_CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server for all tests of this process."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an archive that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_schema()
