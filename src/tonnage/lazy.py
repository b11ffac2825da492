"""Imports that wait until something is used: names are known before what they stand for is loaded.

The command line offers the names of strategies, packers, formats and so on. Each stands once, in a registry: a plain
dict in a module that loads at once, because its values are `Deferred` and because the package around it `exports`
lazily.
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
    """A function that is imported when it is called, by its path: ``tonnage.pack.glume:glume``."""

    path: str

    def load(self) -> Any:  # noqa: ANN401 (only the registry knows what a path stands for)
        """Import the function."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        """Import and call it."""
        return self.load()(*arguments, **options)


def exports(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: it imports what ``if TYPE_CHECKING:`` in its `__init__` would.

    So the names stand where type checkers read them, and each is imported when it is first asked for. None may be the
    name of a module of the package too: once that is imported, Python would return the module instead.
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
    """Return the module that each name comes from which a file imports for type checkers only."""
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
