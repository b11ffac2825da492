"""Compare what sizing strategies would have cost on recorded jobs, under the protocols of the literature."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from operator import gt, le
from statistics import fmean, pstdev
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from tonnage.errors import InputError
from tonnage.jobs import HOURS, Amounts, Attempt, Resource
from tonnage.lab.size_protocols import Protocol
from tonnage.size.discover import by_density
from tonnage.size.factory import Plan, Settings, learns_rungs, practical, settings_for
from tonnage.size.histograms import FloatArray
from tonnage.size.ladders import Ladder, grown, positive
from tonnage.size.records import Records
from tonnage.size.sizers import Same, Sizer, WholeMachineFirst
from tonnage.size.strategies import sizer

__all__ = ["Result", "as_sizey_measures", "compared", "replay"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a strategy would have cost, for one resource; costs are amounts times seconds."""

    strategy: str
    resource: Resource
    allocations: dict[str, float]
    """The first allocation of each group at the end of the replay."""
    jobs: int
    used: float
    paid: float
    whole: float
    """The cost if every job had a whole machine."""
    retried: int
    failures: int
    throughput: float
    """Jobs finished per resource and time, relative to giving every job the largest peak."""
    oracle: float
    """The throughput if every job gets its own peak."""
    efficiency: float
    """The share of its allocations in all attempts that a job used, averaged over jobs (ATE)."""
    decision_seconds: float
    """The time that the strategy itself took per job."""

    @property
    def waste(self) -> float:
        """What was paid for but not used."""
        return self.paid - self.used

    @property
    def waste_fraction(self) -> float:
        """The fraction of what was paid for that was not used."""
        return self.waste / self.paid if self.paid else 0.0

    @property
    def waste_reduction(self) -> float:
        """The fraction of whole machines' waste that is saved (WRR)."""
        whole = self.whole - self.used
        return (whole - self.waste) / whole if whole else 0.0

    @property
    def retries_fraction(self) -> float:
        """The fraction of jobs that needed more than one attempt."""
        return self.retried / self.jobs if self.jobs else 0.0


def as_sizey_measures(attempt: Attempt) -> Attempt:
    """Return an attempt as the Sizey protocol sees it: the trace's rss for memory, and rchar for the input's size."""
    rss, rchar = (_number(attempt.raw.get(name)) for name in ("rss", "rchar"))
    used = attempt.used if rss is None else replace(attempt.used, memory=Amounts.of(memory=rss).memory)
    known = attempt.input_bytes
    return replace(attempt, used=used, input_bytes=Amounts.of(memory=rchar).memory if known is None else known)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def replay(records: Records, strategies: Sequence[str], protocol: Protocol, *, seed: int = 0) -> list[Result]:
    """Return what each strategy would have cost on recorded jobs, for each resource of the protocol."""
    kept = _playable(records, protocol)
    if not len(kept):
        raise InputError(f"none of the {len(records):,} jobs can be replayed", hint=_why_none(records, protocol))
    results = []
    for strategy in strategies:
        jobs = _by_density(kept, protocol) if strategy == "density" else kept
        if protocol.limiting:
            played = _play(jobs, strategy, protocol, protocol.limiting, seed)
            results += [played[resource] for resource in protocol.resources]
        else:
            results += [_play(jobs, strategy, protocol, (one,), seed)[one] for one in protocol.resources]
    return results


def _needed(protocol: Protocol) -> list[Resource]:
    """Return the resources that must be known of a job to replay it."""
    return list(dict.fromkeys([*protocol.resources, *protocol.limiting, Resource.WALL_TIME]))


def _why_none(records: Records, protocol: Protocol) -> str:
    unknown = [str(one) for one in _needed(protocol) if not (records.history.used[one] >= 0).any()]
    if unknown:
        return f"unknown for all of them: {', '.join(unknown)}"
    if protocol.fewest:
        return f"the protocol needs categories with at least {protocol.fewest} measured jobs"
    return "the protocol needs run times"


def _by_density(records: Records, protocol: Protocol) -> Records:
    if protocol.online:
        raise InputError("density must know all jobs beforehand", hint="replay it with --protocol tovar")
    return by_density(records)


def _playable(records: Records, protocol: Protocol) -> Records:
    """Return the jobs that the protocol keeps."""
    history = records.history
    kept = history.finished & np.all([history.used[resource] >= 0 for resource in _needed(protocol)], axis=0)
    if protocol.drop_last and len(kept):
        kept[-1] = False
    seconds = history.used[Resource.WALL_TIME]
    if protocol.drop_untimed:
        kept &= seconds > 0
    if protocol.fewest:  # jobs that used nothing were not measured
        kept &= np.all([history.used[resource] > 0 for resource in protocol.resources], axis=0)
        kept &= (np.bincount(records.group[kept], minlength=len(records.names)) >= protocol.fewest)[records.group]
    if protocol.only_timed:
        untimed = np.bincount(records.group[kept], seconds[kept] == 0, minlength=len(records.names))
        kept &= (untimed == 0)[records.group]
    return records.only(kept)


def _play(
    records: Records, strategy: str, protocol: Protocol, resources: Sequence[Resource], seed: int
) -> dict[Resource, Result]:
    """Replay all jobs to a strategy; return what it would have cost, for each resource that a job can run out of."""
    table = _Table(records, strategy, protocol, resources)
    past, coming = _order(records, protocol, seed)
    for job in past:
        table.observe(job)
    if not protocol.online:
        for job in coming:
            table.observe(job)
    climbed = _Climbed([], [], [])
    deciding = 0.0
    for place, job in enumerate(coming):
        begin = perf_counter()
        ladders = table.ladders(job, whole=table.learns and place < protocol.cold_start)
        deciding += perf_counter() - begin
        given, last, attempts = _climb(ladders, table.needs[job], grow_all=protocol.grow_all)
        climbed.given.append(given)
        climbed.last.append(last)
        climbed.attempts.append(attempts)
        if protocol.online:
            begin = perf_counter()
            table.observe(job)
            deciding += perf_counter() - begin
    return {
        resource: _result(table, records, climbed, np.array(coming), place, deciding / max(1, len(coming)))
        for place, resource in enumerate(resources)
    }


class _Table:
    """Recorded jobs, with a sizer for each group and each resource."""

    def __init__(self, records: Records, strategy: str, protocol: Protocol, resources: Sequence[Resource]) -> None:
        used = records.history.used
        self.strategy = strategy
        self.resources = resources
        self.largest = [float(used[resource].max()) for resource in resources]
        given = protocol.machine or {}
        self.machine = [
            given.get(resource, positive(most)) for resource, most in zip(resources, self.largest, strict=True)
        ]
        for resource, most, capacity in zip(resources, self.largest, self.machine, strict=True):
            if most > capacity:
                raise InputError(
                    f"a job used {resource.format_amount(most)} of {resource}, "
                    f"but the machine has {resource.format_amount(capacity)}",
                    hint="give a larger --machine, or exclude such jobs with --where",
                )
        self.settings = [_settings(self, place, protocol) for place in range(len(resources))]
        self.sizers = [[_sizer(strategy, one, protocol) for one in self.settings] for _ in records.names]
        self.learns = not all(isinstance(one, Same) for row in self.sizers for one in row)
        # Plain lists are faster than arrays here, because jobs are processed one by one.
        self.needs: list[tuple[float, ...]] = list(
            zip(*(used[resource].tolist() for resource in resources), strict=True)
        )
        self._group: list[int] = records.group.tolist()
        self._seconds: list[float] = used[Resource.WALL_TIME].tolist()
        self._inputs: list[float] = records.history.input_bytes.tolist()

    def observe(self, job: int) -> None:
        """Tell the sizers of a job's group what it needed."""
        seconds, inputs = self._seconds[job], self._inputs[job]
        for one, need in zip(self.sizers[self._group[job]], self.needs[job], strict=True):
            one.observe(need, seconds, inputs)

    def ladders(self, job: int, *, whole: bool) -> list[Ladder]:
        """Return the ladder of each resource for a job."""
        if whole:
            return [(capacity,) for capacity in self.machine]
        return self._ladders(self._group[job], self._inputs[job])

    def first(self, group: int, place: int) -> float:
        """Return the first allocation of a group's jobs whose input size is unknown."""
        return self._ladders(group)[place][0]

    def _ladders(self, group: int, inputs: float = nan) -> list[Ladder]:
        pairs = zip(self.sizers[group], self.settings, strict=True)
        return [practical(one.ladder(inputs), settings) for one, settings in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class _Climbed:
    """What jobs were allocated: a row per job, with a number per resource."""

    given: list[list[float]]
    """Summed over all attempts."""
    last: list[list[float]]
    """In the successful attempt."""
    attempts: list[int]


def _settings(table: _Table, place: int, protocol: Protocol) -> Settings:
    """Return a strategy's settings: the protocol's for a published rule, the usual ones for all others."""
    resource, capacity, largest = table.resources[place], table.machine[place], table.largest[place]
    overdeclared = protocol.overdeclared if resource is Resource.MEMORY else 1.0
    plan = Plan(
        strategy=table.strategy,
        declared={resource: min(positive(largest) * overdeclared, capacity)},
        share=protocol.share,
        buckets=protocol.buckets,
        half_life=protocol.half_life,
    )
    settings = settings_for(resource, capacity, plan)
    if learns_rungs(table.strategy):
        return settings
    return replace(
        settings,
        largest=largest if protocol.retry_at_largest else None,
        aligned=protocol.grow_all,
        width=protocol.width if resource.unit == "bytes" else 0.0,
        growth=protocol.growth,
        steps=inf,
        refit=protocol.refit,
        patience=0.0,
        unit=0.0,
    )


def _sizer(strategy: str, settings: Settings, protocol: Protocol) -> Sizer:
    made = sizer(strategy, settings)
    if protocol.converge is None or isinstance(made, Same):  # a strategy that does not learn need not wait
        return made
    return WholeMachineFirst(made, settings.capacity, jobs=protocol.converge)


def _order(records: Records, protocol: Protocol, seed: int) -> tuple[list[int], list[int]]:
    """Return the jobs known at the beginning, and those that arrive afterwards, in order."""
    if not protocol.history:
        return [], list(range(len(records)))
    past: list[int] = []
    coming: list[int] = []
    for number in range(len(records.names)):
        shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(records.group == number)).tolist()
        known = int(protocol.history * len(shuffled))
        past += shuffled[:known]
        coming += shuffled[known:]
    return past, coming


def _climb(
    ladders: Sequence[Ladder], needs: Sequence[float], *, grow_all: bool
) -> tuple[list[float], list[float], int]:
    """Return a job's allocations summed over its attempts, those of the last attempt, and the number of attempts."""
    amounts = [ladder[0] for ladder in ladders]
    if all(map(le, needs, amounts)):  # the case for most jobs
        return amounts, amounts, 1
    rungs = [0] * len(ladders)
    given = [0.0] * len(ladders)
    attempts = 0
    while True:
        amounts = [ladder[rung] for ladder, rung in zip(ladders, rungs, strict=True)]
        given = [total + amount for total, amount in zip(given, amounts, strict=True)]
        attempts += 1
        exhausted = list(map(gt, needs, amounts))
        if not any(exhausted):
            return given, amounts, attempts
        rungs = grown(rungs, ladders, exhausted, grow_all=grow_all)


def _result(
    table: _Table, records: Records, climbed: _Climbed, coming: NDArray[np.intp], place: int, deciding: float
) -> Result:
    resource = table.resources[place]
    need, seconds = (records.history.used[one][coming] for one in (resource, Resource.WALL_TIME))
    group, attempts = records.group[coming], np.array(climbed.attempts)
    given, last = (np.array([row[place] for row in rows]) for rows in (climbed.given, climbed.last))
    largest = positive(table.largest[place])
    known = given > 0
    return Result(
        strategy=table.strategy,
        resource=resource,
        allocations={name: table.first(number, place) for number, name in enumerate(records.names)},
        jobs=len(coming),
        used=float(need @ seconds),
        paid=float(given @ seconds),
        whole=float(table.machine[place] * seconds.sum()),
        retried=int((attempts > 1).sum()),
        failures=int(attempts.sum() - len(attempts)),
        throughput=_throughput(group, largest, last, seconds, attempts),
        oracle=_throughput(group, largest, np.where(need > 0, need, _least(need)), seconds, np.ones(len(need))),
        efficiency=float((need[known] / given[known]).mean()) if known.any() else 0.0,
        decision_seconds=deciding,
    )


def _throughput(
    group: NDArray[np.int64], largest: float, last: FloatArray, seconds: FloatArray, attempts: FloatArray
) -> float:
    """Return the throughput relative to giving every job the largest amount M.

    As in the paper, a job that succeeds with amount a runs beside M / a others, and every attempt takes as long as the
    job; categories are weighted by their number of jobs.
    """
    jobs = np.bincount(group)
    finished, busy = np.bincount(group, largest / last), np.bincount(group, seconds * attempts)
    some = busy > 0
    rate = float((jobs[some] * finished[some] / busy[some]).sum() / jobs.sum())
    return rate * float(seconds.sum()) / len(seconds)


def _least(need: FloatArray) -> float:
    """Return the smallest positive need, which also stands in for jobs that used nothing."""
    positive = need[need > 0]
    return float(positive.min()) if len(positive) else 1.0


_SPREAD = ("waste_fraction", "waste_gbh", "throughput", "retries_fraction", "failures", "wrr", "ate")


def compared(source: str, by: str, runs: Sequence[Result]) -> dict[str, object]:
    """Summarise a strategy's results on the jobs of a source: the mean over all seeds, and its spread."""
    unit, unit_name = HOURS[runs[0].resource.unit]
    each: dict[str, list[float]] = {
        "waste_fraction": [one.waste_fraction for one in runs],
        "waste_gbh": [one.waste / unit for one in runs],
        "throughput": [one.throughput for one in runs],
        "oracle_share": [one.throughput / one.oracle if one.oracle else 1.0 for one in runs],
        "retries_fraction": [one.retries_fraction for one in runs],
        "failures": [one.failures for one in runs],
        "wrr": [one.waste_reduction for one in runs],
        "ate": [one.efficiency for one in runs],
        "decision_seconds": [one.decision_seconds for one in runs],
    }
    return {
        "source": source,
        "strategy": runs[0].strategy,
        "by": by,
        "resource": str(runs[0].resource),
        "jobs": runs[0].jobs,
        "allocations": {name: fmean(one.allocations[name] for one in runs) for name in runs[0].allocations},
        "waste_unit": unit_name,
        **{name: fmean(values) for name, values in each.items()},
        **{f"{name}_sd": pstdev(each[name]) for name in _SPREAD},
    }
