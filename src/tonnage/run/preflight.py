"""Checks before a run starts: what can never work is an error, other problems are warnings."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from posixpath import join, normpath

from tonnage.errors import InputError
from tonnage.jobs import NOTHING_KNOWN, Resource
from tonnage.run.file_states import read_meanwhile
from tonnage.run.files import Files, made_by, place_of
from tonnage.run.options import ClusterOptions, PoolOptions
from tonnage.run.recovery import finals
from tonnage.size.learner import exceeded
from tonnage.wording import counted
from tonnage.workflow import Task, Workflow
from tonnage.workflow.shell import plain_words

__all__ = ["asking_for_gpus", "check_commands", "check_gpus", "check_requests", "foreseen"]


def check_commands(workflow: Workflow) -> None:
    """Raise InputError if tasks have no command."""
    without = [task.title for task in workflow.tasks if not task.command]
    if without:
        path = workflow.source.path if workflow.source else None
        problem = f'{len(without):,} of {len(workflow):,} tasks have no command (first: "{without[0]}")'
        raise InputError(problem, path=path, hint="tonnage replay run simulates workflows without commands")


def check_gpus(workflow: Workflow, cluster: ClusterOptions | PoolOptions | None) -> None:
    """Raise InputError if tasks request GPUs that cannot be provided: batch systems do that for unpacked tasks only."""
    asking = asking_for_gpus(workflow)
    if not asking or isinstance(cluster, PoolOptions) or (cluster is not None and cluster.pack == "per-task"):
        return
    problem, hint = "Tonnage cannot allocate on this machine", "--on slurm and --on htcondor pass the request on"
    if cluster is not None:
        problem, hint = "Tonnage cannot allocate in a packed batch job", "--pack per-task passes the request on"
    path = workflow.source.path if workflow.source else None
    raise InputError(f"{asking}, which {problem}", path=path, hint=hint)


def check_requests(workflow: Workflow, machine: Mapping[Resource, float], overridden: frozenset[str] | None) -> None:
    """Raise InputError if a task requests more than any machine has, unless it may get less than it requests."""
    for task in (*workflow.tasks, *finals(workflow)):
        if task.request is NOTHING_KNOWN or overridden is None or task.category in overridden:
            continue
        resource = exceeded(task.request, machine)
        if resource is not None:
            asked, most = (resource.format_amount(one) for one in (getattr(task.request, resource), machine[resource]))
            path = workflow.source.path if workflow.source else None
            hint = f"change it, give more with --machine {resource}=..., or try less with --override-requests"
            raise InputError(
                f'task "{task.name}" requests {asked} of {resource}, but the most that it can get is {most}',
                path=path,
                hint=hint,
            )


def asking_for_gpus(workflow: Workflow) -> str | None:
    """Describe the first task that requests GPUs; None if there is none."""
    tasks = [task for task in (*workflow.tasks, *finals(workflow)) if task.gpus]
    return f'task "{tasks[0].title}" requests {tasks[0].gpus} GPU{"s" * (tasks[0].gpus > 1)}' if tasks else None


def foreseen(workflow: Workflow, files: Files, left: Sequence[int]) -> Iterator[str]:
    """Yield warnings about the tasks that remain to be done."""
    missing = files.missing_inputs(workflow, left)
    if missing:
        number, name = next(iter(missing.items()))
        first = f'first: "{name}" of "{workflow.tasks[number].title}"'
        problem = "files that are missing or unreadable and that no task writes"
        yield f"{_tasks(len(missing))} {problem}, and will fail ({first})"
    without = list(_without_program(workflow, files, left))
    if without:
        task, program = without[0]
        first = f'first: "{program}" of "{task.title}"'
        yield f"{_tasks(len(without), 'need', 'needs')} programs that are not installed here, and will fail ({first})"
    twice = list(_written_twice(workflow, left))
    if twice:
        first = f'first: "{twice[0][0]}", by "{twice[0][1].title}" and "{twice[0][2].title}"'
        yield f"{counted(len(twice), 'file')} written by more than one task, which will run every time ({first})"
    if workflow.source and workflow.source.format == "text":
        yield from _read_meanwhile(workflow, files, left)
    for special in workflow.special:
        if special.kind != "final":
            yield f'the {special.kind} node "{special.task.name}" is not run: tonnage run does not support it'


def _read_meanwhile(workflow: Workflow, files: Files, left: Sequence[int]) -> Iterator[str]:
    found = list(read_meanwhile([workflow.tasks[number] for number in left], str(files.folder)))
    if found:
        reader, place, writer = found[0]
        lines = "1 line reads a file" if len(found) == 1 else f"{len(found):,} lines read files"
        first = f'first: "{place}" of "{reader.title}", which "{writer.title}" writes'
        yield (
            f"{lines} that another line writes, but lines run at the same time and in any order ({first}); "
            "a Makeflow or DAG file says what comes first"
        )


def _tasks(count: int, several: str = "read", one: str = "reads") -> str:
    return f"1 task {one}" if count == 1 else f"{count:,} tasks {several}"


def _written_twice(workflow: Workflow, left: Sequence[int]) -> Iterator[tuple[str, Task, Task]]:
    """Yield files that tasks write although another task has written them, and both tasks."""
    writer: dict[str, Task] = {}
    for number in left:
        task = workflow.tasks[number]
        for place in dict.fromkeys(place_of(task, name) for name in task.outputs):
            other = writer.setdefault(place, task)
            if other is not task:
                yield place, other, task


def _without_program(workflow: Workflow, files: Files, left: Sequence[int]) -> Iterator[tuple[Task, str]]:
    """Yield tasks whose program is not executable and not written by a task; commands for a shell are not checked."""
    made = made_by(workflow)

    @cache
    def is_there(place: str) -> bool:
        if "/" not in place:
            return shutil.which(place) is not None
        return normpath(place) in made or os.access(files.folder / place, os.X_OK)

    for number in left:
        task = workflow.tasks[number]
        words = plain_words(task.command or "")
        if words and not is_there(join(task.directory or "", words[0]) if "/" in words[0] else words[0]):
            yield task, words[0]
