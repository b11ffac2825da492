"""Writes a workflow for HTCondor: one DAG, one submit description per category, and the files that its jobs need.

The monitor stops a task that uses more memory than its job has. A POST script decides whether to retry it, and DAGMan's
retry number chooses the next rung of its ladder. HTCondor's own ``retry_request_memory`` is not used: it only responds
to some evictions, and never to the monitor. Disk is limited by the pool alone: a job evicted for its disk use requests
the next rung itself if HTCondor supports that; elsewhere disk grows with memory.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from math import ceil
from pathlib import Path
from posixpath import isabs, normpath

from tonnage import __version__
from tonnage.atomic import make_private_folder
from tonnage.batch.htcondor.monitor import write_monitor
from tonnage.batch.htcondor.system import AVOIDED
from tonnage.errors import InputError
from tonnage.files import write_atomically
from tonnage.jobs import EXHAUSTIBLE, Decision, Resource
from tonnage.workflow import Task
from tonnage.workflow.dagman.submit import REQUESTS, quoted_argument
from tonnage.workflow.dagman.writer import (
    arc_lines,
    file_list,
    heading,
    node_names,
    priority_line,
    safe_name,
    variables_line,
    with_unit,
)
from tonnage.workflow.names import FreeNames
from tonnage.workflow.shell import one_line, own_program

__all__ = [
    "DAG",
    "EVENTS",
    "GIVEN_UP_FOR",
    "MONITOR",
    "OURS",
    "Dag",
    "Node",
    "Order",
    "avoid_machines",
    "write_dag",
]

DAG, EVENTS = "workflow.dag", "events.log"
MONITOR = 32 * 2**20
"""Bytes that a job requests in addition to its task's allocation, for the monitor."""
GIVEN_UP_FOR = (6, 7, 8, 9, 12, 13, 14, 34)
"""Hold codes that waiting does not resolve: it cannot start, a file is missing, or it needs more than it has."""
OURS = frozenset(
    ["executable", "arguments", "initialdir", "log", "output", "error", "submit_event_notes", "periodic_remove"]
    + [f"transfer_{one}" for one in ("executable", "input_files", "output_files", "output_remaps")]
)
"""Submit commands that Tonnage needs in order to track jobs: the user may not set them."""
_OF_MACHINES = "HoldReasonCode == 21 && (HoldReasonSubCode == 102 || HoldReasonSubCode == 104)"
_EVICTED_FOR = "({0}Usage > {0}Provisioned && Request{0} <= {0}Provisioned) =?= true"
"""Whether a waiting job was evicted for exceeding its allocation and requests no more: it would be evicted forever."""
_AVOIDED = f"MY.{AVOIDED}"
_AVOIDING = re.compile(rf'^{re.escape(_AVOIDED)} = ".*"$', re.MULTILINE)
_REQUIREMENTS = re.compile(r"\s*requirements\s*=\s*(.*\S)", re.IGNORECASE)
_FINAL = 2
"""The exit status of the POST script after which DAGMan does not retry."""
_TASK, _MONITOR, _POST = "task.sh", "monitor.pyz", "post.sh"
_SUMMARY = "tonnage-summary.json"  # in the folder of a job that transfers its files
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH")  # passed on from our environment on a shared file system


@dataclass(frozen=True, slots=True)
class Order:
    """A task to run, with its allocation."""

    task: Task
    decisions: tuple[Decision, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class Node:
    """A task as a node of the DAG."""

    name: str
    order: Order
    number: int
    """Used in the names of its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dag:
    """What to submit, and how."""

    folder: Path
    """Where its files are written; visible on all machines unless files are transferred."""
    home: Path
    """The folder of the workflow."""
    title: str
    orders: Sequence[Order]
    children: Sequence[Sequence[int]]
    """As indexes into `orders`."""
    retries: int = 0
    """How often a task that failed is retried."""
    kills: int = 0
    """How often a task that was killed from outside is retried."""
    transfers: bool = False
    """Whether files are transferred with jobs, because there is no shared file system."""
    grows_disk: bool = True
    """Whether HTCondor itself increases the request of a job that had too little disk."""
    throttles: Mapping[str, int] = field(default_factory=dict)
    """The most queued tasks per category."""
    commands: Sequence[str] = ()
    """Additional submit commands from the user."""
    most: int | None = None
    """The most queued jobs."""

    @property
    def terms(self) -> dict[str, object]:
        """The settings common to all of its jobs, as JSON values: with other settings it is another DAG."""
        return {
            "grows_disk": self.grows_disk,
            "retries": self.retries,
            "kills": self.kills,
            "transfers": self.transfers,
            "throttles": dict(self.throttles),
            "commands": list(self.commands),
            "most": self.most,
            "environment": _environment(self),
        }

    @property
    def path(self) -> Path:
        """The DAG's file."""
        return self.folder / DAG


def write_dag(dag: Dag) -> list[Node]:
    """Write all files that HTCondor needs, the DAG itself last; return its nodes."""
    _check_folder(dag)
    for name in ("summaries", "logs", "partial", "failures", "kills"):
        make_private_folder(dag.folder / name)
    names = node_names([order.task.name for order in dag.orders])
    nodes = [Node(names[order.task.name], order, number) for number, order in enumerate(dag.orders)]
    _write_program(dag.folder / _TASK, (files("tonnage.batch.htcondor") / _TASK).read_text())
    write_monitor(dag.folder / _MONITOR)
    words = f'exec "{sys.executable}" -P -m tonnage.run.backends.htcondor.post_script "{dag.folder}" "$@"'
    _write_program(dag.folder / _POST, f'#!/bin/sh\n[ "$1" = 0 ] && exit 0\n{words}\n')  # this is usually enough
    descriptions = _Descriptions(dag)
    lines = [line for node in nodes for line in _node_lines(dag, node, descriptions)]
    descriptions.write()
    throttles = [f"MAXJOBS {safe_name(name)} {most}" for name, most in dag.throttles.items()]
    arcs = _arcs(nodes, dag.children)
    write_atomically(
        dag.path, "".join(f"{line}\n" for line in [heading(dag.title, len(nodes)), *lines, *arcs, *throttles])
    )
    return nodes


def _check_folder(dag: Dag) -> None:
    """Raise InputError if the folder's name cannot be written in HTCondor's files."""
    for path in (dag.folder, dag.home):
        if any(letter in str(path) for letter in " \t\n\r\"'$%;,=\\"):
            hint = "move the workflow to a folder whose path has only letters, digits and . _ + -"
            raise InputError("HTCondor does not support the name of this folder", path=path, hint=hint)


def _write_program(path: Path, text: str) -> None:
    write_atomically(path, text, mode=0o700)


# Nodes


def _node_lines(dag: Dag, node: Node, descriptions: "_Descriptions") -> Iterator[str]:
    variables = _variables(dag, node)
    description = descriptions.path_for(node.order.task.category, tuple(variables))
    yield f"JOB {node.name} {description}"
    yield variables_line(node.name, variables)
    yield priority_line(node.name, node.order.priority)
    memory, disk = (_rungs(dag, node, resource) for resource in EXHAUSTIBLE)
    most = max(memory, disk) - 1 + dag.retries + dag.kills
    if most:
        yield f"RETRY {node.name} {most} UNLESS-EXIT {_FINAL}"
        words = f"$RETURN $RETRY $JOBID {node.number} {memory} {disk} {dag.retries} {dag.kills}"
        yield f"SCRIPT POST {node.name} {dag.folder / _POST} {words}"
    if node.order.task.category in dag.throttles:
        yield f"CATEGORY {node.name} {safe_name(node.order.task.category)}"


def _rungs(dag: Dag, node: Node, resource: Resource) -> int:
    """Return the number of amounts of a resource with which DAGMan tries a node."""
    if resource is Resource.DISK and dag.grows_disk:
        return 1
    return max((len(one.ladder) - one.rung for one in node.order.decisions if one.resource is resource), default=1)


def _variables(dag: Dag, node: Node) -> dict[str, str]:
    """Return the variables of a task for its description; most of a million tasks differ only in these."""
    task = node.order.task
    found = {
        "number": str(node.number),
        "command": quoted_argument(one_line(task.command or "")),
        "outputs": " ".join(f"'{quoted_argument(name)}'" for name in task.outputs),
        "folder": str(_folder(dag, task)),
        **_amounts(dag, node),
    }
    if task.gpus:
        found["gpus"] = str(task.gpus)
    if dag.transfers:
        found |= _files(dag, task)
    return found


def _folder(dag: Dag, task: Task) -> Path:
    """Return the folder in which a task runs, or from and to which its files are transferred."""
    return Path(normpath(dag.home / (task.directory or ".")))


def _amounts(dag: Dag, node: Node) -> dict[str, str]:
    """Return what a job requests at first, and after it had too little."""
    found = {"rung": "$(RETRY)"}
    for one in node.order.decisions:
        rungs = [_asked(one.resource, amount) for amount in one.ladder[one.rung :]]
        if one.resource not in EXHAUSTIBLE:
            found[str(one.resource)] = rungs[0]
        elif one.resource is Resource.DISK and dag.grows_disk:
            found["disk"] = rungs[0]
            if rungs[1:]:
                found["more_disk"] = ", ".join(rungs[1:])
        else:
            # Failures and kills count as retries too, so the last rung is repeated for those.
            tries = max(_rungs(dag, node, resource) for resource in EXHAUSTIBLE) + dag.retries + dag.kills
            found[str(one.resource)] = ", ".join((rungs + rungs[-1:] * tries)[:tries])
    return found


def _asked(resource: Resource, amount: float) -> str:
    """Format an amount for HTCondor."""
    if resource is Resource.CORES:
        return str(max(1, ceil(amount)))
    more = MONITOR if resource is Resource.MEMORY else 0
    unit = 2**20 if resource is Resource.MEMORY else 2**10
    return with_unit(ceil((amount + more) / unit) * unit)


def _files(dag: Dag, task: Task) -> dict[str, str]:
    """Return the files to transfer with a task; raises InputError if one cannot be transferred.

    They are transferred with the folder that they are in. When it is sent back, it has only the outputs in it, so they
    arrive where they belong, however many exist: a missing output that was listed individually would hold the job.
    """
    inputs = dict.fromkeys(normpath(name) for name in task.inputs)
    folder = _folder(dag, task)
    program = own_program(task.command)
    if program and (folder / program).is_file():
        inputs[normpath(program)] = None
    for name in (*inputs, *task.outputs):
        outside = f"{normpath(name)}/".startswith("../") or (isabs(name) and name in task.outputs)
        if outside or any(letter in name for letter in ";="):
            hint = "without --sandbox, the pool's shared file system is used"
            raise InputError(f'the file "{name}" of task "{task.name}" cannot be transferred with it', hint=hint)
    listed = file_list(task, tuple(name if isabs(name) else f"{folder.name}/{name}" for name in inputs))
    return {
        "folder": str(folder.parent),
        "place": file_list(task, (folder.name,)) or "",
        "inputs": f", {listed}" if listed else "",
    }


def _arcs(nodes: Sequence[Node], children: Sequence[Sequence[int]]) -> Iterator[str]:
    for node, places in zip(nodes, children, strict=True):
        yield from arc_lines(node.name, [nodes[place].name for place in places])


# Descriptions


class _Descriptions:
    """The submit descriptions of a DAG: one per category, or a few if its tasks request different resources."""

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._free = FreeNames()
        self._texts: dict[Path, str] = {}
        self._known: dict[tuple[str, tuple[str, ...]], Path] = {}

    def path_for(self, category: str, variables: tuple[str, ...]) -> Path:
        """Return the description for tasks of a category with these variables."""
        known = self._known.get((category, variables))
        if known is None:
            name = self._free.give(safe_name(category).replace("/", "_"))
            known = self._known[category, variables] = self._dag.folder / f"{name}.sub"
            self._texts[known] = "".join(f"{line}\n" for line in _description(self._dag, category, variables))
        return known

    def write(self) -> None:
        """Write all descriptions."""
        for path, text in self._texts.items():
            write_atomically(path, text)


def _description(dag: Dag, category: str, variables: Sequence[str]) -> Iterator[str]:
    yield f"# {' '.join(category.split())}: written by Tonnage {__version__}; values are in {DAG}"
    yield "universe = vanilla"
    yield f"executable = {dag.folder / _TASK}"
    if dag.transfers:
        yield f"arguments = \"'{_MONITOR}' '{_SUMMARY}' '$(place)' '$(command)' $(outputs)\""
        yield from _travelling(dag)
    else:
        summary, partial = dag.folder / "summaries", dag.folder / "partial"
        where = f"'{dag.folder / _MONITOR}' '{summary}/$(number).$(Cluster)' '{partial}/$(number).$(Cluster)'"
        yield f"arguments = \"{where} '$(command)' $(outputs)\""
        yield "should_transfer_files = NO"
        yield "transfer_executable = False"
    yield "initialdir = $(folder)"
    yield f'environment = "{_environment(dag)}"'
    yield f"log = {dag.folder / EVENTS}"
    for stream, ending in (("output", "out"), ("error", "err")):
        yield f"{stream} = {dag.folder}/logs/$(number).$(Cluster).{ending}"
    yield from _requests(dag, variables)
    hopeless = " || ".join(f"HoldReasonCode == {code}" for code in GIVEN_UP_FOR)
    evicted = " || ".join(_EVICTED_FOR.format(one) for one in ("Memory", "Disk"))
    yield f"periodic_remove = (JobStatus == 5 && ({hopeless} || ({_OF_MACHINES}))) || (JobStatus == 1 && ({evicted}))"
    yield from dag.commands
    yield _avoiding(())
    yield f"requirements = {_requirements(dag.commands)}"
    yield "queue"


def _requirements(commands: Sequence[str]) -> str:
    """Return the expression for the machines that a job may use: those that the user wants, but no avoided ones."""
    ours = f"stringListIMember(TARGET.Machine, {_AVOIDED}) =!= true"
    users = [found[1] for command in commands if (found := _REQUIREMENTS.match(command))]
    return f"({users[-1]}) && ({ours})" if users else ours


def _avoiding(machines: Iterable[str]) -> str:
    return f'{_AVOIDED} = "{",".join(sorted(machines))}"'


def avoid_machines(folder: Path, machines: Iterable[str]) -> None:
    """Let the jobs of a DAG that are submitted from now on use none of these machines."""
    line = _avoiding(machines)
    for path in folder.glob("*.sub"):
        text = path.read_text()
        changed = _AVOIDING.sub(lambda _: line, text)
        if changed != text:
            write_atomically(path, changed)


def _requests(dag: Dag, variables: Sequence[str]) -> Iterator[str]:
    for name in ("cores", "memory", "disk", "gpus"):
        if name in variables:
            is_chosen = name == "memory" or (name == "disk" and not dag.grows_disk)
            yield f"{REQUESTS[name]} = $CHOICE(rung, {name})" if is_chosen else f"{REQUESTS[name]} = $({name})"
    if "more_disk" in variables:
        yield "retry_request_disk = $(more_disk)"


def _travelling(dag: Dag) -> Iterator[str]:
    yield "should_transfer_files = YES"
    yield "when_to_transfer_output = ON_EXIT"
    yield "preserve_relative_paths = True"
    yield f"transfer_input_files = {dag.folder / _MONITOR}$(inputs)"
    yield f"transfer_output_files = {_SUMMARY}, $(place)"
    yield f'transfer_output_remaps = "{_SUMMARY} = {dag.folder}/summaries/$(number).$(Cluster)"'


def _environment(dag: Dag) -> str:
    """Return the environment of jobs; on a shared file system, with those of our variables that locate programs."""
    kept = {} if dag.transfers else {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept["TONNAGE_PYTHON"] = sys.executable
    return " ".join(f"{name}='{quoted_argument(value)}'" for name, value in kept.items())
