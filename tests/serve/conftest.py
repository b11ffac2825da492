"""Servers over archives on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.servers import Postgres
from serve.filled import fill
from serve.serving import Server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an archive that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture(scope="module")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with Server(f"sqlite:///{folder}/served.db", folder=folder) as server:
        yield server


@pytest.fixture
def served(empty_server: Server) -> Server:
    """A server over an empty archive in a file; nobody has logged in yet."""
    empty_server.stranger.cookies.clear()
    return empty_server


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over an archive in a file with some hundred jobs."""
    folder = tmp_path_factory.mktemp("filled")
    fill(f"sqlite:///{folder}/filled.db")
    with Server(f"sqlite:///{folder}/filled.db", folder=folder) as server:
        yield server
