"""The algorithm of Zhang et al. as GLUME's authors describe it: as printed, as they coded it, and with improvements."""

from collections.abc import Callable
from typing import TypeAlias

from tonnage.pack.allocations import Allocation, best_leeway, best_nodes, on_nodes, submission, wait_with
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
    chosen = _while_no_worse(_options(situation, settings), situation.left.last)
    return _packed(situation, settings, chosen, _halved)


def zhang_improved(situation: Situation, settings: Settings) -> Packed:
    """Zhang with what its rivals tried: all groupings, the best number of nodes, a leeway by binary search."""
    if situation.pending:
        return Packed()
    last = situation.left.last
    options = _on_best(situation, settings) if settings.best_nodes else _options(situation, settings)
    if settings.all_groupings:
        chosen = min((options(level) for level in range(last, -1, -1)), key=_ratio)
    else:
        chosen = _while_no_worse(options, last)
    return _packed(situation, settings, chosen, _searched if settings.true_leeway else _halved)


def _while_no_worse(options: _Options, last: int) -> Allocation:
    """All levels, or from one level on more and more of them as long as wait to run time gets no worse."""
    chosen = options(last)
    for level in range(last):
        option = options(level)
        if _ratio(option) > _ratio(chosen):
            break
        chosen = option
    return chosen


def _options(situation: Situation, settings: Settings) -> _Options:
    return lambda level: on_nodes(situation, settings, 0, level)


def _on_best(situation: Situation, settings: Settings) -> _Options:
    return lambda level: best_nodes(situation, settings, situation.delay, 0, level)


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
        return Packed((), f"one job for all {ratio}: each task on its own", then="per-task")
    return Packed((submission(situation, settings, leeway(situation, settings, chosen)),), ratio)


def _searched(situation: Situation, settings: Settings, chosen: Allocation) -> Allocation:
    return best_leeway(situation, settings, situation.delay, chosen)


def _halved(situation: Situation, settings: Settings, chosen: Allocation) -> Allocation:
    """Add what is missing until the running job ends, halved while the job would start later than that."""
    leeway = max(0, situation.delay - chosen.wait)
    wait = wait_with(situation, settings, chosen, leeway)
    while leeway > _SHORT and wait > situation.delay:
        leeway //= 2
        wait = wait_with(situation, settings, chosen, leeway)
    return chosen._replace(leeway=leeway, wait=wait)
