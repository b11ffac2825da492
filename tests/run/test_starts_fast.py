"""A run starts its first task at once: what takes long to import waits until there is something to compute or to query.

The task itself copies what its engine has imported so far, which ``-X importtime`` writes to standard error.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tonnage.rank import METHODS, rank
from tonnage.rank.methods import order_of
from tonnage.workflow import Task, Workflow

SLOW = ("sqlalchemy", "numpy", "numba", "yaml", "rich.console")


def imported(place: Path, tasks: str, *options: str) -> tuple[set[str], set[str]]:
    """Run tasks in a process of its own; return what it had imported when they wrote `seen`, and in the end."""
    (place / "tasks.txt").write_text(tasks)
    words = [sys.executable, "-X", "importtime", "-m", "tonnage", "run", "tasks.txt", "--archive", "jobs.db", *options]
    with (place / "imports").open("w") as stderr:
        subprocess.run(words, cwd=place, stdout=subprocess.DEVNULL, stderr=stderr, timeout=HANGS, check=True)
    return modules(place / "seen"), modules(place / "imports")


def modules(listed: Path) -> set[str]:
    """Return the modules in the output of ``-X importtime``."""
    lines = listed.read_text().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_nothing_slow_is_imported_before_the_first_task_starts(tmp_path: Path) -> None:
    """Not even with more than one, whose sizes depend on what the first one used."""
    seen, _ = imported(tmp_path, "cp imports seen\ntrue\ntrue\n", "--cores", "1")
    assert "tonnage.run.session" in seen
    assert seen.intersection(SLOW) == set()


@pytest.mark.parametrize("strategy", ["auto", "max-seen", "doubling", "declared", "whole-machine"])
def test_one_task_alone_needs_neither_numpy_nor_sqlalchemy(strategy: str, tmp_path: Path) -> None:
    _, ever = imported(tmp_path, "cp imports seen\n", "--size", strategy, "--json")
    assert "tonnage.archive.importing" in ever, "the task is stored in the archive"
    assert ever.intersection(SLOW) == set()


def test_a_lookup_in_an_archive_that_knows_other_workflows_imports_nothing_slow(tmp_path: Path) -> None:
    """Not even if a first guess comes from them."""
    (tmp_path / "other").mkdir()
    imported(tmp_path / "other", "cat imports > seen\n" + "cp imports more\n" * 5, "--archive", "../jobs.db")
    seen, ever = imported(tmp_path, "cp imports seen\n")  # with a command in common, it would be known
    assert "tonnage.archive.history_query" in seen
    assert seen.intersection(SLOW) == set()
    assert ever.intersection(SLOW) == set()


def test_a_known_workflow_is_looked_up_and_stored_without_sqlalchemy(tmp_path: Path) -> None:
    """What is left is numpy: the first decision is made from the histogram of what was used before."""
    for _ in range(2):
        seen, ever = imported(tmp_path, "cp imports seen\n", "--json")
    assert "tonnage.size.auto" in seen, "sizes were learnt"
    assert ever.isdisjoint({*SLOW} - {"numpy"})


@pytest.mark.parametrize("method", METHODS)
def test_tasks_without_dependencies_are_ranked_as_before(method: str) -> None:
    """Some methods need no numpy then: they all keep the order."""
    workflow = Workflow.build("bag", [Task(f"t{number}", command="true") for number in range(50)])
    assert list(order_of(workflow, method)) == rank(workflow, method).tolist()
