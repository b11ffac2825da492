"""Clusters applied to a workflow: its tasks carry their clusters' sizes, ready to run again."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tonnage.jobs import SHARED, Amounts, Resource
from tonnage.size.discover import Cluster, Discovery
from tonnage.workflow import Workflow
from tonnage.workflow.shell import executable

__all__ = ["Applied", "apply"]

_OUTLIERS = 0.05


@dataclass(frozen=True, slots=True)
class Applied:
    """A workflow with sizes, and where they come from."""

    workflow: Workflow
    found_by: Mapping[str, int]
    """How many tasks found their cluster by identity, category, program or level, and how many found none."""
    before: Mapping[Resource, float]
    """What all tasks together asked for; a resource for which none did is left out."""
    after: Mapping[Resource, float]


def apply(discovery: Discovery, workflow: Workflow, *, margin: float) -> Applied:
    """Return a workflow whose tasks ask for what their cluster needs.

    A task that has run before is known by its workflow and its name. Any other gets the cluster of its category, else
    of its program, else of its level; where at least one in twenty of those is in another cluster, the most of both.
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
    """Return what all tasks together ask for."""
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
            # A log that does not know workflows knows tasks by their names alone.
            if task.name is not None and task.checksum in (None, workflow.checksum):
                names[task.name][cluster] += 1
            categories[task.category][cluster] += 1
            executables[task.executable][cluster] += 1
        for unknown in (categories, executables):
            unknown.pop("", None)
        return cls(*({name: _usual(found) for name, found in one.items()} for one in (names, categories, executables)))

    def of_task(self, name: str, category: str, program: str) -> tuple[str, frozenset[int]]:
        """Return how a task is known, and its clusters; none where it is not."""
        for by, table, key in (
            ("identity", self.names, name),
            ("category", self.categories, category),
            ("program", self.executables, program),
        ):
            if key in table:
                return by, table[key]
        return "nothing", frozenset()


def _usual(clusters: Counter[int]) -> frozenset[int]:
    """Return the clusters that tasks of a kind are usually in; a few that are elsewhere do not make all large."""
    return frozenset(cluster for cluster, count in clusters.items() if count >= _OUTLIERS * clusters.total())


def _most(clusters: Sequence[Cluster], chosen: frozenset[int], margin: float) -> Amounts:
    """Return the most of each resource that one of some clusters needs."""
    amounts = [clusters[number].allocation(margin) for number in sorted(chosen)]
    columns = ([getattr(one, resource) for one in amounts] for resource in SHARED)
    cores, memory, disk = (max((value for value in column if value is not None), default=None) for column in columns)
    return Amounts.of(cores=cores, memory=memory, disk=disk)
