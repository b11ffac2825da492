"""Jobs that take what they are given are told from jobs that need what they use."""

import numpy as np
import pytest

from tonnage.size.recommend import follows_request

REQUESTS = np.array([4.0, 8.0, 16.0, 8.0, 8.0, 4.0, 32.0, 8.0, 16.0, 8.0])


@pytest.mark.parametrize("share", [0.2, 0.8, 1.0, 1.1])
def test_use_that_is_a_part_of_the_request_follows_it(share: float) -> None:
    assert follows_request(share * REQUESTS, REQUESTS) == (8, 32)


def test_a_few_others_do_not_matter_and_many_do() -> None:
    peaks = 0.8 * REQUESTS
    peaks[0] = 0.1
    assert follows_request(peaks, REQUESTS) is not None
    peaks[:3] = 0.1
    assert follows_request(peaks, REQUESTS) is None


def test_use_that_is_the_same_whatever_is_requested_does_not_follow_it() -> None:
    assert follows_request(np.full(10, 3.0), REQUESTS) is None


@pytest.mark.parametrize("requests", [np.full(10, 8.0), np.array([8.0] * 9 + [16.0]), np.linspace(8.0, 8.3, 10)])
def test_nobody_can_tell_where_requests_are_alike(requests: np.ndarray) -> None:
    assert follows_request(0.9 * requests, requests) is None


def test_few_jobs_and_unknown_requests_say_nothing() -> None:
    assert follows_request(0.9 * REQUESTS[:5], REQUESTS[:5]) is None
    unknown = np.where(np.arange(10) < 5, REQUESTS, np.nan)
    assert follows_request(0.9 * REQUESTS, unknown) is None
    assert follows_request(np.zeros(10), REQUESTS) is None
