"""PRIO (Malewicz et al.): order tasks by components of the workflow, so that most are eligible.

`decomposition` takes the workflow apart (steps 1 and 2), `blocks` orders the tasks inside each component (step 3). This
module decides which component goes first (steps 4 to 6): the one that loses least against any other candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.jit import compiled
from tonnage.rank.blocks import Scheduled, schedule
from tonnage.rank.decomposition import Decomposition, decompose
from tonnage.rank.eligible import Order
from tonnage.workflow import Graph

__all__ = ["Explanation", "explain", "prio", "priority"]

Profile: TypeAlias = NDArray[np.float64]
"""How many tasks of a component are eligible after 0, 1, ... of its tasks have run."""
_Ints: TypeAlias = NDArray[np.int64]

_MOST_POINTS = 3e9
"""The most points examined for all priorities together; with thousands of kinds, not every bend can be used."""
_MOST_BENDS = 512
_POINTS = 20
"""This many points take about as long as one component in other kernels."""
_MOST_KINDS = 2048
"""With more different profiles, nearly equal ones are merged, because all pairs of kinds are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The components in the order in which they run."""

    components: _Ints
    least: NDArray[np.float64]
    """In this order: the least priority of each over another that could have run, 1 if there was none."""
    over: NDArray[np.float64]
    """The priority of each kind over every other; NaN where it was not needed."""


def _choose_components(superdag: Graph, kind: Sequence[int], profiles: Sequence[Profile]) -> Chosen:
    """Order the components, always continuing with the one that has the highest least priority.

    Components of one kind have the same profile, so only kinds are compared; ties go to the first component.
    """
    kinds, size = len(profiles), superdag.size
    most = int(min(_MOST_BENDS, max(2, np.sqrt(_MOST_POINTS / 3) / max(kinds, 1))))
    found = [_bends(profile, most) for profile in profiles]
    chosen = Chosen(np.empty(size, np.int64), np.empty(size), np.full((kinds, kinds), np.nan))
    rows = (superdag.child_start, superdag.child, superdag.indegree.copy(), np.asarray(kind, np.int64))
    kernel = compiled(_choose, size + sum(map(len, found)) ** 2 // _POINTS)
    if size:
        kernel(*rows, *_listed(profiles), *_listed(found), chosen.components, chosen.least, chosen.over)
    return chosen


def priority(first: Profile, second: Profile) -> float:
    """Return the fraction of the most eligible tasks that is always reached if the first goes before the second.

    It is the minimum of E1(x + y) / (E1(x) + E2(y)) over all x and y, where E1 continues with E2 at its end. Both sides
    are linear between bends, so the minimum is where two of these lines cross: x, y or x + y at a bend.
    """
    return float(_choose_components(Graph.from_edges(2, (), ()), (0, 1), (first, second)).over[0, 1])


def _bends(profile: Profile, most: int = _MOST_BENDS) -> _Ints:
    """Return where a profile changes its slope, and its ends; if there are too many, the extremes of each stretch.

    With fewer bends, a priority can come out too high.
    """
    slopes = np.diff(profile)
    inner = np.flatnonzero(slopes[1:] != slopes[:-1]) + 1
    found = np.concatenate(([0], inner, [len(profile) - 1]))
    if len(found) <= most:
        return found
    kept = [0, len(profile) - 1]
    for part in np.array_split(found, max(1, most // 2 - 1)):
        kept += [int(part[np.argmin(profile[part])]), int(part[np.argmax(profile[part])])]
    return np.unique(kept)


def _listed(arrays: Sequence[NDArray[Any]]) -> tuple[_Ints, NDArray[Any]]:
    """Concatenate arrays; return where each one starts, and the result."""
    start = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=start[1:])
    return start, np.concatenate(arrays)


def _choose(  # noqa: PLR0912, PLR0915 (a kernel is one function)
    child_start: _Ints,
    child: NDArray[np.int32],
    waiting: _Ints,
    kind: _Ints,
    profile_start: _Ints,
    eligible: NDArray[np.float64],
    bend_start: _Ints,
    bend: _Ints,
    order: _Ints,
    least_of: NDArray[np.float64],
    over: NDArray[np.float64],
) -> None:
    kinds, size = len(profile_start) - 1, len(kind)
    # The components of each kind that could run form a heap, the earliest first; all heaps share one array.
    heap_start, in_heap = np.zeros(kinds + 1, np.int64), np.zeros(kinds, np.int64)
    for component in range(size):
        heap_start[kind[component] + 1] += 1
    for one in range(kinds):
        heap_start[one + 1] += heap_start[one]
    heap = np.empty(size, np.int64)
    here, place_here, present = np.empty(kinds, np.int64), np.full(kinds, -1, np.int64), 0
    # The least priority of each kind over a kind that is present, and over which; and the second least, to avoid a new
    # search each time a kind comes or goes. -2: there may be one, but no search was made.
    least, why = np.empty(kinds), np.empty(kinds, np.int64)
    second, why_second = np.empty(kinds), np.empty(kinds, np.int64)

    def ratio(first: int, second: int, x: int, y: int) -> float:
        """Return what is eligible after x + y steps of the first, relative to both after x and y steps."""
        begin, other = profile_start[first], profile_start[second]
        together: float = eligible[begin + x] + eligible[other + y]
        done = min(profile_start[first + 1] - begin - 1, x + y)
        kept: float = eligible[begin + done] + eligible[other + x + y - done]
        return kept / together if together > 0 else 1.0

    def compare(first: int, second: int) -> None:
        if not np.isnan(over[first, second]):
            return
        longest = profile_start[first + 1] - profile_start[first] - 1
        other = profile_start[second + 1] - profile_start[second] - 1
        found = 1.0
        for one in range(bend_start[first], bend_start[first + 1]):
            x = bend[one]
            for two in range(bend_start[second], bend_start[second + 1]):
                y = bend[two]
                found = min(found, ratio(first, second, x, y))
                if 0 <= longest + y - x <= other:
                    found = min(found, ratio(first, second, x, longest + y - x))
                if 0 <= x - y <= longest:
                    found = min(found, ratio(first, second, x - y, y))
            for two in range(bend_start[first], bend_start[first + 1]):
                if 0 <= bend[two] - x <= other:
                    found = min(found, ratio(first, second, x, bend[two] - x))
        for one in range(bend_start[second], bend_start[second + 1]):
            for two in range(bend_start[second], bend_start[second + 1]):
                x = longest + bend[two] - bend[one]
                if 0 <= x <= longest:
                    found = min(found, ratio(first, second, x, bend[one]))
        over[first, second] = found

    def add(one: int, other: int) -> None:
        """Update the least priorities of a kind for another kind that is present."""
        value = over[one, other]
        if value < least[one]:
            second[one], why_second[one] = least[one], why[one]
            least[one], why[one] = value, other
        elif value < second[one] and why_second[one] != -2:
            second[one], why_second[one] = value, other

    def look_again(one: int, present: int) -> None:
        """Find the least priority of a kind over those present: over itself only if there are several of it."""
        least[one], why[one] = 1.0, -1
        second[one], why_second[one] = 1.0, -1
        for place in range(present):
            other = here[place]
            if other == one:
                if in_heap[one] == 1:
                    continue
                compare(one, one)
            add(one, other)

    done, added = 0, 0
    ready = np.empty(size, np.int64)
    for component in range(size):
        if waiting[component] == 0:
            ready[added] = component
            added += 1
    taken = 0
    while done < size:
        while taken < added:
            component = ready[taken]
            taken += 1
            one = kind[component]
            begin, place = heap_start[one], in_heap[one]
            while place > 0 and heap[begin + (place - 1) // 2] > component:
                heap[begin + place] = heap[begin + (place - 1) // 2]
                place = (place - 1) // 2
            heap[begin + place] = component
            in_heap[one] += 1
            if in_heap[one] > 2:
                continue
            if in_heap[one] == 1:
                for place in range(present):
                    other = here[place]
                    compare(one, other)
                    compare(other, one)
                    add(other, one)
                here[present], place_here[one] = one, present
                present += 1
            look_again(one, present)
        best = here[0]
        for place in range(1, present):
            one = here[place]
            earlier = heap[heap_start[one]] < heap[heap_start[best]]
            if least[one] > least[best] or (least[one] == least[best] and earlier):
                best = one
        begin = heap_start[best]
        component = heap[begin]
        order[done], least_of[done] = component, least[best]
        done += 1
        in_heap[best] -= 1
        last = heap[begin + in_heap[best]]
        place = 0
        while 2 * place + 1 < in_heap[best]:
            below = 2 * place + 1
            if below + 1 < in_heap[best] and heap[begin + below + 1] < heap[begin + below]:
                below += 1
            if heap[begin + below] >= last:
                break
            heap[begin + place] = heap[begin + below]
            place = below
        heap[begin + place] = last
        if in_heap[best] == 0:
            present -= 1
            place = place_here[best]
            here[place] = here[present]
            place_here[here[place]] = place
            for place in range(present):
                one = here[place]
                if why[one] == best and why_second[one] == -2:
                    look_again(one, present)
                elif why[one] == best:
                    least[one], why[one] = second[one], why_second[one]
                    second[one], why_second[one] = 1.0, -2
                elif why_second[one] == best:
                    second[one], why_second[one] = 1.0, -2
        elif in_heap[best] == 1:
            look_again(best, present)
        for edge in range(child_start[component], child_start[component + 1]):
            waiting[child[edge]] -= 1
            if waiting[child[edge]] == 0:
                ready[added] = child[edge]
                added += 1


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """PRIO's order, and how it was found."""

    order: Order
    parts: Decomposition
    inside: Scheduled
    chosen: Chosen
    kind: tuple[int, ...]
    """The number of each component's profile."""
    profiles: tuple[Profile, ...]


def prio(graph: Graph) -> Order:
    """Return PRIO's order of the tasks."""
    if not graph.edges:
        return np.arange(graph.size)  # a bag of tasks: all are sinks, which keep their order
    return explain(graph).order


def explain(graph: Graph) -> Explanation:
    """Return PRIO's order, and how it was found."""
    parts = decompose(graph)
    inside = schedule(parts)
    kind, profiles = _profiles(inside)
    chosen = _choose_components(parts.superdag(), kind, profiles)
    pieces = [inside.tasks[inside.start[one] : inside.start[one + 1]] for one in chosen.components.tolist()]
    sinks = np.flatnonzero(parts.runs_in == -1)
    order = np.concatenate([*pieces, sinks]).astype(np.int64)
    return Explanation(order, parts, inside, chosen, tuple(kind), tuple(profiles))


def _profiles(inside: Scheduled) -> tuple[list[int], list[Profile]]:
    """Return the number of each component's profile, and all profiles."""
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
    """Merge nearly equal profiles, by coarser and coarser outlines until there are few enough."""
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
    """Return a key that nearly equal profiles share: their length and course, with `steps` steps per power of two."""
    some = profile[_bends(profile, steps + 2)] if steps else profile[:0]
    values = np.concatenate(([len(profile)], some))
    scale = 2.0 ** np.floor(np.log2(np.maximum(values, 1)))
    return np.round(values / scale * steps).astype(np.int64).tobytes() + scale.tobytes()
