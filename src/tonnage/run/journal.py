"""The journal of a run: decisions, starts and ends of attempts, written before they are acted on.

It is one SQLite file. `tasks.done` is the attempt that completed a task; only this column decides whether a task is
done. An attempt whose `ended` is NULL was running when the journal was last written.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from math import isnan
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tonnage.atomic import make_private_file
from tonnage.errors import InputError, JournalError
from tonnage.jobs import Outcome, Resource
from tonnage.run.bad_nodes import BadNodes, kind_of
from tonnage.run.events import RETRIED_ELSEWHERE, Action, Adjustment, Ended, Settled, Start, State
from tonnage.run.journal_rows import MEASURES, ROWS, DecisionCells, Decisions, Row, row_of
from tonnage.run.journal_schema import INSERT_START, SCHEMA, UPDATE_END, UPDATE_REVIVED, VERSION
from tonnage.workflow.names import line_named, title_of

__all__ = ["Before", "Journal", "Reader", "begun_by_another_version", "read_only"]

_FAILED = "t.done IS NULL AND NOT t.dropped AND a.given_up AND a.id IN (SELECT max(id) FROM attempts GROUP BY task)"
_USED = attrgetter(*Resource)
_PAGES = 8_000  # of the write-ahead log between two checkpoints: 32 MB, so that these are rare


@dataclass(frozen=True, slots=True)
class Before:
    """What a journal knew about the tasks of a workflow, by their positions in it."""

    done: list[int]
    changed: list[int]
    """Tasks that are new, or whose command or external inputs have changed."""
    new: list[int]


class Reader:
    """Reads a journal, even while it is being written."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = read_only(path)
            version = self.facts().get("version")
        except sqlite3.Error as error:
            raise JournalError(f"{path}: the journal cannot be read: {error}") from None
        if version != VERSION:
            raise _other_version(path, version)

    def close(self) -> None:
        """Close the file, discarding what was not committed."""
        self._connection.close()

    def copy_to(self, path: Path) -> None:
        """Copy the journal into a new file."""
        make_private_file(path)
        with closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)

    def facts(self) -> dict[str, str]:
        """Return the facts about the run as a whole."""
        return dict(self._connection.execute("SELECT key, value FROM run"))

    def running(self) -> dict[int, Row]:
        """Return the attempts without a recorded end, by their numbers."""
        return {row.attempt: row for _, row in self._select(f"{ROWS} WHERE a.ended IS NULL ORDER BY a.id")}

    def rows(self, after: int = 0) -> Iterator[Row]:
        """Yield all attempts with numbers above `after`, oldest first."""
        for _, row in self._select(f"{ROWS} WHERE a.id > ? ORDER BY a.id", after):
            yield row

    def attempts(self, task: str) -> list[Row]:
        """Return the attempts of a task, oldest first."""
        return [row for _, row in self._select(f"{ROWS} WHERE t.name = ? ORDER BY a.id", task)]

    def name_of(self, text: str) -> str | None:
        """Return the name of the task that a user means: by its name, or by its line in a list of commands."""
        line = line_named(text)
        chosen = "SELECT name FROM tasks WHERE name = ? OR line = ? AND NOT dropped ORDER BY name = ? DESC LIMIT 1"
        found = self._connection.execute(chosen, (text, line, text)).fetchone()
        return None if found is None else str(found[0])

    def titles(self) -> dict[str, str]:
        """Return what people call the tasks of a list of commands, by their names; empty for other workflows."""
        lines = self.read("SELECT name, line, command FROM tasks WHERE line IS NOT NULL")
        return {name: title_of(name, line, command) for name, line, command in lines}

    def measures(self, at_once: int = 20_000) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the columns of MEASURES for all attempts, in chunks."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(MEASURES)
            while rows := cursor.fetchmany(at_once):
                yield rows

    def counts(self) -> tuple[int, int]:
        """Return the number of tasks, and how many of them are done."""
        chosen = "SELECT count(*), count(done) FROM tasks WHERE NOT dropped"
        tasks, done = self._connection.execute(chosen).fetchone()
        return int(tasks), int(done)

    def skipped(self) -> int:
        """Return the number of tasks that were up to date before the run."""
        return int(self._connection.execute("SELECT count(*) FROM tasks WHERE done = 0 AND NOT dropped").fetchone()[0])

    def tasks_by_category(self) -> list[tuple[str, int, int]]:
        """Return each category with its number of tasks and how many of them are done."""
        return self.read("SELECT category, count(*), count(done) FROM tasks WHERE NOT dropped GROUP BY category")

    def read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        return self._connection.execute(statement, values).fetchall()

    def _select(self, statement: str, *values: int | str) -> Iterator[tuple[int, Row]]:
        """Yield rows of attempts, each with the id of its task in the journal."""
        decisions = Decisions(self._connection)
        with closing(self._connection.cursor()) as cursor:
            for cells in cursor.execute(statement, values):
                yield cells[2], row_of(cells, decisions)

    def _largest(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])  # noqa: S608

    def refusals(self) -> list[tuple[str, int | None, str | None, str, str]]:
        """Return the tasks that failed without an attempt: name, line, command, category, and why."""
        return self.read("SELECT name, line, command, category, refused FROM tasks WHERE refused IS NOT NULL")

    def failed(self, most: int = -1) -> list[Row]:
        """Return the last attempts of failed tasks; tasks that are to be retried are not included."""
        return [row for _, row in self._select(f"{ROWS} WHERE {_FAILED} ORDER BY a.id LIMIT ?", most)]

    def adjusted_attempts(self) -> dict[Action, int]:
        """Count the attempts that outgrew their memory, were paused for lack of it, resumed or were stopped."""
        counts = self.read("SELECT action, count(DISTINCT attempt) FROM adjustments GROUP BY action")
        return {Action(action): count for action, count in counts}

    def bad_nodes(self) -> BadNodes:
        """Return what the attempts of the run tell about the nodes on which they ran."""
        done = str(Outcome.DONE)
        ends = self.read(
            "SELECT min(a.ended), t.category, a.host, '', a.outcome, NULL, NULL "
            "FROM attempts a JOIN tasks t ON t.id = a.task "
            "WHERE a.host IS NOT NULL AND a.outcome = ? GROUP BY t.category, a.host "
            "UNION ALL SELECT a.ended, t.category, a.host, t.name, a.outcome, a.exit_status, a.signal "
            "FROM attempts a JOIN tasks t ON t.id = a.task WHERE a.host IS NOT NULL AND a.outcome <> ? ORDER BY 1",
            done,
            done,
        )
        found = BadNodes()
        for ended, category, node, task, outcome, exit_status, signal in ends:
            how = Outcome(outcome)
            found.ended(task, category, node, how, kind_of(how, exit_status, signal), ended)
        return found

    def failures(self) -> int:
        """Return the number of failed tasks, including those without an attempt."""
        chosen = (
            f"SELECT (SELECT count(*) FROM attempts a JOIN tasks t ON t.id = a.task WHERE {_FAILED}) "  # noqa: S608 (our own)
            "+ (SELECT count(*) FROM tasks WHERE refused IS NOT NULL)"
        )
        return int(self._connection.execute(chosen).fetchone()[0])


def begun_by_another_version(path: Path) -> dict[str, str]:
    """Return the facts about a run that another version of Tonnage started; empty if this version can read it."""
    try:
        with closing(read_only(path)) as connection:
            facts = dict(connection.execute("SELECT key, value FROM run"))
    except sqlite3.Error:
        return {}
    return facts if facts.get("version") != VERSION else {}


def _other_version(path: Path, version: str | None) -> InputError:
    problem = f"is the journal of another version of Tonnage (its format is {version}, not {VERSION})"
    return InputError(problem, path=path, hint="the version of Tonnage that started the run can resume it")


class Journal(Reader):
    """Records what happens; `commit` makes everything since the last commit permanent."""

    def __init__(self, path: Path, *, durable: bool = False, shared_disk: bool = False) -> None:
        """Open or create the journal; `durable` survives a power failure, `shared_disk` is for network file systems."""
        self.path = path
        try:
            with suppress(OSError):  # SQLite gives the better error message
                make_private_file(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
            run = self._connection.execute
            run("PRAGMA journal_mode = " + ("DELETE" if shared_disk else "WAL"))
            run("PRAGMA synchronous = " + ("FULL" if durable or shared_disk else "NORMAL"))
            run(f"PRAGMA wal_autocheckpoint = {_PAGES}")
            if not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
            elif self.facts().get("version") != VERSION:
                raise _other_version(path, self.facts().get("version"))
        except sqlite3.Error as error:
            raise JournalError(f"{path}: the journal cannot be opened: {error}") from None
        self._writing = False
        # Ends that are not written yet, and the tasks that they complete: writing many at once is far faster.
        self._ends: list[tuple[object, ...]] = []
        self._done: list[tuple[int, int]] = []
        self._revived: list[tuple[str, int]] = []
        self._ids: Sequence[int] = range(1, self._largest("tasks") + 1)
        self._decisions = DecisionCells(self._execute_many, self._largest("decisions") + 1)

    def note(self, facts: Mapping[str, str]) -> None:
        """Record facts about the run as a whole."""
        self._execute_many("INSERT OR REPLACE INTO run VALUES (?, ?)", facts.items())

    def take_tasks(self, tasks: Sequence[tuple[str, str, bytes]]) -> Before:
        """Record the tasks of the workflow (name, category, fingerprint); return what was known about them before."""
        self._begin()
        old = {
            name: (number, fingerprint, done)
            for number, name, fingerprint, done in self._connection.execute(
                "SELECT id, name, fingerprint, done FROM tasks"
            )
        }
        if not old:
            self._execute_many("INSERT INTO tasks (name, category, fingerprint) VALUES (?, ?, ?)", tasks)
            self._ids = range(1, len(tasks) + 1)
            return Before([], [], list(range(len(tasks))))
        done, changed, added = [], [], []
        dropped = old.keys() - {name for name, _, _ in tasks}
        self._execute_many("UPDATE tasks SET dropped = 0, refused = NULL WHERE dropped OR refused IS NOT NULL", [()])
        self._execute_many("UPDATE tasks SET dropped = 1 WHERE id = ?", [(old[name][0],) for name in dropped])
        new = max(number for number, _, _ in old.values())
        ids: list[int] = []
        for place, (name, category, fingerprint) in enumerate(tasks):
            number, before, ended = old.get(name, (0, b"", None))
            if not number:
                new += 1
                number = new
                row = (number, name, category, fingerprint)
                self._execute_many("INSERT INTO tasks (id, name, category, fingerprint) VALUES (?, ?, ?, ?)", [row])
                changed.append(place)
                added.append(place)
            elif before != fingerprint:
                changed.append(place)
                changes = (category, fingerprint, number)
                self._execute_many("UPDATE tasks SET category = ?, fingerprint = ? WHERE id = ?", [changes])
            if ended is not None:
                done.append(place)
            ids.append(number)
        self._ids = ids
        return Before(done, changed, added)

    def describe(self, tasks: Iterable[tuple[str | None, int | None]]) -> None:
        """Record the commands and lines by which people know the tasks of the workflow, in its order."""
        rows = [(command, line, number) for (command, line), number in zip(tasks, self._ids, strict=True)]
        self.write("UPDATE tasks SET command = ?, line = ? WHERE id = ?", *rows)

    def add_task(self, name: str, category: str, command: str | None = None) -> None:
        """Record a task that was added during the run."""
        self._begin()
        number = len(self._ids) + 1
        self._execute_many(
            "INSERT INTO tasks (id, name, category, command, fingerprint) VALUES (?, ?, ?, ?, x'')",
            [(number, name, category, command)],
        )
        self._ids = range(1, number + 1)

    def undo(self, places: Iterable[int]) -> None:
        """Record that tasks which were done must run again."""
        self._begin()
        self._execute_many("UPDATE tasks SET done = NULL WHERE id = ?", [(self._ids[place],) for place in places])

    def skip(self, places: Iterable[int]) -> None:
        """Record that tasks need not run, because earlier runs have done them and nothing has changed."""
        self._begin()
        self._execute_many("UPDATE tasks SET done = 0 WHERE id = ?", [(self._ids[place],) for place in places])

    def done_at(self) -> dict[int, tuple[float, float]]:
        """Return when the attempts that completed tasks started and ended, by the tasks' positions in the workflow."""
        self._begin()  # so that pending ends are written
        place_of = {number: place for place, number in enumerate(self._ids)}
        found = self.read("SELECT t.id, a.started, a.ended FROM tasks t JOIN attempts a ON a.id = t.done")
        return {place_of[number]: (started, ended) for number, started, ended in found if number in place_of}

    def started(self, starts: Sequence[Start], now: float, submitted: float | None = None) -> None:
        """Record attempts that are about to start or, on a cluster, to be submitted."""
        self._begin()
        self._execute_many(INSERT_START, [self._start_row(start, now, submitted) for start in starts])

    def adjusted(self, changes: Sequence[Adjustment], now: float) -> None:
        """Record changes to running attempts that are about to take effect; those that are known already stay."""
        rows = [(one.attempt, now, one.action.value, one.memory, one.more, one.reason) for one in changes]
        self.write("INSERT OR IGNORE INTO adjustments VALUES (?, ?, ?, ?, ?, ?)", *rows)

    def runs(self, attempt: int, since: float) -> None:
        """Record when a submitted attempt started: later than its submission, even if the clocks of machines differ."""
        self.write("UPDATE attempts SET started = max(?, submitted + 0.001) WHERE id = ?", (since, attempt))

    def ended(self, end: Ended, settled: Settled) -> None:
        """Record the end of an attempt, and what happens to its task."""
        note = "; ".join(part for part in (end.note, settled.reason) if part)
        row = (
            end.started,
            end.host,
            end.ended,
            end.outcome.value,
            None if end.exhausted is None else end.exhausted.value,
            end.exit_status,
            end.signal,
            *_USED(end.used),
            end.memory_method,
            " ".join(end.lower_bounds) or None,
            end.stdout,
            end.stderr,
            note or None,
            settled.state is State.FAILED,
            json.dumps(dict(end.facts)) if end.facts else None,
            end.attempt,
        )
        self._ends.append(row)
        if settled.state is State.DONE:
            self._done.append((end.attempt, self._ids[settled.task]))
        self._revived += [(RETRIED_ELSEWHERE, self._ids[task]) for task in settled.revived]

    def refused(self, settled: Settled) -> None:
        """Record a task that failed without an attempt."""
        self._begin()
        row = settled.reason, self._ids[settled.task]
        self._execute_many("UPDATE tasks SET refused = ? WHERE id = ?", [row])

    def commit(self) -> None:
        """Make everything since the last commit permanent."""
        if self._ends:
            self._begin()
        if not self._writing:
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._cannot_write(error) from None
        self._writing = False

    def _begin(self) -> None:
        """Begin a transaction if there is none, and write the ends that are pending."""
        if not self._writing:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise self._cannot_write(error) from None
            self._writing = True
        if self._ends:
            self._execute_many(UPDATE_END, self._ends)
            self._execute_many("UPDATE tasks SET done = ? WHERE id = ?", self._done)
            self._execute_many(UPDATE_REVIVED, self._revived)
            self._ends, self._done, self._revived = [], [], []

    def _execute_many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: sqlite3.Error) -> JournalError:
        return JournalError(
            f"{self.path}: the journal cannot be written: {error}",
            hint="what it contains is safe: run the same command again to resume",
        )

    def _start_row(self, start: Start, now: float, submitted: float | None) -> tuple[object, ...]:
        size = None if isnan(start.input_bytes) else start.input_bytes
        row = (start.attempt, self._ids[start.task], start.number, start.machine, submitted, now, size)
        return row + self._decisions.cells(start.decisions)

    def unfinished(self) -> dict[int, Row]:
        """Return the last attempt of each unfinished task that has one, by its position in the workflow."""
        place_of = {number: place for place, number in enumerate(self._ids)}
        chosen = f"{ROWS} WHERE t.done IS NULL ORDER BY a.id"
        return {place_of[number]: row for number, row in self._select(chosen) if number in place_of}

    def ran_out(self) -> list[tuple[int, Row]]:
        """Return the attempts of unfinished tasks that ran out of a resource or outgrew their memory, oldest first."""
        place_of = {number: place for place, number in enumerate(self._ids)}
        more = "(a.exhausted IS NOT NULL OR a.id IN (SELECT attempt FROM adjustments WHERE memory IS NOT NULL))"
        chosen = f"{ROWS} WHERE t.done IS NULL AND {more} ORDER BY a.id"
        return [(place_of[number], row) for number, row in self._select(chosen) if number in place_of]

    def settled(self) -> int:
        """Return the number up to which all attempts are known to have ended."""
        # A packed batch job may have started attempts that are not known yet.
        chosen = (
            "SELECT min(id) - 1 FROM (SELECT id FROM attempts WHERE ended IS NULL "
            "UNION ALL SELECT first_attempt FROM batch_jobs WHERE ended IS NULL)"
        )
        found = self._connection.execute(chosen).fetchone()[0]
        return self._largest("attempts") if found is None else int(found)

    def next_attempt(self) -> int:
        """Return the next unused attempt number."""
        taken = self._connection.execute("SELECT max(first_attempt + attempts) FROM batch_jobs").fetchone()[0]
        return max(self._largest("attempts") + 1, int(taken or 1))

    def write(self, statement: str, *rows: tuple[object, ...]) -> None:
        """Execute a statement for each row; `commit` makes it permanent."""
        self._begin()
        self._execute_many(statement, rows)


def read_only(path: Path) -> sqlite3.Connection:
    """Open a database read-only, even in a folder where SQLite cannot create its auxiliary files."""
    name = f"file:{quote(os.fsencode(path))}?mode=ro"
    alone = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    return sqlite3.connect(f"{name}&immutable=1" if alone else name, uri=True, isolation_level=None)
