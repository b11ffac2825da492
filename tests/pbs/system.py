"""PBS as a batch system: the whole of what a new one needs (`batch/scheduler.py` says what)."""

import os
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from tonnage.batch import Snapshot
from tonnage.batch.poll_schedule import PollSchedule
from tonnage.batch.scheduler import JobStatus, JobVariable, Limits, Node, QueueEntry, Request, Verdict, command_line
from tonnage.errors import SchedulerUnreachableError, SubmissionRejectedError

__all__ = ["Pbs", "PbsJob"]

VARIABLES = {
    JobVariable.ELEMENT: '"${PBS_ARRAY_INDEX:-0}"',
    JobVariable.HOST: '"$(hostname)"',
    JobVariable.RESTARTS: "0",
}
NODES = tuple(Node(f"n{number}", 2, 2e9) for number in range(2))


class Pbs:
    """The pool that qsub and its like on the PATH speak to."""

    name = "pbs"
    polling = PollSchedule(first=0.1, longest=1.0)
    inside = "tests.pbs.system:PbsJob"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**os.environ, **environment}

    def limits(self) -> Limits:
        """Return what can be submitted."""
        return Limits(NODES, seconds=3600.0, array=100)

    def script(self, request: Request) -> str:
        """Return the script that is submitted for a request."""
        options = [f"-N {request.name}", f"-o {request.output.absolute()}", f"-l nodes={request.nodes}"]
        options += [f"-J 0-{request.elements - 1}"] if request.elements else []
        lines = [f"#PBS {option}" for option in options]
        change = f"cd {request.folder.absolute()}"
        return "\n".join(["#!/bin/sh", *lines, change, f"exec {command_line(request.words, VARIABLES)}"]) + "\n"

    def check(self, request: Request) -> float | None:
        """Say that nobody knows when a job would start."""
        if request.nodes > len(NODES):
            raise SubmissionRejectedError(f"there are no {request.nodes} nodes")
        return None

    def submit(self, request: Request, script: Path, held: Collection[int] = ()) -> str:
        """Submit a job, and return its number."""
        return self._run("qsub", str(script), held=held).strip()

    def element(self, number: str, element: int) -> str:
        """Return what PBS calls an element of an array."""
        return number.replace(".", f"[{element}].", 1)

    def job_of(self, number: str) -> str:
        """Return the number of the job to which an element belongs."""
        job, bracket, rest = number.partition("[")
        return job + rest.partition("]")[2] if bracket else number

    def find(self, name: str) -> str | None:
        """Return the number of a job that was submitted under a name, while it runs."""
        return next((self.job_of(number) for number, known in self._running().items() if known == name), None)

    def poll(self) -> dict[str, QueueEntry]:
        """Return what runs."""
        return {number: QueueEntry(JobStatus.RUNNING) for number in self._running()}

    def cancel(self, numbers: Collection[str]) -> None:
        """End jobs."""
        self._run("qdel", *numbers)

    def verdicts(self, numbers: Collection[str]) -> dict[str, Verdict]:
        """Say nothing: this PBS forgets what has ended."""
        return dict.fromkeys(numbers, Verdict())

    def read(self, printed: str) -> Verdict | None:
        """Say nothing about what a batch job printed."""
        return None

    def queue(self, run_fraction: float = 1.0) -> Snapshot:
        """Return a queue in which all nodes are free."""
        now = int(time.time())
        return Snapshot(now, len(NODES), np.array([now], np.int64), np.array([len(NODES)], np.int64))

    def _running(self) -> dict[str, str]:
        return dict(line.split() for line in self._run("qstat").splitlines())

    def _run(self, *words: str, held: Collection[int] = ()) -> str:
        ended = subprocess.run(
            words, capture_output=True, text=True, env=self._environment, pass_fds=list(held), check=False
        )
        if ended.returncode:
            raise SchedulerUnreachableError(f"{words[0]}: {ended.stderr.strip()}")
        return ended.stdout


class PbsJob:
    """The batch job in which this process runs."""

    def nodes(self) -> list[str]:
        """Return the names of its nodes."""
        return Path(os.environ["PBS_NODEFILE"]).read_text().split()

    def launcher(self, node: str) -> Sequence[str]:
        """Return what runs a command on a node: here all nodes are this machine."""
        return ()

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return our variables."""
        return dict(ours)
