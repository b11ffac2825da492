"""Which queue pays: reckoned by hand."""

import numpy as np
import pytest

from tonnage.size import compare_queues


def test_a_short_queue_pays_where_most_jobs_end_in_time() -> None:
    # 9 jobs of 1 h and one of 10 h; short lets 2 h, long 20 h: 9 jobs take turns 10 times as often.
    short, long = compare_queues(np.array([3600.0] * 9 + [36000.0]), {"long": 72000.0, "short": 7200.0})
    assert (short.queue, short.seconds, short.fits) == ("short", 7200, 0.9)
    assert (long.queue, long.fits, long.throughput) == ("long", 1, 1)
    busy = 9 * 1 + 2 + 10  # hours: those in time, the whole queue for the late one, and its own time
    assert short.throughput == pytest.approx((9 * 10 + 1) / busy / (10 / 19))


def test_a_short_queue_does_not_pay_where_nobody_ends_in_time() -> None:
    first, second = compare_queues(np.array([100.0] * 5), {"short": 60.0, "long": 200.0})
    assert (first.queue, second.queue, second.fits) == ("long", "short", 0)
    assert second.throughput == pytest.approx(100 / 160)


def test_jobs_that_take_no_time_or_fit_nowhere_are_no_trouble() -> None:
    assert [one.throughput for one in compare_queues(np.zeros(3), {"a": 1.0, "b": 2.0})] == [0, 0]
    (only,) = compare_queues(np.array([50.0]), {"a": 10.0})
    assert (only.fits, only.throughput) == (0, 0)
