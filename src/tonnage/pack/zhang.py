"""The algorithm of Zhang et al. as GLUME's authors describe it: as printed, as they coded it, and with improvements."""

from collections.abc import Callable
from typing import TypeAlias

from tonnage.pack.allocations import Allocation, best_allocation, best_leeway, on_nodes, submission
from tonnage.pack.decisions import Packed, Settings, Situation

__all__ = ["zhang", "zhang_improved", "zhang_printed"]

_Options: TypeAlias = Callable[[int], Allocation]
_SHORT = 600
"""A leeway of so many seconds is not halved any more."""


def zhang(situation: Situation, settings: Settings) -> Packed:
    """The next levels as one job, as many as let the ratio of wait to run time not get worse (GLUME's code)."""
    if situation.pending:
        return Packed()
    options = _options(situation, settings)
    last = situation.left.last
    chosen: Allocation | None = None
    for level in range(last + 1):
        option = options(level)
        if chosen is None:
            chosen = option if option.wait <= option.run else None
        elif _ratio(option) <= _ratio(chosen):
            chosen = option
        else:
            break
    return _packed(situation, settings, chosen or options(last), _halved)


def zhang_printed(situation: Situation, settings: Settings) -> Packed:
    """The next levels as one job: all of them, or from one level on as long as wait to run time gets better."""
    if situation.pending:
        return Packed()
    options = _options(situation, settings)
    last = situation.left.last
    chosen = options(last)
    for level in range(last):
        option = options(level)
        if _ratio(option) > _ratio(chosen):
            break
        chosen = option
    return _packed(situation, settings, chosen, _halved)


def zhang_improved(situation: Situation, settings: Settings) -> Packed:
    """Zhang with what its rivals tried: all groupings, the best number of nodes, a leeway by binary search."""
    if situation.pending:
        return Packed()
    last = situation.left.last

    def best(level: int) -> Allocation:
        return best_allocation(situation, settings, situation.delay, 0, level)._replace(leeway=0)

    options = best if settings.best_nodes else _options(situation, settings)
    leeway = _searched if settings.true_leeway else _halved
    if settings.all_groupings:
        chosen = min((options(level) for level in range(last, -1, -1)), key=_ratio)
        return _packed(situation, settings, chosen, leeway)
    chosen = options(last)
    for level in range(last):
        option = options(level)
        if _ratio(option) > _ratio(chosen):
            break
        chosen = option
    return _packed(situation, settings, chosen, leeway)


def _options(situation: Situation, settings: Settings) -> _Options:
    return lambda level: on_nodes(situation, settings, 0, level)


def _ratio(option: Allocation) -> float:
    return option.wait / option.run


def _packed(
    situation: Situation,
    settings: Settings,
    chosen: Allocation,
    leeway: Callable[[Situation, Settings, Allocation], Allocation],
) -> Packed:
    """Submit what was chosen; where that is all, and waits more than twice as long as it runs, each task on its own."""
    ratio = f"waits {_ratio(chosen):.2f} times as long as it runs"
    if chosen.last == situation.left.last and chosen.wait > 2 * chosen.run:
        return Packed((), f"one job for all {ratio}: each task on its own", singly=True)
    job = leeway(situation, settings, chosen)
    estimate = job.end if job.last == situation.left.last else None
    return Packed((submission(situation, settings, job),), ratio, estimate=estimate)


def _searched(situation: Situation, settings: Settings, chosen: Allocation) -> Allocation:
    return best_leeway(situation, settings, situation.delay, *chosen[:4], chosen.wait)


def _halved(situation: Situation, settings: Settings, chosen: Allocation) -> Allocation:
    """Add what is missing until the running job ends, halved while the job would start later than that."""
    leeway = max(0, situation.delay - chosen.wait)
    wait = _wait_with(situation, settings, chosen, leeway)
    while leeway > _SHORT and wait > situation.delay:
        leeway //= 2
        wait = _wait_with(situation, settings, chosen, leeway)
    return chosen._replace(leeway=leeway, wait=wait)


def _wait_with(situation: Situation, settings: Settings, chosen: Allocation, leeway: int) -> int:
    job = submission(situation, settings, chosen._replace(leeway=leeway))
    return situation.queue.earliest(job.nodes, job.seconds) - situation.queue.now
