"""Look up the tasks of a workflow in the archive, and store the attempts of a run there."""

import os
import pwd
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.archive.history import LONGEST_COMMAND, MOST_COMMANDS, Past, Wanted
from tonnage.archive.identity import identity_of
from tonnage.archive.session import ArchiveSession
from tonnage.archive.store import Archive
from tonnage.errors import InputError
from tonnage.files import absolute
from tonnage.jobs import Attempt, Decision, Resource
from tonnage.logs.sources import Source
from tonnage.option_values import pairs, parts
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal, Reader
from tonnage.run.journal_rows import Row
from tonnage.run.serialisation import plain_decision
from tonnage.units import Bytes
from tonnage.wording import meant
from tonnage.workflow import Workflow, read
from tonnage.workflow.shell import executable

if TYPE_CHECKING:
    from tonnage.archive.importing import Report
    from tonnage.archive.search import Search
    from tonnage.jobs import History

__all__ = [
    "attempts_of",
    "learnt_from",
    "peaks_before",
    "peaks_of_tasks",
    "remember",
    "sized_by_density",
    "wanted_for",
]

_MOST_TASKS = 100_000  # in a workflow whose tasks are looked up one by one
_MARGIN = 0.05
_FILTERS = ("workflow", "run", "user", "category", "label", "task", "command", "executable", "source", "since", "until")
"""The filters of an archive query that can select the jobs to learn from."""


def wanted_for(workflow: Workflow, home: Path, *, guesses: bool = False) -> Wanted:
    """Return the archive query for a run of a workflow; with `guesses` also for jobs of other workflows."""
    tasks = [task for task in workflow.tasks if task.command and len(task.command) <= LONGEST_COMMAND]
    some = tasks[:: ceil(len(tasks) / MOST_COMMANDS) or 1]
    return Wanted(
        workflow=workflow.name,
        checksum=workflow.checksum,
        folder=str(home),
        commands=frozenset(task.command for task in some if task.command),
        tasks=frozenset(task.name for task in some),
        categories=frozenset(workflow.categories),
        programs={task.category: executable(task.command) or "" for task in workflow.tasks} if guesses else {},
    )


def peaks_before(past: Past, workflow: Workflow) -> dict[int, float]:
    """Return the most memory that tasks of a workflow used in its earlier runs, by their positions."""
    if not past.peaks or len(workflow) > _MOST_TASKS:
        return {}
    found = ((place, identity_of(workflow.name, task.name, task.command)) for place, task in enumerate(workflow.tasks))
    return {place: past.peaks[identity] for place, identity in found if identity in past.peaks}


def peaks_of_tasks(archive: "Archive", workflow: Workflow, resource: Resource) -> dict[int, float]:
    """Return the largest peaks of tasks in earlier runs of this very workflow, by their positions in it."""
    if len(workflow) > _MOST_TASKS:
        return {}
    from tonnage.archive import Search, peaks_by_task

    found = peaks_by_task(archive, resource, Search(workflow=workflow.checksum))
    places = {workflow.index.get(name): amount for name, amount in found.items() if amount > 0}
    return {place: amount for place, amount in places.items() if place is not None}


def learnt_from(session: ArchiveSession, named: str, workflow: Workflow) -> "dict[str, History]":
    """Return the histories of a workflow's categories from the jobs that the user named.

    They are named by the file of a workflow, by a workflow's name, or by filters such as ``user=ada,category=align*``.
    Raises InputError if there are none.
    """
    from tonnage.archive import Search, histories

    path = Path(named)
    if path.is_file():
        other = read(path)
        wanted = replace(wanted_for(other, absolute(path).parent), categories=frozenset(workflow.categories))
        found = session.past(wanted).histories()
    else:
        search = _search(named) if "=" in named else Search(workflow=named)
        found = histories(session.archive, search)
    ours = {name: one for name, one in found.items() if name in workflow.categories and one.finished.any()}
    if not ours:
        hint = "tonnage archive query shows what there is; a filter is written like user=ada,category=align*"
        raise InputError(f"--learn-from {named}: no finished job of a category of this workflow", hint=hint)
    return ours


def _search(text: str) -> "Search":
    from tonnage.archive.search import search_of

    filters = pairs(parts([text]), "--learn-from")
    for name in filters:
        if name not in _FILTERS:
            hint = meant(name, _FILTERS) or f"use one of {', '.join(_FILTERS)}, as in user=ada,category=align*"
            raise InputError(f'--learn-from: "{name}" is not a filter', hint=hint)
    return search_of(**filters)  # type: ignore[arg-type] # none of these filters is a number or a list


def sized_by_density(archive: "Archive", workflow: Workflow, home: Path) -> Workflow:
    """Return the workflow with requests from clusters of similar past tasks (Zhang et al.)."""
    from tonnage.archive.history import recall
    from tonnage.size.discover import apply, discover, merge

    tasks = merge(list(recall(archive, wanted_for(workflow, home))))
    return apply(discover(tasks), workflow, margin=_MARGIN).workflow if tasks else workflow


def remember(
    archive_session: ArchiveSession, journal: Journal, folder: RunFolder, workflow: Workflow, fields: Mapping[str, str]
) -> "Report":
    """Store a run's finished attempts, except for those that this archive already has according to the journal."""
    from tonnage.archive.importing import import_source

    archive = archive_session.archive
    stored = f"stored in {archive}"
    settled = journal.settled()
    after = int(journal.facts().get(stored, 0))
    if after and not _knows(archive, folder.id):
        after = 0  # it is a new archive with the same name
    entries = attempts_of(journal, folder, workflow, after=after)
    source = archive_session.kept(Source(str(folder.path), folder.id, "tonnage", entries), fields)
    report = import_source(archive, source, fields=fields)
    journal.note({stored: str(settled)})
    return report


def _knows(archive: Archive, run: str) -> bool:
    from tonnage.archive import Search, find

    return any(True for _ in find(archive, Search(run=run), limit=1))


def attempts_of(
    journal: Reader, folder: RunFolder, workflow: Workflow, *, after: int = 0, open_ends: bool = False
) -> Iterator[Attempt]:
    """Yield the finished attempts of a run with numbers above `after`; with `open_ends`, also unfinished ones."""
    token = journal.facts().get("token", folder.id)
    user, host = pwd.getpwuid(os.getuid()).pw_name if _has_name() else str(os.getuid()), socket.gethostname()
    described = _Described()
    for row in journal.rows(after):
        if open_ends or row.ended is not None:
            yield _attempt(row, folder.id, token, workflow, user, host, described)


def _has_name() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False  # a container whose user has no entry
    return True


def _attempt(
    row: Row, run: str, token: str, workflow: Workflow, user: str, host: str, described: "_Described"
) -> Attempt:
    number = workflow.index.get(row.task)
    task = None if number is None else workflow.tasks[number]
    return Attempt(
        native_id=f"tonnage:{token}:{row.attempt}",
        run=run,
        workflow=workflow.name,
        workflow_checksum=workflow.checksum,
        task=row.task,
        number=row.number,
        category=row.category,
        command=task.command if task else None,
        executable=executable(task.command) if task else None,
        user=user,
        host=row.host or host,
        submitted=row.submitted,
        started=row.started,
        ended=row.ended,
        outcome=row.outcome,
        exhausted=row.exhausted,
        exit_status=row.exit_status,
        signal=row.signal,
        **({"requested": task.request, "inputs": task.inputs, "outputs": task.outputs} if task else {}),  # type: ignore[arg-type]
        allocated=row.held,  # so that waste is right: amounts that grow are averaged over the run time
        used=row.used,
        memory_method=row.memory_method,
        lower_bounds=row.lower_bounds,
        input_bytes=None if row.input_bytes is None else Bytes(round(row.input_bytes)),
        raw={
            "decisions": described.convert(row.decisions),
            **({"note": row.note} if row.note else {}),
            **_growth(row),
            **row.facts,
        },
    )


def _growth(row: Row) -> dict[str, object]:
    """Return how the memory of an attempt grew: what it held at first and at last, and bytes times seconds."""
    first, last = row.allocated.memory, row.grew_to
    if first is None or last is None or row.ended is None:
        return {}
    return {"grew": {"first": first, "last": last, "byte_seconds": (row.ended - row.started) * first + row.more_memory}}


class _Described:
    """Decisions as dictionaries, cached because many attempts share a few."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Decision, dict[str, object]]] = {}

    def convert(self, decisions: Sequence[Decision]) -> list[dict[str, object]]:
        """Convert each decision into a dictionary."""
        found = []
        for one in decisions:
            known = self._known.get(id(one))
            if known is None:
                known = self._known[id(one)] = (
                    one,
                    plain_decision(one),
                )  # the decision is kept alive, so that no other object gets its id
            found.append(known[1])
        return found
