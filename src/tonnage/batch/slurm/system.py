"""Slurm as a batch system: every query of a run, in as few calls of Slurm's programs as possible."""

import os
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tonnage.batch.poll_schedule import PollSchedule
from tonnage.batch.scheduler import JobStatus, Limits, Node, QueueEntry, Request, Verdict
from tonnage.batch.slurm import accounts, jobs, queue_snapshot
from tonnage.batch.slurm.access import check_rights, user_name
from tonnage.batch.slurm.client import Client
from tonnage.batch.slurm.host_lists import chunks, shortened
from tonnage.batch.slurm.messages import has_ended, is_busy, is_full, parse_wait, refused
from tonnage.batch.slurm.output_markers import verdict_from_output
from tonnage.batch.slurm.scontrol import Machine, Partition, machines, partitions, settings
from tonnage.batch.slurm.scripts import SlurmOptions, placement, script
from tonnage.batch.snapshot import Snapshot
from tonnage.errors import InputError, ProgramFailedError, SchedulerUnreachableError, SubmissionRejectedError
from tonnage.jobs import Outcome
from tonnage.units import format_seconds
from tonnage.wording import closest

__all__ = ["Slurm", "connect"]

_PLAIN = SlurmOptions()
_LETTERS = 60_000
"""Letters of job numbers on a command line; Linux allows 131,072 in one word."""
_SUBMIT_SECONDS = 30.0
"""How long sbatch may take: it waits for a controller, and for room if the queue is full."""
_ACCOUNTING_SECONDS = 120.0
_DAY = 86400.0


def connect(
    partition: str | None = None,
    account: str | None = None,
    qos: str | None = None,
    sbatch_option: tuple[str, ...] = (),
) -> "Slurm":
    """Return Slurm with the user's options; sbatch's own environment variables fill in missing ones."""
    chosen = {"partition": partition, "account": account, "qos": qos}
    notes = []
    for name in [name for name, value in chosen.items() if value is None]:
        variable = f"SBATCH_{name.upper()}"
        chosen[name] = os.environ.get(variable) or None
        if chosen[name]:
            notes.append(f"{variable} is set: --{name}={chosen[name]}")
    return Slurm(SlurmOptions(**chosen, extra=sbatch_option), notes=tuple(notes))


class Slurm:
    """The cluster that Slurm's programs on this machine connect to."""

    name = "slurm"
    polling = PollSchedule()
    inside = "tonnage.batch.slurm.inside:SlurmJob"

    def __init__(self, options: SlurmOptions = _PLAIN, *, notes: tuple[str, ...] = ()) -> None:
        """Submit with these options; `notes` are what the user should know about them."""
        self.options = options
        self._notes = notes
        self._client = Client()
        self._waited: set[str] = set()
        """Jobs that were waiting when last seen."""

    @property
    def calls(self) -> Counter[str]:
        """How often each of Slurm's programs was run."""
        return self._client.calls

    def limits(self) -> Limits:
        """Return what can be submitted; raises InputError if nothing can (no such partition, no access)."""
        try:
            return self._limits()
        except InputError as error:
            error.hint = "; ".join(one for one in (error.hint, *self._notes) if one) or None
            raise

    def _limits(self) -> Limits:
        partition, known = self._partition, self._machines()
        found = [_within(known[name], partition) for name in partition.nodes if name in known]
        if not found:
            raise InputError(f"the partition {partition.name} has no nodes")
        allowed = self._allowed
        notes = list(self._notes)
        if not any(node.usable for node in found):
            notes.append(f"no node of the partition {partition.name} is available at the moment")
        if self._hidden:
            notes.append("other users' jobs are hidden on this cluster: estimates of waiting times are rough")
        return Limits(
            nodes=tuple(found),
            seconds=self._seconds,
            job_nodes=partition.job_nodes,
            submitted=allowed.submitted,
            running=allowed.running,
            array=self._array,
            notes=tuple(notes),
        )

    def script(self, request: Request) -> str:
        """Return the batch script for a request."""
        return script(request, self.options)

    def check(self, request: Request) -> float | None:
        """Ask when such a job would start, without submitting it: seconds from now, or None if unknown.

        Raises SubmissionRejectedError if it never would.
        """
        self._check_size(request)
        try:
            return self._start(script(request, self.options), request.name)
        except SubmissionRejectedError:
            # For some seconds after its start, a controller has no node available for any job.
            if any(node.usable for node in self.limits().nodes):
                raise
            return None

    def submit(self, request: Request, script: Path, held: Collection[int] = ()) -> str:
        """Submit a job whose script is in a file, and return its number.

        After a SchedulerUnreachableError it may or may not have been submitted: use `find`.
        """
        # The script has these options too, but the user's SBATCH_* variables would override them there.
        words = ("--parsable", *placement(self.options), str(script.absolute()))
        try:
            printed = self._client.submit(*words, held=held, seconds=_SUBMIT_SECONDS)
        except ProgramFailedError as refusal:
            self._check_size(request)  # a job that is too large must not be retried
            raise refused(request.name, refusal.said) from None
        except SchedulerUnreachableError as silence:
            if is_full(silence.message):
                raise refused(request.name, silence.message) from None
            raise
        number = printed.strip().partition(";")[0]  # "7;cluster" if there are several clusters
        if not number.isdigit():
            raise SchedulerUnreachableError(f"sbatch printed no job number: {printed.strip()[:200]!r}")
        return number

    def element(self, number: str, element: int) -> str:
        """Return Slurm's number for an array element."""
        return f"{number}_{element}"

    def job_of(self, number: str) -> str:
        """Return the number of the job that an element belongs to."""
        return number.partition("_")[0]

    def find(self, name: str) -> str | None:
        """Return the number of the job submitted under a name, or None if Slurm does not know it."""
        fields = ("JobArrayID",)
        found = self._squeue(fields, f"--name={name}", "--states=all")
        numbers = [row["JobArrayID"].partition("_")[0] for row in jobs.rows(found, fields)]
        if not numbers and self._accounted:
            words = ("--noheader", "--parsable2", "--allocations", f"--name={name}", "--starttime=now-7days")
            printed = self._client.run("sacct", *words, "--format=JobID", seconds=_ACCOUNTING_SECONDS)
            numbers = [line.strip().partition("_")[0] for line in printed.splitlines() if line.strip()]
        return max(numbers, key=int, default=None)

    def poll(self) -> dict[str, QueueEntry]:
        """Return all of this user's waiting and running jobs and elements, by number."""
        present = jobs.queue_entries(self._squeue(jobs.FIELDS))
        waiting = {number for number, entry in present.items() if entry.status is JobStatus.WAITING}
        self._waited = (self._waited - present.keys()) | waiting
        return present

    def verdicts(self, numbers: Collection[str]) -> dict[str, Verdict]:
        """Return how jobs and elements ended, as far as Slurm still knows.

        The controller is asked first; the accounting database only for jobs that the controller has forgotten and for
        those that may have lacked memory. An element that was cancelled individually before it started leaves no trace
        in the controller: if it was waiting when last seen and is gone, it was cancelled.
        """
        wanted = set(numbers)
        known: dict[str, Verdict] = {}
        for chunk in chunks(jobs.asked(wanted), _LETTERS):
            text = self._remembered(chunk)
            known |= jobs.remembered(text)
            wanted -= jobs.queue_entries(text).keys()  # not finished yet
        forgotten = wanted - known.keys()
        failed = {number for number in wanted & known.keys() if known[number].outcome is Outcome.FAILED}
        if (forgotten or failed) and self._accounted:
            for chunk in chunks(jobs.asked(forgotten | failed), _LETTERS):
                known = jobs.joined(known, jobs.accounted(self._sacct(chunk, needed=bool(forgotten))))
        known |= self._vanished(wanted - known.keys())
        return {number: known[number] for number in wanted if number in known}

    def _vanished(self, numbers: set[str]) -> dict[str, Verdict]:
        """Return the elements that were cancelled while waiting, if their arrays are still known."""
        waited = {number: number.partition("_")[0] for number in numbers & self._waited if "_" in number}
        if not waited:
            return {}
        known = jobs.rows(self._remembered(sorted(set(waited.values()))), jobs.FIELDS)
        arrays = {row["JobArrayID"].partition("_")[0] for row in known}
        gone = Verdict(Outcome.CANCELLED, note="it was cancelled before it started")
        return {number: gone for number, array in waited.items() if array in arrays}

    def read(self, printed: str) -> Verdict | None:
        """Parse what Slurm wrote about the job's end into its output; None if it wrote nothing."""
        return verdict_from_output(printed)

    def cancel(self, numbers: Collection[str]) -> None:
        """Cancel jobs, whether waiting or running; finished jobs are ignored."""
        arrays: dict[str, set[int]] = {}
        for number in numbers:
            array, _, element = number.partition("_")
            arrays.setdefault(array, set()).update([int(element)] if element else [])
        whole = {number for number in numbers if "_" not in number}
        words = [
            array if array in whole else f"{array}_[{shortened(elements)}]"
            for array, elements in sorted(arrays.items())
        ]
        for chunk in chunks(words, _LETTERS):
            try:
                self._client.run("scancel", "--quiet", *chunk)
            except ProgramFailedError as refusal:
                if not has_ended(refusal.said):  # if so, all others are cancelled
                    raise

    def queue(self, run_fraction: float = 1.0) -> Snapshot:
        """Return the queue as seen by a job submitted now, in whole nodes: see `queue_snapshot`."""
        partition, known = self._partition, self._machines()
        usable = sum(known[name].node.usable for name in partition.nodes if name in known)
        if not usable:
            raise SchedulerUnreachableError(f"no node of the partition {partition.name} is available at the moment")
        fields = ",".join(f"{one}:|" for one in queue_snapshot.FIELDS)
        everybody = self._client.run("squeue", "--noheader", "--array", "--all", f"--Format={fields}")
        kept = self._client.run("scontrol", "--all", "--oneliner", "show", "reservation")
        own = [word.partition("=")[2] for word in self.options.extra if word.startswith("--reservation=")]
        now = time.time()
        seen = queue_snapshot.Queue(
            now=now,
            partition=partition,
            partitions=self._partitions,
            machines=known,
            jobs=list(queue_snapshot.queued(everybody)),
            reservations=[one for one in queue_snapshot.reservations(kept) if one.name not in own],
            hidden=self._hidden_ends(now, usable) if self._hidden else None,
        )
        return queue_snapshot.snapshot(seen, run_fraction)

    def _hidden_ends(self, now: float, usable: int) -> tuple[float, float]:
        """Ask when the first node is free, and when all are: known even if other users' jobs are hidden."""
        ends = []
        for nodes in (1, usable):
            request = Request(
                name="when",
                words=("true",),
                folder=Path("/"),
                output=Path("/dev/null"),
                nodes=nodes,
                whole_nodes=True,
                seconds=60,
            )
            try:
                wait = self._start(script(request, self.options), request.name)
            except SubmissionRejectedError:
                wait = None
            ends.append(now + (_DAY if wait is None else wait))
        return ends[0], max(ends)

    def _start(self, text: str, name: str) -> float | None:
        """Return when a job with this script would start, in seconds from now."""
        try:
            said = self._client.words("sbatch", "--test-only", stdin=text)
        except ProgramFailedError as refusal:
            if is_busy(refusal.said):
                return None
            raise refused(name, refusal.said) from None
        return parse_wait(said, time.time())

    def _check_size(self, request: Request) -> None:
        """Reject jobs that Slurm accepts but never starts: limits of a partition only hold a job back."""
        partition, most = self._partition, self._allowed.submitted
        if request.seconds is not None and request.seconds > self._seconds:
            raise SubmissionRejectedError(
                f"jobs in the partition {partition.name} may run for at most {format_seconds(self._seconds)}"
            )
        if partition.job_nodes is not None and request.nodes > partition.job_nodes:
            raise SubmissionRejectedError(
                f"jobs in the partition {partition.name} may have at most {partition.job_nodes} nodes"
            )
        if most is not None and request.elements > most:
            raise SubmissionRejectedError(
                f"this user may have {most} jobs at a time, and each array element counts as one"
            )

    def _squeue(self, fields: Collection[str], *words: str) -> str:
        return self._client.run(
            "squeue",
            "--me",
            "--noheader",
            "--array",
            "--all",
            *words,
            f"--Format={','.join(f'{one}:|' for one in fields)}",
        )

    def _remembered(self, numbers: list[str]) -> str:
        try:
            return self._squeue(jobs.FIELDS, "--states=all", f"--jobs={','.join(numbers)}")
        except ProgramFailedError as refusal:
            if has_ended(refusal.said):  # the controller has forgotten all of them
                return ""
            raise

    def _sacct(self, numbers: list[str], *, needed: bool = True) -> str:
        """Query the accounting database; if it does not answer and is not needed, return nothing."""
        words = ("--parsable2", "--noconvert", f"--jobs={','.join(numbers)}", f"--format={jobs.ACCOUNTED}")
        try:
            return self._client.run("sacct", *words, seconds=_ACCOUNTING_SECONDS)
        except (ProgramFailedError, SchedulerUnreachableError):
            if needed:
                raise
            return ""

    def _machines(self) -> dict[str, Machine]:
        return machines(self._client.run("scontrol", "--all", "--oneliner", "show", "node"))

    @cached_property
    def _settings(self) -> dict[str, str]:
        return settings(self._client.run("scontrol", "show", "config"))

    @property
    def _accounted(self) -> bool:
        return self._settings.get("AccountingStorageType", "").endswith("slurmdbd")

    @property
    def _hidden(self) -> bool:
        return "jobs" in self._settings.get("PrivateData", "").split(",") and os.getuid() != 0

    @property
    def _array(self) -> int:
        """The most elements of an array: they are numbered below MaxArraySize, and each counts as a job."""
        sizes = [self._settings.get(name, "") for name in ("MaxArraySize", "MaxJobCount")]
        most = min((int(size) for size in sizes if size.isdigit()), default=0)
        return most if most > 1 else 0

    @cached_property
    def _partitions(self) -> dict[str, Partition]:
        return partitions(self._client.run("scontrol", "--all", "--oneliner", "show", "partition"))

    @cached_property
    def _partition(self) -> Partition:
        """The partition that jobs are submitted to."""
        known, name = self._partitions, self.options.partition
        if name is None:
            name = next((one.name for one in known.values() if one.default), None)
        if name is None:
            raise InputError("this cluster has no default partition", hint=f"choose one of {', '.join(known)}")
        if name not in known:
            close = closest(name, known)
            hint = f"did you mean {close}? " if close else ""
            raise InputError(f'no such partition: "{name}"', hint=f"{hint}partitions: {', '.join(known)}")
        check_rights(known[name], self.options)
        return known[name]

    @property
    def _seconds(self) -> float:
        """The longest time limit of a job."""
        partition, allowed = self._partition.seconds, self._allowed.seconds
        return partition if allowed is None else min(partition, allowed)

    @cached_property
    def _allowed(self) -> accounts.Allowed:
        if not self._accounted or not accounts.is_enforced(self._settings.get("AccountingStorageEnforce", "")):
            return accounts.Allowed()
        words = ("--noheader", "--parsable2", "show")
        user, cluster = user_name(), self._settings.get("ClusterName", "")
        where = ("user", "withassoc", "where", f"name={user}", f"cluster={cluster}", f"format={accounts.ASSOCIATION}")
        try:
            found = accounts.associations(self._client.run("sacctmgr", *words, *where))
            known = accounts.qualities(self._client.run("sacctmgr", *words, "qos", f"format={accounts.QOS}"))
        except ProgramFailedError:  # users may not query it: sbatch will report what is too much
            return accounts.Allowed()
        partition = self._partition
        association, allowed = accounts.allowed(
            found,
            known,
            account=self.options.account,
            qos=self.options.qos,
            partition=partition.name,
            partition_qos=partition.qos,
        )
        check_rights(partition, replace(self.options, account=association.account))
        return allowed


def _within(machine: Machine, partition: Partition) -> Node:
    """Return a node with what a job may use of it, in this partition and now."""
    node = machine.node
    return replace(
        node,
        cores=int(min(node.cores, partition.node_cores)),
        memory=min(node.memory, partition.node_memory),
        usable=node.usable and not machine.reserved,
    )
