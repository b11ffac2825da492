"""``tonnage rank``: decide which job goes first."""

from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json, read_workflow, say, workflow_arguments
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.rank.methods import METHODS
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tonnage.rank import Order
    from tonnage.rank.best import Best
    from tonnage.rank.prio import Explanation
    from tonnage.rank.sidney import Blocks
    from tonnage.workflow import Workflow

__all__ = ["rank"]

_STDOUT = Path("/dev/stdout")
_SHOWN = 20
_EXPLAINED = 40


@click.command()
@workflow_arguments
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="prio",
    show_default=True,
    metavar="NAME",
    help="One of the methods above.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the workflow with its priorities to this file, or only the order if it ends in .csv.",
)
@click.option("--in-place", is_flag=True, help="Write the priorities into WORKFLOW, a DAGMan file.")
@click.option("--backup", is_flag=True, help="With --in-place: keep the original of each file as NAME.bak.")
@click.option("--legacy", is_flag=True, help="Write JOBPRIORITY variables, as in the PRIO paper, not PRIORITY lines.")
@click.option("--explain", is_flag=True, help="Explain how the order was found.")
@json_option
def rank(
    path: Path,
    source_format: str | None,
    method: str,
    output: Path | None,
    in_place: bool,
    backup: bool,
    legacy: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Order the jobs of a workflow so that as many as possible are always ready to run.

    \b
    prio           by the building blocks of the workflow, as in the PRIO paper
    fifo           in the order in which jobs become eligible
    critical-path  first the job with the longest remaining chain of work
    descendants    first the job with the most descendants
    gain           first the job that immediately makes the most others eligible
    sidney         first the densest set of jobs: most others made eligible per job
    best           whichever of these does best in simulations of this workflow

    A job is eligible when it waits for no other. The output shows how many jobs are eligible on average if one job runs
    at a time, and an upper bound that no order can exceed. The first job gets the highest priority.

    \b
    Example: tonnage rank analysis.dag --in-place
             tonnage rank analysis.json --method best --explain
             tonnage rank analysis.dax -o analysis.dag
    """
    _check(path, output, in_place=in_place, backup=backup, legacy=legacy)
    workflow = read_workflow(path, source_format)
    _check_format(workflow, output, in_place=in_place, legacy=legacy)
    ranked = _Ranked(workflow, method)
    files = _written(ranked, path, output, in_place=in_place, backup=backup, legacy=legacy)
    if as_json and output != _STDOUT:
        more: dict[str, object] = {"explanation": ranked.explanation()} if explain else {}
        print_json({**ranked.facts(), "files": files, **more})
        return
    if ranked.names and not files and not in_place:
        ranked.print_order()
    click.echo(ranked.certificate(), err=bool(files) or in_place)
    if ranked.names and explain:
        ranked.print_explanation()
    if in_place and not files:
        click.echo(f"{printable(str(path))}: already has these priorities", err=True)
    for file in files:
        click.echo(f"{printable(file)}: written", err=True)


def _check(path: Path, output: Path | None, *, in_place: bool, backup: bool, legacy: bool) -> None:
    """Reject options that cannot be combined, before anything is read."""
    from tonnage.files import is_stream
    from tonnage.workflow.formats import format_of

    if output is not None and output.suffix.lower() != ".csv" and not is_stream(output):
        format_of(output)
    if output is not None and output.resolve() == path.resolve():
        raise InputError("is the input workflow itself", path=output, hint="use --in-place to change a DAGMan file")
    if in_place and output is not None:
        raise InputError("--in-place and --output cannot be combined", hint="give only one of them")
    if backup and not in_place:
        raise InputError("--backup needs --in-place", hint="--output leaves WORKFLOW unchanged")
    if legacy and not in_place and output is None:
        raise InputError("--legacy sets how priorities are written, but none are", hint="add --output or --in-place")


def _check_format(workflow: "Workflow", output: Path | None, *, in_place: bool, legacy: bool) -> None:
    """Reject options that only work with DAGMan files, and input that cannot be read a second time."""
    if _is_dagman(workflow) and (in_place or _keeps_bytes(workflow, output)):
        if workflow.source is not None and not _can_be_read_again(workflow.source.path):
            raise InputError(
                "a DAGMan file is read twice, which standard input and pipes do not allow", hint="give a file name"
            )
        return
    if in_place:
        raise InputError("only DAGMan files can be changed in place", hint="use --output")
    if legacy:
        raise InputError("--legacy is only for DAGMan files", hint="both the input and the output must be DAGMan files")


def _can_be_read_again(path: Path) -> bool:
    from tonnage.workflow.formats import STANDARD_INPUT

    return path.is_file() and path != STANDARD_INPUT


def _is_dagman(workflow: "Workflow") -> bool:
    return workflow.source is not None and workflow.source.format == "dagman"


def _keeps_bytes(workflow: "Workflow", output: Path | None) -> bool:
    """Whether the output is a copy of the input with other priorities, not a newly written file."""
    from tonnage.files import is_stream, without_gz

    if output is None or not _is_dagman(workflow):
        return False
    return without_gz(output).lower().endswith(".dag") or is_stream(output)


def _written(
    ranked: "_Ranked", path: Path, output: Path | None, *, in_place: bool, backup: bool, legacy: bool
) -> list[str]:
    """Write the requested files and return their names."""
    from tonnage.workflow import write
    from tonnage.workflow.dagman import priorities

    if in_place:
        edit = priorities.in_place(path, ranked.priorities, legacy=legacy)
    elif output is None:
        return []
    elif _keeps_bytes(ranked.workflow, output):
        edit = priorities.copy(path, output, ranked.priorities, legacy=legacy)
    elif output.suffix.lower() == ".csv":
        ranked.write_table(output)
        return [str(output)]
    else:
        write(ranked.workflow.with_priorities(ranked.priorities), output)
        return [str(output)]
    saved = priorities.save(edit, backup=backup)
    for warning in edit.warnings:
        say(f"{path}: warning: {warning}")
    return [str(one) for one in saved]


class _Ranked:
    """A ranked workflow, with everything that is printed about it."""

    def __init__(self, workflow: "Workflow", method: str) -> None:
        from tonnage.rank import mean_eligible
        from tonnage.rank.sidney import bound

        self.workflow, self.method = workflow, method
        begin = perf_counter()
        order, self._best, self._blocks, self._parts = self._ranked()
        self.seconds = perf_counter() - begin
        self.mean_eligible = mean_eligible(workflow.graph, order)
        self.bound: float | None
        if self._best is not None:
            self.bound = self._best.bound
        else:
            self.bound = bound(workflow.graph) if self._blocks is None else self._blocks.bound()
        self.names = [workflow.tasks[task].name for task in order.tolist()]
        self.priorities: Mapping[str, int] = {name: len(workflow) - place for place, name in enumerate(self.names)}

    def _ranked(self) -> "tuple[Order, Best | None, Blocks | None, Explanation | None]":
        """Return the order and, for methods that can explain it, how it was found."""
        from tonnage.rank import rank as ranked
        from tonnage.rank.best import best
        from tonnage.rank.prio import explain
        from tonnage.rank.sidney import blocks, sidney

        if self.method == "best":
            chosen = best(self.workflow)
            return chosen.order, chosen, None, None
        if self.method == "prio":
            parts = explain(self.workflow.graph)
            return parts.order, None, None, parts
        if self.method == "sidney":
            found = blocks(self.workflow.graph)
            return sidney(self.workflow.graph, found), None, found, None
        return ranked(self.workflow, self.method), None, None, None

    def facts(self) -> dict[str, object]:
        """Return the contents of the JSON output."""
        return {
            "method": self.method,
            **({} if self._best is None else {"chosen": self._best.method}),
            "order": self.names,
            "priorities": self.priorities,
            "mean_eligible": self.mean_eligible,
            "bound": self.bound,
            "seconds": self.seconds,
        }

    def certificate(self) -> str:
        """Return a sentence on how good the order is compared with the upper bound."""
        if not self.names:
            beside = ", ".join(f"the {one.kind} node {printable(one.task.name)}" for one in self.workflow.special)
            return f"there are no jobs to rank, only {beside}" if beside else "there are no jobs to rank"
        name = self.method if self._best is None else f"best is {self._best.method}"
        text = f"{name}: {self.mean_eligible:,.1f} of {counted(len(self.workflow), 'job')} eligible on average"
        if self.bound is None:
            return f"{text}; the workflow is too large to compute an upper bound"
        below = 1 - self.mean_eligible / self.bound if self.bound else 0.0
        return f"{text}; no order has more than {self.bound:,.1f}, so this is at most {below:.1%} below the best"

    def print_order(self) -> None:
        """Print the first jobs."""
        tasks, index = self.workflow.tasks, self.workflow.index
        rows = [
            [printable(name), printable(tasks[index[name]].category), f"{self.priorities[name]:,}"]
            for name in self.names[:_SHOWN]
        ]
        print_table(["job", "category", "priority"], rows, right=("priority",))
        if len(self.names) > _SHOWN:
            more = counted(len(self.names) - _SHOWN, "more job")
            click.echo(f"({more}: --json and --output list them all)")

    def write_table(self, output: Path) -> None:
        """Write the order as CSV."""
        import csv
        import io

        from tonnage.files import write_atomically

        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["place", "task", "priority"])
        rows.writerows([place, name, self.priorities[name]] for place, name in enumerate(self.names, start=1))
        write_atomically(output, text.getvalue(), mode=0o666)

    def explanation(self) -> "list[dict[str, object]]":
        """Return how the order was found, one row per component, block or candidate."""
        if self._best is not None:
            return _candidates(self._best)
        if self._parts is not None:
            return _components(self.workflow, self._parts)
        return [] if self._blocks is None else _blocks(self.workflow, self._blocks)

    def print_explanation(self) -> None:
        """Print how the order was found, with repeated components merged."""
        rows = self.explanation()
        if not rows:
            click.echo(f"{self.method} orders jobs one by one, as described in tonnage rank --help; no more to explain")
            return
        header = list(rows[0])
        alike = rows if self._parts is None else _alike(rows)  # only components repeat
        shown = [[_cell(value) for value in row.values()] for row in alike[:_EXPLAINED]]
        numbers = [name.replace("_", " ") for name in header if not isinstance(rows[0][name], str)]
        print_table([name.replace("_", " ") for name in header], shown, right=numbers)
        if len(alike) > _EXPLAINED:
            click.echo(f"({len(alike) - _EXPLAINED:,} more lines: --json lists them all)")
        for gain in self._best.gains if self._best else ():
            click.echo(_gain_text(gain.rival, gain.ratio, gain.low, gain.high))
        if self._best is not None:
            click.echo(f"({counted(self._best.runs, 'run')} of each method, for three numbers of workers)")


def _gain_text(rival: str, ratio: float, low: float, high: float) -> str:
    sooner = f"{1 - ratio:.1%} sooner" if ratio <= 1 else f"{ratio - 1:.1%} later"
    return f"ends {sooner} than {rival} in independent simulations: ratio {ratio:.3f} [{low:.3f}, {high:.3f}]"


def _alike(rows: "list[dict[str, object]]") -> "list[dict[str, object]]":
    """Merge consecutive rows that differ only in the names of jobs."""
    found = []
    for _, group in groupby(rows, key=lambda row: list(row.values())[1:]):
        first, *others = group
        name, *_ = first
        more = f" and {len(others):,} like it" if others else ""
        found.append({**first, name: f"{first[name]}{more}"})
    return found


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _candidates(found: "Best") -> "list[dict[str, object]]":
    """Return the methods that were compared; times are relative to first in, first out."""
    return [
        {
            "candidate": one.method,
            "mean_eligible": one.mean_eligible,
            "time": one.time,
            "remark": "" if one.allowed else "keeps too few jobs eligible",
        }
        for one in found.candidates
    ]


def _components(workflow: "Workflow", found: "Explanation") -> "list[dict[str, object]]":
    """Return PRIO's components in the order in which they run, with the least priority of each over another."""
    inside = found.inside
    rows: list[dict[str, object]] = []
    for component, least in zip(found.chosen.components.tolist(), found.chosen.least.tolist(), strict=True):
        span = slice(inside.start[component], inside.start[component + 1])
        tasks, before = inside.tasks[span].tolist(), int(inside.sources[component])
        rows.append(
            {
                "component": _shortened([workflow.tasks[task].name for task in tasks]),
                "shape": inside.family[component],
                "jobs": len(tasks),
                "eligible_before": before,
                "eligible_after": before + int(inside.gains[span].sum()) - len(tasks),
                "over_rivals": least,
            }
        )
    return rows


def _blocks(workflow: "Workflow", found: "Blocks") -> "list[dict[str, object]]":
    """Return Sidney's blocks, the densest first."""
    first: dict[int, str] = {}
    for task, block in zip(workflow.tasks, found.block.tolist(), strict=True):
        first.setdefault(block, task.name)
    return [
        {"block": first[number], "jobs": jobs, "made_eligible": made, "for_each_job": made / jobs}
        for number, (jobs, made) in enumerate(zip(found.tasks.tolist(), found.eligible.tolist(), strict=True))
    ]


def _shortened(names: "Sequence[str]") -> str:
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
