"""What the tests of both Makeflow forms share: odd workflows, and the eyes of the real tool."""

import json
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tests.strategies import workflows
from tonnage.workflow import Task, Workflow

__all__ = ["any_workflow", "as_the_real_tool_sees", "dependencies"]

SeenRule: TypeAlias = dict[str, Any]

# What the round trip must survive beyond the workflows that all writers are tested with.
_ODD = [
    *("LOCAL x", "MAKEFLOW y", "LOCAL", "@X=1", "( a )", "exit 0 # done", "a; exit 1", "cat <<E\nx\nE", " ", "a\\"),
    *(
        "( x ) && touch .tonnage-done-0",
        ".tonnage-done-0",
        "./.tonnage-done-1",
        "cd sub && ( x )",
        "eval \"$(printf %b 'a')\"",
    ),
    *("export", ".SIZE", "-", "a--b", "a->b", "a b", "a:b", "$(x)", "'", '"', "./a", "a", "a/", "é", "\t", "\x0c", "="),
]
_odd = st.sampled_from(_ODD) | st.text("\\$#'\"():=@-><.{ \tax", max_size=8)


@st.composite
def odd_workflows(draw: st.DrawFn) -> Workflow:
    made = draw(workflows(special=False))
    names = st.lists(_odd, max_size=3).map(tuple)
    tasks = [
        Task(task.name, draw(st.none() | _odd), draw(_odd), draw(names), draw(names), directory=draw(st.none() | _odd))
        for task in made.tasks
    ]
    return Workflow.build("made", tasks, (made.graph.edge_parents(), made.graph.child))


def any_workflow() -> st.SearchStrategy[Workflow]:
    return workflows(special=False) | odd_workflows()


def as_the_real_tool_sees(tool: ToolFinder, folder: Path, text: str, *options: str) -> list[SeenRule]:
    """Return the rules that makeflow_viz finds in a file."""
    program = tool("makeflow_viz", "coop-computing-tools")
    path = folder / "seen"
    path.write_text(text)
    ran = subprocess.run([program, "-D", "json", *options, path], capture_output=True, text=True, check=False)
    assert "{" in ran.stdout, (ran.stderr, text)
    # It escapes the single quote and prints line breaks as they are, neither of which is JSON.
    top = json.loads(ran.stdout[ran.stdout.index("{") :].replace("\\'", "'"), strict=False)
    rules: list[SeenRule] = top["rules"]
    return rules


def dependencies(rules: list[SeenRule]) -> set[tuple[int, int]]:
    """Return which rule waits for which, by the files that the real tool found."""
    writer = {name: number for number, rule in enumerate(rules) for name in rule["outputs"]}
    return {(writer[name], number) for number, rule in enumerate(rules) for name in rule["inputs"] if name in writer}
