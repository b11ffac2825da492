"""The monitor as a single file that is transferred to machines of a pool where Tonnage is not installed."""

import io
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from tonnage.atomic import AtomicFile

__all__ = ["write_monitor"]

_MODULES = ("__init__.py", "errors.py", "units.py", "atomic.py")
_MAIN = """\
import os
import sys

from tonnage.watch.main import main

status = main(sys.argv[1:])
os._exit(125 if status is None else status)
"""
_MOMENT = (2020, 1, 1, 0, 0, 0)  # fixed, so that the same version gives the same file


def write_monitor(path: Path) -> None:
    """Write `tonnage watch` as a Python archive: ``python monitor.pyz --summary FILE -- COMMAND``."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        for name, module in _modules():
            _add(archive, f"tonnage/{name}", module.read_bytes())
    with AtomicFile(str(path)) as file:
        file.write(packed.getvalue())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _MOMENT), data, zipfile.ZIP_DEFLATED)


def _modules() -> Iterator[tuple[str, Traversable]]:
    """Yield the modules that the monitor needs: it imports no others of ours."""
    package = files("tonnage")
    yield from ((name, package / name) for name in _MODULES)
    watch = [one for one in (package / "watch").iterdir() if one.name.endswith(".py")]
    yield from ((f"watch/{one.name}", one) for one in sorted(watch, key=lambda one: one.name))
