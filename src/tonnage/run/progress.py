"""The progress of a run, for views and for the estimate of the remaining time."""

from collections import defaultdict
from dataclasses import dataclass, field

from tonnage.jobs import Outcome, Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.minders import Seen
from tonnage.waste import Account, account_for, held_seconds
from tonnage.workflow import Task

__all__ = ["Category", "Progress", "Running"]


@dataclass(slots=True)
class Running:
    """A running attempt, and the last measurement of it."""

    task: Task
    start: Start
    since: float
    seen: Seen | None = None


@dataclass(slots=True)
class Category:
    """The progress of one category."""

    tasks: int
    done: int = 0
    failed: int = 0
    retries: int = 0
    seconds: float = 0.0
    """Total time of the successful attempts."""


@dataclass
class Progress:
    """Totals of a run, updated by its events."""

    tasks: list[Task]
    begun: float
    running: dict[int, Running] = field(default_factory=dict)
    categories: dict[str, Category] = field(default_factory=dict)
    accounts: dict[Resource, Account] = field(default_factory=lambda: defaultdict(Account))
    """What finished attempts were allocated, used and wasted."""
    busy: float = 0.0
    """Total seconds of all attempts."""
    before: int = 0
    """Number of tasks that were done before this session."""

    @classmethod
    def of(cls, engine: Engine, begun: float) -> "Progress":
        """Create the progress of an engine that is about to start."""
        progress = cls(engine.tasks, begun)
        for task, state in zip(engine.tasks, engine.states, strict=True):
            category = progress.categories.setdefault(task.category, Category(0))
            category.tasks += 1
            if state == State.DONE:
                category.done += 1
                progress.before += 1
        return progress

    @property
    def done(self) -> int:
        """Number of tasks that are done."""
        return sum(one.done for one in self.categories.values())

    @property
    def failed(self) -> int:
        """Number of tasks that failed."""
        return sum(one.failed for one in self.categories.values())

    @property
    def retries(self) -> int:
        """Number of attempts that were retried."""
        return sum(one.retries for one in self.categories.values())

    def started(self, start: Start, now: float) -> None:
        """Update for an attempt that started."""
        task = self.tasks[start.task]
        self.running[start.attempt] = Running(task, start, now)

    def seen(self, seen: Seen) -> None:
        """Update for a measurement of a running attempt."""
        one = self.running.get(seen.attempt)
        if one is not None:
            one.seen = seen

    def ended(self, end: Ended, settled: Settled) -> None:
        """Update for an attempt that ended."""
        task = self.tasks[settled.task]
        category = self.categories.setdefault(task.category, Category(0))
        if settled.state is State.FAILED:
            category.failed += 1
        for other in settled.revived:
            self.categories[self.tasks[other].category].failed -= 1
        ran = self.running.pop(end.attempt, None)
        if ran is None:
            return
        started = ran.since if end.started is None else end.started
        seconds = held_seconds(started, end.ended, end.used.wall_time) or 0.0
        self.busy += seconds
        if settled.state is State.READY:
            category.retries += 1
        succeeded = end.outcome is Outcome.DONE
        for one in ran.start.decisions:
            peak = getattr(end.used, one.resource)
            self.accounts[one.resource] += account_for(one.amount, peak, seconds, succeeded=succeeded)
        if succeeded:
            category.done += 1
            category.seconds += seconds

    def waste(self, resource: Resource) -> float | None:
        """Return the fraction of a resource that was allocated but not used so far."""
        return self.accounts[resource].waste_fraction

    def seconds_left(self, now: float) -> float | None:
        """Estimate the remaining time from the pace so far; None if nothing has finished yet."""
        finished = self.done - self.before
        if not finished or not self.busy:
            return None
        usual = sum(one.seconds for one in self.categories.values()) / finished
        left = 0.0
        for one in self.categories.values():
            ran = one.done if one.seconds else 0
            mean = one.seconds / ran if ran else usual
            left += mean * max(0, one.tasks - one.done - one.failed)
        at_once = max(1.0, self.busy / max(now - self.begun, 1e-9))
        return left / at_once
