"""A simulated cluster: jobs of a log and jobs of ours share one queue, first come, first served.

There are two policies. *Conservative* backfilling promises every job a start when it is submitted, the earliest that
delays no earlier promise; when a job ends before its requested time or is cancelled, all waiting jobs are removed and
placed again one by one, which never moves them later. *EASY* promises a start only to the first waiting job, anew each
time.

With `contiguous`, nodes are in a row and a job gets adjacent ones: at the earliest start at which a block of its width
is free for all of its requested time, the block with the lowest numbers. It keeps its promised block unless it moves to
an earlier start; it never moves while it runs.

The order of events within a second is described in `backfill`. A job submitted here at the second to which the clock
has been advanced comes after the log's jobs of that second.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tonnage.batch.registry import POLICIES
from tonnage.batch.simulator import backfill
from tonnage.batch.simulator.workload import Workload
from tonnage.batch.snapshot import Snapshot
from tonnage.errors import InputError, QueueFullError
from tonnage.jit import compiled

__all__ = ["Cluster", "Event", "Present", "replay"]

_EFFORT = 20
"""A job takes about as long as this many tasks in other kernels."""
_ROOM = 64  # initial room for jobs in the system
_LONGEST = 2**40  # the longest request, in seconds
_KNOWN = 3600  # seconds of history needed to predict arrivals
_ENDLESS = backfill.FOREVER - 1
_NO_LOG = np.empty((4, 0), np.int64)
_NO_STARTS = np.empty(0, np.int64)
_KINDS: "tuple[Literal['started', 'ended', 'expired'], ...]" = ("started", "ended", "expired")


class Event(NamedTuple):
    """What happened to a job submitted here."""

    job: int
    kind: Literal["started", "ended", "expired"]
    """Expired: its requested time ended before it was done."""
    time: int


class Present(NamedTuple):
    """The jobs in the system: first the running ones, then the waiting ones in queue order."""

    nodes: NDArray[np.int64]
    request: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    """How long each has run."""
    own: NDArray[np.bool_]
    """Which were submitted here, not by the log."""


class Cluster:
    """A cluster of equal nodes with a clock, a queue and, if there is a log, jobs that arrive from it.

    `max_running` and `max_submitted` are caps per user for jobs submitted here (the log's jobs have already passed
    theirs). A job above `max_running` waits: it is planned for when fewer of its user's jobs run (under EASY, it is
    skipped until then). A job above `max_submitted`, queued or running, is refused.
    """

    __slots__ = (
        "_busy", "_events", "_free", "_jobs", "_limits", "_log", "_max_running", "_max_submitted", "_starts", "_state",
        "_submitted", "_times", "_users", "nodes",
    )  # fmt: skip

    def __init__(
        self,
        nodes: int,
        workload: Workload | None = None,
        *,
        requests: str = "accurate",
        policy: str = "conservative",
        contiguous: bool = False,
        max_running: int | None = None,
        max_submitted: int | None = None,
        starts: NDArray[np.int64] = _NO_STARTS,
    ) -> None:
        if nodes < 1:
            raise InputError(f"a cluster needs at least one node, not {nodes}")
        if policy not in POLICIES:
            raise InputError(f'"{policy}" is not a policy: expected {" or ".join(POLICIES)}')
        for cap in (max_running, max_submitted):
            if cap is not None and cap < 1:
                raise InputError(f"a cap on a user's jobs must be at least 1, not {cap}")
        self.nodes = nodes
        self._max_running, self._max_submitted = max_running, max_submitted
        self._log = _NO_LOG if workload is None else _log(workload, requests, nodes)
        self._starts = starts
        """Records the starts of the log's jobs, if needed."""
        begin = int(self._log[backfill.SUBMIT, 0]) if self._log.size else 0
        self._state = np.zeros(backfill.STATE, np.int64)
        self._state[[backfill.NOW, backfill.NEXT_START, backfill.NEXT_END]] = begin, backfill.FOREVER, backfill.FOREVER
        self._state[backfill.EASY] = policy == "easy"
        self._submitted = 0
        self._users: dict[int, int] = {}
        """The index in `limits` of each user whose running jobs are counted."""
        self._jobs = _table(_ROOM)
        self._times, self._free = _empty_plan(begin, nodes, _ROOM)
        self._limits = np.empty((0, 2, len(self._times)), np.int64)
        self._busy = np.zeros((len(self._times) if contiguous else 0, nodes), np.uint8)
        self._events = np.empty(2 * _ROOM, np.int64)

    @classmethod
    def after(
        cls,
        snapshot: Snapshot,
        arrivals: Workload | None = None,
        *,
        max_running: int | None = None,
        max_submitted: int | None = None,
    ) -> "Cluster":
        """Return a cluster in which every job of a snapshot keeps its promise, and only `arrivals` come later."""
        cluster = cls(
            snapshot.nodes,
            arrivals,
            requests="real",
            contiguous=bool(len(snapshot.busy)),
            max_running=max_running,
            max_submitted=max_submitted,
        )
        size, room = len(snapshot.times), len(cluster._times)
        cluster._times, cluster._free = _empty_plan(snapshot.now, snapshot.nodes, size + room)
        cluster._times[:size], cluster._free[:size] = snapshot.times, snapshot.free
        if len(snapshot.busy):
            cluster._busy = np.zeros((len(cluster._times), snapshot.nodes), np.uint8)
            cluster._busy[:size] = snapshot.busy
        cluster._limits = np.empty((0, 2, len(cluster._times)), np.int64)
        cluster._state[backfill.NOW] = snapshot.now
        return cluster

    def expected(self, window: int, horizon: int) -> Workload:
        """Return the jobs that arrive in the next `horizon` seconds if the last `window` seconds repeat over and over.

        A job that has not finished is assumed to take as long as it requests. No arrivals are predicted from less than
        an hour of history: a burst in the log's first seconds would be repeated thousands of times.
        """
        now, arrived = self.now, int(self._state[backfill.NEXT])
        log = self._log[:, :arrived]
        window = min(window, now - int(log[backfill.SUBMIT, 0])) if arrived else 0
        if window < _KNOWN:
            return Workload.of(self.nodes, np.empty((4, 0), np.int64))
        first = int(np.searchsorted(log[backfill.SUBMIT], now - window, side="right"))
        recent = log[:, first:].copy()
        here = self._jobs[backfill.JOB]
        known = here[(here >= first) & (here < backfill.NOBODY)] - first
        recent[backfill.LOG_RUN, known] = recent[backfill.LOG_REQUEST, known]
        rounds = [recent + np.array([[turn * window], [0], [0], [0]]) for turn in range(1, horizon // window + 2)]
        return Workload.of(self.nodes, np.concatenate(rounds, axis=1))

    def present(self) -> Present:
        """Return the jobs in the system."""
        jobs, running = self._jobs, self.running
        slots = np.concatenate([jobs[backfill.RUNS, :running], jobs[backfill.QUEUE, : self.queued]])
        elapsed = np.zeros(len(slots), np.int64)
        elapsed[:running] = self.now - jobs[backfill.START, slots[:running]]
        return Present(
            jobs[backfill.NODES, slots], jobs[backfill.REQUEST, slots], elapsed, jobs[backfill.JOB, slots] < 0
        )

    @property
    def now(self) -> int:
        """The current second of the clock."""
        return int(self._state[backfill.NOW])

    @property
    def max_running(self) -> int | None:
        """How many jobs of each user can run at a time."""
        return self._max_running

    @property
    def queued(self) -> int:
        """The number of waiting jobs."""
        return int(self._state[backfill.QUEUED])

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return int(self._state[backfill.RUNNING])

    def copy(self) -> "Cluster":
        """Return an independent cluster in the same state."""
        twin = Cluster.__new__(Cluster)
        twin.nodes = self.nodes
        twin._max_running, twin._max_submitted = self._max_running, self._max_submitted
        twin._log = self._log
        twin._starts = _NO_STARTS
        twin._submitted = self._submitted
        twin._users = self._users.copy()
        twin._state, twin._jobs = self._state.copy(), self._jobs.copy()
        twin._times, twin._free, twin._busy = self._times.copy(), self._free.copy(), self._busy.copy()
        twin._limits = self._limits.copy()
        twin._events = np.empty_like(self._events)
        return twin

    def submit(self, nodes: int, request: int, run: int | None = None, *, user: int = 0) -> int:
        """Append a job to the queue now and return its number; without `run` it takes all of its requested time."""
        if not 1 <= nodes <= self.nodes:
            raise InputError(f"a job on this cluster has 1 to {self.nodes} nodes, not {nodes}")
        if not 1 <= request <= _LONGEST:
            raise InputError(f"a job must request 1 to {_LONGEST} seconds, not {request}")
        if self.room(user) == 0:
            raise QueueFullError(f"user {user} already has {self._max_submitted} jobs in the system, the most allowed")
        job = (-1 - self._submitted, nodes, request, _run(run), user, self._limit(user))
        while not self._call(backfill.submit, *job):
            self._grow()
        self._submitted += 1
        return self._submitted - 1

    def room(self, user: int = 0) -> int | None:
        """Return how many more jobs a user can submit now; None if there is no cap."""
        if self._max_submitted is None:
            return None
        return self._max_submitted - int(self._kernel(backfill.jobs_of)(self._jobs, user))

    def will_run(self, job: int, seconds: int | None) -> None:
        """Set how long a job runs, as soon as that is known; None: as long as it requested.

        It ends then or with its requested time, but not before now.
        """
        slot = self._slot(job)
        self._kernel(backfill.take_time)(self._state, self._jobs, slot, _run(seconds))

    def finish(self, *jobs: int) -> None:
        """End running jobs now."""
        slots = [self._slot(job) for job in jobs]
        for job, slot in zip(jobs, slots, strict=True):
            if self._jobs[backfill.END, slot] == backfill.FOREVER:
                raise InputError(f"job {job} is not running yet and cannot finish")
        self._call(backfill.leave, np.array(slots, np.int64))

    def cancel(self, *jobs: int) -> None:
        """Remove jobs from the queue or from their nodes."""
        self._call(backfill.leave, np.array([self._slot(job) for job in jobs], np.int64))

    def start_of(self, job: int) -> int | None:
        """Return when a job started, or its promised start; under EASY there are no promises."""
        start = int(self._jobs[backfill.START, self._slot(job)])
        return start if start < backfill.FOREVER else None

    def advance(self, until: int | None = None) -> list[Event]:
        """Advance the clock until something happens to jobs submitted here, and return all these events.

        Stops at the end of the second `until`, or without it when nothing is left to happen.
        """
        if until is not None and until < self.now:
            raise InputError(f"the clock is at {self.now} and cannot go back to {until}")
        self._state[backfill.EVENTS] = 0
        while not self._call(
            backfill.advance, self._log, self._starts, self._events, _ENDLESS if until is None else until
        ):
            self._grow()
        count = int(self._state[backfill.EVENTS])
        if not count:
            return []
        now = self.now
        codes = (divmod(code, backfill.KINDS) for code in self._events[:count].tolist())
        return [Event(job, _KINDS[kind], now) for job, kind in codes]

    def snapshot(self) -> Snapshot:
        """Return what is free after all waiting jobs; under EASY, as if all of them had been promised a start."""
        seen = self
        if self._state[backfill.EASY] and self._state[backfill.QUEUED]:
            seen = self.copy()
            seen._call(backfill.plan_queue)
        return Snapshot.cut(self.now, self.nodes, seen._times, seen._free, seen._busy, self._size)

    @property
    def _size(self) -> int:
        return int(self._log.shape[1] + self._submitted) * _EFFORT

    def _call(self, kernel: Callable[..., Any], *values: object) -> Any:  # noqa: ANN401 (what the kernel returns)
        arrays = (self._state, self._jobs, self._times, self._free, self._busy, self._limits)
        return self._kernel(kernel)(*arrays, *values)

    def _kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return compiled(function, self._size, allocates=False)

    def _slot(self, job: int) -> int:
        slot = -1
        if 0 <= job < self._submitted:
            slot = int(self._kernel(backfill.slot_of)(self._jobs, -1 - job))
        if slot < 0:
            raise InputError(f"no job {job} is queued or running")
        return slot

    def _limit(self, user: int) -> int:
        """Return the index at which a user's running jobs are counted; -1 if they are not."""
        if self._max_running is None:
            return -1
        if user not in self._users:
            own = np.full((2, len(self._times)), backfill.FOREVER, np.int64)
            own[0, 0], own[1] = self.now, min(self._max_running, backfill.FOREVER)
            self._limits = np.concatenate([self._limits, own[np.newaxis]])
            self._users[user] = len(self._users)
        return self._users[user]

    def _grow(self) -> None:
        """Make room for twice as many jobs."""
        room = self._jobs.shape[1]
        jobs = _table(2 * room)
        jobs[:, :room] = self._jobs
        jobs[backfill.SPARE, :room] = np.arange(room, 2 * room)
        self._jobs = jobs
        self._times, self._free, self._limits = (_wider(one, room) for one in (self._times, self._free, self._limits))
        if len(self._busy):
            self._busy = np.concatenate([self._busy, np.zeros((2 * room, self.nodes), np.uint8)])
        self._events = np.concatenate([self._events, np.empty(2 * room, np.int64)])


def _log(workload: Workload, requests: str, nodes: int) -> NDArray[np.int64]:
    if len(workload) and int(workload.nodes.max()) > nodes:
        raise InputError(f"the log has jobs of {int(workload.nodes.max())} nodes, but the cluster has only {nodes}")
    return np.stack([workload.submit, workload.nodes, workload.requests(requests), workload.run])


def _run(seconds: int | None) -> int:
    if seconds is None:
        return backfill.FOREVER
    if seconds < 0:
        raise InputError(f"a job cannot run for {seconds} seconds")
    return min(seconds, backfill.FOREVER)


def _table(room: int) -> NDArray[np.int64]:
    jobs = np.zeros((backfill.ROWS, room), np.int64)
    jobs[backfill.JOB] = backfill.NOBODY
    jobs[backfill.SPARE] = np.arange(room)
    return jobs


def _empty_plan(now: int, nodes: int, room: int) -> NDArray[np.int64]:
    # Each job adds at most two breakpoints, and there may briefly be two more than needed.
    empty = np.full((2, 2 * room + 8), backfill.FOREVER, np.int64)
    empty[0, 0] = now
    empty[1] = nodes
    return empty


def _wider(plans: NDArray[np.int64], room: int) -> NDArray[np.int64]:
    """Return plans with room for this many more jobs."""
    more = np.full((*plans.shape[:-1], 2 * room), backfill.FOREVER, np.int64)
    return np.concatenate([plans, more], axis=-1)


def replay(
    workload: Workload,
    *,
    nodes: int | None = None,
    requests: str = "accurate",
    policy: str = "conservative",
    contiguous: bool = False,
) -> NDArray[np.int64]:
    """Return when each job of a log starts on a cluster with no other jobs."""
    starts = np.full(len(workload), -1, np.int64)
    cluster = Cluster(
        nodes or workload.machine_nodes,
        workload,
        requests=requests,
        policy=policy,
        contiguous=contiguous,
        starts=starts,
    )
    cluster.advance()
    return starts
