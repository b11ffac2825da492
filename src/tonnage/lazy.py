"""Lazy imports: names are available before the code behind them is loaded.

The command line offers the names of strategies, packers, formats and so on. Each is listed once, in a registry: a plain
dict in a module that loads quickly, because its values are `Deferred` and because its package `exports` lazily.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Deferred", "exports"]


@dataclass(frozen=True, slots=True)
class Deferred:
    """A function given by its path, such as ``tonnage.pack.glume:glume``, and imported when it is called."""

    path: str

    def load(self) -> Any:  # noqa: ANN401 (only the registry knows the type)
        """Import the function."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        """Import the function and call it."""
        return self.load()(*arguments, **options)


def exports(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: it imports the names listed under ``if TYPE_CHECKING:`` in its `__init__`.

    The names are where type checkers read them, and each is imported on first use. None of them may also be the name of
    a module of the package: once that is imported, Python would return the module instead.
    """

    def get(name: str) -> object:
        module = sys.modules[package]
        home = _homes(Path(module.__file__ or "")).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return get


def _homes(path: Path) -> dict[str, str]:
    """Return the module of each name that a file imports for type checkers only."""
    import ast

    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked = (
        line
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for line in node.body
        if isinstance(line, ast.ImportFrom)
    )
    return {alias.name: line.module or "" for line in checked for alias in line.names}
