"""Unnamed categories: jobs that used similar amounts, found by density (Zhang et al.).

Several runs of a task count as one job, with the most that any of them used. The allocation of a cluster is its maxima
plus a small margin, so that none of its tasks fails. Clusters can be applied to a workflow: its tasks then carry the
sizes of their clusters, ready for the next run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jobs import GIVEN, SHARED, Amounts, Attempt, Resource
from tonnage.size.clusters import Choice, choose, default_radii, weighted
from tonnage.size.histograms import FloatArray
from tonnage.size.records import Records
from tonnage.workflow import Workflow
from tonnage.workflow.shell import executable

__all__ = ["FEATURES", "WEIGHTS", "Applied", "Cluster", "Discovery", "Task", "apply", "by_density", "discover", "merge"]

FEATURES = GIVEN
WEIGHTS = {Resource.CORES: 0.1, Resource.MEMORY: 0.7, Resource.DISK: 0.1, Resource.WALL_TIME: 0.1}
"""The weight of each feature in the distance between two jobs; the defaults are the paper's."""
_SMALLER = 10  # distances, each a quarter of the next
_NO_MATCH = 0.2  # where 1 is a perfect match and 0 is chance
_UNIT = {"bytes": 1e6, "cores": 1.0, "seconds": 1.0}
"""Distances are in cores, MB and seconds, as in the paper."""


@dataclass(slots=True)
class Task:
    """A task with one or more known runs."""

    category: str
    executable: str
    name: str | None
    checksum: str | None
    """The checksum of its workflow."""
    used: dict[Resource, float] = field(default_factory=dict)
    """The most of each resource that a run of it used."""
    requested: dict[Resource, float] = field(default_factory=dict)
    identities: list[bytes] = field(default_factory=list)
    """The identities of its attempts, if they come from an archive."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Tasks that used similar amounts."""

    label: str
    tasks: int
    maxima: Mapping[Resource, float]
    categories: Mapping[str, int]
    """How many tasks of each category are in it."""

    def allocation(self, margin: float) -> Amounts:
        """Return what each task should be given: the most that any used plus a margin; only whole cores."""
        cores, memory, disk = (self.maxima.get(resource) for resource in SHARED)
        return Amounts.of(
            cores=None if cores is None else ceil(cores - 1e-9),
            memory=None if memory is None else memory * (1 + margin),
            disk=None if disk is None else disk * (1 + margin),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Discovery:
    """The clusters found among tasks."""

    tasks: Sequence[Task]
    clusters: Sequence[Cluster]
    """The largest first."""
    cluster: NDArray[np.int64]
    """The index of each task's cluster."""
    eps: float
    score: float | None
    chosen_by: str
    features: tuple[Resource, ...]
    """The resources that were known and therefore compared."""
    left_out: int
    """How many tasks were left out because one of the features is unknown."""

    def savings(self, margin: float) -> dict[Resource, float]:
        """Return the fraction of each resource that is saved.

        It is relative to what was requested or, if that is unknown, to one size for all. Cores are counted; memory and
        disk are multiplied by the run time.
        """
        given = [cluster.allocation(margin) for cluster in self.clusters]
        seconds = np.array([task.used.get(Resource.WALL_TIME, 1.0) for task in self.tasks])
        found = {}
        for resource in (one for one in SHARED if one in self.features):
            after = np.array([getattr(amounts, resource) for amounts in given])[self.cluster]
            requested = np.array([task.requested.get(resource, np.nan) for task in self.tasks])
            before = requested if not np.isnan(requested).any() else np.full(len(after), after.max())
            weights = np.ones(len(after)) if resource is Resource.CORES else seconds
            total = float(before @ weights)
            found[resource] = (total - float(after @ weights)) / total if total else 0.0
        return found

    @property
    def compared_with(self) -> str:
        """What savings are compared with: ``requested`` or ``one size for all``."""
        known = all(
            resource in task.requested for task in self.tasks for resource in SHARED if resource in self.features
        )
        return "requested" if known else "one size for all"


def merge(attempts: Iterable[Attempt]) -> list[Task]:
    """Return the tasks that finished: several runs of a task are merged, with the most used of each resource.

    Within one run, attempts of the same name are different tasks: a log may give all its jobs the same name.
    """
    found: dict[object, Task] = {}
    seen: Counter[object] = Counter()
    for number, attempt in enumerate(attempts):
        if not attempt.finished:
            continue
        key: object = number
        if attempt.task is not None:
            named = (attempt.workflow_checksum or attempt.workflow, attempt.task)
            seen[named, attempt.run] += 1
            key = (*named, seen[named, attempt.run])
        task = found.get(key)
        if task is None:
            task = found[key] = Task(
                attempt.category or "", attempt.executable or "", attempt.task, attempt.workflow_checksum
            )
        for resource, amount in attempt.used.known():
            task.used[resource] = max(amount, task.used.get(resource, 0.0))
        for resource, amount in attempt.requested.known():
            task.requested[resource] = max(amount, task.requested.get(resource, 0.0))
        if attempt.identity is not None:
            task.identities.append(attempt.identity)
    return list(found.values())


def discover(
    tasks: Sequence[Task],
    *,
    radii: Sequence[float] | None = None,
    weights: Mapping[Resource, float] = WEIGHTS,
) -> Discovery:
    """Group tasks into clusters by what they used.

    The best of the radii is taken: the one whose clusters best match the tasks' categories or programs, if there is
    more than one of these, else the one with the highest Calinski-Harabasz score.
    """
    features = _known_features(tasks, weights)
    kept = [task for task in tasks if all(resource in task.used for resource in features)]
    if not kept or not features:
        raise InputError("no task finished with measurements of any resource")
    table = np.array(
        [[task.used[resource] / _UNIT[resource.unit] for resource in features] for task in kept], dtype=float
    )
    points = weighted(table, [weights[resource] for resource in features])
    choice = _chosen(points, radii, _structure(kept))
    return Discovery(
        kept,
        _clusters(kept, choice.labels),
        choice.labels,
        choice.eps,
        choice.score,
        choice.by,
        features,
        len(tasks) - len(kept),
    )


def by_density(records: Records) -> Records:
    """Regroup jobs by what they used: each job's discovered label replaces its category."""
    used, finished = records.history.used, records.history.finished
    known = {resource: finished & (used[resource] >= 0) for resource in FEATURES}
    features = _features({resource: int(jobs.sum()) for resource, jobs in known.items()}, WEIGHTS)
    if not features:
        raise InputError("no job finished with measurements of any resource")
    chosen = records.only(np.all([known[resource] for resource in features], axis=0))
    table = np.stack([chosen.history.used[resource] / _UNIT[resource.unit] for resource in features], axis=1)
    points = weighted(table, [WEIGHTS[resource] for resource in features])
    structure = chosen.group if len(np.unique(chosen.group)) > 1 else None
    labels = _chosen(points, None, structure).labels
    return replace(chosen, names=_names(int(labels.max()) + 1), group=labels)


def _chosen(points: FloatArray, radii: Sequence[float] | None, structure: NDArray[np.int64] | None) -> Choice:
    """Return the clusters that best match a structure or, if none matches, those that are best separated."""
    usual = default_radii(points) if radii is None else radii
    if structure is None:
        return choose(points, usual, None)
    # To match a structure, smaller distances are tried too, down to 0.
    smaller = (0.0, *(usual[0] / 4**step for step in range(_SMALLER, 0, -1))) if radii is None and usual[0] else ()
    choice = choose(points, (*smaller, *usual), structure)
    if choice.by == "structure" and (choice.score or 0.0) < _NO_MATCH:
        return choose(points, usual, None)
    return choice


def _known_features(tasks: Sequence[Task], weights: Mapping[Resource, float]) -> tuple[Resource, ...]:
    return _features(Counter(resource for task in tasks for resource in task.used), weights)


def _features(known: Mapping[Resource, int], weights: Mapping[Resource, float]) -> tuple[Resource, ...]:
    """Return the features with a weight that are known for at least half as many tasks as the best-known one."""
    counting = {resource: known.get(resource, 0) for resource in FEATURES if weights.get(resource)}
    most = max(counting.values(), default=0)
    return tuple(resource for resource, count in counting.items() if count and 2 * count >= most)


def _names(number: int) -> tuple[str, ...]:
    return tuple(f"cluster-{place:0{len(str(number))}}" for place in range(1, number + 1))


def _structure(tasks: Sequence[Task]) -> NDArray[np.int64] | None:
    """Return the number of each task's category, or else program; None if there are not at least two of them."""
    for kinds in ([task.category for task in tasks], [task.executable for task in tasks]):
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        if len(numbers) > 1:
            return np.array([numbers[kind] for kind in kinds], dtype=np.int64)
    return None


def _clusters(tasks: Sequence[Task], labels: NDArray[np.int64]) -> list[Cluster]:
    members: dict[int, list[Task]] = defaultdict(list)
    for task, label in zip(tasks, labels.tolist(), strict=True):
        members[label].append(task)
    return [
        Cluster(
            name,
            len(members[number]),
            {
                resource: max(task.used[resource] for task in members[number] if resource in task.used)
                for resource in FEATURES
                if any(resource in task.used for task in members[number])
            },
            dict(Counter(task.category for task in members[number]).most_common()),
        )
        for number, name in enumerate(_names(len(members)))
    ]


_OUTLIERS = 0.05


@dataclass(frozen=True, slots=True)
class Applied:
    """A workflow with sizes, and how they were found."""

    workflow: Workflow
    found_by: Mapping[str, int]
    """How many tasks were assigned to a cluster by identity, category, program or level, and how many by nothing."""
    before: Mapping[Resource, float]
    """The total requests of all tasks; a resource that none of them requested is left out."""
    after: Mapping[Resource, float]


def apply(discovery: Discovery, workflow: Workflow, *, margin: float) -> Applied:
    """Return a workflow whose tasks request what their cluster needs.

    A task that has run before is recognised by its workflow and its name. Any other task gets the cluster of its
    category, else of its program, else of its level; if at least one in twenty of those is in another cluster, it gets
    the maximum of both.
    """
    known = _Known.of(discovery, workflow)
    found_by: Counter[str] = Counter()
    requests: dict[str, Amounts] = {}
    levels = workflow.graph.level
    level_clusters: dict[int, set[int]] = {}
    late = []
    for number, task in enumerate(workflow.tasks):
        by, clusters = known.of_task(task.name, task.category, executable(task.command) or "")
        if not clusters:
            late.append(number)
            continue
        found_by[by] += 1
        level_clusters.setdefault(int(levels[number]), set()).update(clusters)
        requests[task.name] = _most(discovery.clusters, clusters, margin)
    for number in late:
        clusters = frozenset(level_clusters.get(int(levels[number]), ()))
        found_by["level" if clusters else "nothing"] += 1
        if clusters:
            requests[workflow.tasks[number].name] = _most(discovery.clusters, clusters, margin)
    sized = workflow.with_requests(requests)
    return Applied(sized, dict(found_by), before=_asked(workflow), after=_asked(sized))


def _asked(workflow: Workflow) -> dict[Resource, float]:
    found: dict[Resource, float] = defaultdict(float)
    for task in workflow.tasks:
        for resource in SHARED:
            amount = getattr(task.request, resource)
            if amount is not None:
                found[resource] += amount
    return dict(found)


@dataclass(frozen=True, slots=True)
class _Known:
    """The clusters of tasks that ran."""

    names: Mapping[str, frozenset[int]]
    categories: Mapping[str, frozenset[int]]
    executables: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, discovery: Discovery, workflow: Workflow) -> "_Known":
        names, categories, executables = (defaultdict[str, Counter[int]](Counter) for _ in range(3))
        for task, cluster in zip(discovery.tasks, discovery.cluster.tolist(), strict=True):
            # A log without workflows identifies tasks by their names alone.
            if task.name is not None and task.checksum in (None, workflow.checksum):
                names[task.name][cluster] += 1
            categories[task.category][cluster] += 1
            executables[task.executable][cluster] += 1
        for unknown in (categories, executables):
            unknown.pop("", None)
        return cls(*({name: _usual(found) for name, found in one.items()} for one in (names, categories, executables)))

    def of_task(self, name: str, category: str, program: str) -> tuple[str, frozenset[int]]:
        """Return how a task was recognised, and its clusters; no clusters if it was not."""
        for by, table, key in (
            ("identity", self.names, name),
            ("category", self.categories, category),
            ("program", self.executables, program),
        ):
            if key in table:
                return by, table[key]
        return "nothing", frozenset()


def _usual(clusters: Counter[int]) -> frozenset[int]:
    """Return the usual clusters of one kind of task: a few outliers do not make all of them large."""
    return frozenset(cluster for cluster, count in clusters.items() if count >= _OUTLIERS * clusters.total())


def _most(clusters: Sequence[Cluster], chosen: frozenset[int], margin: float) -> Amounts:
    """Return the most of each resource that any of the chosen clusters needs."""
    amounts = [clusters[number].allocation(margin) for number in sorted(chosen)]
    columns = ([getattr(one, resource) for one in amounts] for resource in SHARED)
    cores, memory, disk = (max((value for value in column if value is not None), default=None) for column in columns)
    return Amounts.of(cores=cores, memory=memory, disk=disk)
