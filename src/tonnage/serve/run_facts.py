"""What is known about a run: from its journal, also while it goes on, or from the archive."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonnage.archive import Archive, Search, find
from tonnage.jobs import Attempt, Resource
from tonnage.report.accounts import Sums, accounts_of, covered
from tonnage.report.figures import Figure, Palette
from tonnage.report.figures.over_time import committed_and_used, running_by_category
from tonnage.report.material import Gathering, Material, outcomes_of
from tonnage.run.folders import RunFolder, runs_of
from tonnage.run.journal import Reader
from tonnage.run.machines import SHARED
from tonnage.run.past import attempts_of
from tonnage.run.state import facts_of, machine_of
from tonnage.run.summary import Account
from tonnage.workflow import Workflow

__all__ = ["MOST_ATTEMPTS", "RunLine", "archived_run", "find_here", "run_here", "runs_here"]

MOST_ATTEMPTS = 100_000
"""So many attempts of a run in the archive are looked at."""
_LISTED = 200
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run of which there is a journal, in one line."""

    id: str
    workflow: str
    state: str
    begun: float | None


def runs_here(folders: tuple[Path, ...]) -> list[RunLine]:
    """Return the runs of which there are journals in some folders, the newest first."""
    found = [_line(run) for run in _runs(folders)]
    return sorted(found, key=lambda one: -(one.begun or 0.0))[:_LISTED]


def find_here(folders: tuple[Path, ...], id: str) -> RunFolder | None:
    """Return the run of an id; only those are looked at that are there: nobody's words become part of a path."""
    return next((run for run in _runs(folders) if run.id == id), None)


def run_here(folder: RunFolder) -> dict[str, Any]:
    """Return what the journal of a run says."""
    process, now = folder.process(), time.time()
    with closing(Reader(folder.journal)) as reader:
        facts = reader.facts()
        machine = machine_of(facts).amounts() if "memory" in facts else {}
        tasks, done = reader.counts()
        failures = [(row.task, row.note) for row in reader.failed()] + list(reader.given_up().items())
        workflow = Workflow.build(facts.get("name", folder.id), [])  # its tasks' commands are not shown
        ended: list[Attempt] = []
        running: list[Attempt] = []
        for attempt in attempts_of(reader, folder, workflow, open_ends=True):
            (running if attempt.ended is None else ended).append(attempt)
        by_category = reader.read(
            "SELECT category, count(*), count(done) FROM tasks WHERE NOT dropped GROUP BY category"
        )
    if process is None:
        running = []  # lost with whoever executed them
    material = Gathering().gather(ended, running, now)
    return {
        "id": folder.id,
        "workflow": workflow.name,
        "here": True,
        "state": _state(folder, facts),
        "now": now,
        "settings": {name: facts[name] for name in ("strategy", "rank", "on") if name in facts},
        "tasks": tasks,
        "done": done,
        "failures": len(failures),
        "failed": [{"task": task, "note": note} for task, note in failures[:_SHOWN]],
        "running": [_running(attempt) for attempt in running[:_SHOWN]],
        "running_now": len(running),
        **_sums(material, machine, {name: (many, well) for name, many, well in by_category}),
    }


def archived_run(archive: Archive, id: str) -> dict[str, Any] | None:
    """Return what the archive knows about a run; None where it knows none of this id."""
    attempts = list(find(archive, Search(run=id), limit=MOST_ATTEMPTS))
    if not attempts:
        return None
    material = Gathering().gather(attempts)
    return {
        "id": id,
        "workflow": attempts[0].workflow or "",
        "here": False,
        "state": "in the archive",
        "now": time.time(),
        "settings": {},
        "tasks": material.tasks,
        "done": int(material.done.sum()),
        "failures": 0,
        "failed": [],
        "running": [],
        "running_now": 0,
        **_sums(material, {}, {}),
    }


def _runs(folders: tuple[Path, ...]) -> Iterator[RunFolder]:
    for folder in folders:
        yield from runs_of(folder)


def _line(run: RunFolder) -> RunLine:
    facts = facts_of(run)
    begun = facts.get("begun")
    return RunLine(run.id, facts.get("name", run.id), _state(run, facts), float(begun) if begun else None)


def _state(run: RunFolder, facts: dict[str, str]) -> str:
    if run.process() is not None:
        return "under way"
    return "finished" if "finished" in facts else "not finished"


def _running(attempt: Attempt) -> dict[str, Any]:
    return {
        "task": attempt.task,
        "category": attempt.category,
        "number": attempt.number,
        "started": attempt.started,
        "allocated": {str(resource): amount for resource, amount in attempt.allocated.known()},
    }


def _sums(material: Material, machine: dict[Resource, float], tasks: dict[str, tuple[int, int]]) -> dict[str, Any]:
    total, by_category = accounts_of(material, machine)
    names = list(dict.fromkeys([*by_category, *tasks]))
    names.sort(key=lambda name: -tasks.get(name, (by_category[name].attempts if name in by_category else 0, 0))[0])
    return {
        "attempts": total.attempts,
        "again": total.again,
        "outcomes": dict(outcomes_of(material)),
        "seconds": covered(material),
        "resources": {str(one): _account(account) for one, account in total.accounts.items() if account.given},
        "categories": [_category(name, by_category.get(name), tasks.get(name)) for name in names],
        "pictures": _pictures(material, machine, names),
    }


def _category(name: str, sums: Sums | None, tasks: tuple[int, int] | None) -> dict[str, Any]:
    known = sums is not None
    return {
        "category": name,
        "tasks": tasks[0] if tasks else None,
        "done": tasks[1] if tasks else sums.done if sums else 0,
        "attempts": sums.attempts if known else 0,
        "failed": sums.failed if known else 0,
        "seconds": sums.seconds if known else 0.0,
        "memory": _account(sums.accounts[Resource.MEMORY]) if sums else None,
    }


def _account(account: Account) -> dict[str, float | None]:
    return {
        "given": account.given,
        "used": account.used,
        "waste_fraction": account.waste_fraction,
        "whole_machine": account.whole_machine or None,
        "max_seen": account.max_seen or None,
    }


def _pictures(material: Material, machine: dict[Resource, float], names: list[str]) -> dict[str, Figure | None]:
    times = material.started, material.ended
    return {
        "running": running_by_category(*times, material.category, material.categories, Palette.of(names)),
        **{
            str(resource): committed_and_used(
                *times, material.given[resource], material.used[resource], resource, capacity=machine.get(resource)
            )
            for resource in SHARED
        },
    }
