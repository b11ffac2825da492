"""Stand-ins for an HTCondor pool, one for each test."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.htcondor.pool import Pool

PoolWith = Callable[..., Pool]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these to `make test-all`: pools take minutes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def pool(pool_with: PoolWith) -> Pool:
    """Two machines of four cores."""
    return pool_with()


@pytest.fixture
def pool_with() -> Iterator[PoolWith]:
    """Start pools with other settings: `pool_with(machines=1, memory=512)`; the test's end is theirs."""
    with ExitStack() as stack:
        yield lambda **settings: _started(stack, **settings)


def _started(stack: ExitStack, **settings: Any) -> Pool:
    if find_spec("htcondor2") is None:
        reason = "the package htcondor is not installed"
        pytest.fail(reason) if os.environ.get("TONNAGE_CI") else pytest.skip(reason)
    # Not below pytest's folders: their names are long for a socket.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tonnage-htcondor-", dir="/tmp"))
    return stack.enter_context(Pool(Path(folder), **settings))
