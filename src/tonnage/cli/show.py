"""``tonnage show``: print the structure of a workflow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tonnage.cli import tables
from tonnage.cli.options import json_option, print_json, read_workflow, workflow_arguments
from tonnage.errors import InputError
from tonnage.units import format_bytes, format_seconds
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tonnage.workflow import Task, Workflow

__all__ = ["draw", "show"]

_WIDEST_BAR = 44
# The picture of a deep workflow is folded: each line stands for several levels.
_MOST_ROWS = 24
_MOST_CATEGORIES = 20
_LONGEST_NAME = 48
_SHORTEST_NAME = 16


@click.command()
@workflow_arguments
@click.option("--dot", "dot_path", type=click.Path(path_type=Path), help="Also write a Graphviz file (.dot or .gv).")
@json_option
def show(path: Path, source_format: str | None, dot_path: Path | None, as_json: bool) -> None:
    """Show what is in a workflow.

    Prints its tasks, dependencies, levels (longest distance from an entry task), width (tasks in the widest level),
    critical path (the slowest chain of tasks) and categories. WORKFLOW is a DAGMan file, a Pegasus DAX or YAML,
    WfFormat JSON, Makeflow (classic, JSON or JX) or a text file with one command per line, gzipped or not, or - for
    standard input; its format is recognised from its content.

    \b
    Example: tonnage show analysis.dag
             tonnage show analysis.dag --dot analysis.dot
             tonnage show analysis.dag --json
    """
    workflow = read_workflow(path, source_format)
    if dot_path is not None:
        _write_dot(workflow, dot_path)
    if as_json:
        print_json(_facts(workflow))
        return
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:
        draw(workflow, console)
    lines = captured.get().splitlines()
    click.echo("\n".join(lines if console.is_terminal else [line.rstrip() for line in lines]))


def _write_dot(workflow: "Workflow", path: Path) -> None:
    from tonnage.files import without_gz
    from tonnage.workflow import write

    if Path(without_gz(path)).suffix.lower() not in (".dot", ".gv"):
        raise InputError(f"--dot writes a Graphviz file; expected a name ending in .dot or .gv, not {path}")
    write(workflow, path, "dot")


class _Category(NamedTuple):
    """What is known about the tasks of a category."""

    tasks: int
    seconds: Sequence[float]
    memory: Sequence[float]
    requests: dict[str, list[float]]
    """By resource name; includes gpus."""

    @property
    def median_seconds(self) -> float | None:
        from statistics import median

        return median(self.seconds) if self.seconds else None

    @property
    def total_seconds(self) -> float | None:
        return sum(self.seconds) if len(self.seconds) == self.tasks else None

    def as_json(self) -> dict[str, object]:
        return {
            "tasks": self.tasks,
            "median_seconds": self.median_seconds,
            "total_seconds": self.total_seconds,
            "largest_memory": max(self.memory, default=None),
            "requests": {
                resource: {"tasks": len(amounts), "least": min(amounts), "most": max(amounts)}
                for resource, amounts in self.requests.items()
            },
        }


def _by_category(workflow: "Workflow") -> dict[str, _Category]:
    members: dict[str, list[Task]] = {category: [] for category in workflow.categories}
    for task in workflow.tasks:
        members[task.category].append(task)
    return {category: _described(tasks) for category, tasks in members.items()}


def _described(tasks: "list[Task]") -> _Category:
    requests: dict[str, list[float]] = {}
    for task in tasks:
        for resource, amount in task.request.known():
            requests.setdefault(resource, []).append(amount)
        if task.gpus:
            requests.setdefault("gpus", []).append(task.gpus)
    seconds = [time for task in tasks if (time := task.expected.wall_time) is not None]
    memory = [peak for task in tasks if (peak := task.expected.memory) is not None]
    return _Category(len(tasks), seconds, memory, requests)


def _facts(workflow: "Workflow") -> dict[str, object]:
    critical = workflow.critical_path
    return {
        "name": workflow.name,
        "format": workflow.source.format if workflow.source else None,
        "checksum": workflow.checksum,
        "tasks": len(workflow),
        "dependencies": workflow.graph.edges,
        "levels": len(workflow.graph.widths),
        "width": int(workflow.graph.widths.max(initial=0)),
        "tasks_per_level": workflow.graph.widths.tolist(),
        "critical_path_seconds": critical.seconds if critical else None,
        "critical_path": [workflow.tasks[number].name for number in critical.tasks] if critical else None,
        "total_seconds": workflow.total_seconds,
        "categories": workflow.categories,
        "per_category": {name: category.as_json() for name, category in _by_category(workflow).items()},
        "special": {one.task.name: one.kind for one in workflow.special},
        "warnings": list(workflow.source.warnings) if workflow.source else [],
    }


def draw(workflow: "Workflow", console: "Console") -> None:
    """Print the table, the picture and the categories of a workflow."""
    from rich.text import Text

    console.print(Text(printable(_title(workflow)), style="bold"))
    console.print(_table([], _summary(workflow)))
    if not len(workflow):
        return
    console.print()
    console.print(_table(["level", "tasks", ""], _picture(workflow, console)))
    console.print()
    described = _by_category(workflow)
    console.print(_table(*_categories(described, console.width)))
    if len(described) > _MOST_CATEGORIES:
        console.print(f"and {len(described) - _MOST_CATEGORIES:,} more categories (--json lists them all)")


def _table(header: list[str], rows: "Iterator[tuple[str, ...]]") -> "Table":
    """Lay out rows of text; columns between the first and the last hold numbers and times, and are right-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=bool(header), header_style="cyan", pad_edge=False)
    for number, name in enumerate(header or ["", ""]):
        right = 0 < number < len(header) - 1 or name == "level"
        style = "cyan" if not header and number == 0 else "green" if header and not name else None
        table.add_column(name, justify="right" if right else "left", no_wrap=not name, style=style)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _title(workflow: "Workflow") -> str:
    file = workflow.source.path.name if workflow.source else workflow.name
    return file if file.startswith(workflow.name) else f"{file}: {workflow.name}"


def _summary(workflow: "Workflow") -> Iterator[tuple[str, str]]:
    graph, critical = workflow.graph, workflow.critical_path
    yield "format", workflow.source.format if workflow.source else ""
    yield "tasks", f"{len(workflow):,}"
    yield "dependencies", f"{graph.edges:,}"
    yield "levels", f"{len(graph.widths):,}"
    yield "width", f"{int(graph.widths.max(initial=0)):,}"
    if critical is None or workflow.total_seconds is None:
        yield "critical path", _unknown(workflow)
    else:
        yield (
            "critical path",
            f"{format_seconds(critical.seconds)} through {counted(len(critical.tasks), 'task')}",
        )
        yield "total run time", format_seconds(workflow.total_seconds)
        if critical.seconds > 0:
            busy = workflow.total_seconds / critical.seconds
            yield "parallelism", f"{busy:,.1f} tasks at a time on average, with enough machines"
    for one in workflow.special:
        yield f"{one.kind} node", one.task.name


def _unknown(workflow: "Workflow") -> str:
    without = [task.name for task in workflow.tasks if task.expected.wall_time is None]
    if len(without) == len(workflow):
        return "unknown: the file contains no run times"
    return f"unknown: {len(without):,} of {counted(len(workflow), 'task')} have no run time (first: {without[0]})"


def _picture(workflow: "Workflow", console: "Console") -> Iterator[tuple[str, str, str]]:
    """Draw the tasks per level as bars."""
    widths = workflow.graph.widths.tolist()
    fold = -(-len(widths) // _MOST_ROWS)
    longest = max(8, min(_WIDEST_BAR, console.width - 24))
    blocks = console.encoding.startswith("utf")
    for first in range(0, len(widths), fold):
        group = widths[first : first + fold]
        last = first + len(group) - 1
        low, high = min(group), max(group)
        count = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        bar = _bar(high / max(widths) * longest, blocks)
        yield (str(first), count, bar) if first == last else (f"{first}-{last}", f"{count} each", bar)


def _bar(length: float, blocks: bool) -> str:
    """Return a bar that is never empty, in eighths of a character if the terminal can show them."""
    if not blocks:
        return "#" * max(1, round(length))
    eighths = max(1, round(length * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _categories(described: dict[str, _Category], width: int) -> tuple[list[str], Iterator[tuple[str, ...]]]:
    """Return the header and one row per category: number of tasks, run times, largest memory and requests."""
    timed = any(category.seconds for category in described.values())
    measured = any(category.memory for category in described.values())
    times = ["median time", "total time"] if timed else []
    header = ["category", "tasks", *times, *(["largest memory"] if measured else []), "requests"]
    room = width - sum(len(name) + 2 for name in header) - 8
    return header, _category_rows(described, timed, measured, min(_LONGEST_NAME, max(_SHORTEST_NAME, room)))


def _category_rows(
    described: dict[str, _Category], timed: bool, measured: bool, room: int
) -> Iterator[tuple[str, ...]]:
    for name, category in list(described.items())[:_MOST_CATEGORIES]:
        times = [
            "unknown" if seconds is None else format_seconds(seconds)
            for seconds in (category.median_seconds, category.total_seconds)
        ]
        memory = format_bytes(max(category.memory)) if category.memory else "unknown"
        yield (
            tables.cut(name, room),
            f"{category.tasks:,}",
            *(times if timed else []),
            *([memory] if measured else []),
            ", ".join(_requests(category)) or "none",
        )


def _requests(category: _Category) -> Iterator[str]:
    """Yield a category's requests: a range if its tasks differ, and how many tasks have one if not all do."""
    for resource, amounts in category.requests.items():
        ends = " to ".join(dict.fromkeys(_amount(resource, value) for value in (min(amounts), max(amounts))))
        one = {"cores": "core", "gpus": "GPU"}.get(resource)
        name = resource.replace("_", " ") if one is None else one if ends == "1" else f"{one}s"
        some = "" if len(amounts) == category.tasks else f" ({len(amounts):,} of {category.tasks:,})"
        yield f"{ends} {name}{some}"


def _amount(resource: str, value: float) -> str:
    if resource == "gpus":
        return f"{value:.0f}"
    # Requests are written in units of the batch system, which are powers of 1024: show them the same way.
    return tables.amount(resource, value, binary=value % 2**20 == 0)
