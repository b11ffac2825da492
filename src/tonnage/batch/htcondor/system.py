"""The user's side of HTCondor: its programs, their arguments and the parsers for their output."""

import json
import logging
import os
import re
from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any

from tonnage.batch.programs import SECONDS, Programs, ProgramTraits
from tonnage.batch.scheduler import JobStatus, Limits, Node, QueueEntry
from tonnage.errors import (
    InputError,
    ProgramFailedError,
    SchedulerUnreachableError,
    SubmissionRejectedError,
    TonnageError,
)

__all__ = ["AVOIDED", "HTCondor", "Version"]

AVOIDED = "TonnageAvoided"
"""The attribute of jobs with the names of machines that break tasks; their requirements refer to it."""
_log = logging.getLogger(__name__)

Version = tuple[int, int, int]

_SILENCE = re.compile(
    "|".join(
        [
            "Failed to connect",
            "Failed to fetch ads",
            "Unable to (connect|contact|locate)",
            "Can't (connect|find address|locate|contact)",
            "Couldn't (contact|connect|locate)",
            "communication error",
            "[Cc]onnection (refused|reset|timed out|closed)",
            "No route to host|Network is unreachable",
            "timed out|time out|timeout",
            "CEDAR:\\d+|SECMAN:20\\d\\d",
        ]
    )
)
_TRAITS = ProgramTraits(
    "HTCondor",
    _SILENCE,
    hint="run tonnage on an access point of the pool, or where HTCondor's programs are on the PATH; "
    "--dry-run writes the files for one",
)
_VERSION = re.compile(r"\$CondorVersion: (\d+)\.(\d+)\.(\d+)")
_CLUSTER = re.compile(r"submitted to cluster (\d+)")
_GROWS_DISK: Version = (25, 10, 1)
"""The first version in which a job evicted for its disk use requests more by itself."""
_OLDEST: Version = (9, 0, 0)
_DAGMAN = "JobUniverse == 7"  # these run on the schedd's machine
_STATUSES = {
    1: JobStatus.WAITING,
    2: JobStatus.RUNNING,
    3: JobStatus.RUNNING,
    5: JobStatus.WAITING,
    6: JobStatus.RUNNING,
    7: JobStatus.RUNNING,
}
"""By JobStatus; a job being removed counts until it is gone, a completed one does not."""
_HELD = 5
_MIB, _KIB = 2**20, 2**10


class HTCondor:
    """The pool that a user submits to."""

    name = "htcondor"

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._programs = Programs(_TRAITS)
        own = os.environ if environment is None else environment
        self._environment = {**own, "LC_ALL": "C"}

    def version(self) -> Version:
        """Return the version of HTCondor; raises InputError if there is none or it is too old."""
        said = self._run("condor_version")
        found = _VERSION.search(said)
        if not found:
            raise InputError(f"condor_version printed no version: {said[:80].strip()}")
        version = (int(found[1]), int(found[2]), int(found[3]))
        if version < _OLDEST:
            shown, oldest = (".".join(map(str, one)) for one in (version, _OLDEST))
            raise InputError(f"this is HTCondor {shown}, but {oldest} or newer is required")
        return version

    @staticmethod
    def grows_disk(version: Version) -> bool:
        """Whether HTCondor itself retries jobs that had too little disk with more."""
        return version >= _GROWS_DISK

    def limits(self) -> Limits:
        """Return the machines of the pool."""
        found = self._ads(
            "condor_status",
            'SlotType =!= "Dynamic"',
            ("Machine", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotDisk", "Cpus", "Memory", "Disk"),
        )
        nodes = [node for ad in found if (node := _node(ad)) is not None]
        if not nodes:
            hint = "give --machine cores=16,memory=64GB,disk=100GB, the most that a task can get"
            raise InputError("the pool has no machines at the moment: it is unknown what a task could get", hint=hint)
        return Limits(tuple(nodes))

    def submit(self, dag: Path, name: str, *, folder: Path, most: int | None, held: Collection[int] = ()) -> str:
        """Submit a DAG under a unique name, and return the number of its DAGMan job.

        A rescue DAG next to it is used. Raises SubmissionRejectedError if HTCondor will never accept it.
        """
        words = submit_words(dag, name, most)
        try:
            said, _ = self._programs.call(
                words[0], words[1:], self._environment, seconds=SECONDS, held=held, folder=str(folder)
            )
        except ProgramFailedError as error:
            raise SubmissionRejectedError(str(error)) from None
        found = _CLUSTER.search(said)
        if not found:
            raise SchedulerUnreachableError(f"condor_submit_dag printed no cluster number: {said[-200:]}")
        return found[1]

    def find(self, name: str) -> str | None:
        """Return the number of the DAGMan job submitted under a name, if it is still in the queue."""
        ads = self._ads("condor_q", f'{_DAGMAN} && JobBatchName == "{name}"', ("ClusterId", "JobStatus"))
        return next((str(ad["ClusterId"]) for ad in ads if ad.get("JobStatus") in _STATUSES), None)

    def poll(self) -> dict[str, QueueEntry]:
        """Return all of this user's waiting and running DAGMan jobs, by number: one query, however many."""
        ads = self._ads("condor_q", _DAGMAN, ("ClusterId", "JobStatus", "HoldReason", "JobCurrentStartDate"))
        found = {}
        for ad in ads:
            status = _STATUSES.get(int(ad.get("JobStatus", 0)))
            if status is not None:
                reason = f"held: {ad.get('HoldReason', 'unknown reason')}" if ad["JobStatus"] == _HELD else ""
                found[str(ad["ClusterId"])] = QueueEntry(status, reason, ad.get("JobCurrentStartDate"))
        return found

    def job_of(self, number: str) -> str:
        """Return the number unchanged: DAGMan jobs have no elements."""
        return number

    def cancel(self, numbers: Collection[str]) -> None:
        """Remove DAGMan jobs, and with them the jobs of their nodes; those already gone are ignored."""
        if not numbers:
            return
        try:
            self._run("condor_rm", *sorted(numbers))
        except ProgramFailedError as error:
            if "not found" not in error.said.lower() and "couldn't find" not in error.said.lower():
                raise

    def avoid(self, dagman: str, machines: Collection[str]) -> None:
        """Let the jobs of a DAGMan that wait in the queue use none of these machines; see `dag.avoid_machines`."""
        names = ",".join(sorted(machines))
        try:
            self._run("condor_qedit", "-constraint", f"DAGManJobId == {int(dagman)}", AVOIDED, f'"{names}"')
        except (ProgramFailedError, InputError) as error:
            _log.debug("condor_qedit: %s", error)  # none of them waits, or there is no such program

    def _ads(self, program: str, constraint: str, attributes: Collection[str]) -> list[dict[str, Any]]:
        printed = self._run(program, "-json", "-constraint", constraint, "-attributes", ",".join(attributes))
        try:
            found = json.loads(printed) if printed.strip() else []  # prints nothing at all if there is none
        except ValueError:
            raise TonnageError(f"{program} printed invalid JSON: {printed[:80].strip()}") from None
        return [ad for ad in found if isinstance(ad, dict)]

    def _run(self, program: str, *words: str) -> str:
        return self._programs.call(program, words, self._environment)[0]


def submit_words(dag: Path, name: str, most: int | None) -> list[str]:
    """Return the command that submits a DAG, to be run in the folder of the workflow.

    It rewrites a submit file left by an earlier try, and uses a rescue DAG.
    """
    throttle = [] if most is None else ["-maxjobs", str(most)]
    return ["condor_submit_dag", "-batch-name", name, "-notification", "never", "-update_submit", *throttle, str(dag)]


def _node(ad: Mapping[str, Any]) -> Node | None:
    """Return the machine of a partitionable or static slot."""
    cores, memory, disk = (
        next((ad[name] for name in (f"TotalSlot{one}", one) if isinstance(ad.get(name), int | float)), None)
        for one in ("Cpus", "Memory", "Disk")
    )
    if cores is None or memory is None or cores < 1:
        return None
    room = inf if disk is None else float(disk) * _KIB
    return Node(str(ad.get("Machine", "?")), int(cores), float(memory) * _MIB, room)
