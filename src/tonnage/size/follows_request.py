"""Categories whose use follows the request: a JVM with -Xmx, a sort that fills what it is given."""

import numpy as np

from tonnage.size.histograms import FloatArray

__all__ = ["follows_request"]

_ENOUGH = 6
_SAME = 0.05
"""A part: requests that differ by less are the same."""
_APART = 1.2
"""Requests must differ by this factor, so that it shows whether use differs with them."""
_STEADY = 0.1
"""The part by which use as a part of the request may vary around its median."""
_MOST = 0.9


def follows_request(peaks: FloatArray, requested: FloatArray) -> tuple[float, ...] | None:
    """Return the requests to go on with, where jobs use the same part of whatever they request; else None.

    That is so where jobs with clearly different requests used, nearly all of them, the same part of it. The usual
    request and the largest are returned. Where all requests are alike, nobody can tell.
    """
    known = (requested > 0) & (peaks > 0)
    if known.sum() < _ENOUGH:
        return None
    peaks, requested = peaks[known], requested[known]
    usual = float(np.median(requested))
    other = np.abs(requested - usual) > _SAME * usual
    low, high = np.quantile(requested, [0.1, 0.9])
    if high < _APART * low or other.sum() < _ENOUGH // 2:
        return None
    share = peaks / requested
    steady = np.abs(share - np.median(share)) <= _STEADY * np.median(share)
    if steady.mean() < _MOST:
        return None
    return usual, max(usual, float(requested.max()))
