"""Which queue pays: run times as a guarantee to the scheduler, not as a limit to enforce (Tovar et al., 3.4.4)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tonnage.size.histograms import FloatArray

__all__ = ["QueueChoice", "compare_queues"]


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """What becomes of a category's jobs that are first submitted to one queue."""

    queue: str
    seconds: float
    """The longest that the queue lets a job run."""
    fits: float
    """The part of the jobs that end in time; the others are submitted to the longest queue."""
    throughput: float
    """Jobs that finish in a time, as a multiple of what the longest queue alone would give."""


def compare_queues(seconds: FloatArray, queues: Mapping[str, float]) -> list[QueueChoice]:
    """Return what each queue gives, the best first.

    As for any resource, jobs in a queue of a tenth of the length take turns ten times as often; a job that does not end
    in time has cost the queue's whole length, and then takes its turn in the longest.
    """
    longest = max(queues.values())
    alone = _rate(seconds, longest, longest)
    found = [
        QueueChoice(
            name, limit, float((seconds <= limit).mean()), _rate(seconds, limit, longest) / alone if alone else 0.0
        )
        for name, limit in queues.items()
    ]
    return sorted(found, key=lambda one: (-one.throughput, one.seconds))


def _rate(seconds: FloatArray, limit: float, longest: float) -> float:
    """Return how many jobs finish a second, all tried in a queue of this length and then in the longest."""
    in_time = seconds <= limit
    late = seconds[~in_time]
    finished = longest / limit * in_time.sum() + (late <= longest).sum()
    busy = seconds[in_time].sum()
    if limit < longest:
        busy += limit * len(late)
    busy += np.minimum(late, longest).sum()
    return float(finished / busy) if busy else 0.0
