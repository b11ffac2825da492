"""The algorithm of Zhang et al. according to GLUME's authors: as printed, as they coded it, and with improvements."""

from dataclasses import replace

from tonnage.pack.decisions import Packed, Settings, Situation
from tonnage.pack.glume import Allocation, best_leeway, best_nodes, on_nodes, submission, wait_with

__all__ = ["zhang", "zhang_improved", "zhang_printed"]

_SHORT = 600
"""A leeway of this many seconds or fewer is no longer halved."""


def zhang(situation: Situation, settings: Settings) -> Packed:
    """Submit the next levels as one job, as many as do not worsen the ratio of wait to run time (GLUME's code)."""
    return zhang_improved(situation, _not_improved(settings))


def zhang_improved(situation: Situation, settings: Settings) -> Packed:
    """Pack like Zhang with the improvements tried by GLUME's authors: all groupings, best nodes, binary-search leeway.

    As in their code, levels are grouped as if a job had as many nodes as it is wide; the best number is found later.
    """
    if situation.pending:
        return Packed()
    last = situation.left.last
    chosen: Allocation | None = None
    for level in range(last + 1):
        option = on_nodes(situation, settings, 0, level)
        if chosen is None:
            chosen = option if option.wait <= option.run else None
        elif _ratio(option) <= _ratio(chosen):
            chosen = option
        elif not settings.all_groupings:
            break
    return _packed(situation, settings, chosen or on_nodes(situation, settings, 0, last))


def zhang_printed(situation: Situation, settings: Settings) -> Packed:
    """Submit the next levels as one job: all, or from the first on while wait to run time does not get worse."""
    if situation.pending:
        return Packed()
    last = situation.left.last
    chosen = on_nodes(situation, settings, 0, last)
    for level in range(last):
        option = on_nodes(situation, settings, 0, level)
        if _ratio(option) > _ratio(chosen):
            break
        chosen = option
    return _packed(situation, _not_improved(settings), chosen)


def _not_improved(settings: Settings) -> Settings:
    return replace(settings, all_groupings=False, best_nodes=False, true_leeway=False)


def _ratio(option: Allocation) -> float:
    return option.wait / option.run


def _packed(situation: Situation, settings: Settings, chosen: Allocation) -> Packed:
    """Submit the chosen levels; if these are all and would wait more than twice as long as run, go task by task."""
    reason = f"waits {_ratio(chosen):.2f} times as long as it runs"
    if chosen.last == situation.left.last and chosen.wait > 2 * chosen.run:
        return Packed((), f"one job for all {reason}: one job per task instead", singly=True)
    if settings.best_nodes:
        reason += f" ({chosen.nodes} wide)"
        chosen = best_nodes(situation, settings, situation.delay, 0, chosen.last)
    leeway = best_leeway if settings.true_leeway else _halved
    job = leeway(situation, settings, situation.delay, chosen)
    estimate = job.end if job.last == situation.left.last else None
    return Packed((submission(situation, settings, job),), reason, estimate=estimate)


def _halved(situation: Situation, settings: Settings, delay: int, chosen: Allocation) -> Allocation:
    """Add the time missing until the running job ends, halved while the job would start later than that."""
    leeway = max(0, delay - chosen.wait)
    wait = wait_with(situation, settings, chosen, leeway)
    while leeway > _SHORT and wait > delay:
        leeway //= 2
        wait = wait_with(situation, settings, chosen, leeway)
    return chosen._replace(leeway=leeway, wait=wait)
