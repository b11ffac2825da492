"""Packages that serve as oracles; in CI a missing one is a failure, not a skip."""

import importlib
import os
from typing import Any

import pytest


def package(module: str, name: str) -> Any:
    """Return a module of the package of this name on PyPI."""
    try:
        return importlib.import_module(module)
    except ImportError:
        message = f"the package {name} is not installed"
        if os.environ.get("TONNAGE_CI"):
            pytest.fail(message)
        pytest.skip(message)
