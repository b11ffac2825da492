"""Histograms of peaks with the ladder drawn in (Tovar et al., Figures 1 and 5), and bars of counts by category."""

from collections.abc import Mapping

import numpy as np

from tonnage.jobs import Decision, Resource
from tonnage.report.figures.basics import Figure, FloatArray, Palette, listed, scale

__all__ = ["counts_by_category", "histogram", "histogram_of_counts"]

_MOST_BINS = 60
_FEWEST_BINS = 10
_ROOM = 1.12
"""How far beyond the largest peak a rung of the ladder is still drawn."""
_UNEVEN = 100
"""From this ratio of the highest bar to the lowest, the axis of counts is logarithmic: rare peaks matter most."""
_LEVELS = 5  # heights at which texts are placed, so that they do not overlap


def _bins(peaks: FloatArray, resource: Resource) -> tuple[FloatArray, FloatArray]:
    """Return the edges of bins and the number of peaks in each."""
    known = peaks[np.isfinite(peaks)]
    if not len(known):
        return np.array([0.0, 1.0]), np.zeros(1)
    low, high = float(known.min()), float(known.max())
    if resource.unit in ("cores", "processes") and high - low < _MOST_BINS and (known == np.round(known)).all():
        edges = np.arange(low, high + 2) - 0.5
    elif high <= low:
        half = max(abs(low) * 0.05, 0.5)
        edges = np.linspace(max(0.0, low - half), high + half, _FEWEST_BINS + 2)
    else:
        many = int(np.clip(np.sqrt(len(known)) * 1.5, _FEWEST_BINS, _MOST_BINS))
        edges = np.linspace(0.0 if low < 0.6 * high else low, high, many + 1)
    counts, _ = np.histogram(known, edges)
    return edges, counts.astype(np.float64)


def histogram(
    peaks: FloatArray,
    resource: Resource,
    *,
    decision: Decision | None = None,
    given: FloatArray | None = None,
    requested: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a histogram of peaks (without NaN), with a decision's ladder and what jobs usually request.

    If first attempts were allocated different amounts, `given` is drawn as an outline.
    """
    edges, counts = _bins(peaks, resource)
    figure = histogram_of_counts(edges, counts, resource, decision=decision, requested=requested, title=title)
    amounts = np.empty(0) if given is None else given[np.isfinite(given)]
    if len(np.unique(amounts)) > 1:
        figure["data"].append(_outline(amounts, edges, resource))
    return figure


def _outline(amounts: FloatArray, edges: FloatArray, resource: Resource) -> Figure:
    """Return the first allocations of jobs as a line; those beyond the last edge are counted there."""
    counts, _ = np.histogram(np.clip(amounts, edges[0], edges[-1]), edges)
    full = np.flatnonzero(counts)
    factor = scale(resource, float(edges[-1])).factor
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "first allocation",
        "x": listed(edges / factor),
        "y": listed(np.append(counts, counts[-1]).astype(np.float64)) if len(full) else [],
        "line": {"shape": "hv", "color": "--rung", "width": 1.5, "dash": "dot"},
        "hovertemplate": "%{y:,} were first allocated this much<extra></extra>",
        "showlegend": False,
    }


def histogram_of_counts(
    edges: FloatArray,
    counts: FloatArray,
    resource: Resource,
    *,
    decision: Decision | None = None,
    requested: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a histogram from the counts of its bins."""
    full = np.flatnonzero(counts)
    largest = float(edges[full[-1] + 1]) if len(full) else float(edges[-1])
    ladder = decision.ladder if decision else ()
    units = scale(resource, largest)
    end = max([largest, *(rung for rung in ladder[:1] if rung <= 2 * largest)])
    limit = max(end, max((rung for rung in ladder if rung <= largest * _ROOM), default=0.0)) * 1.03
    begin = min(float(edges[0]), *(rung for rung in ladder[:1]), limit) if ladder else float(edges[0])
    begin -= 0.03 * (limit - begin) if begin > 0 else 0.0
    uneven = len(full) and counts.max() >= _UNEVEN * counts[full].min()
    shown = resource.format_amount
    hover = [
        f"{shown(max(low, 0.0))} to {shown(high)}: {count:,.0f}"
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    shapes, notes = _rungs(resource, ladder, units.factor, begin, limit)
    if requested is not None:
        more_shapes, more_notes = _request(resource, requested, units.factor, limit, len(notes))
        shapes, notes = shapes + more_shapes, notes + more_notes
    what = str(resource).replace("_", " ")
    return {
        "title": title or f"Jobs by peak of {what}",
        "data": [
            {
                "type": "bar",
                "x": listed((edges[:-1] + edges[1:]) / 2 / units.factor),
                "y": listed(counts),
                "width": listed(np.diff(edges) / units.factor),
                "text": hover,
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"color": "--bar", "line": {"color": "--raised", "width": 0.5}},
                "showlegend": False,
            }
        ],
        "layout": {
            "height": 280,
            "bargap": 0,
            "margin": {"l": 48, "r": 18, "t": 18 + 15 * min(len(notes), _LEVELS), "b": 42},
            "xaxis": {
                "title": {"text": units.axis(what)},
                "range": listed([begin / units.factor, limit / units.factor]),
            },
            "yaxis": {
                "title": {"text": "jobs (logarithmic)" if uneven else "jobs"},
                **({"type": "log", "dtick": 1} if uneven else {"rangemode": "tozero"}),
            },
            "shapes": shapes,
            "annotations": notes,
        },
    }


def _rungs(
    resource: Resource, ladder: tuple[float, ...], factor: float, begin: float, limit: float
) -> tuple[list[Figure], list[Figure]]:
    """Return lines and texts for the rungs of a ladder; rungs too far away become text at the edge."""
    shapes: list[Figure] = []
    notes: list[Figure] = []
    beyond = []
    for place, rung in enumerate(ladder):
        if not begin <= rung <= limit:
            beyond.append(resource.format_amount(rung))
            continue
        line = {"color": "--rung", "width": 2.5 if place == 0 else 1.5, "dash": "solid" if place == 0 else "dash"}
        shapes.append(_line(rung / factor, line))
        text = f"{'first' if place == 0 else 'then'} {resource.format_amount(rung)}"
        notes.append(_note(rung / factor, text, "--rung", len(notes), late=rung > (begin + limit) / 2))
    if beyond:
        few = [*beyond[:2], "…", beyond[-1]] if len(beyond) > 4 else beyond
        text = f"{'then' if shapes else 'first'} {', '.join(few)} →".replace(", ", ", " if shapes else ", then ", 1)
        notes.append({**_note(1.0, text, "--rung", len(notes), late=True), "xref": "paper"})
    return shapes, notes


def _request(
    resource: Resource, requested: float, factor: float, limit: float, level: int
) -> tuple[list[Figure], list[Figure]]:
    text = f"requested {resource.format_amount(requested)}"
    if requested > limit:
        return [], [{**_note(1.0, f"{text} →", "--soft", level, late=True), "xref": "paper"}]
    line = {"color": "--soft", "width": 1.5, "dash": "dot"}
    return [_line(requested / factor, line)], [
        _note(requested / factor, text, "--soft", level, late=requested > limit / 2)
    ]


def _line(x: float, line: Figure) -> Figure:
    return {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}


def _note(x: float, text: str, colour: str, level: int, *, late: bool) -> Figure:
    return {
        "x": x,
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "text": text,
        "showarrow": False,
        "xanchor": "right" if late else "left",
        "yanchor": "bottom",
        "yshift": 15 * (level % _LEVELS),
        "font": {"color": colour, "size": 12},
    }


def counts_by_category(
    title: str, counts: Mapping[str, Mapping[str, int]], colours: Mapping[str, str], palette: Palette
) -> Figure | None:
    """Draw stacked bars of counts in each category."""
    if not counts:
        return None
    names = [palette.legend(name) for name in counts]
    kinds = list(dict.fromkeys(kind for own in counts.values() for kind in own))
    return {
        "title": title,
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "y": names,
                "x": [own.get(kind, 0) for own in counts.values()],
                "marker": {"color": colours.get(kind, "--series-other")},
                "hovertemplate": "%{y}: %{x:,}",
            }
            for kind in kinds
        ],
        "layout": {
            "height": 110 + 26 * len(names),
            "barmode": "stack",
            "bargap": 0.4,
            "margin": {"l": 60, "r": 18, "t": 40, "b": 42},
            "xaxis": {"title": {"text": "attempts"}, "rangemode": "tozero", "tickformat": ",d"},
            "yaxis": {"type": "category", "autorange": "reversed"},
            "showlegend": True,
        },
    }
