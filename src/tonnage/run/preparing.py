"""What a run needs before it begins: where it takes place, what its tasks get, and why."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.archive import Archive
from tonnage.batch.htcondor import HTCondor
from tonnage.batch.scheduler import Scheduler
from tonnage.errors import InputError
from tonnage.files import is_stream
from tonnage.jobs import Decision, Resource
from tonnage.run.events import Carried, Rules
from tonnage.run.files import Files
from tonnage.run.machines import SHARED
from tonnage.run.past import known_of, peaks_of_tasks, sized_by_density
from tonnage.run.resuming import finals
from tonnage.run.worlds import LocalWorld, World
from tonnage.size import Plan
from tonnage.size.learning import Learner, as_before
from tonnage.workflow import Workflow

__all__ = [
    "ClusterOptions",
    "Explained",
    "Options",
    "PoolOptions",
    "Sizes",
    "asking_for_gpus",
    "check_commands",
    "check_gpus",
    "explained",
    "is_piped",
    "path_of",
    "sizes_of",
    "world_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """To which cluster tasks are sent, and how."""

    scheduler: Scheduler
    pack: str = "per-task"
    max_running: int | None = None
    max_submitted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How tasks are sent to an HTCondor pool."""

    system: HTCondor
    most: int | None = None
    """How many jobs are in the queue at most."""
    throttles: Mapping[str, int] = field(default_factory=dict)
    """And how many of a category."""
    commands: tuple[str, ...] = ()
    """More submit commands, for every job."""
    dry: bool = False
    """Whether nothing is submitted, so that no pool need be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a workflow is to be run."""

    strategy: str = "auto"
    rank: str = "prio"
    machine: Mapping[Resource, float] = field(default_factory=dict)
    """What the machine has, where the user says so."""
    rules: Rules = field(default_factory=Rules)
    sandbox: bool = False
    durable: bool = False
    new: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None
    cluster: ClusterOptions | PoolOptions | None = None
    """To which cluster or pool tasks are sent; None: they run on this machine."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What some tasks of a category are tried with at first: all that are tried with the same."""

    category: str
    tasks: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What decides how much tasks get."""

    workflow: Workflow
    """With requests where those decide."""
    learner: Learner
    known: Mapping[int, Carried]
    """Tasks about which more is known than their category."""
    strategy: str
    """By which tasks are sized; where requests were made for them, it is declared."""


def sizes_of(workflow: Workflow, strategy: str, world: World, archive: Archive) -> Sizes:
    """Return what decides how much tasks get, from what the archive knows."""
    home = path_of(workflow).parent
    own = peaks_of_tasks(archive, workflow) if strategy == "auto" else {}
    if strategy == "density":
        workflow, strategy = sized_by_density(archive, workflow, home), "declared"
    plan = Plan(strategy=strategy, machine=world.amounts(), resources=SHARED, parts=world.coarse)
    learner = Learner(plan, known_of(archive, workflow, home))
    known = {}
    for place, memory in own.items():
        task = workflow.tasks[place]
        known[place] = Carried(0, as_before(learner.decide(task.category, task.request), memory, parts=world.coarse))
    return Sizes(workflow, learner, known, strategy)


def world_of(home: Path, options: Options, say: Callable[[str], None]) -> World:
    """Return where a run takes place; raises InputError where nothing can run there."""
    if options.cluster is None:
        return LocalWorld(home, options.machine)
    chosen = options.cluster
    if isinstance(chosen, PoolOptions):
        from tonnage.run.pool.world import PoolWorld

        return PoolWorld(
            chosen.system,
            amounts=options.machine,
            most=chosen.most,
            throttles=chosen.throttles,
            commands=chosen.commands,
            dry=chosen.dry,
        )
    from tonnage.run.cluster.world import ClusterWorld  # packers are heavy to import

    world = ClusterWorld(
        chosen.scheduler,
        home,
        pack=chosen.pack,
        amounts=options.machine,
        max_running=chosen.max_running,
        max_submitted=chosen.max_submitted,
    )
    for note in world.notes:
        say(note)
    return world


def explained(sizes: Sizes, files: Files, places: Iterable[int]) -> list[Explained]:
    """Return what tasks are tried with at first, the most usual first."""
    count: Counter[tuple[str, tuple[Decision, ...]]] = Counter()
    for place in places:
        task, known = sizes.workflow.tasks[place], sizes.known.get(place)
        decisions = known.decisions if known else None
        if decisions is None:
            decisions = sizes.learner.decide(task.category, task.request, files.input_bytes(task))
        count[task.category, decisions] += 1
    return [Explained(category, number, decisions) for (category, decisions), number in count.most_common()]


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


def path_of(workflow: Workflow) -> Path:
    """Return where a workflow is; one that is piped in stands for a file in the current folder."""
    if workflow.source is None:
        raise InputError("a workflow that was made in Python must be written to a file before it can run")
    path = workflow.source.path.absolute()
    return Path.cwd() / "stdin" if is_piped(workflow) else path


def is_piped(workflow: Workflow) -> bool:
    """Whether a workflow comes from standard input, or from another program: ``<(make-workflow)``."""
    return workflow.source is not None and is_stream(workflow.source.path)
