"""The options for running tasks on a cluster."""

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
    """Where tasks run; all fields but `on` are for clusters."""

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

    @property
    def packed(self) -> bool:
        """Whether batch jobs carry several tasks, which our own engine starts."""
        return self.on != "htcondor" and self.pack not in (None, "per-task")

    def at_most(self, jobs: int | None) -> "ClusterChoice":
        """Return the choice with at most this many batch jobs at a time, as --jobs says."""
        if jobs is None or self.on == "local":
            return self
        if self.max_running is not None:
            raise InputError("--jobs and --max-running are both given", hint="they mean the same on a cluster")
        return self._replace(max_running=jobs)

    def options(self) -> "ClusterOptions | PoolOptions | None":
        """Return the options of the cluster or pool; None if tasks run on this machine."""
        self._refuse_others()
        if self.on == "local":
            return None
        return self._pool() if self.on == "htcondor" else self._cluster()

    def _refuse_others(self) -> None:
        """Raise InputError if an option does not apply to the chosen system."""
        for name in self._fields[1:]:
            places = [key for key, one in SCHEDULERS.items() if name in one.options or name not in _FOR_SOME]
            if getattr(self, name) not in (None, ()) and self.on not in places and not _is_configured(name):
                meant = "clusters" if len(places) > 1 else SCHEDULERS[places[0]].title
                raise InputError(
                    f"--{name.replace('_', '-')} is for {meant}", hint=f"add --on {' or --on '.join(places)}"
                )

    def _pool(self) -> "PoolOptions":
        from tonnage.batch.htcondor import HTCondor
        from tonnage.batch.htcondor.dag import OURS
        from tonnage.run.options import PoolOptions

        for command in self.submit_command:
            if "\n" in command or not _COMMAND.fullmatch(command):
                raise InputError(f'"{command}" is not a submit command', hint="example: accounting_group = physics")
            if (name := command.partition("=")[0].strip().lower()) in OURS:
                raise InputError(f"--submit-command: {name} is set by Tonnage and cannot be changed")
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
    """Whether a value comes from ``tonnage.toml``, where it only applies to runs on clusters."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT_MAP


def _whole(text: str, name: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f'--throttle {name}: "{text}" is not a number of jobs', hint="example: --throttle align=20")
    return int(text)


def slurm_options(command: Any) -> Any:  # noqa: ANN401 (click's decorators accept and return any callable)
    """Add the options for where and under which account to submit to Slurm."""
    return with_options(
        command,
        click.option(
            "--partition", metavar="NAME", help="Slurm partition.  [default: $SBATCH_PARTITION, else the cluster's]"
        ),
        click.option(
            "--account", metavar="NAME", help="Slurm account to charge.  [default: $SBATCH_ACCOUNT, else yours]"
        ),
        click.option("--qos", metavar="NAME", help="Slurm quality of service.  [default: $SBATCH_QOS, else yours]"),
        click.option(
            "--sbatch-option",
            multiple=True,
            metavar="OPTION",
            help="Additional sbatch option, such as --sbatch-option=--constraint=avx512. Can be repeated.",
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
            help="Run tasks on this machine, or on the Slurm cluster or HTCondor pool that it belongs to.",
        ),
        click.option(
            "--pack",
            type=click.Choice(PACKERS),
            metavar="NAME",
            help="How to pack tasks into batch jobs: a strategy of tonnage pack.  [default: per-task]",
        ),
        click.option("--max-running", type=click.IntRange(1), metavar="N", help="Most batch jobs running at a time."),
        click.option(
            "--max-submitted", type=click.IntRange(1), metavar="N", help="Most batch jobs waiting or running at a time."
        ),
        slurm_options,
        click.option(
            "--throttle",
            multiple=True,
            metavar="CATEGORY=N",
            help="Most HTCondor jobs of a category at a time. Can be repeated.",
        ),
        click.option(
            "--submit-command",
            multiple=True,
            metavar="COMMAND",
            help='Additional HTCondor submit command, such as "accounting_group = physics". Can be repeated.',
        ),
    )


def refuse_options(names: tuple[str, ...], meant_for: str) -> None:
    """Raise InputError if the user gave one of these options, which do not apply here."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = parameter.name and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        if given and parameter.name in names:
            raise InputError(f"{parameter.opts[0]} only applies to {meant_for}")
