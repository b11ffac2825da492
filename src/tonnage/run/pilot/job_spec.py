"""The job spec of a packed batch job: all that its pilot must know, in one file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tonnage.errors import InputError
from tonnage.files import write_atomically
from tonnage.run.events import Carried, Rules
from tonnage.run.machines import Machine
from tonnage.run.serialisation import carried_of, machine_of, plain_carried, plain_machine, plain_task, task_of
from tonnage.workflow import Task

__all__ = ["JOB_SPEC", "LEDGER", "JobSpec"]

JOB_SPEC, LEDGER = "job.json", "ledger"  # files in the folder of a batch job, which is batches/NUMBER below the run's
_PLAIN = ("run", "home", "token", "sandbox", "strategy", "number", "first_attempt", "attempts", "patience")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a packed batch job carries; tasks are numbered by their places in `tasks`."""

    run: str
    """The folder of the run."""
    home: str
    """The folder where the names of the workflow's files start."""
    token: str
    number: int
    """Of the batch job."""
    first_attempt: int
    attempts: int
    """How many numbers of attempts, from the first, it may use."""
    tasks: tuple[Task, ...]
    places: tuple[int, ...]
    """The place of each task in the order in which they should run."""
    nodes: Mapping[str, Machine]
    """What each node of the cluster has, those included that the batch job does not get."""
    dependencies: tuple[tuple[int, int], ...] = ()
    """Pairs of tasks; the second waits for the first."""
    awaited: Mapping[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """For which tasks of other batch jobs some wait: the number of the batch job, and the task's name."""
    carried: Mapping[int, Carried] = field(default_factory=dict)
    """What is known about tasks from earlier attempts or runs."""
    strategy: str = "auto"
    rules: Rules = field(default_factory=Rules)
    sandbox: bool = False
    patience: float = 60.0
    """Seconds after which a node that does not answer is lost."""

    def write(self, folder: Path) -> None:
        """Write the job spec into the folder of the batch job."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        plain |= {
            "rules": asdict(self.rules),
            "tasks": list(map(plain_task, self.tasks)),
            "places": self.places,
            "dependencies": self.dependencies,
            "awaited": list(self.awaited.items()),
            "carried": [(task, plain_carried(one)) for task, one in self.carried.items()],
            "nodes": {name: plain_machine(machine) for name, machine in self.nodes.items()},
        }
        write_atomically(folder / JOB_SPEC, json.dumps(plain))

    @classmethod
    def read(cls, folder: Path) -> "JobSpec":
        """Read the job spec of a batch job."""
        path = folder / JOB_SPEC
        try:
            return _job_spec(json.loads(path.read_bytes()))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"is not the job spec of a batch job: {error}", path=path) from None


def _job_spec(plain: dict[str, Any]) -> JobSpec:
    return JobSpec(
        **{name: plain[name] for name in _PLAIN},
        rules=Rules(**plain["rules"]),
        tasks=tuple(map(task_of, plain["tasks"])),
        places=tuple(plain["places"]),
        dependencies=tuple((parent, child) for parent, child in plain["dependencies"]),
        awaited={task: tuple((batch, name) for batch, name in others) for task, others in plain["awaited"]},
        carried={task: carried_of(one) for task, one in plain["carried"]},
        nodes={name: machine_of(one) for name, one in plain["nodes"].items()},
    )
