"""Archives on both databases, and attempts to fill them with."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tonnage.archive import Archive, Report, import_source
from tonnage.jobs import Attempt
from tonnage.logs.sources import Source


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
