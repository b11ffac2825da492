"""Pictures: what is written is what Graphviz reads."""

import json
import subprocess
from typing import TYPE_CHECKING

from hypothesis import given

from tests.strategies import examples, workflows
from tonnage.workflow import Workflow
from tonnage.workflow.formats.dot import render

if TYPE_CHECKING:
    from tests.conftest import ToolFinder


@examples(10)
@given(workflow=workflows())
def test_graphviz_finds_every_task_and_dependency(tool: "ToolFinder", workflow: Workflow) -> None:
    dot = tool("dot", "graphviz")
    found = subprocess.run([dot, "-Tdot_json"], input=render(workflow), capture_output=True, text=True, check=True)
    graph = json.loads(found.stdout)
    assert [node["label"] for node in graph.get("objects", [])] == [task.name for task in workflow.tasks]
    arrows = [(edge["tail"], edge["head"]) for edge in graph.get("edges", [])]
    assert sorted(arrows) == list(
        zip(workflow.graph.edge_parents().tolist(), workflow.graph.child.tolist(), strict=True)
    )
