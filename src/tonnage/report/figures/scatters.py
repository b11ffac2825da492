"""Scatter plots of peaks: memory against run time, and a peak against the size of the input."""

from collections.abc import Sequence

import numpy as np

from tonnage.jobs import Resource
from tonnage.report.figures.basics import Figure, FloatArray, Palette, listed, scale

__all__ = ["peak_against_input", "peaks_scatter"]

_WIDE = 300.0
"""From this ratio of the largest number to the 5 % quantile on, an axis is logarithmic."""


def _axis(values: FloatArray, title: str) -> Figure:
    positive = values[values > 0]
    wide = len(positive) > 2 and float(positive.max()) > _WIDE * float(np.quantile(positive, 0.05))
    text = {"title": {"text": f"{title}, logarithmic" if wide else title}}
    return {**text, "type": "log", "dtick": 1} if wide else {**text, "rangemode": "tozero"}


def peaks_scatter(
    seconds: FloatArray, memory: FloatArray, groups: Sequence[str], texts: Sequence[str], palette: Palette, by: str
) -> Figure | None:
    """Draw the peaks of attempts: memory against run time, coloured by group; texts must be plain."""
    known = np.isfinite(seconds) & np.isfinite(memory)
    if not known.any():
        return None
    time, amount = (scale(one, float(values[known].max())) for one, values in _pair(seconds, memory))
    data = []
    for name in [*palette.names, None]:
        own = [
            place
            for place in np.flatnonzero(known).tolist()
            if groups[place] == name or (name is None and groups[place] not in palette.names)
        ]
        if own:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": palette.legend(name),
                    "x": listed(seconds[own] / time.factor),
                    "y": listed(memory[own] / amount.factor),
                    "text": [texts[place] for place in own],
                    "hovertemplate": "%{text}<extra></extra>",
                    "marker": {"color": palette.colour(name or ""), "size": 6, "opacity": 0.65},
                }
            )
    return {
        "title": f"Peak memory against run time, coloured by {by}",
        "data": data,
        "layout": {
            "height": 420,
            "margin": {"l": 54, "r": 18, "t": 44, "b": 42},
            "xaxis": _axis(seconds[known] / time.factor, time.axis("run time")),
            "yaxis": _axis(memory[known] / amount.factor, amount.axis("memory")),
            "showlegend": True,
        },
    }


def _pair(seconds: FloatArray, memory: FloatArray) -> tuple[tuple[Resource, FloatArray], ...]:
    return (Resource.WALL_TIME, seconds), (Resource.MEMORY, memory)


def peak_against_input(
    inputs: FloatArray, peaks: FloatArray, resource: Resource, *, colour: str = "--series-1", most: int = 1000
) -> Figure | None:
    """Draw peaks against the sizes of inputs; None if too few are known, or all inputs have the same size."""
    known = np.flatnonzero(np.isfinite(inputs) & np.isfinite(peaks))
    if len(known) < 3 or inputs[known].min() == inputs[known].max():
        return None
    if len(known) > most:
        known = np.sort(np.random.default_rng(15).choice(known, most, replace=False))
    size, amount = scale(Resource.DISK, float(inputs[known].max())), scale(resource, float(peaks[known].max()))
    what = str(resource).replace("_", " ")
    shown = Resource.DISK.format_amount
    return {
        "title": f"Peak of {what} against the size of the input",
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "x": listed(inputs[known] / size.factor),
                "y": listed(peaks[known] / amount.factor),
                "text": [
                    f"{resource.format_amount(float(peaks[one]))} for {shown(float(inputs[one]))}"
                    for one in known.tolist()
                ],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"color": colour, "size": 6, "opacity": 0.6},
                "showlegend": False,
            }
        ],
        "layout": {
            "height": 280,
            "margin": {"l": 48, "r": 18, "t": 18, "b": 42},
            "xaxis": _axis(inputs[known] / size.factor, size.axis("input")),
            "yaxis": _axis(peaks[known] / amount.factor, amount.axis(what)),
        },
    }
