"""HTCondor as a user has it: its programs, what they are asked, and what they answer."""

import json
import os
import re
from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any

from tonnage.batch.programs import SECONDS, Programs, ProgramTraits, RefusalError
from tonnage.batch.scheduler import JobStatus, Limits, Node, QueueEntry, RejectedError, UnreachableError
from tonnage.errors import InputError, TonnageError

__all__ = ["HTCondor", "Version"]

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
_MANNERS = ProgramTraits(
    "HTCondor",
    _SILENCE,
    hint="call tonnage on an access point of the pool, or where HTCondor's programs are on the PATH; "
    "--dry-run writes the files for one",
)
_VERSION = re.compile(r"\$CondorVersion: (\d+)\.(\d+)\.(\d+)")
_CLUSTER = re.compile(r"submitted to cluster (\d+)")
_GROWS_DISK: Version = (25, 10, 1)
"""Since when a job that is evicted for disk asks for more by itself."""
_OLDEST: Version = (9, 0, 0)
_DAGMAN = "JobUniverse == 7"  # those run beside the schedd
_PHASES = {
    1: JobStatus.WAITING,
    2: JobStatus.RUNNING,
    3: JobStatus.RUNNING,
    5: JobStatus.WAITING,
    6: JobStatus.RUNNING,
    7: JobStatus.RUNNING,
}
"""By JobStatus; a job that is being removed is there until it has gone, and one that is complete is not."""
_HELD = 5
_MIB, _KIB = 2**20, 2**10


class HTCondor:
    """The pool that a user submits to."""

    name = "htcondor"

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._programs = Programs(_MANNERS)
        own = os.environ if environment is None else environment
        self._environment = {**own, "LC_ALL": "C"}

    def version(self) -> Version:
        """Return which HTCondor this is; raises InputError where it is none, or too old."""
        said = self._run("condor_version")
        found = _VERSION.search(said)
        if not found:
            raise InputError(f"condor_version does not say which version this is: {said[:80].strip()}")
        version = (int(found[1]), int(found[2]), int(found[3]))
        if version < _OLDEST:
            shown, oldest = (".".join(map(str, one)) for one in (version, _OLDEST))
            raise InputError(f"this is HTCondor {shown}, and {oldest} or newer is needed")
        return version

    @staticmethod
    def grows_disk(version: Version) -> bool:
        """Whether jobs that had too little disk are tried with more by HTCondor itself."""
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
            hint = "--machine cores=16,memory=64GB,disk=100GB says what tasks may get at most"
            raise InputError("the pool has no machine at the moment, so nobody knows what a task could get", hint=hint)
        return Limits(tuple(nodes))

    def submit(self, dag: Path, name: str, *, folder: Path, most: int | None, held: Collection[int] = ()) -> str:
        """Submit a DAG under a name that nobody else has, and return the number of its DAGMan.

        A rescue DAG beside it is used. Raises RejectedError where HTCondor will never take it.
        """
        words = submit_words(dag, name, most)
        try:
            said, _ = self._programs.call(
                words[0], words[1:], self._environment, seconds=SECONDS, held=held, folder=str(folder)
            )
        except RefusalError as error:
            raise RejectedError(str(error)) from None
        found = _CLUSTER.search(said)
        if not found:
            raise UnreachableError(f"condor_submit_dag does not say under which number it submitted: {said[-200:]}")
        return found[1]

    def find(self, name: str) -> str | None:
        """Return the number of the DAGMan that was submitted under a name, where it has not left the queue."""
        ads = self._ads("condor_q", f'{_DAGMAN} && JobBatchName == "{name}"', ("ClusterId", "JobStatus"))
        return next((str(ad["ClusterId"]) for ad in ads if ad.get("JobStatus") in _PHASES), None)

    def look(self) -> dict[str, QueueEntry]:
        """Return all of this user's DAGMans that wait or run, by their numbers: one question, however many jobs."""
        ads = self._ads("condor_q", _DAGMAN, ("ClusterId", "JobStatus", "HoldReason", "JobCurrentStartDate"))
        found = {}
        for ad in ads:
            phase = _PHASES.get(int(ad.get("JobStatus", 0)))
            if phase is not None:
                reason = f"held: {ad.get('HoldReason', 'nobody says why')}" if ad["JobStatus"] == _HELD else ""
                found[str(ad["ClusterId"])] = QueueEntry(phase, reason, ad.get("JobCurrentStartDate"))
        return found

    def job_of(self, number: str) -> str:
        """Return a job's own number: DAGMan's jobs have no elements."""
        return number

    def cancel(self, numbers: Collection[str]) -> None:
        """Remove DAGMans, and with them the jobs of their nodes; those that are gone already do not matter."""
        if not numbers:
            return
        try:
            self._run("condor_rm", *sorted(numbers))
        except RefusalError as error:
            if "not found" not in error.said.lower() and "couldn't find" not in error.said.lower():
                raise

    def _ads(self, program: str, constraint: str, attributes: Collection[str]) -> list[dict[str, Any]]:
        printed = self._run(program, "-json", "-constraint", constraint, "-attributes", ",".join(attributes))
        try:
            found = json.loads(printed) if printed.strip() else []  # where there is none, it prints nothing at all
        except ValueError:
            raise TonnageError(f"{program} prints what is no JSON: {printed[:80].strip()}") from None
        return [ad for ad in found if isinstance(ad, dict)]

    def _run(self, program: str, *words: str) -> str:
        return self._programs.call(program, words, self._environment)[0]


def submit_words(dag: Path, name: str, most: int | None) -> list[str]:
    """Return the one command that submits a DAG, in the folder of the workflow.

    A file is written anew that an earlier try may have left, and a rescue DAG is used.
    """
    throttle = [] if most is None else ["-maxjobs", str(most)]
    return ["condor_submit_dag", "-batch-name", name, "-notification", "never", "-update_submit", *throttle, str(dag)]


def _node(ad: Mapping[str, Any]) -> Node | None:
    """Return the machine of a slot that can be divided, or of one that cannot."""
    cores, memory, disk = (
        next((ad[name] for name in (f"TotalSlot{one}", one) if isinstance(ad.get(name), int | float)), None)
        for one in ("Cpus", "Memory", "Disk")
    )
    if cores is None or memory is None or cores < 1:
        return None
    room = inf if disk is None else float(disk) * _KIB
    return Node(str(ad.get("Machine", "?")), int(cores), float(memory) * _MIB, room)
