"""Fixtures for all tests: real data, the command line, programs; and the profiles of hypothesis."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from tests.archive.servers import postgres, url
from tests.browsers import artefacts, browsers, chromium
from tests.command_line import CommandLine
from tests.slurm_programs import slurm_programs

settings.register_profile("default", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("TONNAGE_HYPOTHESIS", "default"))

__all__ = [
    "artefacts",
    "browsers",
    "chromium",
    "command_line",
    "data",
    "one_core",
    "postgres",
    "slurm_programs",
    "tool",
    "url",
]

_HERE = Path(__file__).resolve().parent
# Tests must not use the settings of the user who runs them; browsers write settings of their own.
_SETTINGS = TemporaryDirectory(prefix="tonnage-settings-", ignore_cleanup_errors=True)
os.environ["XDG_CONFIG_HOME"] = _SETTINGS.name
os.environ.pop("COLUMNS", None)  # the width of tables


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real logs and workflows; tests that need it are skipped if there is none."""
    folder = Path(os.environ.get("TONNAGE_DATA", _HERE.parent.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: neither $TONNAGE_DATA nor ../shared/data exists")
    return folder


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    """Call ``tonnage`` in the test's own folder, with its own archive."""
    return CommandLine(tmp_path, {"TONNAGE_ARCHIVE": str(tmp_path / "archive.db"), "TZ": "UTC"})


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make replays use one core: starting processes takes longer than replaying the tests' small inputs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


@pytest.fixture(scope="session")
def tool() -> "ToolFinder":
    """Find a program that serves as an oracle; if it is missing, skip the test, or fail in CI."""
    return ToolFinder()


class ToolFinder:
    """Looks for programs on the PATH."""

    def __call__(self, name: str, package: str) -> str:
        found = shutil.which(name)
        if found:
            return found
        message = f"{name} is not installed (Debian package {package})"
        if os.environ.get("TONNAGE_CI"):
            pytest.fail(message)
        pytest.skip(message)
