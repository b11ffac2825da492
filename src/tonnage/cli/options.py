"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tonnage.workflow import Workflow

__all__ = ["json_option", "print_json", "read_workflow", "workflow_arguments"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with the same facts.")


def workflow_arguments(command: Any) -> Any:  # noqa: ANN401 (click's decorators take and give any callable)
    """Add the argument WORKFLOW and the option --from."""
    path = click.argument("path", metavar="WORKFLOW", type=click.Path(path_type=Path))
    names = ["dagman", "dax", "pegasus", "wfformat", "makeflow", "makeflow-json", "text"]
    source = click.option(
        "--from", "source_format", type=click.Choice(names), help="The format of WORKFLOW.  [default: recognised]"
    )
    return path(source(command))


def read_workflow(path: Path, source_format: str | None) -> "Workflow":
    """Read the workflow that the arguments name, and print what was odd about it."""
    from tonnage.workflow import read

    workflow = read(path, source_format)
    for warning in workflow.source.warnings if workflow.source else ():
        click.echo(f"tonnage: {path}: warning: {warning}", err=True)
    return workflow


def print_json(facts: dict[str, object]) -> None:
    """Print facts as JSON, with the version of their schema at the top."""
    import json

    click.echo(json.dumps({"schema": 1, **facts}, indent=2, allow_nan=False))
