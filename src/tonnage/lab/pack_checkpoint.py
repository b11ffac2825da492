"""The finished parts of a long replay, saved in a file so that an interrupted replay can be resumed.

Each line is JSON: first a description of the replay, then the finished parts. An incomplete last line was being written
when the process was killed, and is cut off.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonnage import __version__
from tonnage.atomic import AtomicFile
from tonnage.batch import Workload
from tonnage.errors import InputError
from tonnage.lab.pack_replay import Chunk, Crossings, Experiment
from tonnage.pack.remaining import Work

__all__ = ["Saved"]

_KIND = "tonnage replay pack"


class Saved:
    """The finished parts of one replay, in memory and in its file."""

    def __init__(self, path: Path, works: Mapping[str, Work], workload: Workload, experiment: Experiment) -> None:
        self._path = path
        self.done: dict[Chunk, Crossings] = {}
        header = {"kind": _KIND, **_facts(works, workload, experiment)}
        data = _read(path)
        if not data:
            with AtomicFile(path) as file:
                file.write(_line(header))
            return
        first, *others = data.splitlines(keepends=True)
        self._check(first, header)
        if others and not others[-1].endswith(b"\n"):
            os.truncate(path, len(data) - len(others.pop()))
        for number, line in enumerate(others, start=2):
            self._take(line, number, len(experiment.strategies))

    def add(self, chunk: Chunk, found: Crossings) -> None:
        """Save the outcomes of a finished part."""
        self.done[chunk] = found
        self._append({**chunk._asdict(), "found": found.tolist()})

    def _append(self, facts: Mapping[str, object]) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(_line(facts))
            os.fsync(file.fileno())

    def _check(self, line: bytes, header: Mapping[str, object]) -> None:
        try:
            known = json.loads(line)
        except ValueError:
            known = None
        if not isinstance(known, dict) or known.get("kind") != _KIND:
            raise InputError("is not the file of an interrupted replay", path=self._path, hint="give another file")
        other = sorted(name for name in header if known.get(name) != json.loads(json.dumps(header[name])))
        if other:
            raise InputError(
                f"belongs to a replay with different {', '.join(other)}",
                path=self._path,
                hint="repeat the original command, or give another file",
            )

    def _take(self, line: bytes, number: int, strategies: int) -> None:
        try:
            facts = json.loads(line)
            found = np.array(facts.pop("found"), np.int64)
            chunk = Chunk(**facts)
            fits = found.shape == (strategies, chunk.end - chunk.begin, 3)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            fits = False
        if not fits:
            raise InputError("is not a part of this replay", path=self._path, line=number)
        self.done[chunk] = found


def _read(path: Path) -> bytes:
    """Return the contents of a file; nothing if it does not exist."""
    try:
        return path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None


def _line(facts: Mapping[str, object]) -> bytes:
    return json.dumps(facts).encode() + b"\n"


def _facts(works: Mapping[str, Work], workload: Workload, experiment: Experiment) -> dict[str, object]:
    """Return everything that the results depend on."""
    arrays = (workload.submit, workload.nodes, workload.run, workload.request)
    return {
        "version": __version__,
        "workflows": {
            name: _digest(work.graph.child_start, work.graph.child, work.seconds, work.key, *(work.shares or ()))
            for name, work in works.items()
        },
        "log": [workload.machine_nodes, _digest(*arrays)],
        **asdict(experiment),
    }


def _digest(*arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.dtype.str.encode() + str(array.shape).encode() + array.tobytes())
    return digest.hexdigest()[:32]
