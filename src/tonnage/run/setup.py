"""The set-up of a run: its backend, the sizes of its tasks and the reasons for them, and their order.

`tonnage run`, its dry run and `tonnage pack` with a live queue all use this module.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from tonnage.archive.history import NOTHING_PAST
from tonnage.archive.session import ArchiveSession
from tonnage.errors import InputError
from tonnage.files import absolute, is_stream
from tonnage.jobs import GIVEN, NOTHING_KNOWN, SHARED, Amounts, Decision, History, Outcome, Resource
from tonnage.rank.methods import order_of
from tonnage.run.archiving import learnt_from, peaks_before, sized_by_density, wanted_for
from tonnage.run.backends.backend import Backend
from tonnage.run.backends.local import LocalBackend
from tonnage.run.engine import Engine
from tonnage.run.events import Carried
from tonnage.run.files import Files
from tonnage.run.journal_rows import Row
from tonnage.run.options import Options, PoolOptions
from tonnage.run.queue import places_of
from tonnage.run.recovery import NOTHING_BEFORE, Recovered, finals
from tonnage.size import Plan
from tonnage.size.learner import FirstGuess, Learner
from tonnage.size.reruns import as_before
from tonnage.waste import held_seconds
from tonnage.workflow import Workflow

__all__ = [
    "Explained",
    "Overridable",
    "Setup",
    "Sizes",
    "backend_for",
    "explained",
    "is_piped",
    "overridable",
    "path_of",
    "set_up",
]


_WORTH = 0.05
"""A smaller fraction saved is not worth mentioning."""


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


def _sizes(workflow: Workflow, options: Options, backend: Backend, session: ArchiveSession) -> Sizes:
    """Determine the sizes of tasks: from the history in the archive, and from what their authors wrote."""
    home, strategy = path_of(workflow).parent, options.strategy
    machine = backend.amounts()
    plan = Plan(
        machine=machine,
        resources=SHARED,
        parts=backend.coarse,
        overridden=options.overridden,
        can_grow=options.rules.elastic,
    )
    if strategy == "density" and options.history:
        sized, strategy = sized_by_density(session.archive, workflow, home), "declared"
        workflow = _no_less(sized, workflow, plan)
    wanted = wanted_for(workflow, home, guesses=options.rules.elastic)
    past = session.past(wanted) if options.history else NOTHING_PAST
    histories: dict[str, History] = {}
    for named in options.learn_from:
        histories = {**learnt_from(session, named, workflow), **histories}
    guesses = {
        category: FirstGuess(memory, jobs, name) for category, name, jobs, memory in past.guesses(wanted.programs)
    }
    learner = Learner(replace(plan, strategy=strategy), {**past.histories(), **histories}, guesses)
    workflow = _possible(workflow, plan)
    known = {}
    own = peaks_before(past, workflow) if strategy == "auto" else {}
    for place, memory in own.items():
        task = workflow.tasks[place]
        requested = task.request.memory if plan.respects(task.category) else None
        decisions = learner.decide(task.category, task.request)
        known[place] = Carried(0, as_before(decisions, memory, parts=backend.coarse, requested=requested))
    return Sizes(workflow, learner, known, strategy)


def _no_less(sized: Workflow, written: Workflow, plan: Plan) -> Workflow:
    """Return a workflow that requests no less than the one that was written."""
    requests = {}
    for task in written.tasks:
        if task.request is not NOTHING_KNOWN and plan.respects(task.category):
            found = sized.tasks[sized.index[task.name]].request
            requests[task.name] = Amounts.of(
                **{str(one): max(most, getattr(found, one) or 0) for one, most in task.request.known()}  # type: ignore[arg-type]
            )
    return sized.with_requests(requests) if requests else sized


def _possible(workflow: Workflow, plan: Plan) -> Workflow:
    """Return a workflow that requests no more than there is, where requests need not be respected."""
    requests = {}
    for task in workflow.tasks:
        if task.request is NOTHING_KNOWN or plan.respects(task.category):
            continue
        less = {
            str(one): plan.machine[one]
            for one, amount in task.request.known()
            if one in plan.machine and amount > plan.machine[one]
        }
        if less:
            requests[task.name] = Amounts.of(**less)  # type: ignore[arg-type]
    return workflow.with_requests(requests) if requests else workflow


@dataclass(frozen=True, slots=True)
class Overridable:
    """What tasks held of a resource because they requested it, and what they would hold by what was learnt."""

    held: float
    learnt: float


def overridable(rows: Iterable[Row], learner: Learner) -> dict[Resource, Overridable]:
    """Return how much could be saved by giving tasks less than they request, in amounts times seconds."""
    held, learnt = (dict.fromkeys(GIVEN, 0.0) for _ in range(2))
    for row in rows:
        requested = [one for one in row.decisions if one.strategy == "requested" and one.resource in SHARED]
        seconds = held_seconds(row.started, row.ended, row.used.wall_time)
        if row.outcome is not Outcome.DONE or not requested or not seconds:
            continue
        size = nan if row.input_bytes is None else row.input_bytes
        sizes = {one.resource: one for one in learner.decide(row.category, input_bytes=size)}
        for one in requested:
            peak, found = getattr(row.used, one.resource), sizes[one.resource]
            if peak is not None and found.samples:
                held[one.resource] += one.amount * seconds
                attempts = 1 + bisect_left(found.ladder[:-1], peak)
                learnt[one.resource] += sum(found.ladder[:attempts]) * seconds
    return {
        one: Overridable(amount, learnt[one]) for one, amount in held.items() if learnt[one] < amount * (1 - _WORTH)
    }


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
    session: ArchiveSession,
    files: Files,
    left: Recovered = NOTHING_BEFORE,
    first_attempt: int = 1,
) -> Setup:
    """Decide the sizes and the order of tasks; `left` is what earlier sessions achieved."""
    sizes = _sizes(workflow, options, backend, session)
    sizes = replace(sizes, known=_both(sizes.known, left.carried))
    ready = sizes.workflow
    for place, resource, least, size in left.needs:
        if place < len(ready):
            sizes.learner.observe_exhausted(ready.tasks[place].category, place, resource, least, size)
    tasks = (*ready.tasks, *finals(ready))  # final tasks are added when the others have finished
    places = places_of(ready, order_of(ready, options.rank))
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
    return Path.cwd() / "stdin" if is_piped(workflow) else absolute(workflow.source.path)


def is_piped(workflow: Workflow) -> bool:
    """Whether a workflow comes from standard input, or from another program: ``<(make-workflow)``."""
    return workflow.source is not None and is_stream(workflow.source.path)
