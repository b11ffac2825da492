"""What the template of a report shows: the texts, tables and pictures, formatted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from tonnage.jobs import GIVEN, SHARED, Attempt, Resource
from tonnage.report.attempt_table import outcomes_of, seconds_of, wasted_of
from tonnage.report.figures.basics import Figure
from tonnage.report.model import Report
from tonnage.report.pictures import (
    Picture,
    Pictures,
    category_pictures,
    peaks_pictures,
    pictures_over_time,
    retries_picture,
    workflow_pictures,
)
from tonnage.report.text import hours, ladder_text, name_of, outcome_of, percent, said, saved, shown
from tonnage.run.failed_tasks import FailedTask, Kind, kinds_of, printed_last
from tonnage.size.records import group_of
from tonnage.units import format_seconds
from tonnage.waste import allocation
from tonnage.wording import counted, part_of

__all__ = ["View", "view_for"]

_CATEGORIES = 12
_KINDS = 10  # of failures
_RANKED = 10
_RANKED_BY = {"waste": "Most wasteful, by GB*h of memory", "use": "Largest, by GB*h of memory", "time": ""}
_SHORT = ("task", "category", "attempt", "outcome", "run time", "memory allocated", "memory used", "wasted")
_HEADER = (
    ("task", False),
    ("category", False),
    ("attempt", True),
    ("outcome", False),
    ("run time", True),
    ("memory allocated", True),
    ("memory used", True),
    ("wasted", True),
    ("cores allocated", True),
    ("cores used", True),
    ("disk used", True),
    ("input", True),
    ("host", False),
    ("command", False),
)


@dataclass(frozen=True, slots=True)
class _Fact:
    """One of the key figures at the top."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Category:
    """A category: its row in the table, and its pictures if it is one of the larger ones."""

    name: str
    swatch: str
    cells: list[tuple[str, float | None]]
    note: str
    warnings: list[str]
    pictures: list[Picture] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed task: why, its command, what it printed last, and where the rest is."""

    task: str
    why: str
    command: str
    printed: list[str]
    log: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything that the template shows, formatted."""

    title: str
    lead: str
    notes: list[str]
    facts: list[_Fact]
    account_header: list[str]
    account_rows: list[list[str]]
    advice: list[tuple[str, str, str, str]]
    over_time: list[Picture]
    category_header: list[str]
    categories: list[_Category]
    more_categories: str
    retries: Picture | None
    reasons: list[list[tuple[str, float | None]]]
    climbs: list[tuple[str, str, str]]
    failures: list[_Failure]
    more_failures: list[str]
    path: str
    workflow: list[Picture]
    peaks: list[Picture]
    peaks_note: str
    ranked_header: list[tuple[str, bool]]
    wasteful: list[list[object]]
    wasteful_title: str
    """How the rows above are ranked; empty if memory is unknown, since they are then the slowest."""
    slowest: list[list[object]]
    table_header: list[tuple[str, bool]]
    table_rows: list[list[object]]
    table_note: str
    figures: dict[str, Figure]
    made: str


def view_for(report: Report, made: str) -> View:
    """Return the texts, tables and pictures of a report."""
    pictures, short, titles = Pictures(), report.palette.short, report.subject.titles
    kinds = kinds_of(report.subject.failures)
    ranked, slowest = report.material.ranked, report.material.slowest
    header, rows = _task_rows(report, [*ranked, *slowest])
    few = [place for place, (name, _) in enumerate(header) if name in _SHORT]
    categories, more = _categories(report, pictures)
    workflow = workflow_pictures(report, pictures)
    accounts = _accounts(report)
    return View(
        title=said(report.subject.title, 120),
        lead=_lead(report),
        notes=[said(note) for note in _notes(report)],
        facts=_facts(report),
        account_header=accounts[0],
        account_rows=accounts[1:],
        advice=[
            (one.about and said(short(one.about), 80), report.palette.swatch(one.about), one.text, one.kind)
            for one in report.advice
        ],
        over_time=pictures_over_time(report, pictures),
        category_header=[
            *("attempts", "not done", "run time", "memory allocated", "memory wasted"),
            *("first allocated" if report.material.made else "recommended", "could save"),
        ],
        categories=categories,
        more_categories=more,
        retries=retries_picture(report, pictures),
        reasons=_reasons(report),
        climbs=[
            (said(titles.get(one.task, short(one.task)), 80), said(short(one.category), 60), " → ".join(one.steps))
            for one in report.climbs
        ],
        failures=[_failure(one) for kind in kinds[:_KINDS] for one in kind.examples],
        more_failures=[said(kind.others) for kind in kinds[:_KINDS] if kind.others] + _more_kinds(kinds[_KINDS:]),
        path=_path(report),
        workflow=workflow,
        peaks=peaks_pictures(report, pictures),
        peaks_note=_peaks_note(report),
        ranked_header=[header[place] for place in few],
        wasteful=[[row[place] for place in few] for row in rows[: min(_RANKED, len(ranked))]],
        wasteful_title=_RANKED_BY[report.material.ranked_by],
        slowest=[[row[place] for place in few] for row in rows[len(ranked) :]],
        table_header=header,
        table_rows=rows[: len(ranked)],
        table_note=_table_note(report),
        figures=pictures.figures,
        made=made,
    )


def _failure(one: FailedTask) -> _Failure:
    return _Failure(
        task=said(one.title, 80),
        why=said(one.reason),
        command=said(one.command or ""),
        printed=[said(line) for line in printed_last(one.stderr)],
        log=said(one.stderr or one.stdout or "", 1000),
    )


def _more_kinds(kinds: Sequence[Kind]) -> list[str]:
    tasks = sum(kind.count for kind in kinds)
    return [f"{counted(tasks, 'more task')} failed for {counted(len(kinds), 'other reason')}"] if kinds else []


def _lead(report: Report) -> str:
    subject, material = report.subject, report.material
    parts = []
    if subject.tasks is not None and subject.done is not None:
        parts.append(f"{part_of(subject.done, subject.tasks, 'task')} done")
    if subject.state and subject.state != "finished":
        parts.append(f"the run is {subject.state}")
    parts.append(counted(len(material), "attempt"))
    parts.append(counted(len(material.categories), "category"))
    known = material.started[np.isfinite(material.started)]
    if len(known) and known.min() > 0:
        parts.append(f"from {datetime.fromtimestamp(float(known.min()), UTC):%d %B %Y, %H:%M} UTC")
    how = ", ".join(f"{name} {value}" for name, value in subject.settings.items())
    return ", ".join(parts) + (f" ({how})" if how else "") + "."


def _notes(report: Report) -> list[str]:
    notes = [*report.subject.notes]
    if report.palette.beginning:
        notes.append(f"All names begin with {report.palette.beginning}, which is left out below.")
    return notes


def _facts(report: Report) -> list[_Fact]:
    total, outcomes = report.total, outcomes_of(report.material)
    facts = []
    if report.makespan is not None:
        facts.append(_Fact("makespan", format_seconds(report.makespan), "while tasks ran or waited"))
    if report.makespan:
        at_once = f"{total.seconds / report.makespan:.1f} at the same time, on average"
        facts.append(_Fact("run time", format_seconds(total.seconds), at_once))
    else:
        facts.append(_Fact("run time", format_seconds(total.seconds), "all attempts together"))
    bad = {name: number for name, number in outcomes.items() if name not in ("done", "unknown", "running")}
    note = ", ".join(f"{number:,} {name}" for name, number in sorted(bad.items(), key=lambda one: -one[1]))
    facts.append(_Fact("did not succeed", f"{sum(bad.values()):,}", note or "attempts"))
    if outcomes.get("running"):
        facts.append(_Fact("running now", f"{outcomes['running']:,}"))
    memory = total.accounts[Resource.MEMORY]
    if memory.given:
        facts.append(_Fact("memory allocated", hours(Resource.MEMORY, memory.given), "amount times run time"))
        if memory.waste_fraction is not None:
            facts.append(_Fact("memory wasted", percent(memory.waste_fraction), "allocated but unused"))
        if memory.whole_machine > memory.given:
            saving = percent(1 - memory.given / memory.whole_machine)
            facts.append(_Fact("memory saved", saving, "compared with a whole machine for each task"))
    elif memory.used:
        facts.append(_Fact("memory used", hours(Resource.MEMORY, memory.used), "the allocation is unknown"))
    own = [one for (_, resource), one in report.savings.items() if resource is Resource.MEMORY]
    better, before = sum(one.amount for one in own if one.is_worth_it), sum(one.before for one in own)
    if better:
        facts.append(
            _Fact("could be saved", hours(Resource.MEMORY, better), f"{percent(better / before)} of the memory")
        )
    return facts


def _accounts(report: Report) -> list[list[str]]:
    """Return what was allocated, used and saved, as `tonnage run` prints it; empty columns are left out."""
    rows = [["", "allocated", "used", "wasted", "vs. whole machine", "vs. max-seen"]]
    for resource in SHARED:
        account = report.total.accounts[resource]
        if not (account.given or account.used):
            continue
        rows.append(
            [
                name_of(resource),
                hours(resource, account.given) if account.given else "unknown",
                hours(resource, account.used) if account.measured else "unknown",
                percent(account.waste_fraction),
                saved(account.given, account.whole_machine),
                saved(account.given, account.max_seen),
            ]
        )
    filled = [place for place in range(len(rows[0])) if any(row[place] for row in rows[1:])]
    return [[row[place] for place in filled] for row in rows]


def _categories(report: Report, pictures: Pictures) -> tuple[list[_Category], str]:
    found = []
    for place, (name, sums) in enumerate(report.sums.items()):
        memory = sums.accounts[Resource.MEMORY]
        decision = report.decision(name, Resource.MEMORY)
        saving = report.savings.get((name, Resource.MEMORY))
        cells: list[tuple[str, float | None]] = [
            (f"{sums.attempts:,}", sums.attempts),
            (f"{sums.failed:,}", sums.failed),
            (format_seconds(sums.seconds), sums.seconds),
            (hours(Resource.MEMORY, memory.given) if memory.given else "", memory.given or None),
            (percent(memory.waste_fraction), memory.waste_fraction),
            (Resource.MEMORY.format_amount(decision.ladder[0]), decision.ladder[0]) if decision else ("", None),
            (hours(Resource.MEMORY, saving.amount), saving.amount) if saving and saving.is_worth_it else ("", None),
        ]
        drawn = category_pictures(report, name, pictures) if place < _CATEGORIES else []
        warnings = dict.fromkeys(one for resource in GIVEN for one in _warnings(report, name, resource))
        swatch = report.palette.swatch(name)
        found.append(
            _Category(said(report.palette.short(name), 100), swatch, cells, _note(report, name), list(warnings), drawn)
        )
    rest = len(found) - _CATEGORIES
    return found, f"{counted(rest, 'smaller category')} without pictures: in the table above." if rest > 0 else ""


def _warnings(report: Report, name: str, resource: Resource) -> list[str]:
    sized = report.sized.get((name, resource))
    return [f"{warning[:1].upper()}{warning[1:]}." for warning in sized.warnings] if sized is not None else []


def _note(report: Report, name: str) -> str:
    sums = report.sums[name]
    return f"{counted(sums.attempts, 'attempt')}, {format_seconds(sums.seconds)} of run time"


def _reasons(report: Report) -> list[list[tuple[str, float | None]]]:
    rows: list[list[tuple[str, float | None]]] = []
    for one in report.reasons:
        resource = one.resource
        given = (
            "; ".join(f"{resource.format_amount(amount)} ({many:,}×)" for amount, many in one.amounts)
            if resource
            else ""
        )
        decision = report.decision(one.category, one.resource) if one.resource is not None else None
        ladder = ladder_text(decision.resource, decision.ladder) if decision is not None else ""
        rows.append(
            [
                (said(report.palette.short(one.category), 80), None),
                (one.why, None),
                (f"{one.attempts:,}", one.attempts),
                (hours(Resource.MEMORY, one.lost) if one.lost else "", one.lost or None),
                (given, None),
                (ladder, None),
            ]
        )
    return rows


def _path(report: Report) -> str:
    chain = report.chain
    if chain is None:
        return ""
    parts = ", ".join(
        f"{said(report.palette.short(name), 40)} {percent(part / chain.seconds)}"
        for name, part in chain.by_category[:4]
    )
    tasks = counted(len(chain.steps), "task")
    text = f"The longest chain has {tasks} and took {format_seconds(chain.seconds)} ({parts})."
    if report.makespan:
        text += (
            f" Everything took {format_seconds(report.makespan)}; no number of machines makes it faster than the chain."
        )
    if chain.missing:
        text += f" {counted(chain.missing, 'task')} of the workflow did not run."
    return text


def _peaks_note(report: Report) -> str:
    sample, known = len(report.material.sample), int(np.isfinite(report.material.used[Resource.MEMORY]).sum())
    return f"{sample:,} of {counted(known, 'attempt')}, chosen at random." if sample < known else ""


def _table_note(report: Report) -> str:
    shown_rows, many = len(report.material.ranked), len(report.material)
    if shown_rows >= many:
        return "All attempts that have ended."
    what = {"waste": "that wasted the most memory", "use": "that used the most memory", "time": "that took longest"}
    return f"The {shown_rows:,} of {counted(many, 'attempt')} {what[report.material.ranked_by]}."


def _task_rows(report: Report, attempts: Sequence[Attempt]) -> tuple[list[tuple[str, bool]], list[list[object]]]:
    """Return a header (with whether its columns are numeric) and rows; empty columns are left out."""
    rows = [_row(one, report) for one in attempts]
    filled = [place for place in range(len(_HEADER)) if any(_text(row[place]) for row in rows)] or [0]
    if all(one.number == 1 for one in attempts):
        filled = [place for place in filled if _HEADER[place][0] != "attempt"]
    return [_HEADER[place] for place in filled], [[row[place] for place in filled] for row in rows]


def _text(cell: object) -> object:
    return cell[0] if isinstance(cell, list) else cell


def _row(attempt: Attempt, report: Report) -> list[object]:
    short, group = report.palette.short, group_of(attempt, report.subject.by)
    seconds, memory = seconds_of(attempt), Resource.MEMORY
    given, used = allocation(attempt, memory), attempt.used.memory
    wasted = wasted_of(attempt)
    return [
        said(report.called(attempt), 120),
        said(short(group), 80) if group else "",
        [str(attempt.number), attempt.number],
        outcome_of(attempt),
        _cell(Resource.WALL_TIME, seconds),
        _cell(memory, given),
        _cell(memory, used),
        ["", None] if wasted is None else [hours(memory, wasted), wasted],
        _cell(Resource.CORES, allocation(attempt, Resource.CORES)),
        _cell(Resource.CORES, attempt.used.cores),
        _cell(Resource.DISK, attempt.used.disk),
        _cell(Resource.DISK, attempt.input_bytes),
        said(attempt.host or "", 60),
        said(attempt.command or attempt.executable or "", 160),
    ]


def _cell(resource: Resource, amount: float | None) -> list[object]:
    return [shown(resource, amount), amount]
