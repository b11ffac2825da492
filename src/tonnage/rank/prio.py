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
    """Chooses, among the components that could run, one that has the highest priority over all others.

    Components of one kind are alike, so only kinds are compared.
    """

    def __init__(self, parts: Decomposition, kind: list[int], profiles: list[Profile]) -> None:
        superdag = parts.superdag()
        self._waiting = superdag.indegree.tolist()
        self._child_start, self._child = superdag.child_start.tolist(), superdag.child.tolist()
        self._kind = kind
        self._profiles = profiles
        self._ready: list[list[int]] = [[] for _ in profiles]
        """The components of each kind that could run, the earliest first."""
        self._here = np.zeros(len(profiles), np.bool_)
        """Which kinds there are among them."""
        self._over = np.full((len(profiles), len(profiles)), np.nan)
        """The priority of each kind over each other; NaN where nobody has asked yet."""
        self._least = np.full(len(profiles), -1.0)
        """The least priority of each kind over one that is here; -1 where it is not here itself."""
        self._why = np.full(len(profiles), -1)
        """Over which kind that is."""

    def run(self) -> list[int]:
        """Return all components in their order."""
        order: list[int] = []
        for component, waiting in enumerate(self._waiting):
            if not waiting:
                self._add(component)
        while len(order) < len(self._kind):
            component = self._take(self._best())
            order.append(component)
            for after in self._child[self._child_start[component] : self._child_start[component + 1]]:
                self._waiting[after] -= 1
                if not self._waiting[after]:
                    self._add(after)
        return order

    def _best(self) -> int:
        """Return the kind with the highest least priority; of equal ones, that of the earliest component."""
        best = np.flatnonzero(self._least == self._least.max()).tolist()
        return best[0] if len(best) == 1 else min(best, key=lambda kind: self._ready[kind][0])

    def _add(self, component: int) -> None:
        kind = self._kind[component]
        ready = self._ready[kind]
        heappush(ready, component)
        if len(ready) > 2:
            return
        if len(ready) == 1:
            self._compare(kind)
            worse = self._here & (self._over[:, kind] < self._least)
            self._least[worse], self._why[worse] = self._over[worse, kind], kind
            self._here[kind] = True
        self._look_again(kind)

    def _take(self, kind: int) -> int:
        ready = self._ready[kind]
        component = heappop(ready)
        if not ready:
            self._here[kind], self._least[kind] = False, -1.0
            for other in np.flatnonzero(self._here & (self._why == kind)).tolist():
                self._look_again(other)
        elif len(ready) == 1:
            self._look_again(kind)
        return component

    def _look_again(self, kind: int) -> None:
        """Find the least priority of a kind over those that are here: itself only where there are several of it."""
        alone = len(self._ready[kind]) == 1
        others = np.where(self._here, self._over[kind], np.inf)
        if alone:
            others[kind] = np.inf
        elif np.isnan(others[kind]):
            others[kind] = self._over[kind, kind] = priority(self._profiles[kind], self._profiles[kind])
        self._why[kind] = np.argmin(others)
        self._least[kind] = min(1.0, others[self._why[kind]])

    def _compare(self, kind: int) -> None:
        """Ask for the priorities between a kind and those that are here, where nobody has asked yet."""
        for other in np.flatnonzero(self._here & np.isnan(self._over[kind])).tolist():
            for first, second in ((kind, other), (other, kind)):
                self._over[first, second] = priority(self._profiles[first], self._profiles[second])
