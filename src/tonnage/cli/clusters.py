"""Options that say to which cluster tasks are sent, and how."""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from tonnage.batch.registry import SCHEDULERS
from tonnage.cli.options import gathered, with_options
from tonnage.errors import InputError
from tonnage.option_values import pairs
from tonnage.pack.packers import PACKERS

if TYPE_CHECKING:
    from tonnage.run.options import ClusterOptions, PoolOptions

__all__ = ["ClusterChoice", "cluster_options", "refuse_options", "slurm_options"]

_FOR_SOME = {option for system in SCHEDULERS.values() for option in system.options}
_COMMAND = re.compile(r"\s*[+\w.]+\s*=.*", re.ASCII)


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
    throttle: tuple[str, ...]
    submit_command: tuple[str, ...]

    def options(self) -> "ClusterOptions | PoolOptions | None":
        """Return the cluster or pool; None: tasks run here."""
        self._refuse_others()
        if self.on == "local":
            return None
        return self._pool() if self.on == "htcondor" else self._cluster()

    def _refuse_others(self) -> None:
        """Raise InputError where an option means nothing in the place that was chosen."""
        for name in self._fields[1:]:
            places = [key for key, one in SCHEDULERS.items() if name in one.options or name not in _FOR_SOME]
            if getattr(self, name) not in (None, ()) and self.on not in places and not _is_configured(name):
                meant = "clusters" if len(places) > 1 else SCHEDULERS[places[0]].title
                raise InputError(
                    f"--{name.replace('_', '-')} is for {meant}", hint=f"say where: --on {' or --on '.join(places)}"
                )

    def _pool(self) -> "PoolOptions":
        from tonnage.batch.htcondor import HTCondor
        from tonnage.batch.htcondor.dag import OURS
        from tonnage.run.options import PoolOptions

        for command in self.submit_command:
            if "\n" in command or not _COMMAND.fullmatch(command):
                raise InputError(f'"{command}" is no submit command', hint="write one: accounting_group = physics")
            if (name := command.partition("=")[0].strip().lower()) in OURS:
                raise InputError(f"--submit-command: Tonnage itself sets {name}, and needs it")
        limits = [one for one in (self.max_running, self.max_submitted) if one is not None]
        return PoolOptions(
            system=HTCondor(),
            most=min(limits, default=None),
            throttles={name: _whole(most, name) for name, most in pairs(self.throttle, "--throttle").items()},
            commands=self.submit_command,
        )

    def _cluster(self) -> "ClusterOptions":
        from tonnage.run.options import ClusterOptions

        system = SCHEDULERS[self.on]
        return ClusterOptions(
            scheduler=system.connect(**{name: getattr(self, name) for name in system.submission}),
            pack=self.pack or "per-task",
            max_running=self.max_running,
            max_submitted=self.max_submitted,
        )


def _is_configured(option: str) -> bool:
    """Whether a value comes from ``tonnage.toml``, where it is meant for runs on clusters only."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT_MAP


def _whole(text: str, name: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f'--throttle {name}: "{text}" is no number of jobs', hint="write one: --throttle align=20")
    return int(text)


def slurm_options(command: Any) -> Any:  # noqa: ANN401 (click's decorators take and give any callable)
    """Add the options that say where and as whom a user submits to Slurm."""
    return with_options(
        command,
        click.option(
            "--partition", metavar="NAME", help="Partition of Slurm.  [default: $SBATCH_PARTITION, else the cluster's]"
        ),
        click.option(
            "--account", metavar="NAME", help="Account of Slurm that pays.  [default: $SBATCH_ACCOUNT, else yours]"
        ),
        click.option("--qos", metavar="NAME", help="Quality of service of Slurm.  [default: $SBATCH_QOS, else yours]"),
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
            type=click.Choice(["local", *SCHEDULERS]),
            default="local",
            show_default=True,
            help="Where tasks run: on this machine, or on the Slurm cluster or HTCondor pool that it belongs to.",
        ),
        click.option(
            "--pack",
            type=click.Choice(PACKERS),
            metavar="NAME",
            help="Which tasks share a batch job: a strategy of tonnage pack.  [default: per-task]",
        ),
        click.option("--max-running", type=click.IntRange(1), metavar="N", help="Most batch jobs that run at a time."),
        click.option(
            "--max-submitted", type=click.IntRange(1), metavar="N", help="Most batch jobs that wait or run at a time."
        ),
        slurm_options,
        click.option(
            "--throttle",
            multiple=True,
            metavar="CATEGORY=N",
            help="Most jobs of a category that HTCondor has at a time. May be repeated.",
        ),
        click.option(
            "--submit-command",
            multiple=True,
            metavar="COMMAND",
            help='One more submit command of HTCondor: "accounting_group = physics". May be repeated.',
        ),
    )


def refuse_options(names: tuple[str, ...], meant_for: str) -> None:
    """Raise InputError where the user gave one of some options, which mean nothing here."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = parameter.name and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        if given and parameter.name in names:
            raise InputError(f"{parameter.opts[0]} is only for {meant_for}")
