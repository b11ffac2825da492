"""Elastic memory: attempts outgrow their allocation in place while the machine has room, and pause when it has none.

What an attempt *claims* is its allocation, or what it was seen to use if that is more. New attempts start only while
all claims and a reserve fit on the machine. A running attempt may use more than it claims as long as what all attempts
really use, plus the reserve, fits: the unused part of other allocations is room, too. The reserve is what attempts
could take before the next report about them arrives.

When the room runs out, attempts that outgrew their allocation pause as soon as they grow again, then the others, except
for one that always continues. Those that do not grow will end and make room. Only if the reserve is nearly used up is
an attempt stopped: the one that loses least. Its next attempt starts above what it was seen to use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf

from tonnage.jobs import Decision, Resource
from tonnage.run.events import Action, Adjustment
from tonnage.size.reruns import after_running_out
from tonnage.units import format_bytes

__all__ = ["ElasticMemory", "as_grown", "report_step", "resized"]

_LEAST = 1 / 64  # of a machine's memory: with less free, an attempt is stopped before half of that is used up
_MOST = 1 / 8  # of a machine's memory: the largest reserve, so that one burst does not keep a machine half empty
_LATENCY = 0.1  # seconds from a growth of memory until the attempt can be paused because of it
_AHEAD = 1.3  # how much more than it uses an attempt claims when it grows, so that it does not grow all the time
_MORE = 1.25  # how much more than it was seen to use the next attempt of a stopped task gets
_STILL_GROWS = 0.5  # of what it uses: the further growth that is expected of an attempt that grows
_RESTS = 0.2  # of its time so far: an attempt that has not grown for that long is not expected to grow
_SHORTEST = 0.005  # seconds between two reports: the rate of growth within less is noise
_REPORTS = 128  # of a machine's memory: a smaller growth is not reported at once
_MIB = 2**20
_GREW = "; it had grown to "


def report_step(memory: float) -> float:
    """Return the growth of an attempt that must be reported at once on a machine with this much memory."""
    return min(max(memory / _REPORTS, _MIB), 64 * _MIB)


def resized(decisions: Sequence[Decision], seen: float) -> tuple[Decision, ...] | None:
    """Return the decisions for another attempt of a task that ran out of memory; None if it cannot get more.

    It gets a little more than it was `seen` to use. The next rung of its ladder may be far higher, and it can grow
    anyway. That rung is for a task that was seen to use less than it was allocated: its end came too fast.
    """
    found = [_more(one, seen) if one.resource is Resource.MEMORY else one for one in decisions]
    kept = tuple(one for one in found if one is not None)
    return kept if len(kept) == len(found) else None


def as_grown(decisions: Sequence[Decision], memory: float) -> tuple[Decision, ...]:
    """Return the decisions for another attempt of a task whose last one held this much memory in the end."""
    return tuple(_grown(one, memory) if one.resource is Resource.MEMORY else one for one in decisions)


def _grown(decision: Decision, memory: float) -> Decision:
    reason = f"{decision.reason.partition(_GREW)[0]}{_GREW}{format_bytes(memory)}"
    return replace(_with(decision, memory), reason=reason)


def _more(decision: Decision, seen: float) -> Decision | None:
    if max(seen, decision.amount) >= decision.ladder[-1]:
        return None
    if seen < decision.amount:
        return after_running_out(decision, decision.rung + 1, decision.amount)
    more = _with(decision, float(ceil(seen * _MORE)))
    return after_running_out(more, more.rung, seen)


def _with(decision: Decision, amount: float) -> Decision:
    """Return a decision for this amount, or the nearest one that is possible and not less than before."""
    amount = min(max(amount, decision.amount), decision.ladder[-1])
    lower = tuple(rung for rung in decision.ladder if rung < amount)
    higher = tuple(rung for rung in decision.ladder if rung > amount)
    return replace(decision, ladder=(*lower, amount, *higher), rung=len(lower))


@dataclass(slots=True)
class _Attempt:
    number: int
    begun: float
    allocated: float
    claim: float
    trusted: bool
    """Whether its need was known before, and it has not outgrown it."""
    used: float = 0.0
    seconds: float = 0.0
    """When `used` was measured, since its start."""
    grown_at: float = 0.0
    """When it was last seen to use more than before, since its start."""
    paused: bool = False
    stopping: bool = False
    grew: bool = False
    """Whether it was seen to use more than before since the last adjustment."""

    @property
    def runs(self) -> bool:
        return not self.paused and not self.stopping

    @property
    def outgrown(self) -> bool:
        """Whether it uses more than it was allocated at its start."""
        return self.used > self.allocated

    @property
    def expected(self) -> float:
        """How much more it will probably use: it grows unless it was seen not to for a while."""
        grows = self.outgrown and self.seconds - self.grown_at <= _RESTS * self.seconds
        return _STILL_GROWS * self.used if grows else 0.0

    def loss(self, now: float) -> float:
        """Return what is lost if it is stopped: its time so far, weighted by the memory that it holds."""
        return (now - self.begun) * max(self.used, 1.0)


@dataclass(slots=True)
class _Machine:
    memory: float
    capacity: float
    """Its memory, or what there is for our attempts if other programs take the rest."""
    attempts: dict[int, _Attempt] = field(default_factory=dict)
    used: float = 0.0
    fastest: float = 0.0
    """The fastest growth of an attempt so far, in bytes per second."""
    growing: dict[int, _Attempt] = field(default_factory=dict)
    """Attempts that use more than they claim."""
    grew: list[_Attempt] = field(default_factory=list)
    """Attempts that were seen to use more than before."""
    waiting: int = 0
    """How many attempts are paused, or are being stopped."""
    stopping: int = 0
    """How many attempts are being stopped."""
    untrusted: int = 0
    """How many attempts may need more than they were allocated."""

    @property
    def reserve(self) -> float:
        if self.memory == inf:
            return 0.0
        return min(max(self.fastest * _LATENCY, 4 * self.floor), self.memory * _MOST)

    @property
    def floor(self) -> float:
        """What should stay free: with less, an attempt is stopped."""
        return 0.0 if self.memory == inf else self.memory * _LEAST

    @property
    def free(self) -> float:
        return self.capacity - self.used

    @property
    def room(self) -> float:
        """What attempts may still grow into; negative if they already use a part of the reserve."""
        return self.free - self.reserve

    @property
    def promised(self) -> bool:
        """Whether all attempts are within their allocations, and can use all of these."""
        attempts = self.attempts.values()
        return not any(one.outgrown for one in attempts) and sum(one.claim for one in attempts) <= self.capacity


class ElasticMemory:
    """What attempts really use of the memory of some machines, and who may use more of it."""

    def __init__(self, memory: Sequence[float]) -> None:
        """Begin with empty machines that have this much memory."""
        self._machines = [_Machine(amount, amount) for amount in memory]
        self._where: dict[int, int] = {}
        self._changed: set[int] = set()

    def started(self, attempt: int, machine: int, allocated: float, now: float, *, known: bool) -> None:
        """Note that an attempt started; a `known` need is not expected to exceed what is allocated."""
        self._where[attempt] = machine
        where = self._machines[machine]
        where.attempts[attempt] = _Attempt(attempt, now, allocated, allocated, known)
        where.untrusted += not known

    def ended(self, attempt: int) -> None:
        """Note that an attempt ended, and gave its memory back."""
        machine = self._where.pop(attempt)
        where = self._machines[machine]
        one = where.attempts.pop(attempt)
        where.growing.pop(attempt, None)
        where.waiting -= not one.runs
        where.stopping -= one.stopping
        where.untrusted -= not one.trusted
        where.used = where.used - one.used if where.attempts else 0.0  # without what rounding may have left
        self._changed.add(machine)

    def saw(self, attempt: int, memory: float, seconds: float) -> None:
        """Note what an attempt uses, and when that was measured, since its start."""
        machine = self._where.get(attempt)
        if machine is None:
            return  # it has just ended
        where = self._machines[machine]
        one = where.attempts[attempt]
        passed, growth = seconds - one.seconds, memory - one.used
        if passed > 0 and one.runs:
            where.fastest = max(where.fastest, growth / max(passed, _SHORTEST))
        one.used, one.seconds = memory, seconds
        where.used += growth
        if memory > one.claim and not one.stopping:
            where.growing[attempt] = one
        if growth > 0:
            one.grown_at = seconds
        if growth > 0 and not one.grew:
            one.grew = True
            where.grew.append(one)
        self._changed.add(machine)

    def available(self, machine: int, free: float) -> None:
        """Note how much memory the system of a machine has left: other programs may take more than was expected."""
        where = self._machines[machine]
        where.capacity = min(where.memory, where.used + max(free, 0.0))
        self._changed.add(machine)

    def used(self, attempt: int) -> float:
        """Return what a running attempt was seen to use last."""
        return self._machines[self._where[attempt]].attempts[attempt].used

    def outgrew(self, attempt: int) -> bool:
        """Whether a running attempt uses more than it was allocated at its start."""
        return self._machines[self._where[attempt]].attempts[attempt].outgrown

    def held_back(self, machine: int) -> float:
        """Return the memory of a machine that new attempts may not claim while others run there."""
        where = self._machines[machine]
        if where.waiting:
            return inf  # the first to get room are those that wait for it
        taken = where.memory - where.capacity if where.capacity < where.memory else 0.0
        return taken + where.reserve if where.untrusted else taken

    def changed(self) -> list[int]:
        """Return the machines on which something changed since the last call."""
        found = sorted(self._changed)
        self._changed.clear()
        return found

    def adjust(self, machine: int, now: float) -> Iterator[Adjustment]:
        """Yield what changes for the attempts on a machine."""
        where = self._machines[machine]
        if where.growing:
            yield from _grow(where)
        if where.room < 0 and not where.promised:
            yield from _relieve(where, now)
        elif where.waiting:
            yield from _resume(where, now)
        for one in where.grew:
            one.grew = False
        where.grew.clear()


def _grow(where: _Machine) -> Iterator[Adjustment]:
    """Let attempts claim what they use, and a little more if there is room."""
    for one in where.growing.values():
        before, ahead = one.claim, min((_AHEAD - 1) * one.used, max(where.room, 0.0))
        one.claim = float(int(one.used + ahead))
        where.untrusted += one.trusted
        one.trusted = False
        seen = f"outgrew {format_bytes(before)}: {format_bytes(one.used)} seen"
        rest = f"{format_bytes(max(where.free, 0.0))} of the machine is unused"
        yield Adjustment(one.number, Action.GROW, f"{seen}, and {rest}", one.claim, one.claim - before)
    where.growing.clear()


def _relieve(where: _Machine, now: float) -> Iterator[Adjustment]:
    """Pause attempts that grow while there is no room; if that is not enough, stop one."""
    running = [one for one in where.attempts.values() if one.runs]
    urgent = where.free < where.reserve / 2
    if not where.stopping and len(where.attempts) > 1 and (where.free < where.floor or (urgent and not running)):
        yield _stop_one(where, now)
        running = [one for one in running if one.runs]
    # Attempts within their allocation have a right to it, and those that do not grow will end and make room.
    growing = [one for one in running if one.grew and (one.outgrown or urgent)]
    if len(growing) == len(running) and not where.stopping:
        growing.sort(key=lambda one: (one.outgrown, -one.loss(now)))
        del growing[:1]  # one always continues, unless room is just being made for it
    for one in growing:
        one.paused = True
        where.waiting += 1
        yield Adjustment(one.number, Action.PAUSE, f"no room to grow: {_state(where)}")
    if not running and not where.stopping:
        yield from _resume(where, now)  # the last one may use all that there is


def _stop_one(where: _Machine, now: float) -> Adjustment:
    """Stop the attempt that loses least of those that free enough; if none outgrew its allocation, the youngest."""
    attempts = where.attempts.values()
    if any(one.outgrown for one in attempts):
        missing = min(where.reserve / 2 - where.free, max(one.used for one in attempts))
        one = min((one for one in attempts if one.used >= missing), key=lambda one: one.loss(now))
    else:
        one = max(attempts, key=lambda one: (one.begun, one.number))
    where.waiting += one.runs
    one.stopping = True
    where.stopping += 1
    return Adjustment(one.number, Action.STOP, f"no room for {len(where.attempts)} tasks to grow: {_state(where)}")


def _resume(where: _Machine, now: float) -> Iterator[Adjustment]:
    """Let paused attempts continue while there is room for their growth, those first that would lose most.

    Attempts that pause together are alike: if all continued at once, they would fill the room at once.
    """
    paused = [one for one in where.attempts.values() if one.paused and not one.stopping]
    paused.sort(key=lambda one: -one.loss(now))
    running = [one for one in where.attempts.values() if one.runs]
    room = where.room - sum(one.expected for one in running)
    runs = bool(running)
    for one in paused:
        expected = max(one.expected, where.reserve / 2)
        if runs and room < expected:
            return
        one.paused, runs, room = False, True, room - expected
        where.waiting -= 1
        yield Adjustment(one.number, Action.RESUME, f"there is room again: {_state(where)}")


def _state(where: _Machine) -> str:
    used, capacity, reserve = map(format_bytes, (where.used, where.capacity, where.reserve))
    return f"{used} of {capacity} used, {reserve} kept free"
