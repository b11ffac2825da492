"""Slurm clusters: one that the tests of a worker share, and others for one test each."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import SlurmCluster, missing

SlurmWith = Callable[..., SlurmCluster]
_SMOKE = "test_smoke.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but a smoke test to `make test-all`: clusters take minutes."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.name != _SMOKE:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """Eight nodes that all tests of a worker share: leave them as you found them, or use `clear_slurm`."""
    with ExitStack() as stack:
        yield _started(stack)


@pytest.fixture
def clear_slurm(slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """The shared cluster; what a test leaves in its queue is cancelled."""
    yield slurm
    slurm.clear()


@pytest.fixture
def slurm_with() -> Iterator[SlurmWith]:
    """Start clusters with other settings: `slurm_with(nodes=2, accounting=True)`; the test's end is theirs."""
    with ExitStack() as stack:
        yield lambda **settings: _started(stack, **settings)


def _started(stack: ExitStack, **settings: Any) -> SlurmCluster:
    reason = missing(settings.get("accounting", False))
    if reason and os.environ.get("TONNAGE_CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    # Not below pytest's folders: their names are long for a socket.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tonnage-slurm-", dir="/tmp"))
    return stack.enter_context(SlurmCluster(Path(folder), **settings))
