"""The jobs in the stand-in's queue: those of nodes, and the DAGMans that submit them."""

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.htcondor import eventlog
from tests.htcondor.description import amount, evaluated, requests
from tests.htcondor.execution import Execution
from tests.htcondor.machine import Requests

__all__ = ["COMPLETED", "HELD", "IDLE", "REMOVED", "RUNNING", "Job", "Manager", "node_job"]

IDLE, RUNNING, REMOVED, COMPLETED, HELD = 1, 2, 3, 4, 5
_MIB, _KIB = 2**20, 2**10
_VANILLA, _SCHEDULER = 5, 7


@dataclass(slots=True)
class Job:
    """The job of a node."""

    cluster: int
    commands: Mapping[str, str]
    home: Path
    nodes_log: Path
    inherited: Mapping[str, str]
    ad: dict[str, Any]
    asked: Requests
    execution: Execution | None = None
    rungs: dict[str, int] = field(default_factory=lambda: {"memory": 0, "disk": 0})
    """How many of the further sizes of its ladders it has been given."""

    @property
    def name(self) -> eventlog.Job:
        """Its cluster and its number in it."""
        return self.cluster, 0

    @property
    def node(self) -> str:
        """The node of the DAG that it is of."""
        return str(self.ad["DAGNodeName"])

    def tell(self, event: str) -> None:
        """Write an event to the logs that ask for it."""
        if "log" in self.commands:
            eventlog.append(self.home / self.commands["log"], event)
        if event[:3] in eventlog.OF_DAGMAN:
            eventlog.append(self.nodes_log, event)

    def become(self, status: int) -> None:
        """Change its state."""
        self.ad["JobStatus"] = status
        self.ad["EnteredCurrentStatus"] = int(time.time())
        if status != HELD:
            for name in ("HoldReason", "HoldReasonCode", "HoldReasonSubCode"):
                self.ad.pop(name, None)

    def ask_for(self, asked: Requests) -> None:
        """Ask for other amounts from now on."""
        self.asked = asked
        self.ad |= {"RequestCpus": asked.cpus, "RequestMemory": asked.memory, "RequestDisk": asked.disk}

    def grow(self, resource: str) -> bool:
        """Ask for the next size of a ladder; whether there is a larger one."""
        unit = _MIB if resource == "memory" else _KIB
        sizes = [one for one in self.commands.get(f"retry_request_{resource}", "").split(",") if one.strip()]
        if self.rungs[resource] >= len(sizes):
            return False
        size = amount(sizes[self.rungs[resource]], unit, self.ad)
        self.rungs[resource] += 1
        if size <= getattr(self.asked, resource):
            return False
        now = {"cpus": self.asked.cpus, "memory": self.asked.memory, "disk": self.asked.disk, resource: size}
        self.ask_for(Requests(**now))
        return True


@dataclass(slots=True)
class Manager:
    """The job of a DAGMan, which runs beside the schedd."""

    cluster: int
    dag: Path
    folder: Path
    """Where condor_submit_dag was called."""
    options: Mapping[str, Any]
    environment: Mapping[str, str]
    batch_name: str
    owner: str
    status: int = IDLE
    process: subprocess.Popen[bytes] | None = None
    removed_for: str | None = None
    hold_reason: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """What DAGMan says about itself: DAG_NodesDone and others."""
    submitted: int = field(default_factory=lambda: int(time.time()))
    started: int | None = None

    @property
    def name(self) -> eventlog.Job:
        """Its cluster and its number in it."""
        return self.cluster, 0

    @property
    def ad(self) -> dict[str, Any]:
        """What condor_q knows about it."""
        held = {"HoldReason": self.hold_reason, "HoldReasonCode": 1, "HoldReasonSubCode": 0}
        return {
            "ClusterId": self.cluster,
            "ProcId": 0,
            "JobStatus": self.status,
            "JobUniverse": _SCHEDULER,
            "JobBatchName": self.batch_name,
            "Owner": self.owner,
            "Cmd": "/usr/bin/condor_dagman",
            "Iwd": str(self.folder),
            "UserLog": f"{self.dag}.dagman.log",
            "QDate": self.submitted,
            **({} if self.started is None else {"JobCurrentStartDate": self.started}),
            **(held if self.status == HELD else {}),
            **self.facts,
        }

    def tell(self, event: str) -> None:
        """Write an event to the log of its life."""
        eventlog.append(Path(f"{self.dag}.dagman.log"), event)


def node_job(request: Mapping[str, Any], cluster: int, manager: Manager) -> Job:
    """Return the job of a node that DAGMan submits."""
    commands, home = request["commands"], Path(request["home"])
    asked = requests(commands)
    ad = {
        "ClusterId": cluster,
        "ProcId": 0,
        "GlobalJobId": f"standin.example.org#{cluster}.0#{int(time.time())}",
        "JobUniverse": _VANILLA,
        "JobBatchName": manager.batch_name,
        "DAGManJobId": manager.cluster,
        "DAGNodeName": request["node"],
        "Owner": manager.owner,
        "Cmd": str(home / commands["executable"]),
        "Args": commands.get("arguments", ""),
        "Iwd": str(home),
        "QDate": int(time.time()),
        "JobPrio": int(commands.get("priority", 0)),
        "NumJobStarts": 0,
        **{name[3:]: evaluated(value, {}) for name, value in commands.items() if name.startswith("my.")},
    }
    job = Job(cluster, commands, home, Path(request["nodes_log"]), manager.environment, ad, asked)
    job.ask_for(asked)
    job.become(IDLE)
    for policy in ("periodic_remove", "periodic_release"):
        evaluated(commands.get(policy, "false"), ad)  # what is no expression is not submitted
    return job
