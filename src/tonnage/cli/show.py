"""``tonnage show``: what is in a workflow."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json, read_workflow, workflow_arguments
from tonnage.units import format_bytes, format_cores, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tonnage.jobs import Amounts
    from tonnage.workflow import Workflow

__all__ = ["draw", "show"]

_BAR = 44
# A deep workflow's picture is folded: each line stands for as many levels as it must.
_MOST_ROWS = 24
_MOST_CATEGORIES = 20


@click.command()
@workflow_arguments
@click.option("--dot", "dot_path", type=click.Path(path_type=Path), help="Also write the workflow as a Graphviz file.")
@json_option
def show(path: Path, source_format: str | None, dot_path: Path | None, as_json: bool) -> None:
    """Show what is in a workflow.

    Its tasks, dependencies, levels (longest distance from an entry task), width (tasks in the widest level), critical
    path (the slowest chain of tasks) and categories. WORKFLOW is a DAGMan file, a Pegasus DAX or YAML, WfFormat JSON,
    Makeflow (classic, JSON or JX) or a text file with one command per line, gzipped or not; its format is recognised
    from its content.

    \b
    Example: tonnage show analysis.dag
             tonnage show montage.json --dot montage.dot && dot -Tsvg montage.dot > montage.svg
    """
    workflow = read_workflow(path, source_format)
    if dot_path is not None:
        from tonnage.workflow import write

        write(workflow, dot_path, "dot")
    if as_json:
        print_json(_facts(workflow))
    else:
        from rich.console import Console

        draw(workflow, Console(highlight=False))


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
        "special": {one.task.name: one.kind for one in workflow.special},
        "warnings": list(workflow.source.warnings) if workflow.source else [],
    }


def draw(workflow: "Workflow", console: "Console") -> None:
    """Print the table, the picture and the categories of a workflow."""
    console.print(_summary(workflow))
    console.print()
    console.print(_picture(workflow))
    console.print()
    console.print(_categories(workflow))


def _summary(workflow: "Workflow") -> "Table":
    from rich.table import Table
    from rich.text import Text

    graph, critical = workflow.graph, workflow.critical_path
    rows = [
        ("format", workflow.source.format if workflow.source else ""),
        ("tasks", f"{len(workflow):,}"),
        ("dependencies", f"{graph.edges:,}"),
        ("levels", f"{len(graph.widths):,}"),
        ("width", f"{int(graph.widths.max(initial=0)):,}"),
        ("critical path", _critical_path(workflow)),
        ("total run time", _total(workflow)),
    ]
    if critical and critical.seconds > 0 and workflow.total_seconds:
        rows.append(
            ("parallelism", f"{workflow.total_seconds / critical.seconds:.3g} on average, with enough machines")
        )
    rows += [(f"{one.kind} node", one.task.name) for one in workflow.special]
    table = Table(title=Text(_title(workflow), style="bold"), title_justify="left", show_header=False, box=None)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def _title(workflow: "Workflow") -> str:
    file = workflow.source.path.name if workflow.source else workflow.name
    return file if file.startswith(workflow.name) else f"{file}: {workflow.name}"


def _critical_path(workflow: "Workflow") -> str:
    critical = workflow.critical_path
    if critical is None:
        return _unknown(workflow)
    return f"{format_seconds(critical.seconds)} through {len(critical.tasks):,} tasks"


def _total(workflow: "Workflow") -> str:
    return _unknown(workflow) if workflow.total_seconds is None else format_seconds(workflow.total_seconds)


def _unknown(workflow: "Workflow") -> str:
    known = sum(task.expected.wall_time is not None for task in workflow.tasks)
    return f"unknown ({known:,} of {len(workflow):,} tasks have a run time)"


def _picture(workflow: "Workflow") -> "Table":
    """Draw the tasks per level as bars."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=True, header_style="cyan")
    table.add_column("level", justify="right")
    table.add_column("tasks", justify="right")
    table.add_column("")
    widths = workflow.graph.widths.tolist()
    largest = max(widths, default=1)
    fold = -(-len(widths) // _MOST_ROWS) if len(widths) > _MOST_ROWS else 1
    for first in range(0, len(widths), fold):
        group = widths[first : first + fold]
        last = first + len(group) - 1
        label = str(first) if first == last else f"{first}-{last}"
        low, high = min(group), max(group)
        count = f"{high:,}" if low == high else f"{low:,}-{high:,}"
        table.add_row(label, count, Text(_bar(high / largest), style="green"))
    return table


def _bar(share: float) -> str:
    """Return a bar in eighths of a character; whatever is there shows."""
    eighths = max(1, round(share * _BAR * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _categories(workflow: "Workflow") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="cyan")
    table.add_column("category")
    for name in ("tasks", "run time", "total", "requests"):
        table.add_column(name, justify="left" if name == "requests" else "right")
    shown = list(workflow.categories.items())[:_MOST_CATEGORIES]
    members: dict[str, list[int]] = {category: [] for category, _ in shown}
    for number, task in enumerate(workflow.tasks):
        if task.category in members:
            members[task.category].append(number)
    for category, count in shown:
        seconds = [float(workflow.seconds[number]) for number in members[category]]
        known = sorted(time for time in seconds if time == time)  # noqa: PLR0124 (NaN is not equal to itself)
        requests = {workflow.tasks[number].request for number in members[category]}
        table.add_row(
            Text(category),
            f"{count:,}",
            f"{format_seconds(known[len(known) // 2])} median" if known else "unknown",
            format_seconds(sum(known)) if len(known) == count else "unknown",
            Text(_requests(requests)),
        )
    if len(workflow.categories) > len(shown):
        table.add_row(f"and {len(workflow.categories) - len(shown):,} more", "", "", "", "")
    return table


def _requests(requests: "set[Amounts]") -> str:
    """Say what a category asks for, the range where its tasks differ."""
    parts = []
    for resource, formatted in _FORMATS.items():
        amounts = sorted({amount for request in requests if (amount := getattr(request, resource)) is not None})
        if amounts:
            ends = " to ".join(dict.fromkeys(formatted(amount) for amount in (amounts[0], amounts[-1])))
            parts.append(f"{ends} {_NAMES[resource]}" if ends != "1" else "1 core")
    return ", ".join(parts) or "none"


_FORMATS = {"cores": format_cores, "memory": format_bytes, "disk": format_bytes, "wall_time": format_seconds}
_NAMES = {"cores": "cores", "memory": "memory", "disk": "disk", "wall_time": "wall time"}
