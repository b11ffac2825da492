"""Look up the tasks of a workflow in the archive, and store the attempts of a run there."""

import os
import pwd
import socket
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from tonnage.archive import Archive, Report, Search, find, import_source, peaks_by_task
from tonnage.archive.history import LONGEST_COMMAND, MOST_COMMANDS, Wanted, versions
from tonnage.archive.remote import ArchiveSession
from tonnage.jobs import Attempt, Decision, Resource
from tonnage.logs.sources import Source
from tonnage.run.folders import RunFolder
from tonnage.run.journal import Journal, Reader
from tonnage.run.journal_rows import Row
from tonnage.run.serialisation import plain_decision
from tonnage.size.discover import apply, discover, merge
from tonnage.units import Bytes
from tonnage.workflow import Workflow
from tonnage.workflow.shell import executable

__all__ = [
    "attempts_of",
    "peaks_of_tasks",
    "remember",
    "sized_by_density",
    "wanted_for",
]

_MOST_TASKS = 100_000  # in a workflow whose tasks are looked up one by one
_MARGIN = 0.05


def wanted_for(workflow: Workflow, home: Path) -> Wanted:
    """Return the archive query for a run of a workflow."""
    commands = (task.command for task in workflow.tasks if task.command and len(task.command) <= LONGEST_COMMAND)
    return Wanted(
        workflow=workflow.name,
        checksum=workflow.checksum,
        folder=str(home),
        commands=frozenset(islice(commands, MOST_COMMANDS)),
        categories=frozenset(workflow.categories),
    )


def peaks_of_tasks(archive: Archive, workflow: Workflow, resource: Resource = Resource.MEMORY) -> dict[int, float]:
    """Return the largest peaks of tasks in earlier runs of this very workflow, by their positions in it."""
    if len(workflow) > _MOST_TASKS:
        return {}
    found = peaks_by_task(archive, resource, Search(workflow=workflow.checksum))
    places = {workflow.index.get(name): amount for name, amount in found.items() if amount > 0}
    return {place: amount for place, amount in places.items() if place is not None}


def sized_by_density(archive: Archive, workflow: Workflow, home: Path) -> Workflow:
    """Return the workflow with requests from clusters of similar past tasks (Zhang et al.)."""
    for search in versions(archive, wanted_for(workflow, home)):
        tasks = merge(list(find(archive, search)))
        if tasks:
            return apply(discover(tasks), workflow, margin=_MARGIN).workflow
    return workflow


def remember(
    archive_session: ArchiveSession, journal: Journal, folder: RunFolder, workflow: Workflow, fields: Mapping[str, str]
) -> Report:
    """Store a run's finished attempts, except for those that this archive already has according to the journal."""
    archive = archive_session.archive
    stored = f"stored in {archive}"
    settled = journal.settled()
    known = any(True for _ in find(archive, Search(run=folder.id), limit=1))  # else it is a new archive with this name
    entries = attempts_of(journal, folder, workflow, after=int(journal.facts().get(stored, 0)) if known else 0)
    source = archive_session.kept(Source(str(folder.path), folder.id, "tonnage", entries), fields)
    report = import_source(archive, source, fields=fields)
    journal.note({stored: str(settled)})
    return report


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
        allocated=row.allocated,
        used=row.used,
        memory_method=row.memory_method,
        lower_bounds=row.lower_bounds,
        input_bytes=None if row.input_bytes is None else Bytes(round(row.input_bytes)),
        raw={"decisions": described.of(row.decisions), **({"note": row.note} if row.note else {}), **row.facts},
    )


class _Described:
    """Decisions as dictionaries, cached because many attempts share a few."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Decision, dict[str, object]]] = {}

    def of(self, decisions: Sequence[Decision]) -> list[dict[str, object]]:
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
