"""The pictures of a report: which figures it shows, and their captions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tonnage.jobs import SHARED, Attempt, Decision, Resource
from tonnage.report.attempt_table import Made, seconds_of
from tonnage.report.critical_path import path_figure
from tonnage.report.figures.basics import Figure, Palette, plain
from tonnage.report.figures.graphs import MOST_TASKS, category_graph, task_graph
from tonnage.report.figures.histograms import counts_by_category, histogram
from tonnage.report.figures.over_time import Bar, committed_and_used, lanes, running_by_category
from tonnage.report.figures.scatters import peak_against_input, peaks_scatter
from tonnage.report.model import Report, next_time
from tonnage.report.text import ladder_text, name_of, outcome_of
from tonnage.size.records import group_of
from tonnage.units import format_seconds
from tonnage.wording import counted

__all__ = [
    "Picture",
    "Pictures",
    "category_pictures",
    "peaks_pictures",
    "pictures_over_time",
    "retries_picture",
    "workflow_pictures",
]

_DRAWN = (Resource.MEMORY, Resource.WALL_TIME, Resource.CORES, Resource.DISK)
_COLOURS = {
    "memory exhausted": "--series-2",
    "disk exhausted": "--series-6",
    "wall time exhausted": "--series-5",
    "failed": "--series-4",
    "lost": "--series-7",
    "preempted": "--series-1",
    "cancelled": "--series-other",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure in the page, with its heading, caption and reasons."""

    id: str
    name: str
    caption: str
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class Pictures:
    """Collects the figures of a page."""

    figures: dict[str, Figure] = field(default_factory=dict)

    def add(self, name: str, figure: Figure | None, caption: str, reasons: Sequence[str] = ()) -> list[Picture]:
        """Add a figure, if there is one, and return it as a list of at most one picture."""
        if figure is None:
            return []
        number = f"figure-{len(self.figures) + 1}"
        self.figures[number] = figure
        return [Picture(number, name, caption, tuple(one for one in reasons if one))]


def pictures_over_time(report: Report, pictures: Pictures) -> list[Picture]:
    """Return pictures of what ran when, and what it was allocated and used."""
    material, palette = report.material, report.palette
    found = pictures.add(
        "Running tasks",
        running_by_category(material.started, material.ended, material.category, material.categories, palette),
        "How many attempts ran at the same time. Long thin tails at the end delay the whole run.",
    )
    if material.everything is not None:
        found += pictures.add(
            "Every attempt",
            lanes([bar for one in material.everything if (bar := _bar(one, report)) is not None], palette),
            "A bar for each attempt, from its start to its end. Hatched ones did not succeed: their time is lost.",
        )
    for resource in SHARED:
        found += pictures.add(
            name_of(resource).capitalize(),
            committed_and_used(
                material.started,
                material.ended,
                material.given[resource],
                material.needed(resource),
                resource,
                capacity=report.subject.machine.get(resource),
            ),
            f"{name_of(resource).capitalize()} allocated to attempts, and their peaks. The gap was unused.",
        )
    return found


def _bar(attempt: Attempt, report: Report) -> Bar | None:
    if attempt.started is None:
        return None
    ended = attempt.ended
    if ended is None:
        if attempt.outcome is not None or report.subject.state != "under way":
            return None
        ended = float(np.nanmax(report.material.ended))
    number = f", attempt {attempt.number}" if attempt.number > 1 else ""
    name = plain(report.called(attempt))
    how = outcome_of(attempt) or ("running" if attempt.ended is None else "")
    text = f"{name}{number}: {format_seconds(max(0.0, ended - attempt.started))}{', ' if how else ''}{how}"
    category = group_of(attempt, report.subject.by)
    return Bar(attempt.started, max(ended, attempt.started), category, text, attempt.finished)


def category_pictures(report: Report, name: str, pictures: Pictures) -> list[Picture]:
    """Return histograms of a category's peaks with its ladders, and its peaks against the sizes of inputs."""
    material = report.material
    own = material.category == material.categories.index(name)
    good = own & material.done
    found = []
    for resource in _DRAWN:
        peaks = material.used[resource][good]
        if resource is Resource.WALL_TIME and not np.isfinite(peaks).any():
            peaks = material.seconds[good]
        if not np.isfinite(peaks).any():
            continue
        made = material.made.get((name, resource))
        sized = report.sized.get((name, resource))
        decision = report.decision(name, resource)
        given = material.given[resource][own & (material.number == 1)] if made is not None else None
        figure = histogram(
            peaks,
            resource,
            decision=decision,
            given=given,
            requested=sized.requested if sized is not None and made is None else None,
            title=f"{name}: attempts by peak of {name_of(resource)}",
        )
        jobs = counted(int(np.isfinite(peaks).sum()), "job")
        reasons = [] if decision is None else [f"{'Why' if made else 'Recommended'}: {decision.reason}."]
        reasons.append(next_time(report, name, resource))
        caption = f"{jobs}{_tried(decision, made)}."
        found += pictures.add(name_of(resource).capitalize(), figure, caption, reasons)
        if resource is Resource.MEMORY:
            inputs, colour = material.input_bytes[good], report.palette.colour(name)
            found += pictures.add(
                "Memory against input",
                peak_against_input(inputs, peaks, resource, colour=colour),
                "If peaks follow the size of the input, it is a better predictor than the category.",
            )
    return found


def _tried(decision: Decision | None, made: Made | None) -> str:
    """Describe the ladder that is drawn in a histogram."""
    if decision is None:
        return ""
    ladder = ladder_text(decision.resource, decision.ladder)
    if made is None:
        return f"; recommended: {ladder}"
    if made.amounts <= 1:
        return f", tried with {ladder}"
    return f". First attempts were allocated {made.amounts:,} different amounts (dotted); the best informed: {ladder}"


def retries_picture(report: Report, pictures: Pictures) -> Picture | None:
    """Return a picture of how many attempts of each category did not succeed, and why."""
    counts: dict[str, Counter[str]] = {}
    for one in report.reasons[:40]:
        counts.setdefault(one.category, Counter())[one.why] += one.attempts
    figure = counts_by_category("Attempts that did not succeed, and why", counts, _COLOURS, report.palette)
    found = pictures.add(
        "Attempts that did not succeed", figure, "Attempts that did not succeed, by category and reason."
    )
    return found[0] if found else None


def workflow_pictures(report: Report, pictures: Pictures) -> list[Picture]:
    """Return pictures of the critical path and the workflow, if it is known."""
    workflow, chain, times = report.subject.workflow, report.chain, report.material.times
    if workflow is None or not len(workflow):
        return []
    found = []
    if chain is not None:
        found += pictures.add(
            "Critical path",
            path_figure(chain.steps, report.palette),
            "The tasks of the longest chain; grey is waiting time. To make the run faster, start with the longest bar.",
        )
    if len(workflow) > MOST_TASKS:
        caption = f"{counted(len(workflow), 'task')} by category; lines are labelled with the number of dependencies."
        return found + pictures.add("The workflow", category_graph(workflow, report.palette), caption)
    busy, short = times.busy if times is not None else np.zeros(len(workflow)), report.palette.short
    texts = [
        f"{plain(short(task.title))} ({plain(short(task.category))})" + (f": {format_seconds(took)}" if took else "")
        for task, took in zip(workflow.tasks, busy.tolist(), strict=True)
    ]
    path = [step.place for step in chain.steps] if chain is not None else []
    return found + pictures.add(
        "The workflow",
        task_graph(workflow, texts, path, report.palette, busy),
        "Dependencies from left to right; larger points took longer, the thick line is the critical path.",
    )


def peaks_pictures(report: Report, pictures: Pictures) -> list[Picture]:
    """Return pictures of memory against run time, coloured by category, and by label if jobs have labels."""
    sample, by = report.material.sample, report.subject.by
    seconds = np.array([seconds_of(one) or 0.0 for one in sample])
    memory = np.array([float(one.used.memory or 0.0) for one in sample])
    texts = [
        f"{plain(report.called(one))}: {Resource.MEMORY.format_amount(amount)} in {format_seconds(time)}"
        for one, amount, time in zip(sample, memory.tolist(), seconds.tolist(), strict=True)
    ]
    caption = "A cloud of one colour can share a size; two clouds of one colour should be two categories."
    groups = [group_of(one, by) for one in sample]
    found = pictures.add(f"by {by}", peaks_scatter(seconds, memory, groups, texts, report.palette, by), caption)
    labels = [one.label or "" for one in sample]
    if any(labels) and by != "label":
        palette = Palette.of([name for name, _ in Counter(labels).most_common()])
        found += pictures.add("by label", peaks_scatter(seconds, memory, labels, texts, palette, "label"), caption)
    return found
