"""Which queue is best: run times as a guarantee to the scheduler, not as a limit to enforce (Tovar et al., 3.4.4)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tonnage.size.histograms import FloatArray

__all__ = ["QueueChoice", "compare_queues"]


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """The result of first submitting a category's jobs to one queue."""

    queue: str
    seconds: float
    """The time limit of the queue."""
    fits: float
    """The fraction of the jobs that finish in time; the others are resubmitted to the longest queue."""
    throughput: float
    """Jobs finished per unit of time, relative to using the longest queue alone."""


def compare_queues(seconds: FloatArray, queues: Mapping[str, float]) -> list[QueueChoice]:
    """Return the throughput of each queue, the best first.

    As for any resource, a queue of a tenth of the length gives jobs ten times as many turns; a job that does not finish
    in time costs the queue's full length, and is then run in the longest one.
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
    """Return how many jobs finish per second if all are tried in a queue of this length and then in the longest."""
    in_time = seconds <= limit
    late = seconds[~in_time]
    finished = longest / limit * in_time.sum() + (late <= longest).sum()
    busy = seconds[in_time].sum()
    if limit < longest:
        busy += limit * len(late)
    busy += np.minimum(late, longest).sum()
    return float(finished / busy) if busy else 0.0
