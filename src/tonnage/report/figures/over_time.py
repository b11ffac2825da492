"""Figures over time: tasks by category, lanes, committed against used (Tovar et al., Figure 15)."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from tonnage.jobs import Resource
from tonnage.report.figures.basics import Figure, FloatArray, Palette, Scale, listed, scale

__all__ = ["Bar", "Clock", "committed_and_used", "lanes", "mean_over_time", "packed", "running_by_category"]

_SPANS = 300
_DATES_FROM = 2 * 86400.0
"""From this many seconds on, pictures show dates instead of the time since the start."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How moments are drawn: as time since the first, or as dates."""

    begin: float
    end: float

    @classmethod
    def of(cls, started: FloatArray, ended: FloatArray) -> "Clock | None":
        """Return the clock of attempts; None if no times are known."""
        known = np.isfinite(started) & np.isfinite(ended)
        return cls(float(started[known].min()), float(ended[known].max())) if known.any() else None

    @property
    def dates(self) -> bool:
        """Whether moments are drawn as dates."""
        return self.end - self.begin >= _DATES_FROM and self.begin > 0

    @property
    def units(self) -> Scale:
        """The unit of times since the start."""
        return scale(Resource.WALL_TIME, self.end - self.begin)

    def moments(self, values: FloatArray) -> list[object]:
        """Return moments in plotly's format."""
        if not self.dates:
            return list(listed((values - self.begin) / self.units.factor))
        return [datetime.fromtimestamp(float(one), UTC).strftime("%Y-%m-%d %H:%M:%S") for one in values]

    def lengths(self, values: FloatArray) -> list[float | None]:
        """Return durations in plotly's format for bars."""
        return listed(values * 1000 if self.dates else values / self.units.factor)

    def axis(self) -> Figure:
        """Return the time axis."""
        limits = self.moments(self.edges(1))  # the same in all pictures, so that they line up below each other
        if self.dates:
            return {"type": "date", "title": {"text": "UTC"}, "range": limits}
        return {"title": {"text": f"{self.units.unit} since the start"}, "range": limits}

    def edges(self, spans: int = _SPANS) -> FloatArray:
        """Return the edges of equal time spans."""
        return np.linspace(self.begin, self.end if self.end > self.begin else self.begin + 1.0, spans + 1)


def mean_over_time(started: FloatArray, ended: FloatArray, amounts: FloatArray, edges: FloatArray) -> FloatArray:
    """Return how much was held at the same time in each span, on average; unknown amounts count as 0.

    So the area below the curve is the amount held times its duration, whatever the spans.
    """
    known = np.isfinite(started) & np.isfinite(ended) & np.isfinite(amounts)
    origin = float(edges[0])  # seconds since 1970 leave few digits for differences
    begun = _held_since(started[known] - origin, amounts[known], edges - origin)
    over = _held_since(ended[known] - origin, amounts[known], edges - origin)
    mean: FloatArray = np.maximum(np.diff(begun - over) / np.diff(edges), 0.0)
    return mean


def _held_since(moments: FloatArray, amounts: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the total of amounts held from given moments on until each edge, in amount times seconds."""
    order = np.argsort(moments)
    total = np.concatenate([[0.0], np.cumsum(amounts[order])])
    offset = np.concatenate([[0.0], np.cumsum(amounts[order] * moments[order])])
    place = np.searchsorted(moments[order], edges, side="right")
    held: FloatArray = total[place] * edges - offset[place]
    return held


def running_by_category(
    started: FloatArray, ended: FloatArray, category: NDArray[np.int64], names: Sequence[str], palette: Palette
) -> Figure | None:
    """Draw how many attempts of each category ran at the same time; None if no times are known."""
    clock = Clock.of(started, ended)
    if clock is None:
        return None
    edges = clock.edges()
    moments = clock.moments(edges)
    data = []
    own = [number for number, name in enumerate(names) if name in palette.names]
    groups = [(names[number], category == number) for number in own]
    rest = ~np.isin(category, own)
    if rest.any():
        groups.append((f"{len(names) - len(own)} others", rest))
    for name, chosen in groups:
        mean = mean_over_time(started[chosen], ended[chosen], np.ones(int(chosen.sum())), edges)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": palette.legend(name),
                "x": moments,
                "y": listed([*mean, mean[-1]]),
                "stackgroup": "all",
                "line": {"shape": "hv", "width": 0.5, "color": palette.colour(name)},
                "fillcolor": palette.colour(name),
                "hovertemplate": "%{y:.3~g}",
            }
        )
    return {
        "title": "Attempts that ran at the same time, by category",
        "data": data,
        "layout": {
            "height": 320,
            "hovermode": "x unified",
            "margin": {"l": 50, "r": 18, "t": 40, "b": 42},
            "xaxis": clock.axis(),
            "yaxis": {"title": {"text": "running"}, "rangemode": "tozero"},
            "showlegend": True,
        },
    }


def committed_and_used(
    started: FloatArray,
    ended: FloatArray,
    given: FloatArray,
    used: FloatArray,
    resource: Resource,
    *,
    capacity: float | None = None,
) -> Figure | None:
    """Draw what attempts were allocated and used over time; None if neither is known.

    An attempt is assumed to use its peak from its start to its end.
    """
    clock = Clock.of(started, ended)
    if clock is None or not (np.isfinite(given).any() or np.isfinite(used).any()):
        return None
    edges = clock.edges()
    moments = clock.moments(edges)
    committed, needed = (mean_over_time(started, ended, amounts, edges) for amounts in (given, used))
    units = scale(resource, max(float(committed.max()), float(needed.max())))
    data: list[Figure] = []
    for name, values, colour, fill in (
        ("used", needed, "--used", "tozeroy"),
        ("committed", committed, "--committed", "none"),
    ):
        if not values.any():
            continue
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": moments,
                "y": listed(np.append(values, values[-1]) / units.factor),
                "line": {"shape": "hv", "width": 1.8, "color": colour},
                "fill": fill,
                "hovertemplate": f"%{{y:.3~g}} {units.unit}",
            }
        )
    shapes, notes = [], []
    if capacity is not None and np.isfinite(capacity) and capacity <= 4 * max(committed.max(), needed.max()):
        at = capacity / units.factor
        line = {"color": "--soft", "width": 1, "dash": "dot"}
        shapes.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": line})
        notes.append(
            {
                **{"x": 1, "xref": "paper", "y": at, "yanchor": "bottom", "xanchor": "right", "showarrow": False},
                "text": f"the machine: {resource.format_amount(capacity)}",
                "font": {"color": "--soft", "size": 11},
            }
        )
    return {
        "title": f"{str(resource).capitalize()}: committed against used, over time",
        "data": data,
        "layout": {
            "height": 280,
            "hovermode": "x unified",
            "margin": {"l": 50, "r": 18, "t": 36, "b": 42},
            "xaxis": clock.axis(),
            "yaxis": {"title": {"text": units.axis(str(resource))}, "rangemode": "tozero"},
            "shapes": shapes,
            "annotations": notes,
            "showlegend": True,
        },
    }


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt drawn as a bar in a lane."""

    started: float
    ended: float
    category: str
    text: str
    """Its hover text, escaped with `plain`."""
    good: bool


def packed(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Assign time spans to lanes so that those in one lane do not overlap, using as few lanes as possible."""
    lanes: list[int] = [0] * len(spans)
    free: list[tuple[float, int]] = []  # when each lane becomes free
    many = 0
    for place in sorted(range(len(spans)), key=lambda one: spans[one]):
        begin, end = spans[place]
        if free and free[0][0] <= begin:
            _, lane = heapq.heappop(free)
        else:
            lane, many = many, many + 1
        lanes[place] = lane
        heapq.heappush(free, (max(begin, end), lane))
    return lanes


def lanes(bars: Sequence[Bar], palette: Palette) -> Figure | None:
    """Draw a bar for each attempt, hatched if it did not succeed; None if there are no attempts."""
    if not bars:
        return None
    started, ended = np.array([one.started for one in bars]), np.array([one.ended for one in bars])
    clock = Clock.of(started, ended)
    if clock is None:
        return None
    lane = packed([(one.started, one.ended) for one in bars])
    shortest = (clock.end - clock.begin) / 600  # shorter bars would be invisible
    data = []
    for name in [*palette.names, None]:
        own = [
            place
            for place, one in enumerate(bars)
            if one.category == name or (name is None and one.category not in palette.names)
        ]
        if not own:
            continue
        own.sort(key=lambda place: not bars[place].good)  # the legend shows the style of the first
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": palette.legend(name),
                "base": clock.moments(started[own]),
                "x": clock.lengths(np.maximum(ended[own] - started[own], shortest)),
                "y": [lane[place] + 1 for place in own],
                "text": [bars[place].text for place in own],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {
                    "color": palette.colour(name or ""),
                    "line": {"color": "--raised", "width": 0.5},
                    "pattern": {
                        "shape": ["" if bars[place].good else "x" for place in own],
                        "fillmode": "replace",
                        "size": 5,
                    },
                },
            }
        )
    many = max(lane) + 1
    return {
        "title": "Every attempt, from its start to its end",
        "data": data,
        "layout": {
            "height": int(min(max(many * 13 + 110, 200), 620)),
            "bargap": 0.12,
            "barmode": "overlay",
            "margin": {"l": 50, "r": 18, "t": 40, "b": 42},
            "xaxis": clock.axis(),
            "yaxis": {"title": {"text": "at the same time"}, "range": [many + 0.7, 0.3], "tickformat": "d"},
            "showlegend": True,
        },
    }
