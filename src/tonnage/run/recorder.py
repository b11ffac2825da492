"""Records what attempts read and wrote, so that finished work need not be done again.

Inputs are looked at before an attempt starts, and again when it has ended. Their content is read by a thread, so that
the next tasks need not wait for that. If the engine is killed before a record is stored, the journal still knows that
the task is done, and the next session makes up for it: see `recovery`.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from posixpath import basename

from tonnage.errors import TonnageError
from tonnage.jobs import Outcome
from tonnage.run.backends.backend import Watcher
from tonnage.run.done_store import DoneStore
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.file_states import FilesOnDisk, named_files, redirected_files
from tonnage.run.up_to_date import Disk, FileState, Record, command_digest, inputs_of, outputs_of
from tonnage.workflow import Task, Workflow
from tonnage.workflow.shell import programs

__all__ = ["Recorder", "record_of"]

_PAUSE = 0.5  # seconds between two transactions
_WHOLE_SECONDS = 1.0  # batch systems do not say more exactly when a job started

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    """The files that an attempt reads, at one moment."""

    inputs: Mapping[str, FileState | None]
    scripts: Mapping[str, FileState | None]
    changed: str | None = None
    """An input that changed since the attempt started."""


_NOTHING_READ = _Look({}, {})


class Recorder:
    """A watcher that records finished tasks, and passes all events on."""

    def __init__(
        self,
        watcher: Watcher,
        workflow: Workflow,
        home: Path,
        store: DoneStore,
        run: str,
        *,
        made: Set[str],
        network: bool,
    ) -> None:
        """Record the tasks of `workflow`; it may be a part of one whose tasks have `made` more files."""
        self._watcher = watcher
        self.seen, self.tick = watcher.seen, watcher.tick
        self._tasks = workflow.tasks
        self._made = made
        self._folder = str(home)
        self._disk = FilesOnDisk(self._folder, made=self._made, network=network)
        self._disk_of_thread = FilesOnDisk(self._folder, made=self._made, network=network)
        self._store = store
        self._run = run
        self._looks: dict[int, _Look] = {}
        self._finished: deque[tuple[Task, Record]] = deque()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Store everything that is recorded."""
        self._closing.set()
        self._thread.join()

    def started(self, start: Start, now: float) -> None:
        """Look at the files that an attempt reads; on this machine, that is before it starts."""
        if start.task < len(self._tasks):  # final tasks run in every session
            self._looks[start.attempt] = self._look(self._tasks[start.task], now)
        self._watcher.started(start, now)

    def ended(self, end: Ended, settled: Settled) -> None:
        """Record an attempt that has finished its task."""
        before = self._looks.pop(end.attempt, None)
        if before is not None and end.outcome is Outcome.DONE and settled.state is State.DONE:
            task = self._tasks[settled.task]
            self._finished.append((task, self._record(task, before, end.ended or time.time())))
        self._watcher.ended(end, settled)

    def _look(self, task: Task, since: float) -> _Look:
        scripts = named_files(task, self._disk, self._folder, self._redirected)
        if not task.inputs and not scripts:
            return _NOTHING_READ
        inputs = self._states(inputs_of(task))
        begun, now = (since + _WHOLE_SECONDS) * 1e9, time.time_ns()
        changed = (
            place
            for place, state in inputs.items()
            if state is not None and begun < state.time <= now and place not in self._made
        )
        return _Look(inputs, self._states(scripts), next(changed, None))

    @cached_property
    def _redirected(self) -> Mapping[str, Task]:
        """The files to which tasks redirect their output; what reads one meanwhile may have read a part of it."""
        return redirected_files(self._tasks, self._folder)

    def _states(self, places: Iterable[str]) -> dict[str, FileState | None]:
        return {place: self._disk.look(place) for place in places}

    def _record(self, task: Task, before: _Look, ended: float) -> Record:
        changed, scripts = before.changed, before.scripts
        if before is not _NOTHING_READ:
            look = self._disk.look
            changed = changed or next((place for place, state in before.inputs.items() if look(place) != state), None)
            others = {place for place, state in scripts.items() if look(place) != state}
            if others:
                # An argument that is not declared and changed meanwhile was most likely written by the task.
                ran = programs(task.command)
                by_others = (place for place in others if basename(place) in ran or place in self._redirected)
                changed = changed or next(by_others, None)
                scripts = {place: state for place, state in scripts.items() if place not in others}
        outputs = self._states(outputs_of(task)) if task.outputs else {}
        return Record(command_digest(task), before.inputs, scripts, outputs, changed, self._run, ended)

    def _work(self) -> None:
        """Store what is recorded, time and again, until the recorder is closed."""
        last = False
        while not last:
            last = self._closing.wait(_PAUSE)
            try:
                self._store_some()
            except TonnageError as error:
                _log.warning("%s; the next run does these tasks again", error)
                return

    def _store_some(self) -> None:
        found = []
        while self._finished:
            task, record = self._finished.popleft()
            found.append((task, _with_contents(record, self._disk_of_thread)))
        if found:
            self._store.put(found)


def record_of(task: Task, disk: FilesOnDisk, folder: str, run: str, ended: float) -> Record:
    """Return the record of a task whose files are taken as they are now."""

    def looks(places: list[str]) -> dict[str, FileState | None]:
        return {place: disk.look(place) for place in places}

    scripts = looks(named_files(task, disk, folder))
    found = Record(command_digest(task), looks(inputs_of(task)), scripts, looks(outputs_of(task)), None, run, ended)
    return _with_contents(found, disk)


def _with_contents(record: Record, disk: Disk) -> Record:
    """Add the content of inputs, as far as they are small enough and still as they were."""
    if not record.inputs and not record.scripts:
        return record
    return replace(record, inputs=_read(record.inputs, disk), scripts=_read(record.scripts, disk))


def _read(states: Mapping[str, FileState | None], disk: Disk) -> dict[str, FileState | None]:
    return {
        place: None if state is None else replace(state, content=disk.content(place, state))
        for place, state in states.items()
    }
