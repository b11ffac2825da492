"""``tonnage generate``: write workflows with well-known structures, and synthetic job logs."""

from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.workflow.families import Family

__all__ = ["generate"]

_JOBS = "Jobs whose memory peaks follow a distribution (CSV)"

# The options that only some families have, by parameter name: a placeholder for the value, and the help text.
_FAMILY_OPTIONS = {
    "width": ("W", "Width of the umbrella, instead of --tasks."),
    "fringes_first": (None, "Put the fringes before the handle in the file."),
    "stages": ("N", "Number of times to fork and join."),
    "overlap": (None, "Let neighbouring groups overlap at their borders."),
    "layers": ("N", "Number of layers."),
    "parents": ("X", "Average number of tasks that a task depends on."),
}


class _Generate(click.Group):
    """Has one subcommand per family, built on demand because that imports numpy."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        from tonnage.workflow.families import FAMILIES

        return [*FAMILIES, "jobs"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        from tonnage.workflow.families import FAMILIES

        if cmd_name == "jobs":
            return _jobs_command()
        return _family_command(FAMILIES[cmd_name]) if cmd_name in FAMILIES else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known:
            raise click.UsageError(f'"{args[0]}" is not a family; expected one of {", ".join(known)}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        from tonnage.workflow.families import FAMILIES

        with formatter.section("Families"):
            formatter.write_dl([(name, family.description) for name, family in FAMILIES.items()])
        with formatter.section("Job logs"):
            formatter.write_dl([("jobs", _JOBS)])


generate = _Generate(
    "generate",
    options_metavar="",
    subcommand_metavar="FAMILY|jobs -o FILE [OPTIONS]",
    help="""Generate a workflow with a well-known structure, or a synthetic job log.

    The extension of FILE selects the workflow format: .dag (DAGMan), .json (WfFormat), .mf (Makeflow), .jx (Makeflow's
    JSON), .dot (Graphviz). Run times, memory and input sizes are random, with a distribution for each category of
    tasks; the same seed always gives the same file.

    \b
    Example: tonnage generate montage --tasks 500 -o montage.dag
             tonnage generate jobs --peaks bimodal -o jobs.csv
             tonnage generate airsn --help
    """,
)


def _family_command(family: "Family") -> click.Command:
    """Build the command that writes a workflow of one family."""

    def write_workflow(output: Path, tasks: int, seed: int, **options: object) -> None:
        from tonnage.workflow import write

        _reject_two_sizes(options)
        workflow = family.generate(tasks, seed, **options)
        write(workflow, output)
        graph = workflow.graph
        summary = f"{len(workflow):,} tasks, {graph.edges:,} dependencies, {len(graph.widths):,} levels"
        click.echo(f"{output}: {summary}", err=True)

    parameters = signature(family.shape).parameters.values()
    about = cleandoc(family.shape.__doc__ or "").replace("`", "")
    return click.Command(
        family.name,
        callback=write_workflow,
        params=[
            _output("Write the workflow to this file; its extension selects the format."),
            _number("tasks", family.tasks, "N", f"Number of tasks: {family.sizes}."),
            *(_family_option(parameter) for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY),
            _seed(),
        ],
        short_help=family.description,
        help=f"{about}\n\n\b\nExample: tonnage generate {family.name} -o {family.name}.dag",
    )


def _family_option(parameter: Parameter) -> click.Option:
    placeholder, explanation = _FAMILY_OPTIONS[parameter.name]
    if placeholder is None:
        return click.Option([f"--{parameter.name.replace('_', '-')}"], is_flag=True, help=explanation)
    return _number(parameter.name, parameter.default, placeholder, explanation)


def _reject_two_sizes(options: dict[str, object]) -> None:
    source = click.get_current_context().get_parameter_source("tasks")
    if options.get("width") is not None and source is not ParameterSource.DEFAULT:
        raise click.UsageError("--width and --tasks both set the size of the workflow; give only one of them")


def _jobs_command() -> click.Command:
    """Build the command that writes a synthetic job log."""
    from tonnage.logs import synthetic

    def write_log(output: Path, peaks: str, jobs: int, categories: int | None, spread: float, seed: int) -> None:
        from tonnage.files import is_stream, without_gz, write_atomically

        if Path(without_gz(output)).suffix.lower() != ".csv" and not is_stream(output):
            raise InputError(f"a job log is written as CSV; expected a name ending in .csv, not {output}")
        log = synthetic.generate(peaks, jobs, categories=categories, seed=seed, spread=spread)
        write_atomically(output, synthetic.render(log), mode=0o666)
        click.echo(f"{output}: {len(log):,} jobs, {len(log.categories):,} categories", err=True)

    distributions = click.Choice(list(synthetic.PEAKS))
    return click.Command(
        "jobs",
        callback=write_log,
        params=[
            _output("Write the log to this CSV file."),
            click.Option(
                ["--peaks"],
                type=distributions,
                default="bimodal",
                show_default=True,
                help="Distribution of memory peaks.",
            ),
            _number("jobs", 2000, "N", "Number of jobs."),
            _number("categories", None, "K", "Number of categories; 1 hides the modes.  [default: one per mode]"),
            _number("spread", 0.0, "X", "Spread of the run times: sigma of their logarithm."),
            _seed(),
        ],
        short_help=_JOBS,
        help="""Generate jobs whose memory peaks follow one of five distributions.

        These are the distributions of the bucketing paper's synthetic data sets. As in the paper, every job uses
        4 cores, 4,000 MB of disk and 500 seconds (the median, with --spread). Its input is about half as large as its
        memory. Memory, disk and input size are in MB (10^6 bytes), times in seconds.

        \b
        Example: tonnage generate jobs --peaks trimodal -o jobs.csv
        """,
    )


def _output(explanation: str) -> click.Option:
    kind = click.Path(path_type=Path)
    return click.Option(["-o", "--output"], required=True, type=kind, metavar="FILE", help=explanation)


def _number(name: str, default: float | None, placeholder: str, explanation: str) -> click.Option:
    """Build a numeric option; the generator itself checks the range, because its messages are better."""
    kind = float if isinstance(default, float) else int
    shown = default is not None
    return click.Option(
        [f"--{name}"], type=kind, default=default, show_default=shown, metavar=placeholder, help=explanation
    )


def _seed() -> click.Option:
    explanation = "Seed of the random number generator."
    return click.Option(["--seed"], type=click.IntRange(0), default=0, show_default=True, metavar="S", help=explanation)
