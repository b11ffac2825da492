"""Drawings of the workflow: one point per task, or in large workflows per category."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tonnage.report.figures.basics import Figure, FloatArray, Palette, listed, plain
from tonnage.workflow import Workflow
from tonnage.workflow.graph import Graph

__all__ = ["MOST_TASKS", "category_graph", "task_graph"]

MOST_TASKS = 500
_MOST_LINES = 3_000
_SWEEPS = 6
_BLANK = {"visible": False, "showgrid": False, "zeroline": False}


def task_graph(
    workflow: Workflow, texts: Sequence[str], path: Sequence[int], palette: Palette, seconds: FloatArray
) -> Figure:
    """Draw a workflow from left to right, level by level, with a path through it; texts must be plain."""
    graph = workflow.graph.reduced()
    x, y = graph.level.astype(np.float64), _heights(graph)
    steps = set(pairwise(path))
    edges = list(zip(graph.edge_parents().tolist(), graph.child.tolist(), strict=True))[:_MOST_LINES]
    plainly = [edge for edge in edges if edge not in steps]
    data = [
        _lines(plainly, x, y, "--line", 1.0, "depends on"),
        _lines(sorted(steps), x, y, "--bad", 2.5, "critical path"),
    ]
    categories = [task.category for task in workflow.tasks]
    known = np.nan_to_num(seconds)
    sizes = 8 + 12 * np.sqrt(known / known.max()) if known.any() else np.full(len(workflow), 10.0)
    for name in [*palette.names, None]:
        own = [
            place for place, one in enumerate(categories) if one == name or (name is None and one not in palette.names)
        ]
        if own:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": palette.legend(name),
                    "x": listed(x[own]),
                    "y": listed(y[own]),
                    "text": [texts[place] for place in own],
                    "hovertemplate": "%{text}<extra></extra>",
                    "marker": {
                        "color": palette.colour(name or ""),
                        "size": listed(sizes[own]),
                        "line": {"color": "--raised", "width": 1},
                    },
                }
            )
    tallest = int(graph.widths.max()) if graph.size else 1
    return _figure("The workflow: dependencies from left to right", data, min(max(tallest * 14 + 90, 240), 640))


def category_graph(workflow: Workflow, palette: Palette) -> Figure:
    """Draw which categories depend on which, with the numbers of tasks and dependencies."""
    names = list(workflow.categories)[:60]
    place = {name: number for number, name in enumerate(names)}
    of_task = np.array([place.get(task.category, -1) for task in workflow.tasks], np.int64)
    level = workflow.graph.level
    parents, children = of_task[workflow.graph.edge_parents()], of_task[workflow.graph.child]
    counts = Counter(zip(parents.tolist(), children.tolist(), strict=True))
    edges = {edge: many for edge, many in counts.items() if -1 not in edge and edge[0] != edge[1]}
    x = np.array([float(level[of_task == number].mean()) for number in range(len(names))])
    x = np.searchsorted(np.unique(np.round(x, 1)), np.round(x, 1)).astype(np.float64)
    y = _spread(x)
    data = [_lines(sorted(edges), x, y, "--series-other", 1.5, "depends on")]
    middle = [((x[a] + x[b]) / 2, (y[a] + y[b]) / 2, many) for (a, b), many in edges.items()]
    data.append(
        {
            "type": "scatter",
            "mode": "text",
            "x": listed([one[0] for one in middle]),
            "y": listed([one[1] for one in middle]),
            "text": [f"{one[2]:,}" for one in middle],
            "textfont": {"size": 10, "color": "--soft"},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    many = np.array([float(workflow.categories[name]) for name in names])
    data.append(
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": listed(x),
            "y": listed(y),
            "text": [f"{plain(palette.short(name), 24)} × {workflow.categories[name]:,}" for name in names],
            "textposition": "top center",
            "cliponaxis": False,
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {
                "color": [palette.colour(name) for name in names],
                "size": listed(14 + 26 * np.sqrt(many / many.max())),
                "line": {"color": "--raised", "width": 1},
            },
            "showlegend": False,
        }
    )
    figure = _figure("Dependencies between categories", data, 380)
    figure["layout"]["xaxis"]["range"] = [-0.6, float(x.max(initial=0.0)) + 0.6]
    return figure


def _figure(title: str, data: list[Figure], height: int) -> Figure:
    margin = {"l": 14, "r": 14, "t": 44, "b": 14}
    layout = {"height": height, "margin": margin, "xaxis": dict(_BLANK), "yaxis": dict(_BLANK), "showlegend": True}
    return {"title": title, "data": [one for one in data if one["x"]], "layout": layout}


def _lines(
    edges: Sequence[tuple[int, int]], x: FloatArray, y: FloatArray, colour: str, width: float, name: str
) -> Figure:
    """Return all lines as one trace with gaps in between."""
    across: list[float | None] = []
    up: list[float | None] = []
    for first, second in edges:
        across += [*listed([x[first], x[second]]), None]
        up += [*listed([y[first], y[second]]), None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": across,
        "y": up,
        "hoverinfo": "skip",
        "line": {"color": colour, "width": width},
    }


def _heights(graph: Graph) -> FloatArray:
    """Return the height at which each task is drawn: near those it depends on, so that few lines cross."""
    levels = [np.flatnonzero(graph.level == number) for number in range(len(graph.widths))]
    y = np.zeros(graph.size)
    for own in levels:
        y[own] = _places(np.arange(len(own), dtype=np.float64))
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for own in levels[1:] if forth else levels[-2::-1]:
            near = graph.parents_of if forth else graph.children_of
            wanted = [float(y[near(int(task))].mean()) if len(near(int(task))) else float(y[task]) for task in own]
            y[own] = _places(np.array(wanted))
    return y


def _places(wanted: FloatArray) -> FloatArray:
    """Return evenly spaced positions around 0, in the order of the wanted ones."""
    places = np.empty(len(wanted))
    places[np.argsort(wanted, kind="stable")] = np.arange(len(wanted)) - (len(wanted) - 1) / 2
    return places


def _spread(x: FloatArray) -> FloatArray:
    y = np.zeros(len(x))
    for column in np.unique(x):
        own = np.flatnonzero(x == column)
        y[own] = _places(np.arange(len(own), dtype=np.float64)) + 0.12 * (int(column) % 2)
    return y
