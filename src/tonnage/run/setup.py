"""The set-up of a run: its backend, the sizes of its tasks and the reasons for them, and their order.

`tonnage run`, its dry run and `tonnage pack` with a live queue all use this module.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tonnage.archive import Archive
from tonnage.archive.history import history_of
from tonnage.errors import InputError
from tonnage.files import is_stream
from tonnage.jobs import SHARED, Decision
from tonnage.rank import rank
from tonnage.run.archiving import peaks_of_tasks, sized_by_density, wanted_for
from tonnage.run.backends.backend import Backend
from tonnage.run.backends.local import LocalBackend
from tonnage.run.engine import Engine
from tonnage.run.events import Carried
from tonnage.run.files import Files
from tonnage.run.options import Options, PoolOptions
from tonnage.run.queue import places_of
from tonnage.run.recovery import NOTHING_BEFORE, Recovered, finals
from tonnage.size import Plan
from tonnage.size.learner import Learner, as_before
from tonnage.workflow import Workflow

__all__ = ["Explained", "Setup", "Sizes", "backend_for", "explained", "is_piped", "path_of", "set_up"]


@dataclass(frozen=True, slots=True)
class Explained:
    """The first allocation of those tasks of a category that share it."""

    category: str
    tasks: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What determines the sizes of tasks."""

    workflow: Workflow
    """With requests, if those determine sizes."""
    learner: Learner
    known: Mapping[int, Carried]
    """What is known about individual tasks."""
    strategy: str
    """The strategy for sizes; `declared` if requests were derived for the tasks."""


def _sizes(workflow: Workflow, strategy: str, backend: Backend, archive: Archive) -> Sizes:
    """Determine the sizes of tasks from the history in the archive."""
    home = path_of(workflow).parent
    own = peaks_of_tasks(archive, workflow) if strategy == "auto" else {}
    if strategy == "density":
        workflow, strategy = sized_by_density(archive, workflow, home), "declared"
    plan = Plan(strategy=strategy, machine=backend.amounts(), resources=SHARED, parts=backend.coarse)
    learner = Learner(plan, history_of(archive, wanted_for(workflow, home)))
    known = {}
    for place, memory in own.items():
        task = workflow.tasks[place]
        known[place] = Carried(0, as_before(learner.decide(task.category, task.request), memory, parts=backend.coarse))
    return Sizes(workflow, learner, known, strategy)


@dataclass(frozen=True, slots=True)
class Setup:
    """A run for which everything is decided, and nothing is done yet."""

    sizes: Sizes
    places: Sequence[int]
    """The position of each task in the preferred order."""
    engine: Engine


def set_up(
    workflow: Workflow,
    options: Options,
    backend: Backend,
    archive: Archive,
    files: Files,
    left: Recovered = NOTHING_BEFORE,
    first_attempt: int = 1,
) -> Setup:
    """Decide the sizes and the order of tasks; `left` is what earlier sessions achieved."""
    sizes = _sizes(workflow, options.strategy, backend, archive)
    sizes = replace(sizes, known=_both(sizes.known, left.carried))
    ready = sizes.workflow
    tasks = (*ready.tasks, *finals(ready))  # final tasks are added when the others have finished
    places = places_of(ready, rank(ready, options.rank).tolist())
    engine = Engine(
        ready.tasks,
        sizes.learner,
        backend.space(),
        workflow=ready,
        places=places,
        rules=options.rules,
        input_bytes=lambda number: files.input_bytes(tasks[number]),
        done=left.done,
        sent={ready.index[name] for name in left.outstanding.tasks if name in ready.index} - left.done,
        carried={place: known for place, known in sizes.known.items() if place < len(ready)},
        first_attempt=first_attempt,
    )
    return Setup(sizes, places, engine)


def _both(known: Mapping[int, Carried], carried: Mapping[int, Carried]) -> dict[int, Carried]:
    """Merge what is known about tasks: from this run if possible, otherwise from earlier ones."""
    both = dict(known)
    for place, one in carried.items():
        before = known.get(place)
        both[place] = one if one.decisions or before is None else replace(one, decisions=before.decisions)
    return both


def backend_for(home: Path, options: Options, *, dry: bool = False) -> Backend:
    """Create the backend of a run; raises InputError if nothing can run there.

    A dry run submits nothing and therefore needs no HTCondor pool.
    """
    if options.cluster is None:
        return LocalBackend(home, options.machine)
    chosen = options.cluster
    if isinstance(chosen, PoolOptions):
        from tonnage.run.backends.htcondor.backend import HTCondorBackend

        return HTCondorBackend(chosen, options.machine, dry=dry)
    from tonnage.run.backends.batch.backend import BatchBackend  # packers are heavy to import

    return BatchBackend(
        chosen.scheduler,
        home,
        pack=chosen.pack,
        amounts=options.machine,
        max_running=chosen.max_running,
        max_submitted=chosen.max_submitted,
    )


def explained(sizes: Sizes, files: Files, places: Iterable[int]) -> list[Explained]:
    """Return the first allocations of tasks, most common first."""
    count: Counter[tuple[str, tuple[Decision, ...]]] = Counter()
    for place in places:
        task, known = sizes.workflow.tasks[place], sizes.known.get(place)
        decisions = known.decisions if known else None
        if decisions is None:
            decisions = sizes.learner.decide(task.category, task.request, files.input_bytes(task))
        count[task.category, decisions] += 1
    return [Explained(category, number, decisions) for (category, decisions), number in count.most_common()]


def path_of(workflow: Workflow) -> Path:
    """Return the path of a workflow; one from a pipe counts as a file in the current folder."""
    if workflow.source is None:
        raise InputError("a workflow that was created in Python must be written to a file before it can run")
    path = workflow.source.path.absolute()
    return Path.cwd() / "stdin" if is_piped(workflow) else path


def is_piped(workflow: Workflow) -> bool:
    """Whether a workflow comes from standard input, or from another program: ``<(make-workflow)``."""
    return workflow.source is not None and is_stream(workflow.source.path)
