"""What an archive knows about the tasks of a workflow: one lookup for local runs, servers and Python programs.

Only attempts of this workflow or of earlier versions of it count: jobs that merely share a category or a program with
ours may be of another kind, and a history leads to limits at which tasks are killed. At most a first guess comes from
those, where that can do no harm.

Everything is found by one query (history_query.py), which decides which earlier runs count. A run sends it before its
first task. An archive in a file is asked without SQLAlchemy, which takes longer to import than the query takes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tonnage.archive.history_query import HISTORY_QUERY, Kind
from tonnage.archive.texts import clean, short
from tonnage.jobs import GIVEN, History, Resource

if TYPE_CHECKING:
    from tonnage.archive.store import Archive
    from tonnage.jobs import Attempt

__all__ = [
    "LONGEST_COMMAND",
    "MOST",
    "MOST_COMMANDS",
    "NOTHING_PAST",
    "SEVERAL",
    "Past",
    "Wanted",
    "past_of",
    "recall",
]

MOST = 2_000
"""How many attempts of a category, the newest, a run learns from."""
MOST_COMMANDS = 200
"""How many commands of a workflow are used to recognise its other versions: any subset will do."""
LONGEST_COMMAND = 2_000
"""Longer commands are not compared."""
SEVERAL = 5
"""How many jobs of other workflows a first guess needs."""
_RECENT = 20_000  # attempts among which jobs of other workflows are looked for: the newest of all


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run asks an archive at its start."""

    workflow: str
    checksum: str | None = None
    folder: str | None = None
    """Where the workflow is."""
    commands: frozenset[str] = frozenset()
    """Some of its commands."""
    tasks: frozenset[str] = frozenset()
    """The names of the tasks with these commands: they are looked up by name, and their commands compared."""
    categories: frozenset[str] = frozenset()
    """Its categories; if empty, all that are known."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """The program of each category for which a first guess is wanted, if nothing else is known."""

    def body(self) -> dict[str, object]:
        """Return the body of the request to a server."""
        return {
            "workflow": self.workflow,
            "checksum": self.checksum,
            "folder": self.folder,
            "commands": sorted(self.commands),
            "tasks": sorted(self.tasks),
            "categories": sorted(self.categories),
        }

    def parameters(self) -> dict[str, object]:
        """Return the parameters of the query."""
        commands = {str(clean(command)) for command in self.commands}
        return {
            "workflow": short(self.workflow),
            "checksum": short(self.checksum),
            "folder": None if self.folder is None else f"{str(clean(self.folder)).rstrip('/')}/",
            "anywhere": int(self.folder is None and not commands),
            "commands": json.dumps(sorted(commands)),
            "enough": max(1, (len(commands) + 1) // 2),
            "tasks": json.dumps(sorted(str(clean(name)) for name in self.tasks)),
            "categories": json.dumps(sorted(str(short(name)) for name in self.categories)),
            "every": int(not self.categories),
            "names": json.dumps(sorted({str(short(name)) for pair in self.programs.items() for name in pair})),
            "most": MOST,
            "several": SEVERAL,
            "recent": _RECENT,
        }


@dataclass(frozen=True, slots=True)
class Past:
    """The answer to what was wanted."""

    attempts: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    """The newest attempts of each category, oldest first, as rows of the query."""
    peaks: Mapping[bytes, float] = field(default_factory=dict)
    """The most memory that each task used, by its identity."""
    others: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """How many jobs of other workflows have a category or program, and what three of four of them stay below."""

    def histories(self) -> dict[str, History]:
        """Return what past attempts of each category used."""
        return {category: _history(rows) for category, rows in self.attempts.items()}

    def guesses(self, programs: Mapping[str, str]) -> Iterator[tuple[str, str, int, float]]:
        """Yield categories of which nothing else is known, with the name, number and memory of jobs like theirs."""
        for category, program in programs.items():
            for name in (category, program):
                if category not in self.attempts and name in self.others:
                    yield category, name, *self.others[name]
                    break


NOTHING_PAST = Past()


def past_of(archive: "Archive", wanted: Wanted) -> Past:
    """Return what an open archive knows."""
    query = HISTORY_QUERY["sqlite" if archive.on_sqlite else "postgresql"]
    return _past(archive.rows(query, wanted.parameters()))


def recall(archive: "Archive", wanted: Wanted) -> Iterator["Attempt"]:
    """Yield the attempts that the histories are based on."""
    from tonnage.archive.reading import newest
    from tonnage.archive.schema import attempts

    for rows in past_of(archive, wanted).attempts.values():
        yield from newest(archive, [attempts.c.id.in_([row[1] for row in rows])], MOST)


def _past(rows: Iterable[Sequence[Any]]) -> Past:
    attempts: dict[str, list[Sequence[Any]]] = {}
    peaks: dict[bytes, float] = {}
    others: dict[str, tuple[int, float]] = {}
    for kind, name, task, *values in rows:
        if kind == Kind.ATTEMPT:
            attempts.setdefault(name, []).append(values)
        elif kind == Kind.TASK:
            peaks[bytes(task)] = float(values[_MEMORY])
        else:
            others[name] = values[_ID], float(values[_MEMORY])
    return Past(attempts, peaks, others)


_USED = tuple(Resource)
_PLACE, _ID, _FINISHED, _EXHAUSTED, _INPUT, _FIRST = range(6)
_MEMORY = _FIRST + _USED.index(Resource.MEMORY)


def _history(rows: Sequence[Sequence[Any]]) -> History:
    import numpy as np

    columns = list(zip(*rows, strict=True))
    numbers = [np.array(column, np.float64) for column in (columns[_INPUT], *columns[_FIRST:])]
    places = {resource.value: place for place, resource in enumerate(_USED)}
    return History(
        used=dict(zip(_USED, numbers[1:], strict=False)),
        requested=dict(zip(GIVEN, numbers[1 + len(_USED) :], strict=True)),
        input_bytes=numbers[0],
        finished=np.array(columns[_FINISHED], np.bool_),
        ran_out=np.array([places.get(name, -1) for name in columns[_EXHAUSTED]], np.int8),
    )
