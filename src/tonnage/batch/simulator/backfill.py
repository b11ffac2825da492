"""Kernels of the simulated cluster: which jobs hold which nodes when, and what happens next.

A *plan* consists of two arrays, breakpoints in time and the number of free nodes from each on; the last lasts forever.
It is padded with FOREVER. The jobs in the system are the columns of one table, `jobs`; `state` holds single numbers.
Everything is stored in flat arrays, so that a cluster is copied in microseconds and one call simulates days.

Every second in which something happens is processed in this order, repeated until nothing more happens in it:

1. jobs that reach their end leave, and the rest of their requested time becomes free;
2. jobs that arrive join the end of the queue, in the order of the log;
3. the queue is planned once: see `_settle` (conservative backfilling) and `_backfill` (EASY);
4. jobs whose start time has come start.

Nodes that become free in a second are therefore used in the same second, even those of a job that takes no time.
"""

from typing import Any, TypeAlias

__all__ = [
    "ENDED",
    "EXPIRED",
    "FOREVER",
    "NOBODY",
    "STARTED",
    "advance",
    "change",
    "earliest",
    "earliest_block",
    "earliest_of_many",
    "jobs_of",
    "leave",
    "plan_queue",
    "slot_of",
    "submit",
    "take_time",
]

Ints: TypeAlias = Any
"""An array of int64 (of uint8: `busy`)."""

FOREVER = 2**62
NOBODY = 2**62

# The entries of `state`.
NOW, NEXT, QUEUED, RUNNING, NEXT_START, NEXT_END, FREED, EVENTS, EASY = range(9)
STATE = 9
# The rows of `jobs`: facts about jobs in the system; then lists of columns: waiting jobs, running jobs, unused ones.
JOB, NODES, REQUEST, RUN, START, END, FIRST, USER, LIMIT, QUEUE, RUNS, SPARE = range(12)
ROWS = 12
# The rows of a log.
SUBMIT, LOG_NODES, LOG_REQUEST, LOG_RUN = range(4)
# What happens to a job.
STARTED, ENDED, EXPIRED = range(3)
KINDS = 3


def earliest(times: Ints, free: Ints, nodes: int, seconds: int, after: int, held: int) -> int:
    """Return the first start from `after` on with enough nodes free for long enough, or `held` if that is earlier.

    The job already holds its nodes from `held` on for as long as it needs them, so nodes must be free only until then.
    """
    size = len(times)
    place = 0
    while place + 1 < size and times[place + 1] <= after:
        place += 1
    start = after
    while start < held:
        if free[place] < nodes:
            place += 1
            start = times[place]
            continue
        until = min(start + seconds, held)
        ahead = place + 1
        while ahead < size and times[ahead] < until and free[ahead] >= nodes:
            ahead += 1
        if ahead == size or times[ahead] >= until:
            return start
        place = ahead
        start = times[place]
    return held


def earliest_of_many(times: Ints, free: Ints, nodes: Ints, seconds: Ints, after: int, found: Ints) -> None:
    """Fill `found` with the first starts of many jobs, each considered separately."""
    for place in range(len(found)):
        found[place] = earliest(times, free, nodes[place], seconds[place], after, FOREVER)


def earliest_block(times: Ints, free: Ints, busy: Ints, nodes: int, seconds: int, after: int) -> tuple[int, int]:
    """Return the first start with enough contiguous nodes free for long enough, and the first of the lowest."""
    size = len(times)
    place = 0
    while place + 1 < size and times[place + 1] <= after:
        place += 1
    start = after
    while True:
        ahead = place
        while ahead < size and times[ahead] < start + seconds and free[ahead] >= nodes:
            ahead += 1
        if ahead < size and times[ahead] < start + seconds:
            place = ahead + 1  # too few are free there, contiguous or not
        else:
            first = _gap(busy, place, ahead, nodes)
            if first >= 0:
                return start, first
            place += 1
        start = times[place]


def _gap(busy: Ints, begin: int, end: int, nodes: int) -> int:
    """Return the first of `nodes` contiguous nodes that are free between two breakpoints; -1 if there are none."""
    run = 0
    for node in range(busy.shape[1]):
        run += 1
        for place in range(begin, end):
            if busy[place, node]:
                run = 0
                break
        if run == nodes:
            return node - nodes + 1
    return -1


def change(times: Ints, free: Ints, busy: Ints, begin: int, end: int, by: int, first: int) -> None:
    """Change the number of free nodes from `begin` to `end`; if contiguous, of those from `first` on."""
    if begin >= end:
        return
    place = 0
    while times[place] < begin:
        place += 1
    if times[place] > begin:
        _insert(times, free, busy, place, begin)
    low = place
    while times[place] < end:
        place += 1
    if times[place] > end:
        _insert(times, free, busy, place, end)
    for part in range(low, place):
        free[part] += by
        if len(busy):
            for node in range(first, first + abs(by)):
                busy[part, node] = by < 0
    # Adjacent entries can have become equal only at the two ends.
    _merge(times, free, busy, place)
    if low > 0:
        _merge(times, free, busy, low)


def _insert(times: Ints, free: Ints, busy: Ints, place: int, time: int) -> None:
    """Add a breakpoint at which nothing changes."""
    last = place
    while times[last] < FOREVER:
        last += 1
    for part in range(last, place, -1):
        times[part] = times[part - 1]
        free[part] = free[part - 1]
        _copy_places(busy, part, part - 1)
    times[place] = time
    free[place] = free[place - 1]
    _copy_places(busy, place, place - 1)


def _copy_places(busy: Ints, place: int, other: int) -> None:
    if len(busy):
        for node in range(busy.shape[1]):
            busy[place, node] = busy[other, node]


def _merge(times: Ints, free: Ints, busy: Ints, place: int) -> None:
    """Remove a breakpoint at which nothing changes."""
    if free[place] != free[place - 1]:
        return
    if len(busy):
        for node in range(busy.shape[1]):
            if busy[place, node] != busy[place - 1, node]:
                return
    _cut(times, free, busy, place, 1)


def _cut(times: Ints, free: Ints, busy: Ints, place: int, count: int) -> None:
    """Remove `count` breakpoints, starting at `place`."""
    part = place
    while times[part] < FOREVER:
        if part + count < len(times):
            times[part] = times[part + count]
            free[part] = free[part + count]
            _copy_places(busy, part, part + count)
        else:
            times[part] = FOREVER
        part += 1


def _trim(times: Ints, free: Ints, busy: Ints, now: int) -> None:
    """Drop the breakpoints before now."""
    passed = 0
    while times[passed + 1] <= now:
        passed += 1
    if passed:
        _cut(times, free, busy, 0, passed)
    times[0] = now


def _pass_to(state: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, now: int) -> None:
    """Advance the clock over a time in which nothing happens."""
    state[NOW] = now
    _trim(times, free, busy, now)
    for user in range(len(limits)):
        _trim(limits[user, 0], limits[user, 1], busy[:0], now)


def _claim(jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, slot: int, begin: int, sign: int) -> None:
    """Take (-1) or release (1) a job's nodes from `begin` until the end of its requested time."""
    end = jobs[START, slot] + jobs[REQUEST, slot]
    change(times, free, busy, begin, end, sign * jobs[NODES, slot], jobs[FIRST, slot])
    user = jobs[LIMIT, slot]
    if user >= 0:
        change(limits[user, 0], limits[user, 1], busy[:0], begin, end, sign, 0)


def _first_start(jobs: Ints, times: Ints, free: Ints, limits: Ints, slot: int, now: int, held: int) -> int:
    """Return the first start with enough free nodes at which its user may run one more job throughout."""
    nodes, seconds, user = jobs[NODES, slot], jobs[REQUEST, slot], jobs[LIMIT, slot]
    start = earliest(times, free, nodes, seconds, now, held)
    while user >= 0:
        later = earliest(limits[user, 0], limits[user, 1], 1, seconds, start, held)
        if later == start:
            break
        start = earliest(times, free, nodes, seconds, later, held)
        if start == later:
            break
    return start


def _first_block(jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, slot: int, now: int) -> tuple[int, int]:
    """Return the first start with enough contiguous free nodes, and the first of these nodes."""
    nodes, seconds, user = jobs[NODES, slot], jobs[REQUEST, slot], jobs[LIMIT, slot]
    start, first = earliest_block(times, free, busy, nodes, seconds, now)
    while user >= 0:
        later = earliest(limits[user, 0], limits[user, 1], 1, seconds, start, FOREVER)
        if later == start:
            break
        start, first = earliest_block(times, free, busy, nodes, seconds, later)
        if start == later:
            break
    return start, first


def _promise(state: Ints, jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, slot: int) -> None:
    """Give a job a place in the plan, or move it to an earlier one; otherwise it keeps the one it has."""
    now, held = state[NOW], jobs[START, slot]
    start = _first_start(jobs, times, free, limits, slot, now, held)
    if start == held:
        return
    if held < FOREVER:
        _claim(jobs, times, free, busy, limits, slot, held, 1)
    if len(busy):
        start, first = _first_block(jobs, times, free, busy, limits, slot, now)
        if start < held:
            jobs[FIRST, slot] = first
    jobs[START, slot] = start
    _claim(jobs, times, free, busy, limits, slot, start, -1)
    state[NEXT_START] = min(state[NEXT_START], start)


def _settle(state: Ints, jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints) -> None:
    """Plan by conservative backfilling: promise each job the earliest start that delays no job before it.

    If nodes were freed early, every queued job is removed and placed again, first come, first served: its own place is
    then free, so it never moves later. Otherwise only new jobs are placed.
    """
    first = 0
    if not state[FREED]:
        first = state[QUEUED]
        while first > 0 and jobs[START, jobs[QUEUE, first - 1]] == FOREVER:
            first -= 1
    for place in range(first, state[QUEUED]):
        _promise(state, jobs, times, free, busy, limits, jobs[QUEUE, place])
    state[FREED] = 0


def plan_queue(state: Ints, jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints) -> None:
    """Place every queued job that has no place yet, first come, first served."""
    for place in range(state[QUEUED]):
        _promise(state, jobs, times, free, busy, limits, jobs[QUEUE, place])


def _backfill(
    state: Ints, jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, starts: Ints, events: Ints
) -> None:
    """Plan by EASY: start jobs in order; the first that must wait gets a promise, which later ones may not delay.

    A job whose user has reached the limit of running jobs is skipped.
    """
    now, kept, waiting = state[NOW], 0, -1
    for place in range(state[QUEUED]):
        slot = jobs[QUEUE, place]
        user = jobs[LIMIT, slot]
        start, first = FOREVER, 0
        if (user < 0 or limits[user, 1, 0] > 0) and (waiting < 0 or free[0] >= jobs[NODES, slot]):
            if len(busy):
                start, first = _first_block(jobs, times, free, busy, limits, slot, now)
            else:
                start = _first_start(jobs, times, free, limits, slot, now, FOREVER)
        if start < FOREVER and (start == now or waiting < 0):
            jobs[START, slot], jobs[FIRST, slot] = start, first
            _claim(jobs, times, free, busy, limits, slot, start, -1)
            if start == now:
                _start(state, jobs, slot, starts, events)
                continue
            waiting = slot
        jobs[QUEUE, kept] = slot
        kept += 1
    state[QUEUED] = kept
    if waiting >= 0:  # the promise holds until the next planning
        _claim(jobs, times, free, busy, limits, waiting, jobs[START, waiting], 1)
        jobs[START, waiting] = FOREVER
    state[FREED] = 0


def _note(state: Ints, jobs: Ints, slot: int, kind: int, events: Ints) -> None:
    """Record what happened to a job of ours; those have negative numbers."""
    if jobs[JOB, slot] < 0:
        events[state[EVENTS]] = (-1 - jobs[JOB, slot]) * KINDS + kind
        state[EVENTS] += 1


def _start(state: Ints, jobs: Ints, slot: int, starts: Ints, events: Ints) -> None:
    """Start a job that holds its nodes; the caller removes it from the queue."""
    now = state[NOW]
    jobs[END, slot] = now + min(jobs[RUN, slot], jobs[REQUEST, slot])
    jobs[RUNS, state[RUNNING]] = slot
    state[RUNNING] += 1
    state[NEXT_END] = min(state[NEXT_END], jobs[END, slot])
    if len(starts) and jobs[JOB, slot] >= 0:
        starts[jobs[JOB, slot]] = now
    _note(state, jobs, slot, STARTED, events)


def _start_promised(state: Ints, jobs: Ints, starts: Ints, events: Ints) -> None:
    """Start the jobs whose start time has come."""
    kept, next_start = 0, FOREVER
    for place in range(state[QUEUED]):
        slot = jobs[QUEUE, place]
        if jobs[START, slot] <= state[NOW]:
            _start(state, jobs, slot, starts, events)
            continue
        next_start = min(next_start, jobs[START, slot])
        jobs[QUEUE, kept] = slot
        kept += 1
    state[QUEUED] = kept
    state[NEXT_START] = next_start


def _end(state: Ints, jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, events: Ints) -> None:
    """Remove the jobs that have reached their end."""
    now = state[NOW]
    running, kept, next_end = state[RUNNING], 0, FOREVER
    for place in range(running):
        slot = jobs[RUNS, place]
        if jobs[END, slot] > now:
            next_end = min(next_end, jobs[END, slot])
            jobs[RUNS, kept] = slot
            kept += 1
            continue
        early = jobs[START, slot] + jobs[REQUEST, slot] > now
        if early:
            _claim(jobs, times, free, busy, limits, slot, now, 1)
        if early or state[EASY]:
            state[FREED] = 1
        _note(state, jobs, slot, ENDED if jobs[RUN, slot] <= jobs[REQUEST, slot] else EXPIRED, events)
        _spare(jobs, slot, state[QUEUED] + running - (place - kept) - 1)
    state[RUNNING] = kept
    state[NEXT_END] = next_end


def _spare(jobs: Ints, slot: int, left: int) -> None:
    """Free the column of a job that is gone, with `left` jobs remaining."""
    jobs[JOB, slot] = NOBODY
    jobs[SPARE, jobs.shape[1] - left - 1] = slot


def _enter(state: Ints, jobs: Ints, job: int, nodes: int, request: int, run: int, user: int, limit: int) -> bool:
    """Append a job to the queue, without a place yet; return whether there was room in the table."""
    spare = jobs.shape[1] - state[QUEUED] - state[RUNNING]
    if spare == 0:
        return False
    slot = jobs[SPARE, spare - 1]
    jobs[JOB, slot], jobs[NODES, slot], jobs[REQUEST, slot], jobs[RUN, slot] = job, nodes, request, run
    jobs[START, slot], jobs[END, slot], jobs[FIRST, slot] = FOREVER, FOREVER, 0
    jobs[USER, slot], jobs[LIMIT, slot] = user, limit
    jobs[QUEUE, state[QUEUED]] = slot
    state[QUEUED] += 1
    return True


def _arrive(state: Ints, jobs: Ints, log: Ints) -> bool:
    """Append the log's jobs that are due to the queue; return whether there was room for all."""
    while state[NEXT] < log.shape[1] and log[SUBMIT, state[NEXT]] <= state[NOW]:
        job = state[NEXT]
        if not _enter(state, jobs, job, log[LOG_NODES, job], log[LOG_REQUEST, job], log[LOG_RUN, job], -1, -1):
            return False
        state[NEXT] += 1
        if state[EASY]:
            state[FREED] = 1
    return True


def advance(
    state: Ints,
    jobs: Ints,
    times: Ints,
    free: Ints,
    busy: Ints,
    limits: Ints,
    log: Ints,
    starts: Ints,
    events: Ints,
    until: int,
) -> bool:
    """Advance to the first second with an event of ours, or to `until`; return whether the table had room."""
    while True:
        now = min(state[NEXT_START], state[NEXT_END])
        if state[NEXT] < log.shape[1]:
            now = min(now, log[SUBMIT, state[NEXT]])
        now = state[NOW] if state[FREED] else max(now, state[NOW])
        if state[EVENTS] and now > state[NOW]:
            return True
        if now > until:
            if until < FOREVER - 1:
                _pass_to(state, times, free, busy, limits, until)
            return True
        _pass_to(state, times, free, busy, limits, now)
        if state[NEXT_END] <= now:
            _end(state, jobs, times, free, busy, limits, events)
        if not _arrive(state, jobs, log):
            return False
        if not state[EASY]:
            _settle(state, jobs, times, free, busy, limits)
            if state[NEXT_START] <= now:
                _start_promised(state, jobs, starts, events)
        elif state[FREED]:
            _backfill(state, jobs, times, free, busy, limits, starts, events)


def submit(
    state: Ints,
    jobs: Ints,
    times: Ints,
    free: Ints,
    busy: Ints,
    limits: Ints,
    job: int,
    nodes: int,
    request: int,
    run: int,
    user: int,
    limit: int,
) -> bool:
    """Append a job of ours to the queue now; return whether there was room in the table."""
    if not _enter(state, jobs, job, nodes, request, run, user, limit):
        return False
    if state[EASY]:
        state[FREED] = 1
    else:
        _settle(state, jobs, times, free, busy, limits)
    return True


def slot_of(jobs: Ints, job: int) -> int:
    """Return the column of a job; -1 if it is not in the system."""
    for slot in range(jobs.shape[1]):
        if jobs[JOB, slot] == job:
            return slot
    return -1


def jobs_of(jobs: Ints, user: int) -> int:
    """Return how many jobs of ours a user has in the system."""
    count = 0
    for slot in range(jobs.shape[1]):
        count += jobs[JOB, slot] < 0 and jobs[USER, slot] == user
    return count


def leave(state: Ints, jobs: Ints, times: Ints, free: Ints, busy: Ints, limits: Ints, leaving: Ints) -> None:
    """Remove jobs, given by their columns, from the queue or from their nodes now."""
    for slot in leaving:
        running = jobs[END, slot] < FOREVER
        if jobs[START, slot] < FOREVER:
            _claim(jobs, times, free, busy, limits, slot, max(state[NOW], jobs[START, slot]), 1)
        count = RUNNING if running else QUEUED
        _remove(jobs[RUNS if running else QUEUE], state[count], slot)
        state[count] -= 1
        _spare(jobs, slot, state[QUEUED] + state[RUNNING])
    _find_next(state, jobs)
    state[FREED] = 1
    if not state[EASY]:
        _settle(state, jobs, times, free, busy, limits)


def _remove(slots: Ints, count: int, slot: int) -> None:
    place = 0
    while slots[place] != slot:
        place += 1
    for after in range(place, count - 1):
        slots[after] = slots[after + 1]


def take_time(state: Ints, jobs: Ints, slot: int, run: int) -> None:
    """Set the run time of a job, given by its column."""
    jobs[RUN, slot] = run
    if jobs[END, slot] < FOREVER:
        jobs[END, slot] = max(state[NOW], jobs[START, slot] + min(run, jobs[REQUEST, slot]))
        _find_next(state, jobs)


def _find_next(state: Ints, jobs: Ints) -> None:
    """Find the next start and the next end."""
    state[NEXT_START] = state[NEXT_END] = FOREVER
    for place in range(state[QUEUED]):
        state[NEXT_START] = min(state[NEXT_START], jobs[START, jobs[QUEUE, place]])
    for place in range(state[RUNNING]):
        state[NEXT_END] = min(state[NEXT_END], jobs[END, jobs[RUNS, place]])
