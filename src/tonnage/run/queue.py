"""Ready tasks in order, on shelves: a shelf holds tasks that need about as much, and only its first is looked at.

However many tasks and categories there are, there are only some dozens of shelves; and one whose first task found no
room is looked at again only when there is room that this task could use.
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
"""What a task is given, and how much that is."""

_PLACES = 1 << 32  # a key is the place of a task in the order, then its number
_NONE = -1


def key_of(place: int, task: int) -> int:
    """Return what tasks are ordered by."""
    return place * _PLACES + task


def task_of(key: int) -> int:
    """Return the task of a key."""
    return key % _PLACES


def places_of(workflow: Workflow, order: "Sequence[int] | np.ndarray") -> list[int]:
    """Return the place of each task: by the priority that the user gave it, then by the order of a ranking."""
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
    """Ready tasks of a category that are given the same, or nearly so: one heap, the first task on top."""

    __slots__ = ("alike", "category", "decided", "gone", "heap", "key", "name", "shelf")

    def __init__(self, category: str, name: Hashable, *, alike: bool) -> None:
        self.category = category
        self.name = name
        self.alike = alike
        """Whether what its first task is given goes for all of them."""
        self.heap: list[int] = []
        self.gone: set[int] = set()
        """Keys in the heap that count no more."""
        self.key = _NONE
        """The first task, by its key."""
        self.decided: Decided = (), (0.0, 0.0, 0.0)
        self.shelf = _NONE


class Queue:
    """Tasks that are ready to start."""

    def __init__(self, decide: Callable[[int], Decided | None]) -> None:
        """Prepare for the first task; `decide` says what one is given, and None where it can never start."""
        self._decide = decide
        self._kinds: dict[str, dict[Hashable, Kind]] = {}
        self._heads: dict[int, Kind] = {}  # kinds by the key of their first task
        self._shelves: dict[int, list[int]] = {}  # heaps of such keys; one may be out of date
        self._tops: dict[int, Kind] = {}  # the first kind of each shelf
        self._untried: list[int] = []  # keys of tops that may find room: a heap; one may be out of date

    def put(self, key: int, category: str, name: Hashable, *, alike: bool) -> None:
        """Take in a task; those of a category with the same name are given the same, or if not `alike` nearly so."""
        kinds = self._kinds.setdefault(category, {})
        kind = kinds.get(name)
        if kind is None:
            kind = kinds[name] = Kind(category, name, alike=alike)
        if key in kind.gone:
            kind.gone.remove(key)  # it is still there
            return
        heappush(kind.heap, key)
        if kind.heap[0] == key:
            self._place(kind, anew=kind.key == _NONE)

    def drop(self, key: int, category: str, name: Hashable) -> None:
        """Forget a task that was put here under a name."""
        kind = self._kinds[category][name]
        kind.gone.add(key)
        if kind.key == key:
            self._place(kind)

    def holds(self, category: str) -> bool:
        """Whether tasks of a category are ready."""
        return bool(self._kinds.get(category))

    def decide_anew(self, category: str) -> None:
        """Note that tasks of a category may be given something else from now on."""
        for kind in list(self._kinds.get(category, {}).values()):
            self._place(kind, anew=True)

    def wake(self, rooms: Iterable[Need]) -> None:
        """Note what there is on machines with more room than before."""
        rooms = [room for room in rooms if room[0] > 0]
        for kind in self._tops.values():
            cores, memory, disk = kind.decided[1]
            for room in rooms:
                if cores <= room[0] and memory <= room[1] and disk <= room[2]:
                    heappush(self._untried, kind.key)
                    break

    def next(self) -> Kind | None:
        """Return the first task in the order that may find room, by its kind; each is returned once."""
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
        """Take out the first task of a kind."""
        heappop(kind.heap)
        self._place(kind)

    def first_blocked(self, but: Container[int]) -> Kind | None:
        """Return the first of all tasks, by its kind, but some keys."""
        best, least = None, inf
        for kind in self._tops.values():
            if kind.key < least and kind.key not in but:
                best, least = kind, kind.key
        return best

    def _place(self, kind: Kind, *, anew: bool = False) -> None:
        """Put a kind where its first task belongs."""
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
        """Find out which kind is the first of a shelf, and let it be tried."""
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
    """Return the number of the shelf for a need: cores, memory by a fifth, disk by a factor of two."""
    cores, memory, disk = need
    return (int(cores) << 20) | (int(4 * log2(memory + 1)) << 8) | int(log2(disk + 1))
