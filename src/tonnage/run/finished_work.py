"""Finished work: which tasks of a workflow earlier runs have done, and which of them must run all the same."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from posixpath import basename, normpath

from tonnage.errors import InputError
from tonnage.run.done_store import DoneStore
from tonnage.run.file_states import FilesOnDisk, FrozenDisk
from tonnage.run.files import LATE, made_by
from tonnage.run.options import Options
from tonnage.run.recorder import record_of
from tonnage.run.up_to_date import FileState, Record, outputs_of, stale_tasks, takeable
from tonnage.wording import meant
from tonnage.workflow import Workflow
from tonnage.workflow.shell import programs

__all__ = ["FinishedWork", "UpToDate"]


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The answer of `everything` if there is nothing to do."""

    tasks: int
    run: str
    """The run that finished last; empty if the user took existing outputs as done."""
    ended: float


class FinishedWork:
    """What earlier runs have done of a workflow, with what is on disk when this is created."""

    def __init__(self, workflow: Workflow, home: Path, name: str, options: Options, *, network: bool) -> None:
        """Read what is recorded; raises InputError if the options name tasks or files that do not exist.

        `name` is that of the workflow's file.
        """
        self.store = DoneStore(home, name, network=network)
        self.forced = _forced(workflow, options.rerun)
        """The tasks that the user names, and why they run."""
        self._folder = str(home)
        self.made = made_by(workflow)
        """All files that tasks of the workflow write."""
        wanted = [_writer_of(workflow, home, output) for output in options.outputs]
        self._wanted = {place for place, _ in wanted} if wanted else None
        if wanted:
            names = {workflow.tasks[number].name for number in self.forced}
            workflow = workflow.needed_for({number for _, number in wanted})
            self.forced = {workflow.index[name]: _ASKED_FOR for name in names if name in workflow.index}
        self.workflow = workflow
        """The part of the workflow that makes the wanted outputs."""
        self._disk = FilesOnDisk(self._folder, made=self.made, network=network)
        self._frozen = FrozenDisk(self._disk)
        self._late = LATE if network or options.cluster is not None else 0.0
        nothing: list[Record | None] = [None] * len(workflow)
        self._records = nothing if options.new else self.store.records(workflow.tasks)

    def stale(
        self, counts: Callable[[int, Record], bool] = lambda _place, _record: True, asked_for: Iterable[int] = ()
    ) -> dict[int, str]:
        """Return the tasks that must run, and why.

        `counts` tells whether the record of a task may be used; `asked_for` are tasks that the user named before.
        """
        records = [
            record if record is not None and counts(place, record) else None
            for place, record in enumerate(self._records)
        ]
        forced = {**dict.fromkeys(asked_for, _ASKED_FOR), **self.forced}
        return stale_tasks(self.workflow, records, self._frozen, forced=forced, wanted=self._wanted)

    def everything(self) -> UpToDate | None:
        """Return what shows that all tasks are up to date; None if one is not."""
        known = [record for record in self._records if record is not None]
        if not known or len(known) < len(self.workflow) or self.stale():
            return None
        last = max(known, key=lambda record: record.ended)
        return UpToDate(len(known), last.run, last.ended)

    def complete(self, done: Mapping[int, tuple[float, float]], run: str, *, store: bool) -> None:
        """Record tasks that were done between these moments, before their engine was killed, if that is missing."""
        missing = []
        for place, (started, ended) in done.items():
            record = self._records[place]
            if record is None or record.ended < ended:
                missing.append(place)
                self._records[place] = self._as_then(place, run, started, ended)
        if missing and store:
            self._put(missing)

    def take(self, places: Mapping[int, str]) -> set[int]:
        """Take the outputs of tasks as done, as they are now; return the tasks for which that is possible."""
        taken = takeable(self.workflow, places, self._frozen, self._wanted)
        now = time.time()
        for place in taken:
            self._records[place] = self._as_now(place, "", now)
        if taken:
            self._put(sorted(taken))
        return taken

    def _as_now(self, place: int, run: str, ended: float) -> Record:
        return record_of(self.workflow.tasks[place], self._disk, self._folder, run, ended)

    def _as_then(self, place: int, run: str, started: float, ended: float) -> Record:
        """Return the record of a task that was done earlier: what its files were like if they changed since is unknown.

        Arguments that are not declared and have changed were most likely written by the task.
        """
        record, ran = self._as_now(place, run, ended), programs(self.workflow.tasks[place].command)
        begun = started + self._late
        others = {one for one in record.scripts if self._disk.changed_since(one, begun)}
        there = (one for one, state in record.inputs.items() if state is not None)
        read = (*there, *(one for one in others if basename(one) in ran))
        return replace(
            record,
            changed=next((one for one in read if self._disk.changed_since(one, begun)), None),
            scripts={one: state for one, state in record.scripts.items() if one not in others},
            outputs={
                one: _NOT_KNOWN if self._disk.changed_since(one, ended + self._late) else state
                for one, state in record.outputs.items()
            },
        )

    def _put(self, places: list[int]) -> None:
        records = ((place, self._records[place]) for place in places)
        self.store.put((self.workflow.tasks[place], record) for place, record in records if record is not None)


_NOT_KNOWN = FileState(-1, -1)
"""No file is like this."""
_ASKED_FOR = "named by --rerun"


def _forced(workflow: Workflow, names: tuple[str, ...]) -> dict[int, str]:
    """Return the tasks that the user names, by themselves or by their category."""
    found: dict[int, str] = {}
    lines = {f"{task.line}": number for number, task in enumerate(workflow.tasks) if task.line} if names else {}
    for name in names:
        number = workflow.index.get(name, lines.get(name.removeprefix("line ")))
        if number is not None:
            found[number] = _ASKED_FOR
            continue
        numbers = [number for number, task in enumerate(workflow.tasks) if task.category == name]
        if not numbers:
            hint = meant(name, [*workflow.categories, *workflow.index])
            raise InputError(f'--rerun {name}: there is no task and no category called "{name}"', hint=hint)
        found.update(dict.fromkeys(numbers, _ASKED_FOR))
    return found


def _writer_of(workflow: Workflow, home: Path, output: str) -> tuple[str, int]:
    """Return an output as the workflow names it, or as a path from the current folder, and the task that writes it."""
    writer = {place: number for number, task in enumerate(workflow.tasks) for place in outputs_of(task)}
    named = Path(output)
    here, folder = named.parent.resolve() / named.name, home.resolve()  # either may be reached by a link, or by ".."
    inside = str(here.relative_to(folder) if here.is_relative_to(folder) else here)
    for place in (normpath(output), inside, normpath(Path.cwd() / output)):
        if place in writer:
            return place, writer[place]
    raise InputError(f"no task of the workflow writes {output}", hint=meant(output, writer))
