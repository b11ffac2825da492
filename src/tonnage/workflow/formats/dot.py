"""Graphviz DOT, for pictures."""

from collections.abc import Iterator

from tonnage.workflow.model import Workflow

__all__ = ["render"]

# Colours that everyone can tell apart (Okabe and Ito), reused if there are more categories.
_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2", "#bbbbbb")


def render(workflow: Workflow) -> str:
    """Return the workflow as a DOT graph, its tasks coloured by category."""
    return "\n".join(_lines(workflow)) + "\n"


def _lines(workflow: Workflow) -> Iterator[str]:
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(workflow.categories)}
    yield f"digraph {_quoted(workflow.name)} {{"
    yield '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];'
    for number, task in enumerate(workflow.tasks):
        colour, tooltip = _quoted(colours[task.category]), _quoted(task.command or task.category)
        yield f"  t{number} [label={_quoted(task.name)}, fillcolor={colour}, tooltip={tooltip}];"
    for number in range(len(workflow)):
        for child in workflow.graph.children_of(number):
            yield f"  t{number} -> t{child};"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "")
    return f'"{escaped}"'
