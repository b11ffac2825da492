"""The strategy that does best by forecast: each of several is played on the queue as it may become."""

from contextlib import suppress
from dataclasses import replace
from math import sqrt
from statistics import mean, stdev

from tonnage.batch import Workload
from tonnage.errors import TonnageError
from tonnage.pack.decisions import Packed, Settings, Situation, Submission
from tonnage.pack.glume import best_leeway, best_nodes, glume, submission
from tonnage.pack.remaining import NEVER
from tonnage.pack.simple import one_job, per_task, split_level
from tonnage.pack.simulation import Packer, forecast
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


_RIVALS: dict[str, Packer] = {
    "one-job": one_job,
    "least-ratio": _least_ratio,
    "split-level": split_level,
    "per-task": per_task,
}
_WORTH = 0.05
"""How much sooner a rival must be on average: what counts as a difference in glume's paper."""
_TOO_LATE = 1.5
"""A rival that takes this many times as long as glume in one future is not tried in the others."""


def auto(situation: Situation, settings: Settings) -> Packed:
    """What glume does, or who is done clearly sooner on average over what may become of the queue."""
    if situation.pending:
        return Packed()
    usual = glume(situation, settings)
    try:
        times = [forecast(situation, future, glume, settings) or NEVER for future in _futures(situation)]
    except TonnageError:  # with nothing to compare to, there is no reason to leave it
        return usual
    chosen, packed, part = "glume", usual, 1.0
    for name, rival in _RIVALS.items():
        with suppress(TonnageError):  # whatever goes wrong in a forecast speaks against it
            answer = rival(situation, settings)
            if _same(answer, usual):
                continue  # what comes behind it is decided then
            sooner = _part(situation, rival, settings, times, min(part, 1 - _WORTH))
            if sooner is not None:
                chosen, packed, part = name, answer, sooner
    reason = f"{chosen}: done in {format_seconds(part * mean(times))} by forecast"
    if packed is not usual:
        reason += f" (glume {format_seconds(mean(times))})"
    return replace(packed, reason=reason, estimate=round(part * mean(times)))


def _futures(situation: Situation) -> tuple[Workload | None, ...]:
    return situation.futures or (None,)


def _same(one: Packed, other: Packed) -> bool:
    """Return whether two answers submit the same batch jobs."""
    return one.singly == other.singly and [_asked(job) for job in one.jobs] == [_asked(job) for job in other.jobs]


def _asked(job: Submission) -> tuple[int, int, bytes]:
    return job.nodes, job.seconds, job.tasks.tobytes()


def _part(situation: Situation, rival: Packer, settings: Settings, times: list[int], below: float) -> float | None:
    """Return which part of glume's times a rival takes, on average over the futures; None if not clearly below a limit.

    Clearly: with the standard error of the average, too. What is gained in one future and lost in another is chance.
    """
    parts: list[float] = []
    for future, usual in zip(_futures(situation), times, strict=True):
        left = below * len(times) - sum(parts)
        seconds = forecast(situation, future, rival, settings, at_most=int(min(left, _TOO_LATE) * usual))
        if seconds is None:
            return None
        parts.append(seconds / usual)
    error = stdev(parts) / sqrt(len(parts)) if len(parts) > 1 else 0.0
    return mean(parts) if mean(parts) + error < below else None
