"""Servers over archives on both databases."""

from collections.abc import Iterator

import pytest

from tests import warm
from tests.serve.sample_archive import fill
from tests.serve.server import Server
from tonnage.serve import background_jobs


@pytest.fixture(autouse=True)
def work_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers in this process fork those that do their work, not start a new Python each time."""
    monkeypatch.setattr(background_jobs, "get_context", lambda _: warm.context)


@pytest.fixture(scope="module")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with Server(f"sqlite:///{folder}/served.db", folder=folder) as server:
        yield server


@pytest.fixture
def served(empty_server: Server) -> Server:
    """A server over an archive in a file that was empty at first; nobody has logged in yet."""
    empty_server.stranger.cookies.clear()
    return empty_server


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over an archive in a file with some hundred jobs; tests only read from it."""
    folder = tmp_path_factory.mktemp("filled")
    fill(f"sqlite:///{folder}/filled.db")
    with Server(f"sqlite:///{folder}/filled.db", folder=folder) as server:
        yield server
