"""The jobs of nodes and the machines that run them: matched by priority, measured, stopped, held and let go."""

import json
import shutil
import time
from pathlib import Path

from tests.htcondor import eventlog
from tests.htcondor.description import evaluated
from tests.htcondor.eventlog import Amount, Usage
from tests.htcondor.execution import Execution, Order, start
from tests.htcondor.jobs import HELD, IDLE, RUNNING, Job
from tests.htcondor.machine import Machine, Requests
from tests.htcondor.transfer import MissingFileError
from tests.htcondor.wire import ADDRESS

__all__ = ["Queue"]

_MIB, _KIB = 2**20, 2**10
_KNOWS_LADDERS = _TELLS_CODES = (25, 0, 0)
_SUBCODES = {"memory": 102, "disk": 104}
_OUT_OF_RESOURCES, _DOWNLOAD, _UPLOAD = 34, 12, 13
_PREEMPTED, _REMOVED = 1011, 1023
_CANNOT_START, _CANNOT_OPEN = 6, 7


def _may_use(job: Job, machine: Machine) -> bool:
    """Whether a job's requirements hold for a machine."""
    ads = {"MY": dict(job.ad), "TARGET": {"Machine": machine.name}}
    return evaluated(job.commands.get("requirements", "true"), ads) is True


class Queue:
    """The jobs of nodes, and the machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = json.loads((folder / "settings.json").read_text())
        machines = [(f"machine{n}.example.org", Requests(**one)) for n, one in enumerate(self._settings["machines"], 1)]
        self.machines = [Machine(name, total, total) for name, total in machines]
        self.jobs: dict[int, Job] = {}
        self._changed = False

    def add(self, job: Job) -> None:
        """Take a job into the queue."""
        self.jobs[job.cluster] = job
        job.tell(eventlog.submitted(job.name, ADDRESS, job.node))
        self._changed = True

    def match(self) -> None:
        """Start the jobs for which there is room, if anything has changed; the highest priorities first."""
        if not self._changed:
            return
        self._changed = False
        waiting = [job for job in self.jobs.values() if job.ad["JobStatus"] == IDLE]
        for job in sorted(waiting, key=lambda job: (-job.ad["JobPrio"], job.cluster)):
            given = self._provisioned(job.asked)
            machine = next((one for one in self.machines if one.has_room(given) and _may_use(job, one)), None)
            if machine is not None:
                self._start(job, machine, given)

    def edit(self, job: Job, attribute: str, value: object) -> None:
        """Change what the ad of a job says."""
        job.ad[attribute] = value
        self._changed = True

    def _provisioned(self, asked: Requests) -> Requests:
        """Return what a job gets: HTCondor rounds memory and disk up."""
        quantum = self._settings["quantum"]
        return Requests(asked.cpus, -(-asked.memory // quantum) * quantum, -(-asked.disk // 1024) * 1024)

    def _start(self, job: Job, machine: Machine, given: Requests) -> None:
        machine.slots += 1
        job.ad["NumJobStarts"] += 1
        slot = f"slot1_{machine.slots}@{machine.name}"
        host = f"<127.0.0.1:9620?addrs=127.0.0.1-9620&alias={machine.name}&noUDP&sock=startd>"
        scratch = self._folder / "execute" / f"dir_{job.cluster}_{job.ad['NumJobStarts']}"
        transfers = self._transfers(job)
        order = Order(job.commands, job.home, scratch, transfers, dict(job.ad), job.inherited)
        if transfers:
            job.tell(eventlog.transferring(job.name, "Started transferring input files", host))
        try:
            job.execution = start(order, machine, slot, given)
        except MissingFileError as error:
            reason = (
                "Transfer input files failure at access point standin.example.org while sending files to the "
                f"execution point {slot}. Details: reading from file {error}: (errno 2) No such file or directory"
            )
            self.hold(job, reason, _UPLOAD, 2)
            return
        except OSError as error:
            code = _CANNOT_START if error.filename == job.ad["Cmd"] else _CANNOT_OPEN
            reason = f"Error from {slot}: Failed to execute or open '{error.filename}': {error.strerror}"
            self.hold(job, reason, code, error.errno or 0)
            return
        job.execution.measure()  # it may be over before we look again
        if transfers:
            job.tell(eventlog.transferring(job.name, "Finished transferring input files"))
        machine.take(given)
        self._record(job, machine)
        job.become(RUNNING)
        job.ad |= {"JobCurrentStartDate": int(time.time()), "MemoryProvisioned": given.memory}
        job.ad["DiskProvisioned"] = given.disk
        amounts = [f"Cpus = {given.cpus}", f"Disk = {given.disk}", f"Memory = {given.memory}"]
        job.tell(eventlog.executing(job.name, host, slot, [f'CondorScratchDir = "{scratch}"', *amounts]))

    def _transfers(self, job: Job) -> bool:
        wish = job.commands.get("should_transfer_files", "IF_NEEDED").strip().upper()
        return wish in ("YES", "TRUE") or (wish == "IF_NEEDED" and not self._settings["shared_filesystem"])

    def _record(self, job: Job, machine: Machine) -> None:
        """Note what of a machine is taken, for tests."""
        total, free = machine.total, machine.free
        taken = {
            "time": time.time(),
            "machine": machine.name,
            "node": job.node,
            "cpus": total.cpus - free.cpus,
            "memory": total.memory - free.memory,
            "disk": total.disk - free.disk,
        }
        with (self._folder / "taken.jsonl").open("a") as file:
            file.write(json.dumps(taken) + "\n")

    def measure(self, *, with_disk: bool) -> None:
        """Look at what jobs use, and stop those that use more than they were given."""
        for job in list(self.jobs.values()):
            execution = job.execution
            if execution is None:
                continue
            memory = execution.measure()
            disk = execution.measure_disk() if with_disk else 0
            if execution.has_news():
                job.tell(eventlog.grown(job.name, execution.memory // _KIB))
            if self._settings["enforces"]:
                if self._settings["preempts"] and max(memory, _seen(job)) > execution.given.memory * _MIB:
                    self.stop(job, "PREEMPT expression evaluated to True", (_PREEMPTED, 0))
                elif memory > execution.given.memory * _MIB:
                    self._exhausted(job, execution, "memory")
                elif disk > execution.given.disk * _KIB:
                    self._exhausted(job, execution, "disk")

    def _exhausted(self, job: Job, execution: Execution, resource: str) -> None:
        """Stop a job that takes more than it was given; it gets more, or is held."""
        given = execution.given
        said = {
            "memory": f"Job has gone over cgroup memory limit of {given.memory} megabytes. "
            f"Peak usage: {execution.memory // _MIB} megabytes.  Consider resubmitting with a higher request_memory.",
            "disk": f"Job has gone over disk limit of {given.disk} kilobytes. "
            f"Peak usage: {execution.disk // _KIB} kilobytes.  Consider resubmitting with a higher request_disk.",
        }[resource]
        reason, codes = f"Error from {execution.slot}: {said}", (_OUT_OF_RESOURCES, _SUBCODES[resource])
        self.stop(job, reason, codes)
        if not (self._is_at_least(_KNOWS_LADDERS) and job.grow(resource)):
            self.hold(job, reason, *codes)

    def _is_at_least(self, version: tuple[int, int, int]) -> bool:
        return tuple(map(int, (self._folder / "version").read_text().split("."))) >= version

    def finish(self, job: Job, value: int, times: tuple[float, float]) -> None:
        """Let a job leave the queue that ended by itself; where an output is missing, it stays."""
        execution = self._taken_back(job)
        execution.process.returncode = value
        execution.measure_disk()
        sent = 0
        if execution.order.transfers:
            job.tell(eventlog.transferring(job.name, "Started transferring output files", ADDRESS))
        try:
            sent = execution.bring_back()
        except MissingFileError as error:
            reason = (
                f"Transfer output files failure at execution point {execution.slot} while sending files to access "
                f"point standin.example.org. Details: reading from file {error}: (errno 2) No such file or directory"
            )
            job.tell(eventlog.evicted(job.name, _usage(execution, times), reason, (_DOWNLOAD, 2)))
            self.hold(job, reason, _DOWNLOAD, 2)
            return
        finally:
            execution.kill()  # what it left behind
            shutil.rmtree(execution.order.scratch, ignore_errors=True)
        if execution.order.transfers:
            job.tell(eventlog.transferring(job.name, "Finished transferring output files"))
        self._leave(job, eventlog.terminated(job.name, _usage(execution, times, sent), value))

    def stop(self, job: Job, reason: str, codes: tuple[int, int] | None) -> None:
        """Take a job from its machine; it waits again."""
        execution = self._ended(job)
        told = codes if self._is_at_least(_TELLS_CODES) else None
        job.tell(eventlog.evicted(job.name, _usage(execution, execution.times, memory=_seen(job)), reason, told))
        job.become(IDLE)

    def _ended(self, job: Job) -> Execution:
        """Kill a job, and give back what its machine gave it."""
        execution = self._taken_back(job)
        execution.times = execution.processor_seconds()
        execution.kill()
        shutil.rmtree(execution.order.scratch, ignore_errors=True)
        return execution

    def _taken_back(self, job: Job) -> Execution:
        execution = job.execution
        if execution is None:
            raise ValueError(f"job {job.cluster}.0 does not run")
        job.execution = None
        job.ad["MemoryUsage"] = -(-max(_seen(job), execution.memory) // _MIB)  # it never shrinks
        execution.machine.take(execution.given, -1)
        self._record(job, execution.machine)
        self._changed = True
        return execution

    def hold(self, job: Job, reason: str, code: int, subcode: int) -> None:
        """Put a job on hold that does not run."""
        job.become(HELD)
        job.ad |= {"HoldReason": reason, "HoldReasonCode": code, "HoldReasonSubCode": subcode}
        job.tell(eventlog.held(job.name, reason, code, subcode))
        self.apply_policy(job)

    def apply_policy(self, job: Job) -> None:
        """Remove or release a job whose description says when."""
        expression = job.commands.get("periodic_remove")
        if expression and evaluated(expression, job.ad) is True:
            self.remove(job, f"The job attribute PeriodicRemove expression '{expression}' evaluated to TRUE")
            return
        expression = job.commands.get("periodic_release")
        if job.ad["JobStatus"] == HELD and expression and evaluated(expression, job.ad) is True:
            self.release(job, f"The job attribute PeriodicRelease expression '{expression}' evaluated to TRUE")

    def release(self, job: Job, reason: str) -> None:
        """Let a job on hold wait again."""
        job.become(IDLE)
        job.tell(eventlog.released(job.name, reason))
        self._changed = True

    def remove(self, job: Job, reason: str) -> None:
        """Take a job out of the queue."""
        if job.execution:
            self.stop(job, reason, (_REMOVED, 0))
        self._leave(job, eventlog.aborted(job.name, reason))

    def _leave(self, job: Job, event: str) -> None:
        self.jobs.pop(job.cluster, None)
        self._changed = True
        job.tell(event)


def _seen(job: Job) -> int:
    """Return the bytes of memory that the ad of a job has: the most that any of its executions used."""
    return int(job.ad.get("MemoryUsage", 0)) * _MIB


def _usage(execution: Execution, times: tuple[float, float], sent: int = 0, memory: int = 0) -> Usage:
    asked, given = execution.order.ad, execution.given
    seconds = int(time.time() - execution.began)
    megabytes = -(-max(memory, execution.memory) // _MIB) or None
    cpus = sum(times) / seconds if seconds else None
    return Usage(
        *times,
        sent=sent,
        amounts=(
            Amount("Cpus", cpus, int(str(asked["RequestCpus"])), given.cpus),
            Amount("Disk (KB)", execution.disk // _KIB, int(str(asked["RequestDisk"])), given.disk),
            Amount("Memory (MB)", megabytes, int(str(asked["RequestMemory"])), given.memory),
            Amount("TimeExecute (s)", seconds),
            Amount("TimeSlotBusy (s)", seconds),
        ),
    )
