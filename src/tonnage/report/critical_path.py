"""The critical path: the chain of tasks that took longest in the actual run, and its figure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tonnage.jobs import Resource
from tonnage.report.attempt_table import Times
from tonnage.report.figures.basics import Figure, FloatArray, Palette, plain
from tonnage.report.figures.over_time import Clock
from tonnage.workflow import Workflow

__all__ = ["Chain", "Step", "critical_chain", "path_figure"]


@dataclass(frozen=True, slots=True)
class Step:
    """One task of the chain."""

    place: int
    task: str
    category: str
    seconds: float
    """The time of all its attempts."""
    started: float | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain of tasks that took longest: with any number of machines, a run takes at least this long."""

    seconds: float
    steps: tuple[Step, ...]
    missing: int
    """Tasks of the workflow that never ran; they count as 0 seconds."""

    @property
    def by_category(self) -> list[tuple[str, float]]:
        """The seconds of each category in the chain, the largest first."""
        found: Counter[str] = Counter()
        for step in self.steps:
            found[step.category] += step.seconds  # type: ignore[assignment]
        return [(name, float(seconds)) for name, seconds in found.most_common()]


def critical_chain(workflow: Workflow, times: Times) -> Chain | None:
    """Return the chain of tasks that took longest, by their actual times; None if nothing ran."""
    ran = times.busy > 0
    if not ran.any():
        return None
    seconds, path = workflow.graph.longest_path(times.busy)
    steps = tuple(
        Step(
            place,
            workflow.tasks[place].title,
            workflow.tasks[place].category,
            float(times.busy[place]),
            *(None if np.isnan(one[place]) else float(one[place]) for one in (times.first, times.last)),
        )
        for place in path
        if ran[place]
    )
    return Chain(seconds, steps, int(len(workflow) - ran.sum()))


def path_figure(steps: Sequence[Step], palette: Palette, most: int = 30) -> Figure | None:
    """Return the tasks of a path as bars below each other; if there are more than `most`, only the longest."""
    if len(steps) > most:
        limit = sorted((step.seconds for step in steps), reverse=True)[most - 1]
        steps = [step for step in steps if step.seconds >= limit][:most]
    ends = np.cumsum([step.seconds for step in steps])
    real = all(step.started is not None and step.ended is not None for step in steps)
    begin = np.array([step.started for step in steps], float) if real else ends - [step.seconds for step in steps]
    end = np.array([step.ended for step in steps], float) if real else ends
    clock = Clock.of(begin, end)
    if clock is None:
        return None
    rows = list(range(1, len(steps) + 1))
    waited = np.maximum(begin - np.concatenate([[begin[0]], end[:-1]]), 0.0)
    shown = Resource.WALL_TIME.format_amount
    data = [
        _bars(clock, begin - waited, waited, rows, ["--line"] * len(steps), [f"waited {shown(one)}" for one in waited]),
        _bars(
            clock,
            begin,
            end - begin,
            rows,
            [palette.colour(step.category) for step in steps],
            [f"{plain(step.task)} ({plain(step.category)}): {shown(step.seconds)}" for step in steps],
        ),
    ]
    return {
        "title": "The critical path: its tasks one below the other, with waiting times in between",
        "data": data,
        "layout": {
            "height": 100 + 24 * len(steps),
            "barmode": "overlay",
            "bargap": 0.25,
            "margin": {"l": 60, "r": 18, "t": 14, "b": 42},
            "xaxis": clock.axis(),
            "yaxis": {
                "tickvals": rows,
                "ticktext": [plain(palette.short(step.task), 30) for step in steps],
                "range": [len(steps) + 0.6, 0.4],
                "showgrid": False,
            },
            "showlegend": False,
        },
    }


def _bars(
    clock: Clock, begin: FloatArray, length: FloatArray, rows: list[int], colours: list[str], texts: list[str]
) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "base": clock.moments(begin),
        "x": clock.lengths(length),
        "y": rows,
        "text": texts,
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colours},
    }
