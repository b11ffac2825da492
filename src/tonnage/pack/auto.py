"""The strategy that does best by forecast: each of several is played on the queue as it is, and as it may become."""

from dataclasses import replace

from tonnage.pack.crossing import Packer, forecast
from tonnage.pack.decisions import Packed, Settings, Situation
from tonnage.pack.glume import glume
from tonnage.pack.plain import level_by_level, one_job, per_task
from tonnage.pack.work import NEVER
from tonnage.pack.zhang import zhang_improved
from tonnage.units import format_seconds

__all__ = ["auto"]

_RIVALS: dict[str, Packer] = {
    "glume": glume,
    "one-job": one_job,
    "level-by-level": level_by_level,
    "zhang-improved": zhang_improved,
    "per-task": per_task,
}
"""The first of equal ones is taken."""
_USUAL = 1.05
_MUST_PROMISE = {"glume": 1.0, "per-task": 1.25}
"""How much sooner than glume a rival must be by forecast: tasks on their own wait for what nobody can foresee."""


def auto(situation: Situation, settings: Settings) -> Packed:
    """What the strategy does that is done first, if all of them go on from here."""
    if situation.pending:
        return Packed()
    found: dict[str, int] = {}
    for name, packer in _RIVALS.items():
        best = min((found[rival] * _handicap(rival) for rival in found), default=float(NEVER))
        seconds = forecast(situation, packer, settings, at_most=int(best / _handicap(name)))
        if seconds is not None:
            found[name] = seconds
    chosen = min(found, key=lambda name: found[name] * _handicap(name))
    packed = _RIVALS[chosen](situation, settings)
    others = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in found.items() if name != chosen)
    reason = f"{chosen}: done in {format_seconds(found[chosen])} by forecast"
    return replace(packed, reason=f"{reason} ({others})" if others else reason, estimate=found[chosen])


def _handicap(name: str) -> float:
    return _MUST_PROMISE.get(name, _USUAL)
