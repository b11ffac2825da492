"""The simulated cluster by brute force: no profile, only jobs; the nodes in use are recounted at every moment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

FOREVER = 10**15
Happened = tuple[int, str, int]


@dataclass(eq=False)
class Job:
    """A job in the system; `number` is its position in the log, or among ours."""

    number: int
    ours: bool
    submitted: int
    nodes: int
    request: int
    run: int
    user: int = 0
    start: int = FOREVER
    """When it started, or its promised start."""
    first: int = 0
    promises: list[int] = field(default_factory=list)

    def end(self) -> int:
        return self.start + min(self.run, self.request)


@dataclass(eq=False)
class Reference:
    """The same questions and answers as `Cluster`, slowly."""

    nodes: int
    log: Sequence[Job] = ()
    easy: bool = False
    contiguous: bool = False
    max_running: int | None = None

    def __post_init__(self) -> None:
        self.arriving = list(self.log)
        self.now = self.arriving[0].submitted if self.arriving else 0
        self.queue: list[Job] = []
        self.running: list[Job] = []
        self.ours: list[Job] = []

    # User actions.

    def submit(self, nodes: int, request: int, run: int | None, user: int = 0) -> Job:
        job = Job(len(self.ours), True, self.now, nodes, request, FOREVER if run is None else run, user)
        self.ours.append(job)
        self.queue.append(job)
        if not self.easy:
            self.promise(job)
        return job

    def will_run(self, job: Job, seconds: int | None) -> None:
        job.run = FOREVER if seconds is None else seconds
        if job in self.running:
            job.run = max(job.run, self.now - job.start)

    def leave(self, *jobs: Job) -> None:
        self.queue = [job for job in self.queue if job not in jobs]
        self.running = [job for job in self.running if job not in jobs]
        if not self.easy:
            self.compress()

    def advance(self, until: int) -> list[Happened]:
        happened: list[Happened] = []
        while True:
            moments = [job.submitted for job in self.arriving[:1]]
            moments += [job.end() for job in self.running] + [job.start for job in self.queue]
            now = max(self.now, min(moments, default=FOREVER))
            if self.easy and self.can_start():
                now = self.now
            if happened and now > self.now:
                return happened
            if now > until or now >= FOREVER:
                self.now = until if until < FOREVER else self.now
                return happened
            self.now = now
            happened += self.second()

    # One second.

    def second(self) -> list[Happened]:
        now = self.now
        ended = [job for job in self.running if job.end() <= now]
        self.running = [job for job in self.running if job.end() > now]
        arrived = []
        while self.arriving and self.arriving[0].submitted <= now:
            arrived.append(self.arriving.pop(0))
        self.queue += arrived
        if self.easy:
            started = self.would_start()
        else:
            if any(job.start + job.request > now for job in ended):
                self.compress()
            for job in arrived:
                if job.start == FOREVER:
                    self.promise(job)
            started = [job for job in self.queue if job.start <= now]
        self.queue = [job for job in self.queue if job not in started]
        self.running += started
        kinds = [(job, "ended" if job.run <= job.request else "expired") for job in ended]
        kinds += [(job, "started") for job in started]
        return [(job.number, kind, now) for job, kind in kinds if job.ours]

    def compress(self) -> None:
        for job in self.queue:
            self.promise(job)

    def promise(self, job: Job) -> None:
        others = [*self.running, *(other for other in self.queue if other is not job and other.start < FOREVER)]
        start, first = self.earliest(job, others)
        assert start <= job.start, "a promise was broken"
        if start < job.start:
            job.start, job.first = start, first
            job.promises.append(start)

    def would_start(self) -> list[Job]:
        """Under EASY, return the jobs that start now. The first that cannot gets a promise for this planning only."""
        started: list[Job] = []
        waiting: list[Job] = []
        for job in self.queue:
            running = [*self.running, *started]
            same = [other for other in running if other.ours and job.ours and other.user == job.user]
            if self.max_running is not None and len(same) >= self.max_running:
                continue
            start, first = self.earliest(job, [*running, *waiting])
            if start == self.now:
                started.append(job)
            elif not waiting:
                waiting.append(job)
            else:
                continue
            job.start, job.first = start, first
        for job in waiting:
            job.start = FOREVER
        return started

    def can_start(self) -> bool:
        """Under EASY, whether a job starts now."""
        started = self.would_start()
        for job in started:
            job.start = FOREVER
        return bool(started)

    # Placement.

    def earliest(self, job: Job, others: Sequence[Job]) -> tuple[int, int]:
        """Return the first start at which a job fits beside others for its whole requested time, and its first node."""
        starts = np.array([other.start for other in others], int)
        ends = np.array([other.start + other.request for other in others], int)
        nodes = np.array([other.nodes for other in others], int)
        same = np.array([other.ours and job.ours and other.user == job.user for other in others], int)
        # Use rises only when a job starts, and falls only when one ends.
        moments = np.array(sorted({self.now, *starts.tolist(), *ends.tolist()}), int)
        there = (starts <= moments[:, None]) & (moments[:, None] < ends)
        full = there @ nodes + job.nodes > self.nodes
        if self.max_running is not None and job.ours:
            full |= there @ same + 1 > self.max_running
        for start in sorted({self.now, *(end for end in ends.tolist() if end > self.now)}):
            if full[(moments >= start) & (moments < start + job.request)].any():
                continue
            if not self.contiguous:
                return start, 0
            meets = [
                other for other in others if other.start < start + job.request and start < other.start + other.request
            ]
            block = self.block(job.nodes, meets)
            if block is not None:
                return start, block
        raise AssertionError("an empty machine has room")

    def block(self, nodes: int, others: Iterable[Job]) -> int | None:
        taken = {node for other in others for node in range(other.first, other.first + other.nodes)}
        for first in range(self.nodes - nodes + 1):
            if taken.isdisjoint(range(first, first + nodes)):
                return first
        return None

    def holders(self, moment: int) -> list[Job]:
        """Return the jobs that hold nodes at a moment, or are promised them."""
        return [job for job in [*self.running, *self.queue] if job.start <= moment < job.start + job.request]

    def free(self, moment: int) -> int:
        return self.nodes - sum(job.nodes for job in self.holders(moment))

    def taken(self, moment: int) -> set[int]:
        return {node for job in self.holders(moment) for node in range(job.first, job.first + job.nodes)}
