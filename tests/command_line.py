"""The command line, called in this process: many times as fast as a process of its own."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tonnage.cli import run as _run  # imported before the verb's module of the same name hides it

__all__ = ["Call", "Said", "tonnage_in_process"]


@dataclass(frozen=True)
class Said:
    """What came of one call."""

    status: int
    stdout: str
    stderr: str

    @property
    def facts(self) -> Any:
        """What --json printed."""
        return json.loads(self.stdout)


Call = Callable[..., Said]


@pytest.fixture
def tonnage_in_process(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call `tonnage` with words; errors are told as users see them."""

    def call(*words: object) -> Said:
        capsys.readouterr()
        status = _run([str(word) for word in words])
        said = capsys.readouterr()
        return Said(status, said.out, said.err)

    return call
