"""Ready tasks in order, on shelves: a shelf holds tasks with similar needs, and only its first task is considered.

There are only some dozens of shelves, regardless of the number of tasks and categories. A shelf whose first task found
no room is considered again only when there is room that this task could use.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from math import inf, log2
from typing import TYPE_CHECKING, TypeAlias

from tonnage.jobs import Decision
from tonnage.run.machines import Need
from tonnage.workflow import Workflow

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Decided", "Kind", "Queue", "key_of", "places_of", "task_of"]

Decided: TypeAlias = tuple[tuple[Decision, ...], Need]
"""The decisions for a task, and the need that follows from them."""

_PLACES = 1 << 32  # a key combines the position of a task in the order with its number
_NONE = -1


def key_of(place: int, task: int) -> int:
    """Return the key by which tasks are ordered."""
    return place * _PLACES + task


def task_of(key: int) -> int:
    """Return the task of a key."""
    return key % _PLACES


def places_of(workflow: Workflow, order: "Sequence[int] | np.ndarray") -> list[int]:
    """Return the position of each task: by the user's priority first, then by the order of a ranking."""
    ranked = [0] * len(workflow)
    for place, task in enumerate(order):
        ranked[task] = place
    if all(task.priority is None for task in workflow.tasks):
        return ranked
    by_priority = sorted(range(len(workflow)), key=lambda task: (-(workflow.tasks[task].priority or 0), ranked[task]))
    places = [0] * len(workflow)
    for place, task in enumerate(by_priority):
        places[task] = place
    return places


class Kind:
    """Ready tasks of a category with the same or nearly the same allocation: a heap with the first task on top."""

    __slots__ = ("alike", "category", "decided", "gone", "heap", "key", "name", "shelf")

    def __init__(self, category: str, name: Hashable, *, alike: bool) -> None:
        self.category = category
        self.name = name
        self.alike = alike
        """Whether the decisions for its first task apply to all of them."""
        self.heap: list[int] = []
        self.gone: set[int] = set()
        """Keys in the heap that were dropped."""
        self.key = _NONE
        """The key of the first task."""
        self.decided: Decided = (), (0.0, 0.0, 0.0)
        self.shelf = _NONE


class Queue:
    """Tasks that are ready to start."""

    def __init__(self, decide: Callable[[int], Decided | None]) -> None:
        """Create an empty queue; `decide` returns what a task is allocated, or None if it can never start."""
        self._decide = decide
        self._kinds: dict[str, dict[Hashable, Kind]] = {}
        self._heads: dict[int, Kind] = {}  # kinds by the key of their first task
        self._shelves: dict[int, list[int]] = {}  # heaps of these keys, of which some may be outdated
        self._tops: dict[int, Kind] = {}  # the first kind of each shelf
        self._untried: list[int] = []  # a heap of the keys of tops that may find room, of which some may be outdated

    def put(self, key: int, category: str, name: Hashable, *, alike: bool) -> None:
        """Add a task; tasks of a category with the same name get the same or, unless `alike`, nearly the same."""
        kinds = self._kinds.setdefault(category, {})
        kind = kinds.get(name)
        if kind is None:
            kind = kinds[name] = Kind(category, name, alike=alike)
        if key in kind.gone:
            kind.gone.remove(key)  # its key is still in the heap
            return
        heappush(kind.heap, key)
        if kind.heap[0] == key:
            self._place(kind, anew=kind.key == _NONE)

    def drop(self, key: int, category: str, name: Hashable) -> None:
        """Remove a task that was added under a name."""
        kind = self._kinds[category][name]
        kind.gone.add(key)
        if kind.key == key:
            self._place(kind)

    def holds(self, category: str) -> bool:
        """Whether the queue contains tasks of a category."""
        return bool(self._kinds.get(category))

    def decide_anew(self, category: str) -> None:
        """Update the decisions for the tasks of a category."""
        for kind in list(self._kinds.get(category, {}).values()):
            self._place(kind, anew=True)

    def wake(self, rooms: Iterable[Need]) -> None:
        """Reconsider shelves whose first task fits into the room that was freed."""
        rooms = [room for room in rooms if room[0] > 0]
        for kind in self._tops.values():
            cores, memory, disk = kind.decided[1]
            for room in rooms:
                if cores <= room[0] and memory <= room[1] and disk <= room[2]:
                    heappush(self._untried, kind.key)
                    break

    def next(self) -> Kind | None:
        """Return the kind of the first task in the order that may find room; each is returned once."""
        untried = self._untried
        while untried:
            key = heappop(untried)
            while untried and untried[0] == key:
                heappop(untried)
            kind = self._heads.get(key)
            if kind is not None and self._tops[kind.shelf] is kind:
                return kind
        return None

    def head(self, key: int) -> Kind | None:
        """Return the kind whose first task has this key."""
        return self._heads.get(key)

    def started(self, kind: Kind) -> None:
        """Remove the first task of a kind."""
        heappop(kind.heap)
        self._place(kind)

    def first_blocked(self, but: Container[int]) -> Kind | None:
        """Return the kind of the first of all tasks, except for some keys."""
        best, least = None, inf
        for kind in self._tops.values():
            if kind.key < least and kind.key not in but:
                best, least = kind, kind.key
        return best

    def _place(self, kind: Kind, *, anew: bool = False) -> None:
        """Put a kind on the shelf where its first task belongs."""
        heap, shelf = kind.heap, kind.shelf
        while heap:
            key = heap[0]
            if key in kind.gone:
                kind.gone.remove(heappop(heap))
                continue
            if anew or (key != kind.key and not kind.alike):
                decided = self._decide(task_of(key))
                if decided is None:
                    heappop(heap)
                    continue
                kind.decided, shelf = decided, _shelf_of(decided[1])
            self._list(kind, key, shelf)
            return
        self._list(kind, _NONE, _NONE)
        del self._kinds[kind.category][kind.name]

    def _list(self, kind: Kind, key: int, shelf: int) -> None:
        old_key, old_shelf = kind.key, kind.shelf
        kind.key, kind.shelf = key, shelf
        if old_key != key:
            self._heads.pop(old_key, None)
        if old_shelf not in (shelf, _NONE):
            self._expose(old_shelf)
        if shelf == _NONE:
            return
        self._heads[key] = kind
        if old_key != key or old_shelf != shelf:
            heappush(self._shelves.setdefault(shelf, []), key)
        self._expose(shelf)

    def _expose(self, shelf: int) -> None:
        """Find the first kind of a shelf, and let `next` return it."""
        keys = self._shelves[shelf]
        while keys:
            kind = self._heads.get(keys[0])
            if kind is not None and kind.shelf == shelf:
                self._tops[shelf] = kind
                heappush(self._untried, kind.key)
                return
            heappop(keys)
        del self._shelves[shelf], self._tops[shelf]


def _shelf_of(need: Need) -> int:
    """Return the shelf for a need: by cores, by memory in steps of a fifth, and by disk in factors of two."""
    cores, memory, disk = need
    return (int(cores) << 20) | (int(4 * log2(memory + 1)) << 8) | int(log2(disk + 1))
