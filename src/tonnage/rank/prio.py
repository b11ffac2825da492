"""PRIO (Malewicz et al.): the order that keeps most tasks eligible, by components of the workflow."""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from tonnage.rank.blocks import Scheduled, schedule
from tonnage.rank.decomposition import Decomposition, decompose
from tonnage.rank.eligible import Order
from tonnage.rank.priorities import Profile, priority
from tonnage.workflow import Graph

__all__ = ["Explanation", "explain", "prio"]


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """How PRIO came to its order."""

    order: Order
    parts: Decomposition
    inside: Scheduled
    components: tuple[int, ...]
    """The components in the order in which they run."""
    kind: tuple[int, ...]
    """Which profile each component has."""
    profiles: tuple[Profile, ...]


def prio(graph: Graph) -> Order:
    """Return the order of PRIO."""
    return explain(graph).order


def explain(graph: Graph) -> Explanation:
    """Return the order of PRIO, and how it came about."""
    parts = decompose(graph)
    inside = schedule(parts)
    kind, profiles = _profiles(parts, inside)
    components = _Greedy(parts, kind, profiles).run()
    pieces = [inside.tasks[inside.start[one] : inside.start[one + 1]] for one in components]
    sinks = np.flatnonzero(parts.runs_in == -1)
    order = np.concatenate([*pieces, sinks]).astype(np.int64)
    return Explanation(order, parts, inside, tuple(components), tuple(kind), tuple(profiles))


def _profiles(parts: Decomposition, inside: Scheduled) -> tuple[list[int], list[Profile]]:
    """Return which profile each component has, and all that there are."""
    numbers: dict[tuple[int, bytes], int] = {}
    profiles: list[Profile] = []
    kind = []
    gains, start, sources = inside.gains.astype(np.int32), inside.start.tolist(), inside.sources.tolist()
    for component in range(len(parts)):
        own = gains[start[component] : start[component + 1]]
        key = (sources[component], own.tobytes())
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(profiles)
            steps = np.concatenate(([sources[component]], own.astype(np.float64) - 1))
            profiles.append(Profile(np.cumsum(steps)))
        kind.append(number)
    return kind, profiles


class _Greedy:
    """Chooses, among the components that could run, one that has the highest priority over all others."""

    def __init__(self, parts: Decomposition, kind: list[int], profiles: list[Profile]) -> None:
        self._kind = kind
        self._profiles = profiles
        superdag = parts.superdag()
        self._waiting = superdag.indegree.tolist()
        self._child_start, self._child = superdag.child_start.tolist(), superdag.child.tolist()
        self._present: dict[int, list[int]] = {}
        self._over: dict[tuple[int, int], float] = {}
        self._least: dict[int, float] = {}

    def run(self) -> list[int]:
        """Return all components in their order."""
        order = []
        for component, waiting in enumerate(self._waiting):
            if not waiting:
                self._add(component)
        while self._present:
            kind = self._best()
            component = heappop(self._present[kind])
            self._dropped(kind)
            order.append(component)
            for after in self._child[self._child_start[component] : self._child_start[component + 1]]:
                self._waiting[after] -= 1
                if not self._waiting[after]:
                    self._add(after)
        return order

    def _add(self, component: int) -> None:
        kind = self._kind[component]
        if kind not in self._present:
            self._present[kind] = []
            self._least.clear()
        elif len(self._present[kind]) == 1:
            self._least.pop(kind, None)  # it now has one of its own kind beside it
        heappush(self._present[kind], component)

    def _dropped(self, kind: int) -> None:
        left = len(self._present[kind])
        if left == 0:
            del self._present[kind]
            self._least.clear()
        elif left == 1:
            self._least.pop(kind, None)

    def _best(self) -> int:
        """Return the kind with the highest least priority; of equal ones, that of the earliest component."""
        for kind in self._present:
            if kind not in self._least:
                self._least[kind] = min(
                    (self._priority(kind, other) for other in self._present if other != kind or self._several(kind)),
                    default=1.0,
                )
        return max(self._present, key=lambda kind: (self._least[kind], -self._present[kind][0]))

    def _several(self, kind: int) -> bool:
        return len(self._present[kind]) > 1

    def _priority(self, first: int, second: int) -> float:
        found = self._over.get((first, second))
        if found is None:
            found = self._over[first, second] = priority(self._profiles[first], self._profiles[second])
        return found
