"""PRIO (Malewicz et al.): the order that keeps most tasks eligible, by components of the workflow."""

from dataclasses import dataclass

import numpy as np

from tonnage.rank.blocks import Scheduled, schedule
from tonnage.rank.decomposition import Decomposition, decompose
from tonnage.rank.eligible import Order
from tonnage.rank.priorities import Chosen, Profile, bends, choose
from tonnage.workflow import Graph

__all__ = ["Explanation", "explain", "prio"]

_MOST_KINDS = 2048
"""Of more different profiles, those that are nearly alike are taken for equal: all pairs of kinds are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """How PRIO came to its order."""

    order: Order
    parts: Decomposition
    inside: Scheduled
    chosen: Chosen
    kind: tuple[int, ...]
    """Which profile each component has."""
    profiles: tuple[Profile, ...]


def prio(graph: Graph) -> Order:
    """Return the order of PRIO."""
    if not graph.edges:
        return np.arange(graph.size)  # a bag of tasks: all are sinks, which keep their order
    return explain(graph).order


def explain(graph: Graph) -> Explanation:
    """Return the order of PRIO, and how it came about."""
    parts = decompose(graph)
    inside = schedule(parts)
    kind, profiles = _profiles(inside)
    chosen = choose(parts.superdag(), kind, profiles)
    pieces = [inside.tasks[inside.start[one] : inside.start[one + 1]] for one in chosen.components.tolist()]
    sinks = np.flatnonzero(parts.runs_in == -1)
    order = np.concatenate([*pieces, sinks]).astype(np.int64)
    return Explanation(order, parts, inside, chosen, tuple(kind), tuple(profiles))


def _profiles(inside: Scheduled) -> tuple[list[int], list[Profile]]:
    """Return which profile each component has, and all that there are."""
    numbers: dict[bytes, int] = {}
    profiles: list[Profile] = []
    kind = []
    start, sources = inside.start.tolist(), inside.sources.tolist()
    steps = inside.gains.astype(np.int32) - 1
    for component, begin in enumerate(start[:-1]):
        own = steps[begin : start[component + 1]]
        key = own.tobytes() + sources[component].to_bytes(8, "little")
        number = numbers.setdefault(key, len(profiles))
        if number == len(profiles):
            profiles.append(np.cumsum(np.concatenate(([sources[component]], own.astype(np.float64)))))
        kind.append(number)
    return _fewer(kind, profiles)


def _fewer(kind: list[int], profiles: list[Profile]) -> tuple[list[int], list[Profile]]:
    """Take profiles that are nearly alike for equal, the more nearly the fewer there are."""
    for steps in (96, 48, 24, 12, 6, 3, 1, 0):
        if len(profiles) <= _MOST_KINDS:
            break
        numbers: dict[bytes, int] = {}
        alike: list[int] = []
        kept: list[Profile] = []
        for profile in profiles:
            number = numbers.setdefault(_outline(profile, steps), len(kept))
            if number == len(kept):
                kept.append(profile)
            alike.append(number)
        kind, profiles = [alike[one] for one in kind], kept
    return kind, profiles


def _outline(profile: Profile, steps: int) -> bytes:
    """Return what profiles have in common that are nearly alike: length and course, so many steps a power of two."""
    some = profile[bends(profile, steps + 2)] if steps else profile[:0]
    values = np.concatenate(([len(profile)], some))
    scale = 2.0 ** np.floor(np.log2(np.maximum(values, 1)))
    return np.round(values / scale * steps).astype(np.int64).tobytes() + scale.tobytes()
