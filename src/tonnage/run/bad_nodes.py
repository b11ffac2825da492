"""Bad nodes: several tasks failed there in a way in which tasks do not fail on other nodes.

A full disk, a missing mount or a defective GPU makes every task fail, so that the node is always free for the next one.
`BadNodes` sees only the ends of attempts, and has no clock: a resumed run, which replays the same ends, finds the same
nodes.
"""

import signal as signals
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tonnage.jobs import Outcome
from tonnage.units import format_seconds
from tonnage.wording import counted

__all__ = ["AVOIDED_FOR", "Avoiding", "BadNode", "BadNodes", "kind_of"]

AVOIDED_FOR = 3600.0
"""Seconds for which a failure counts, and for which a node is avoided before it is tried again."""
_TASKS = 3
_ELSEWHERE = 0.1
"""A node is bad even if other nodes have this fraction of its failures, which may have other causes."""
_REMEMBERED = 200
"""How many tasks are remembered for each kind of failure: the newest are enough."""


@dataclass(frozen=True, slots=True)
class BadNode:
    """A node on which tasks failed in a way in which they do not fail elsewhere."""

    node: str
    kind: str
    """How they failed, such as "exit status 127"."""
    tasks: int
    """How many tasks failed there like that."""
    since: float
    """When that became known."""
    until: float
    """When the node is tried again."""

    def __str__(self) -> str:
        return f"{counted(self.tasks, 'task')} failed on node {self.node} ({self.kind}), but not on other nodes"


def kind_of(outcome: Outcome, exit_status: int | None, signal: int | None) -> str | None:
    """Return how an attempt failed; None if that says nothing about its node."""
    if outcome is Outcome.LOST and exit_status is None and signal is None:
        return None  # lost with its node or batch job, which the batch system takes care of
    if outcome not in (Outcome.FAILED, Outcome.LOST):
        return None
    if signal is not None:
        known = signal in list(signals.Signals)
        return f"killed by {signals.Signals(signal).name if known else f'signal {signal}'}"
    if exit_status is None:
        return "could not be started"
    return f"exit status {exit_status}" if exit_status else "outputs missing"


class BadNodes:
    """Finds the bad nodes, from where attempts succeeded and failed.

    A node is bad if at least three different tasks failed there in one way within an hour, and tasks of their
    categories succeeded on another node. It is not if tasks also fail like that on nodes that work. A task that fails
    on several nodes is itself to blame.
    """

    def __init__(self) -> None:
        self.found: list[BadNode] = []
        """All nodes that were found to be bad, the oldest first."""
        self._failures: dict[str, dict[str, dict[str, float]]] = {}
        """When tasks failed, by kind, task and node."""
        self._categories: dict[str, str] = {}
        """Of the tasks that failed."""
        self._works: dict[str, set[str]] = {}
        """The nodes on which tasks of a category succeeded."""

    def succeeded(self, category: str, node: str, now: float) -> bool:
        """Learn from an attempt that succeeded; return whether other nodes are bad because of it."""
        nodes = self._works.setdefault(category, set())
        if node in nodes:
            return False
        nodes.add(node)
        changes = [self._judge(kind, now) for kind in self._failures]
        return any(changes)

    def failed(self, task: str, category: str, node: str, kind: str, now: float) -> bool:
        """Learn from an attempt that failed; return whether that changes which nodes are bad."""
        tasks = self._failures.setdefault(kind, {})
        tasks[task] = {**tasks.pop(task, {}), node: now}  # the newest last
        self._categories[task] = category
        if len(tasks) > _REMEMBERED:
            del tasks[next(iter(tasks))]
        return self._judge(kind, now)

    def ended(self, task: str, category: str, node: str, outcome: Outcome, kind: str | None, now: float) -> bool:
        """Learn from an attempt that ended; return whether that changes which nodes are bad."""
        if outcome is Outcome.DONE:
            return self.succeeded(category, node, now)
        return kind is not None and self.failed(task, category, node, kind, now)

    def avoided(self, now: float) -> list[BadNode]:
        """Return the nodes that are bad now, the worst first; one with two kinds of failures appears twice."""
        return sorted((one for one in self.found if now < one.until), key=lambda one: -one.tasks)

    def _judge(self, kind: str, now: float) -> bool:
        """Find out anew on which nodes tasks fail in this way; return whether that changed."""
        bad = {one.node: one for one in self._bad(kind, now)}
        before = {one.node: one for one in self.found if one.kind == kind and now < one.until}
        known = [one for one in self.found if one is not before.get(one.node)]
        kept = [one if (old := before.get(node)) is None else _longer(old, one) for node, one in bad.items()]
        self.found = sorted([*known, *kept], key=lambda one: one.since)
        return bad.keys() != before.keys()

    def _bad(self, kind: str, now: float) -> Iterator[BadNode]:
        recent = {
            task: nodes
            for task, times in self._failures[kind].items()
            if (nodes := {node: time for node, time in times.items() if time > now - AVOIDED_FOR})
        }
        only: dict[str, dict[str, float]] = {}
        for task, nodes in recent.items():
            if len(nodes) == 1:
                ((node, time),) = nodes.items()
                only.setdefault(node, {})[task] = time
        for node, tasks in only.items():
            if len(tasks) < _TASKS:
                continue
            categories = {self._categories[task] for task in tasks}
            works = {other for category in categories for other in self._works.get(category, ())} - {node}
            elsewhere = sum(len(others) for other, others in only.items() if other in works)
            if works and elsewhere <= _ELSEWHERE * len(tasks):
                third = next(islice(sorted(tasks.values(), reverse=True), _TASKS - 1, None))
                yield BadNode(node, kind, len(tasks), now, third + AVOIDED_FOR)


def _longer(old: BadNode, new: BadNode) -> BadNode:
    return BadNode(old.node, old.kind, max(old.tasks, new.tasks), old.since, max(old.until, new.until))


class Avoiding:
    """Says once for each bad node that it is avoided."""

    def __init__(self, nodes: BadNodes) -> None:
        self._nodes = nodes
        self._said = {(one.node, one.since) for one in nodes.found}

    def news(self) -> list[str]:
        """Return a line for each node that was found to be bad since the last call."""
        found = [one for one in self._nodes.found if (one.node, one.since) not in self._said]
        self._said |= {(one.node, one.since) for one in found}
        return [f"{one}: it is avoided for {format_seconds(AVOIDED_FOR)}" for one in found]
