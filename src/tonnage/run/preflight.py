"""What can be seen to go wrong before anything has started: what can never work is refused, the rest only said."""

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from posixpath import join, normpath

from tonnage.errors import InputError
from tonnage.run.files import Files, made_by
from tonnage.run.options import ClusterOptions, PoolOptions
from tonnage.run.recovery import finals
from tonnage.workflow import Task, Workflow
from tonnage.workflow.shell import plain_words

__all__ = ["asking_for_gpus", "check_commands", "check_gpus", "foreseen"]


def check_commands(workflow: Workflow) -> None:
    """Raise InputError where tasks say no command."""
    without = [task.name for task in workflow.tasks if not task.command]
    if without:
        path = workflow.source.path if workflow.source else None
        some = f'{len(without):,} of {len(workflow):,} tasks, such as "{without[0]}", say no command'
        raise InputError(some, path=path, hint="tonnage replay run simulates workflows without commands")


def check_gpus(workflow: Workflow, cluster: ClusterOptions | PoolOptions | None) -> None:
    """Raise InputError where tasks ask for GPUs: only a batch system hands them out, to tasks that go alone."""
    asking = asking_for_gpus(workflow)
    if not asking or isinstance(cluster, PoolOptions) or (cluster is not None and cluster.pack == "per-task"):
        return
    problem, hint = "Tonnage cannot hand to it on this machine", "--on slurm and --on htcondor pass the request on"
    if cluster is not None:
        problem, hint = "Tonnage cannot hand to it in a packed batch job", "--pack per-task passes the request on"
    path = workflow.source.path if workflow.source else None
    raise InputError(f"{asking}, which {problem}", path=path, hint=hint)


def asking_for_gpus(workflow: Workflow) -> str | None:
    """Return in words which task asks for GPUs first; None where none does."""
    tasks = [task for task in (*workflow.tasks, *finals(workflow)) if task.gpus]
    return f'task "{tasks[0].name}" asks for {tasks[0].gpus} GPU{"s" * (tasks[0].gpus > 1)}' if tasks else None


def foreseen(workflow: Workflow, files: Files, left: Sequence[int]) -> Iterator[str]:
    """Yield warnings about the tasks that are left to do."""
    missing = files.missing_inputs(workflow, left)
    if missing:
        number, name = next(iter(missing.items()))
        some = f'such as "{name}" of "{workflow.tasks[number].name}"'
        yield f"{_tasks(len(missing))} files that cannot be read and that no task writes, {some}: they will fail"
    without = list(_without_program(workflow, files, left))
    if without:
        task, program = without[0]
        some = f'such as "{program}" of "{task.name}"'
        yield f"{_tasks(len(without), 'need', 'needs')} programs that are not here, {some}: they will fail"
    for special in workflow.special:
        if special.kind != "final":
            yield f'the {special.kind} node "{special.task.name}" is not run: on one machine there is nothing for it'


def _tasks(count: int, several: str = "read", one: str = "reads") -> str:
    return f"1 task {one}" if count == 1 else f"{count:,} tasks {several}"


def _without_program(workflow: Workflow, files: Files, left: Sequence[int]) -> Iterator[tuple[Task, str]]:
    """Yield the tasks whose program cannot be run and is not made by a task; what a shell starts is unknown."""
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
