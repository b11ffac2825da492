"""The strategy with the best forecast: several are simulated on possible futures of the queue."""

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
    """Submit the next levels as one job, as many as have the least wait per second of run time on their best nodes."""
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
"""How much sooner a rival must finish on average: what counts as a difference in GLUME's paper."""
_TOO_LATE = 1.5
"""A rival that takes this many times as long as glume in one future is not simulated in the others."""


def auto(situation: Situation, settings: Settings) -> Packed:
    """Follow glume, or a rival that finishes clearly sooner on average over possible futures of the queue."""
    if situation.pending:
        return Packed()
    usual = glume(situation, settings)
    try:
        times = [forecast(situation, future, glume, settings) or NEVER for future in _futures(situation)]
    except TonnageError:  # without a forecast to compare with, stay with glume
        return usual
    chosen, packed, part = "glume", usual, 1.0
    for name, rival in _RIVALS.items():
        with suppress(TonnageError):  # a rival whose forecast fails is not chosen
            answer = rival(situation, settings)
            if _same(answer, usual):
                continue  # later jobs are decided later
            sooner = _part(situation, rival, settings, times, min(part, 1 - _WORTH))
            if sooner is not None:
                chosen, packed, part = name, answer, sooner
    reason = f"{chosen}: forecast to finish in {format_seconds(part * mean(times))}"
    if packed is not usual:
        reason += f" (glume: {format_seconds(mean(times))})"
    return replace(packed, reason=reason, estimate=round(part * mean(times)))


def _futures(situation: Situation) -> tuple[Workload | None, ...]:
    return situation.futures or (None,)


def _same(one: Packed, other: Packed) -> bool:
    """Return whether two decisions submit the same batch jobs."""
    return one.singly == other.singly and [_asked(job) for job in one.jobs] == [_asked(job) for job in other.jobs]


def _asked(job: Submission) -> tuple[int, int, bytes]:
    return job.nodes, job.seconds, job.tasks.tobytes()


def _part(situation: Situation, rival: Packer, settings: Settings, times: list[int], below: float) -> float | None:
    """Return a rival's time relative to glume's, averaged over the futures; None if not clearly below `below`.

    Clearly means even after adding the standard error: a gain in one future that is lost in another is chance.
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
