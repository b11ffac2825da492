"""Order the tasks inside each component (PRIO's step 3), and count how many are eligible after each.

Bipartite blocks of known families have an order that is best at every step: along the structure, from one end to the
other. All others are ordered by the number of children in the block, most first. A family is recognised by counting:
sources that share sinks in pairs form a path or a ring, or sinks that share sources do.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.rank.decomposition import Decomposition
from tonnage.workflow import Graph

__all__ = ["Scheduled", "schedule"]

_Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """The tasks that run in each component, in order."""

    start: _Ints
    """Where each component's tasks start in `tasks`."""
    tasks: _Ints
    gains: _Ints
    """How many tasks of the component each of `tasks` makes eligible."""
    sources: _Ints
    """How many tasks of each component are eligible at its beginning."""
    family: tuple[str, ...]
    """The family of each component."""


def schedule(parts: Decomposition) -> Scheduled:
    """Order the tasks inside each component."""
    graph = parts.graph
    start, tasks = parts.runs()
    family = np.full(len(parts), "", dtype=object)
    keys = -graph.outdegree[tasks].astype(float)  # in a block, all children of a task are in it
    along = _families(parts, start, tasks, family)
    order = np.lexsort((tasks, keys, parts.runs_in[tasks]))
    tasks = tasks[order]
    for component, path in along:
        tasks[start[component] : start[component + 1]] = path
    gains = _gains(parts, tasks)
    sources = np.diff(start).copy()
    sinks_start, sinks = parts.sinks()
    for component in np.flatnonzero(~parts.bipartite).tolist():
        span = slice(start[component], start[component + 1])
        members = _Members(graph, tasks[span], sinks[sinks_start[component] : sinks_start[component + 1]])
        tasks[span], gains[span], sources[component] = members.listed()
    return Scheduled(start, tasks, gains, sources, tuple(family.tolist()))


def _gains(parts: Decomposition, tasks: _Ints) -> _Ints:
    """Return how many sinks of a block each task makes eligible: those of which it is the last parent."""
    graph = parts.graph
    place = np.zeros(graph.size, np.int64)
    place[tasks] = np.arange(len(tasks))
    child = np.repeat(np.arange(graph.size), graph.indegree)
    # Parents that ran earlier, in another component, do not count.
    here = (parts.sink_of[child] >= 0) & (parts.runs_in[graph.parent] == parts.sink_of[child])
    if not here.any():
        return np.zeros(len(tasks), np.int64)
    sinks = child[here]
    begins = np.flatnonzero(np.diff(sinks, prepend=-1))
    last = np.maximum.reduceat(place[graph.parent[here]], begins)
    return np.bincount(last, minlength=len(tasks))


class _Members:
    """A component that is not bipartite, whose tasks become eligible one after the other."""

    def __init__(self, graph: Graph, runs: _Ints, sinks: _Ints) -> None:
        self._runs = set(runs.tolist())
        inside = self._runs | set(sinks.tolist())
        self._children = {
            task: [after for after in graph.children_of(task).tolist() if after in inside] for task in self._runs
        }
        self._waiting = {
            task: sum(before in self._runs for before in graph.parents_of(task).tolist()) for task in inside
        }

    def listed(self) -> tuple[list[int], list[int], int]:
        """Return the tasks ordered by children in the component, how many each makes eligible, and the sources."""
        ready: list[tuple[int, int]] = []
        sources = [task for task, count in self._waiting.items() if count == 0]
        for task in sources:
            if task in self._runs:
                heappush(ready, (-len(self._children[task]), task))
        order, gains = [], []
        while ready:
            _, task = heappop(ready)
            gain = 0
            for after in self._children[task]:
                self._waiting[after] -= 1
                if self._waiting[after] == 0:
                    gain += 1
                    if after in self._runs:
                        heappush(ready, (-len(self._children[after]), after))
            order.append(task)
            gains.append(gain)
        return order, gains, len(sources)


def _families(
    parts: Decomposition, start: _Ints, tasks: _Ints, family: NDArray[np.object_]
) -> list[tuple[int, list[int]]]:
    """Name the family of each block; return the tasks of those that are ordered along their structure."""
    graph = parts.graph
    sizes = np.diff(start)
    sinks_start, sinks = parts.sinks()
    sink_counts = np.diff(sinks_start)
    edges = np.bincount(parts.runs_in[tasks], graph.outdegree[tasks], minlength=len(parts)).astype(np.int64)
    family[:] = "general"
    family[parts.bipartite] = "block"
    complete = parts.bipartite & (edges == sizes * sink_counts)
    family[complete] = "complete"
    family[complete & (sizes == 1)] = "fork"
    family[complete & (sink_counts == 1)] = "join"
    found = []
    # A path has one pair of neighbours fewer than members, a ring as many.
    for component in np.flatnonzero(parts.bipartite & ~complete).tolist():
        sources = tasks[start[component] : start[component + 1]].tolist()
        targets = sinks[sinks_start[component] : sinks_start[component + 1]].tolist()
        shape = _along_sources(graph, sources, targets) or _along_sinks(graph, sources, targets)
        if shape is not None:
            family[component], path = shape
            found.append((component, path))
    return found


def _along_sources(  # noqa: PLR0911 (each return rules out a family)
    graph: Graph, sources: list[int], sinks: list[int]
) -> tuple[str, list[int]] | None:
    """Recognise W, N and cycle: neighbouring sources share one sink."""
    shared: dict[int, list[int]] = {source: [] for source in sources}
    joints = 0
    for sink in sinks:
        # Other parents ran earlier, in a component that was not bipartite.
        parents = [task for task in graph.parents_of(sink).tolist() if task in shared]
        if len(parents) > 2:
            return None
        if len(parents) == 2:
            first, second = parents
            if second in shared[first]:
                return None
            shared[first].append(second)
            shared[second].append(first)
            joints += 1
    if any(len(others) > 2 for others in shared.values()):
        return None
    degrees = {source: int(graph.outdegree[source]) for source in sources}
    kinds = set(degrees.values())
    if joints == len(sources) and kinds == {2}:
        return "cycle", _walk(shared, min(sources))
    if joints != len(sources) - 1:
        return None
    ends = [source for source in sources if len(shared[source]) == 1]
    if len(kinds) == 1:
        return "W", _walk(shared, min(ends))
    short = [source for source in ends if degrees[source] == 1]
    if kinds == {1, 2} and len(short) == 1 and sum(degree == 1 for degree in degrees.values()) == 1:
        anchor = ends[0] if ends[1] == short[0] else ends[1]
        return "N", _walk(shared, anchor)
    return None


def _along_sinks(graph: Graph, sources: list[int], sinks: list[int]) -> tuple[str, list[int]] | None:
    """Recognise M: neighbouring sinks share one source."""
    shared: dict[int, list[int]] = {sink: [] for sink in sinks}
    between: dict[tuple[int, int], int] = {}
    private: dict[int, list[int]] = {sink: [] for sink in sinks}
    for source in sources:
        children = graph.children_of(source).tolist()
        if len(children) > 2:
            return None
        if len(children) == 1:
            private[children[0]].append(source)
            continue
        first, second = children
        if (first, second) in between:
            return None
        between[first, second] = between[second, first] = source
        shared[first].append(second)
        shared[second].append(first)
    if len(between) != 2 * (len(sinks) - 1) or any(len(others) > 2 for others in shared.values()):
        return None
    if len({len(private[sink]) + len(shared[sink]) for sink in sinks}) != 1:
        return None
    walk = _walk(shared, min(sink for sink in sinks if len(shared[sink]) == 1))
    path: list[int] = []
    for place, sink in enumerate(walk):
        path += private[sink]
        if place + 1 < len(walk):
            path.append(between[sink, walk[place + 1]])
    return "M", path


def _walk(shared: dict[int, list[int]], begin: int) -> list[int]:
    """Walk along a path or a ring, starting with one of its members."""
    path, before = [begin], -1
    while len(path) < len(shared):
        here = path[-1]
        after = next(other for other in sorted(shared[here]) if other != before)
        before = here
        path.append(after)
    return path
