"""The strategy that does best by forecast: each of several is played on the queue as it is, and as it may become."""

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tonnage.errors import TonnageError
from tonnage.pack.allocations import best_leeway, best_nodes, submission
from tonnage.pack.crossing import Packer, forecast
from tonnage.pack.decisions import Packed, Settings, Situation
from tonnage.pack.glume import glume
from tonnage.pack.plain import one_job, per_task, split_level
from tonnage.pack.work import NEVER
from tonnage.units import format_seconds

__all__ = ["auto"]


def _least_ratio(situation: Situation, settings: Settings) -> Packed:
    """The next levels as one job, as many as wait least for each second that they run; each on its best nodes."""
    if situation.pending:
        return Packed()
    delay = situation.delay
    options = [best_nodes(situation, settings, delay, 0, level) for level in range(situation.left.last, -1, -1)]
    chosen = best_leeway(situation, settings, delay, min(options, key=lambda option: option.wait / option.run))
    return Packed((submission(situation, settings, chosen),))


class _Rival(NamedTuple):
    packer: Packer
    handicap: float
    """How much sooner than glume it must be by forecast: what is submitted later waits for what nobody can foresee."""


_RIVALS = {
    "glume": _Rival(glume, 1.0),
    "one-job": _Rival(one_job, 1.05),
    "least-ratio": _Rival(_least_ratio, 1.05),
    "split-level": _Rival(split_level, 1.1),
    "per-task": _Rival(per_task, 1.4),
}


def auto(situation: Situation, settings: Settings) -> Packed:
    """What the strategy does that is done first, if all of them go on from here."""
    if situation.pending:
        return Packed()
    found: dict[str, int] = {}
    for name, rival in _RIVALS.items():
        best = min((found[one] * _RIVALS[one].handicap for one in found), default=float(NEVER))
        with suppress(TonnageError):  # whatever goes wrong in a forecast speaks against it
            seconds = forecast(situation, rival.packer, settings, at_most=int(best / rival.handicap))
            if seconds is not None:
                found[name] = seconds
    if not found:
        return glume(situation, settings)
    chosen = min(found, key=lambda name: found[name] * _RIVALS[name].handicap)
    packed = _RIVALS[chosen].packer(situation, settings)
    others = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in found.items() if name != chosen)
    reason = f"{chosen}: done in {format_seconds(found[chosen])} by forecast"
    return replace(packed, reason=f"{reason} ({others})" if others else reason, estimate=found[chosen])
