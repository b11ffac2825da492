"""The job spec of a packed batch job: everything that its pilot needs to know, in one file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tonnage.errors import InputError
from tonnage.files import write_atomically
from tonnage.run.events import Carried
from tonnage.run.machines import Machine
from tonnage.run.retry_rules import Rules
from tonnage.run.serialisation import (
    plain_carried,
    plain_machine,
    plain_task,
    restore_carried,
    restore_machine,
    restore_task,
)
from tonnage.workflow import Task

__all__ = ["JOB_SPEC", "LEDGER", "JobSpec"]

JOB_SPEC, LEDGER = "job.json", "ledger"  # files in the folder of a batch job, batches/NUMBER in the folder of the run
_PLAIN = ("run", "home", "token", "sandbox", "strategy", "number", "first_attempt", "attempts", "patience")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The contents of a packed batch job; tasks are numbered by their positions in `tasks`."""

    run: str
    """The folder of the run."""
    home: str
    """The folder to which the names of the workflow's files are relative."""
    token: str
    number: int
    """The number of the batch job."""
    first_attempt: int
    attempts: int
    """How many attempt numbers it may use, starting with the first."""
    tasks: tuple[Task, ...]
    places: tuple[int, ...]
    """The position of each task in the preferred order."""
    nodes: Mapping[str, Machine]
    """The nodes of the cluster, including those that are not allocated to the batch job."""
    dependencies: tuple[tuple[int, int], ...] = ()
    """Pairs of tasks, of which the second depends on the first."""
    awaited: Mapping[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """For each task, the tasks of other batch jobs that it waits for: number of the batch job, and name of the task."""
    carried: Mapping[int, Carried] = field(default_factory=dict)
    """What is known about tasks from earlier attempts or runs."""
    strategy: str = "auto"
    overridden: frozenset[str] | None = frozenset()
    """The categories whose tasks may get less than they request; None for all."""
    rules: Rules = field(default_factory=Rules)
    sandbox: bool = False
    patience: float = 60.0
    """Seconds after which a node that does not answer counts as lost."""

    def write(self, folder: Path) -> None:
        """Write the job spec into the folder of the batch job."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        plain |= {
            "overridden": None if self.overridden is None else sorted(self.overridden),
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
        overridden=None if plain["overridden"] is None else frozenset(plain["overridden"]),
        rules=Rules(**plain["rules"]),
        tasks=tuple(map(restore_task, plain["tasks"])),
        places=tuple(plain["places"]),
        dependencies=tuple((parent, child) for parent, child in plain["dependencies"]),
        awaited={task: tuple((batch, name) for batch, name in others) for task, others in plain["awaited"]},
        carried={task: restore_carried(one) for task, one in plain["carried"]},
        nodes={name: restore_machine(one) for name, one in plain["nodes"].items()},
    )
