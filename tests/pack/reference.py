"""Packing word by word and slow: list schedules, GLUME's Algorithms 1 to 3, and Zhang as printed and as coded."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from tonnage.batch import Snapshot
from tonnage.workflow import Workflow

__all__ = ["Alternative", "Reference", "list_schedule", "request"]


def list_schedule(
    seconds: Mapping[int, int],
    parents: Mapping[int, Iterable[int]],
    key: Mapping[int, int],
    nodes: int,
    release: Mapping[int, int],
) -> dict[int, int]:
    """When each task ends: moment by moment, every free node takes the first task that could start."""
    ends: dict[int, int] = {}
    running: set[int] = set()
    now = 0
    while len(ends) < len(seconds) or running:
        running = {task for task in running if ends[task] > now}
        done = set(ends) - running
        could = [
            task for task in seconds if task not in ends and release[task] <= now and done.issuperset(parents[task])
        ]
        for task in sorted(could, key=lambda task: (key[task], task))[: nodes - len(running)]:
            ends[task] = now + seconds[task]
            running.add(task)
        if any(ends[task] == now for task in running):
            continue  # who takes no time lets others in at once
        moments = [ends[task] for task in running] + [release[task] for task in seconds if task not in ends]
        now = min((moment for moment in moments if moment > now), default=now)
    return ends


def request(run: int, fudge: float) -> int:
    """What is asked for: the estimate with its margin, rounded up to minutes, in exact numbers."""
    return max(1, ceil(run * Fraction(str(fudge)) / 60)) * 60


class Alternative(NamedTuple):
    """A batch job for levels start to end, in the words of the paper."""

    start: int
    end: int
    nodes: int
    run: int
    leeway: int
    wait: int


@dataclass(eq=False)
class Reference:
    """What is left of a workflow (G), and a queue that is asked one question at a time."""

    workflow: Workflow
    seconds: list[int]
    key: list[int]
    left: set[int]
    queue: Snapshot
    fudge: float
    tolerance: int

    def __post_init__(self) -> None:
        graph = self.workflow.graph
        self.parents = [graph.parents_of(task).tolist() for task in range(graph.size)]
        self.top_level: dict[int, int] = {}
        for task in range(graph.size):
            self._top_level(task)
        names = sorted({self.top_level[task] for task in self.left})
        self.levels = [[task for task in sorted(self.left) if self.top_level[task] == name] for name in names]
        self.last = len(self.levels) - 1
        self._runs: dict[tuple[int, int, int], int] = {}

    def _top_level(self, task: int) -> int:
        if task not in self.top_level:
            self.top_level[task] = max((1 + self._top_level(parent) for parent in self.parents[task]), default=0)
        return self.top_level[task]

    def tasks(self, start: int, end: int) -> list[int]:
        return sorted(task for level in self.levels[start : end + 1] for task in level)

    def width(self, start: int, end: int) -> int:
        return max(len(level) for level in self.levels[start : end + 1])

    def usable(self, start: int, end: int) -> int:
        return min(self.queue.nodes, self.width(start, end))

    def estimate_runtime(self, nodes: int, start: int, end: int) -> int:
        if (nodes, start, end) not in self._runs:
            tasks = self.tasks(start, end)
            inside = {task: [one for one in self.parents[task] if one in tasks] for task in tasks}
            seconds = {task: self.seconds[task] for task in tasks}
            keys = {task: self.key[task] for task in tasks}
            ends = list_schedule(seconds, inside, keys, nodes, dict.fromkeys(tasks, 0))
            self._runs[nodes, start, end] = max(ends.values())
        return self._runs[nodes, start, end]

    def wait(self, nodes: int, run: int, leeway: int = 0) -> int:
        """Ask for exactly what would be submitted."""
        return self.queue.earliest(nodes, request(run, self.fudge) + leeway) - self.queue.now

    # GLUME.

    def glume(self, delay: int) -> Alternative:
        """Algorithm 1."""
        last = self.last
        allocations: dict[int, Alternative] = {}
        makespans: dict[int, float] = {}
        allocations[last] = whole = self.pick_best_allocation(delay, 0, last)
        for level in range(last):
            makespans[level] = float("inf")
            allocations[level] = one = self.pick_best_allocation(delay, 0, level)
            if 10 * one.leeway > one.run:
                continue
            other = self.pick_best_allocation(one.leeway + one.run, level + 1, last)
            if 10 * other.leeway > other.run:
                continue
            makespan = one.wait + other.wait + other.leeway + other.run
            if makespan < whole.wait + whole.leeway + whole.run:
                makespans[level] = makespan
        makespans[last] = whole.wait + whole.leeway + whole.run
        return allocations[min(makespans, key=lambda level: makespans[level])]

    def pick_best_allocation(self, delay: int, start: int, end: int) -> Alternative:
        """Algorithm 2."""
        nodes = self.pick_best_num_nodes(delay, start, end)
        run = self.estimate_runtime(nodes, start, end)
        leeway = self.pick_best_leeway(delay, nodes, run)
        return Alternative(start, end, nodes, run, leeway, self.wait(nodes, run, leeway))

    def pick_best_num_nodes(self, delay: int, start: int, end: int) -> int:
        """Algorithm 3."""
        makespans: dict[int, int] = {}
        for nodes in range(1, self.usable(start, end) + 1):
            run = self.estimate_runtime(nodes, start, end)
            makespans[nodes] = max(delay, self.wait(nodes, run)) + run
        return min(makespans, key=lambda nodes: makespans[nodes])

    def pick_best_leeway(self, delay: int, nodes: int, run: int) -> int:
        """The least in [0, delay - wait] with which the job lasts until it is needed, by binary search."""
        too_little, enough = 0, max(0, delay - self.wait(nodes, run))
        tolerance = max(1, min(self.tolerance, run // 10))
        while enough - too_little > tolerance:
            middle = (too_little + enough) // 2
            if middle + self.wait(nodes, run, middle) >= delay:
                enough = middle
            else:
                too_little = middle
        return enough

    # Zhang. Where nothing is returned, each task goes on its own.

    def zhang_printed(self, delay: int) -> Alternative | None:
        """Section 5.1: all levels as a baseline, then more and more of them while wait / run gets no worse."""
        chosen = self.as_wide_as_it_is(self.last)
        for level in range(self.last):
            if self.ratio(self.as_wide_as_it_is(level)) > self.ratio(chosen):
                break
            chosen = self.as_wide_as_it_is(level)
        return self._submitted(chosen, delay, best_nodes=False, leeway=self.halved)

    def zhang(self, delay: int) -> Alternative | None:
        """As GLUME's authors coded it."""
        options = self._worth_waiting_for()
        while len(options) > 1 and self.ratio(options[1]) <= self.ratio(options[0]):
            options.pop(0)
        return self._submitted(options[0], delay, best_nodes=False, leeway=self.halved)

    def zhang_improved(
        self, delay: int, *, all_groupings: bool, best_nodes: bool, true_leeway: bool
    ) -> Alternative | None:
        """Section 5.3, as coded: each of the three possible improvements may be there or not."""
        options = self._worth_waiting_for()
        if all_groupings:
            best = min(self.ratio(one) for one in options)
            options = [one for one in options if self.ratio(one) == best][-1:]
        while len(options) > 1 and self.ratio(options[1]) <= self.ratio(options[0]):
            options.pop(0)
        leeway = self.pick_best_leeway if true_leeway else self.halved
        return self._submitted(options[0], delay, best_nodes=best_nodes, leeway=leeway)

    def _worth_waiting_for(self) -> list[Alternative]:
        """The options from the first on that waits no longer than it runs; if none does, all levels."""
        options = [self.as_wide_as_it_is(level) for level in range(self.last + 1)]
        worth = [option.end for option in options if option.wait <= option.run]
        return options[min(worth, default=self.last) :]

    def _submitted(
        self, chosen: Alternative, delay: int, *, best_nodes: bool, leeway: Callable[[int, int, int], int]
    ) -> Alternative | None:
        if chosen.end == self.last and chosen.wait > 2 * chosen.run:
            return None
        nodes = self.pick_best_num_nodes(delay, 0, chosen.end) if best_nodes else chosen.nodes
        run = self.estimate_runtime(nodes, 0, chosen.end)
        more = leeway(delay, nodes, run)
        return Alternative(0, chosen.end, nodes, run, more, self.wait(nodes, run, more))

    def as_wide_as_it_is(self, level: int) -> Alternative:
        nodes = self.usable(0, level)
        run = self.estimate_runtime(nodes, 0, level)
        return Alternative(0, level, nodes, run, 0, self.wait(nodes, run))

    def ratio(self, one: Alternative) -> Fraction:
        return Fraction(one.wait, one.run)

    def halved(self, delay: int, nodes: int, run: int) -> int:
        """What is missing until the parent ends, halved while it is long and delays the job beyond that."""
        leeway = max(0, delay - self.wait(nodes, run))
        while leeway > 600 and self.wait(nodes, run, leeway) > delay:
            leeway //= 2
        return leeway
