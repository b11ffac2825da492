"""Bars that count: how many attempts of each category ended how."""

from collections.abc import Mapping

from tonnage.report.figures.basics import Figure, Palette

__all__ = ["counts_by_category"]


def counts_by_category(
    title: str, counts: Mapping[str, Mapping[str, int]], colours: Mapping[str, str], palette: Palette
) -> Figure | None:
    """Return stacked bars: how many of what there are in each category."""
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
