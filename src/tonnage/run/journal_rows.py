"""Attempts in the journal: how their rows are read, and how their decisions are written and read."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tonnage.jobs import GIVEN, SHARED, Amounts, Decision, Outcome, Resource
from tonnage.units import Bytes
from tonnage.workflow.names import title_of

__all__ = ["MEASURES", "ROWS", "DecisionCells", "Decisions", "Row", "row_of"]


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt in the journal."""

    attempt: int
    task: str
    line: int | None
    command: str | None
    category: str
    number: int
    machine: int
    host: str | None
    submitted: float | None
    """On a cluster: when it, or the batch job that carried it, was submitted."""
    started: float
    input_bytes: float | None
    allocated: Amounts
    """What it was allocated at its start."""
    grew_to: float | None
    """The memory that it held at its end, if it outgrew its allocation."""
    more_memory: float
    """How much memory it held in addition to its allocation, in bytes times seconds; 0 until it has ended."""
    decisions: tuple[Decision, ...]
    ended: float | None
    outcome: Outcome | None
    exhausted: Resource | None
    exit_status: int | None
    signal: int | None
    used: Amounts
    memory_method: str | None
    lower_bounds: tuple[str, ...]
    stdout: str | None
    stderr: str | None
    note: str
    facts: Mapping[str, object]
    """What a batch system measured in addition to our monitor, under its own names."""

    @property
    def held(self) -> Amounts:
        """What it held on average over its run time: its allocation, and what it grew to."""
        memory, seconds = self.allocated.memory, (self.ended or self.started) - self.started
        if memory is None or seconds <= 0 or not self.more_memory:
            return self.allocated
        return replace(self.allocated, memory=Bytes(round(memory + self.more_memory / seconds)))

    @property
    def title(self) -> str:
        """What people call the task."""
        return title_of(self.task, self.line, self.command)

    @property
    def seen_to_run(self) -> bool:
        """Whether an attempt in a batch job of its own is known to have started; until then, both times are equal."""
        return self.started != self.submitted


_ROW = (
    *(
        "task",
        "id",
        "number",
        "machine",
        "host",
        "submitted",
        "started",
        "input_bytes",
        "ended",
        "outcome",
        "exhausted",
        "exit_status",
    ),
    *("signal", "memory_method", "lower_bounds", "stdout", "stderr", "note", "facts"),
    *(f"{one}_decision" for one in GIVEN),
    *GIVEN,
    *(f"used_{one}" for one in Resource),
)
_GREW_TO = "(SELECT max(memory) FROM adjustments WHERE attempt = a.id)"
_MORE_MEMORY = "(SELECT sum(more * max(0, a.ended - at)) FROM adjustments WHERE attempt = a.id AND more)"
ROWS = (
    f"SELECT t.name, t.category, {', '.join(f'a.{name}' for name in _ROW)}, "  # noqa: S608 (our own names)
    f"{_GREW_TO}, {_MORE_MEMORY}, t.line, t.command "
    "FROM attempts a JOIN tasks t ON t.id = a.task"
)
_HELD = {  # on average: memory may grow
    Resource.MEMORY: f"a.memory + coalesce({_MORE_MEMORY} / max(a.ended - a.started, 1e-6), 0)"
}
MEASURES = (
    "SELECT t.category, a.outcome, a.number, a.submitted, a.started, a.ended, "  # noqa: S608 (our own names)
    f"{', '.join(_HELD.get(one, f'a.{one}') for one in SHARED)}, "
    f"{', '.join(f'a.used_{name}' for name in (*SHARED, 'wall_time'))} "
    "FROM attempts a JOIN tasks t ON t.id = a.task ORDER BY a.id"
)
"""Selects only what totals and plots need."""
_REMEMBERED = 10_000  # decisions
_NO_FACTS: Mapping[str, object] = {}
_OUTCOMES = {str(one): one for one in Outcome}


class Decisions(dict[int, Decision]):
    """Decisions by their ids, looked up on demand, because more may be added while the journal is read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, number: int) -> Decision:
        row = self._connection.execute("SELECT * FROM decisions WHERE id = ?", (number,)).fetchone()
        return self.setdefault(number, _decision(row))


def _decision(row: tuple[Any, ...]) -> Decision:
    _, resource, strategy, samples, ladder, rung, reason, waste, retries = row
    return Decision(
        resource=Resource(resource),
        ladder=tuple(json.loads(ladder)),
        strategy=strategy,
        samples=samples,
        reason=reason,
        rung=rung,
        expected_waste=waste,
        expected_retries=retries,
    )


def row_of(cells: Sequence[Any], decisions: Mapping[int, Decision]) -> Row:
    """Create a Row from the cells that ROWS selects."""
    *cells, grew_to, more_memory, line, command = cells
    name, category, _, attempt, number, machine, host, submitted, started, size, ended, outcome, exhausted = cells[:13]
    status, signal, method, lower_bounds, stdout, stderr, note, facts = cells[13:21]
    made, rest = cells[21 : 21 + len(GIVEN)], cells[21 + len(GIVEN) :]
    cores, memory, disk, wall_time = rest[: len(GIVEN)]
    used_cores, used_memory, used_disk, used_wall_time, used_cpu_time, processes = rest[len(GIVEN) :]
    return Row(
        attempt=attempt,
        task=name,
        line=line,
        command=command,
        category=category,
        number=number,
        machine=machine,
        host=host,
        submitted=submitted,
        started=started,
        input_bytes=size,
        allocated=Amounts.of(cores=cores, memory=memory, disk=disk, wall_time=wall_time),
        grew_to=grew_to,
        more_memory=more_memory or 0.0,
        decisions=tuple([decisions[one] for one in made if one is not None]),
        ended=ended,
        outcome=None if outcome is None else _OUTCOMES[outcome],
        exhausted=None if exhausted is None else Resource(exhausted),
        exit_status=status,
        signal=signal,
        used=Amounts.of(
            cores=used_cores,
            memory=used_memory,
            disk=used_disk,
            wall_time=used_wall_time,
            cpu_time=used_cpu_time,
            processes=None if processes is None else int(processes),
        ),
        memory_method=method,
        lower_bounds=tuple(lower_bounds.split()) if lower_bounds else (),
        stdout=stdout,
        stderr=stderr,
        note=note or "",
        facts=json.loads(facts) if facts else _NO_FACTS,
    )


class DecisionCells:
    """The cells of an attempt's row for its allocation; a decision is recorded when it is first seen."""

    def __init__(self, write: Callable[[str, Iterable[tuple[object, ...]]], None], next_id: int) -> None:
        """Record decisions with `write`, which executes a statement for each row, under ids from `next_id` on."""
        self._write = write
        self._next_id = next_id
        self._ids: dict[int, tuple[Decision, int]] = {}
        self._known: dict[int, tuple[tuple[Decision, ...], tuple[object, ...]]] = {}

    def cells(self, decisions: tuple[Decision, ...]) -> tuple[object, ...]:
        """Return the cells of a row; cached, because many tasks in a row have the same decisions."""
        known = self._known.get(id(decisions))
        if known is not None:
            return known[1]
        given = {one.resource: one for one in decisions}
        cells: list[object] = []
        for resource in GIVEN:
            one = given.get(resource)
            cells += (None, None) if one is None else (one.amount, self._id(one))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[id(decisions)] = decisions, tuple(cells)  # kept alive, so that no other object gets its id
        return tuple(cells)

    def _id(self, decision: Decision) -> int:
        known = self._ids.get(id(decision))
        if known is not None:
            return known[1]
        number, self._next_id = self._next_id, self._next_id + 1
        row = (
            number,
            decision.resource.value,
            decision.strategy,
            decision.samples,
            json.dumps(decision.ladder),
            decision.rung,
            decision.reason,
            decision.expected_waste,
            decision.expected_retries,
        )
        self._write("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", [row])
        if len(self._ids) >= _REMEMBERED:
            self._ids.clear()
        self._ids[id(decision)] = decision, number  # kept alive, so that no other object gets its id
        return number
