"""The rooms of the package: which may import which (docs/architecture.md)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tonnage

PACKAGE = Path(tonnage.__file__).parent

# Each floor may use the floors before it; rooms on the same floor do not import each other.
FLOORS = [
    {"units", "errors", "wording"},
    {"atomic", "jit", "die_with_parent", "lazy"},
    {"files"},
    {"jobs", "watch"},
    {"waste"},
    {"option_values"},
    {"config"},
    {"workflow"},
    {"logs"},
    {"archive", "size", "rank", "batch"},
    {"pack", "job_sources"},
    {"run"},
    {"api"},
    {"lab"},
    {"report"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# On the ground floor, amounts that cannot be parsed are reported as errors.
NEIGHBOURS = {("units", "errors")}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[str]:
    """Yield every room that a module imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "tonnage" else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = (name or "").split(".")
            if parts[0] == "tonnage" and len(parts) > 1 and not parts[1].startswith("__"):
                yield parts[1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_only_to_earlier_floors(path: Path) -> None:
    own = room(path)
    if own == "__init__":
        return  # it imports for type checkers only: see the test below
    assert own in FLOOR, f"{own} is not a room of ARCHITECTURE.md"
    for other in imported_rooms(path):
        allowed = other == own or FLOOR[other] < FLOOR[own] or (own, other) in NEIGHBOURS
        assert allowed, f"{own} must not import {other}"


def test_the_documentation_says_the_same() -> None:
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    sentence = page.partition("Imports point one way:")[2].partition(". Rooms")[0]
    said = [set(floor.split(", ")) for floor in re.findall(r"`([^`]+)`", sentence)]
    assert said == [floor for floor in FLOORS if floor != {"__main__"}]
    tree = page.partition("src/tonnage/\n")[2].partition("\n\n")[0]
    for one in set().union(*said):
        assert f"{one}/" in tree or f"{one}.py" in tree, f"{one} is not in the picture of the rooms"


def test_a_forbidden_import_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "def f():\n    from tonnage.cli import run\n    import tonnage.workflow.model\n    from tonnage import jobs\n"
    )
    assert list(imported_rooms(module)) == ["cli", "workflow", "jobs"]


def test_the_package_loads_nothing_before_it_is_asked_for() -> None:
    code = (
        "import sys, tonnage; print(sorted(m for m in sys.modules if m.startswith('tonnage')"
        " or m.split('.')[0] in ('numpy', 'concurrent', 'typing', 'dataclasses')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "['tonnage']\n"


def test_public_names_are_there_and_others_are_not() -> None:
    for name in tonnage.__all__:
        assert getattr(tonnage, name)
    with pytest.raises(AttributeError, match="no attribute 'executor'"):
        _ = tonnage.executor  # type: ignore[attr-defined]
