"""Archives on both databases, and attempts to fill them with."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from archive.servers import Postgres
from tonnage.archive import Archive, Report, import_source
from tonnage.jobs import Attempt
from tonnage.logs.sources import Source


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an archive that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    server: Postgres = request.getfixturevalue("server")
    return server.new_database()


@pytest.fixture
def archive(url: str) -> Iterator[Archive]:
    with Archive.open(url, create=True) as opened:
        yield opened


Store = Callable[..., Report]


@pytest.fixture
def store(archive: Archive) -> Store:
    """Store attempts as an import would."""

    def stored(attempts: Sequence[Attempt], label: str = "test") -> Report:
        return import_source(archive, Source("test", label, "csv", iter(attempts)))

    return stored
