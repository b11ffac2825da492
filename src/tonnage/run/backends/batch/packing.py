"""Decides which tasks are packed next: the remaining tasks of a run, as packers see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tonnage.batch import Snapshot
from tonnage.jobs import Amounts, Resource
from tonnage.pack import PACKERS, Packed, Settings, Situation
from tonnage.pack.decisions import more_time
from tonnage.pack.remaining import NEVER, Remaining, Work
from tonnage.run.engine import Engine
from tonnage.run.events import State
from tonnage.run.machines import Machine
from tonnage.workflow import Workflow

__all__ = ["InFlightPack", "Packing"]

_OPEN = (State.WAITING, State.READY)


@dataclass(frozen=True, slots=True)
class InFlightPack:
    """A packed batch job that is queued or running: its tasks, and when the unfinished ones are expected to end."""

    tasks: NDArray[np.int64]
    ends: int | None
    """None while it is queued."""
    must_end: int | None
    """When its time limit is reached."""


@dataclass
class Packing:
    """Asks a packer what to submit next."""

    strategy: str
    workflow: Workflow
    places: Sequence[int]
    """The position of each task in the preferred order."""
    machine: Machine
    """What a node has."""
    seconds: Mapping[int, float]
    """Run times of tasks in earlier runs."""
    settings: Settings = field(default_factory=Settings)

    def ask(self, engine: Engine, queue: Snapshot, ways: Sequence[InFlightPack], room: int | None) -> Packed | None:
        """Return what to submit now; None if nothing remains to be packed."""
        mask = self._left(engine)
        if not mask.any():
            return None
        now = queue.now
        running = [way for way in ways if way.ends is not None]
        situation = Situation(
            Remaining(self.work(engine), mask),
            queue,
            delay=max((max(0, (way.must_end or now) - now) for way in running), default=0),
            pending=len(ways) - len(running),
            running=len(running),
            ready=np.array([task for task in np.flatnonzero(mask).tolist() if engine.states[task] == State.READY]),
            room=room,
            ends=self._ends(engine, ways, now),
        )
        return PACKERS[self.strategy](situation, self.settings)

    def has_left(self, engine: Engine) -> bool:
        """Whether tasks remain to be packed."""
        return bool(self._left(engine).any())

    def unknown(self, engine: Engine) -> list[int]:
        """Return the tasks whose run times are unknown."""
        return [
            task
            for task in range(len(self.workflow))
            if engine.states[task] != State.DONE and self._seconds(engine, task) is None
        ]

    def more_time(self) -> None:
        """Request longer time limits from now on, because a batch job reached its limit."""
        self.settings = replace(self.settings, more=more_time(self.settings.more, self.settings.fudge))

    def work(self, engine: Engine) -> Work:
        """Return the tasks with their run times and their shares of a node, as far as they are known."""
        tasks = []
        for place, task in enumerate(self.workflow.tasks):
            if engine.states[place] == State.DONE:
                tasks.append(replace(task, request=_NOTHING, expected=_A_MOMENT))
                continue
            seconds = self._seconds(engine, place)
            given = {one.resource: one.amount for one in engine.next_try(place).decisions or ()}
            request = Amounts.of(cores=given.get(Resource.CORES), memory=given.get(Resource.MEMORY))
            tasks.append(replace(task, request=request, expected=Amounts.of(wall_time=seconds)))
        node = Amounts.of(cores=self.machine.cores, memory=self.machine.memory)
        work = Work.of(replace(self.workflow, tasks=tuple(tasks)), node=node)
        return replace(work, key=np.array(self.places, np.int64))

    def _seconds(self, engine: Engine, task: int) -> float | None:
        """Return the run time of a task: from its earlier runs, its category, or the workflow file, in this order."""
        known = self.seconds.get(task) or engine.learner.mean_seconds(self.workflow.tasks[task].category)
        return known or self.workflow.tasks[task].expected.wall_time

    def _left(self, engine: Engine) -> NDArray[np.bool_]:
        """Return a mask of the tasks that are not in a batch job and can still run."""
        states = np.frombuffer(engine.states, np.uint8)[: len(self.workflow)]
        mask = np.isin(states, _OPEN)
        mask[engine.unreachable()] = False
        return mask

    def _ends(self, engine: Engine, ways: Sequence[InFlightPack], now: int) -> NDArray[np.int64]:
        """Return when tasks ended or are expected to end."""
        states = np.frombuffer(engine.states, np.uint8)[: len(self.workflow)]
        ends = np.where(states == State.DONE, now, NEVER)
        for way in ways:
            if way.ends is not None:
                undone = way.tasks[states[way.tasks] != State.DONE]
                ends[undone] = max(way.ends, now + 1)
        return ends


_NOTHING = Amounts.of(cores=0.0, memory=0.0)
_A_MOMENT = Amounts.of(wall_time=1.0)
