"""Options that say to which cluster tasks are sent, and how."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from tonnage.cli.options import gathered, with_options
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.batch.slurm import Slurm
    from tonnage.run.preparing import ClusterOptions

__all__ = ["PACKER_NAMES", "ClusterChoice", "cluster_options", "refuse_options", "slurm_of", "slurm_options"]

PACKER_NAMES = ("per-task", "one-job", "level-by-level", "zhang", "zhang-printed", "zhang-improved", "glume", "auto")
"""The names of PACKERS, which is heavy to import."""


class ClusterChoice(NamedTuple):
    """Where tasks run; all but `on` is for clusters."""

    on: str
    pack: str | None
    max_running: int | None
    max_submitted: int | None
    partition: str | None
    account: str | None
    qos: str | None
    sbatch_option: tuple[str, ...]

    def options(self) -> "ClusterOptions | None":
        """Return the cluster; None where tasks run on this machine."""
        if self.on == "local":
            given = [name for name in self._fields[1:] if getattr(self, name) not in (None, ())]
            if given:
                raise InputError(f"--{given[0].replace('_', '-')} is for clusters", hint="say which: --on slurm")
            return None
        from tonnage.run.preparing import ClusterOptions

        return ClusterOptions(
            scheduler=slurm_of(self.partition, self.account, self.qos, self.sbatch_option),
            pack=self.pack or "per-task",
            max_running=self.max_running,
            max_submitted=self.max_submitted,
        )


def slurm_of(partition: str | None, account: str | None, qos: str | None, more: tuple[str, ...]) -> "Slurm":
    """Return Slurm, as a user wants to submit there."""
    from tonnage.batch.slurm import Slurm, SlurmOptions

    return Slurm(SlurmOptions(partition=partition, account=account, qos=qos, extra=more))


def slurm_options(command: Any) -> Any:  # noqa: ANN401 (click's decorators take and give any callable)
    """Add the options that say where and as whom a user submits to Slurm."""
    return with_options(
        command,
        click.option("--partition", metavar="NAME", help="Partition of Slurm.  [default: the cluster's]"),
        click.option("--account", metavar="NAME", help="Account of Slurm that pays.  [default: yours]"),
        click.option("--qos", metavar="NAME", help="Quality of service of Slurm.  [default: yours]"),
        click.option(
            "--sbatch-option",
            multiple=True,
            metavar="OPTION",
            help="One more option of sbatch: --sbatch-option=--constraint=avx512. May be repeated.",
        ),
    )


def cluster_options(command: Any) -> Any:  # noqa: ANN401
    """Add the options of ClusterChoice, which arrive as `cluster`."""
    return gathered(
        command,
        "cluster",
        ClusterChoice,
        click.option(
            "--on",
            type=click.Choice(["local", "slurm"]),
            default="local",
            show_default=True,
            help="Where tasks run: on this machine, or on the Slurm cluster that it belongs to.",
        ),
        click.option(
            "--pack",
            type=click.Choice(PACKER_NAMES),
            metavar="NAME",
            help="Which tasks share a batch job: a strategy of tonnage pack.  [default: per-task]",
        ),
        click.option("--max-running", type=click.IntRange(1), metavar="N", help="Most batch jobs that run at a time."),
        click.option(
            "--max-submitted", type=click.IntRange(1), metavar="N", help="Most batch jobs that wait or run at a time."
        ),
        slurm_options,
    )


def refuse_options(names: tuple[str, ...], meant_for: str) -> None:
    """Raise InputError where the user gave one of some options, which mean nothing here."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = parameter.name and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        if given and parameter.name in names:
            raise InputError(f"{parameter.opts[0]} is only for {meant_for}")
