"""The stand-in's schedd and its machines in one process: it keeps the queue, matches jobs to machines, and runs them."""

import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from htcondor import eventlog
from htcondor.description import Requests, evaluated
from htcondor.eventlog import Amount, Usage
from htcondor.execution import Execution, Machine, Order, kill_tree, start
from htcondor.jobs import HELD, IDLE, REMOVED, RUNNING, Job, Manager, node_job
from htcondor.transfer import MissingFileError
from htcondor.wire import ADDRESS, SOCKET, read_request, send_answer

__all__ = ["main"]

_MIB, _KIB = 2**20, 2**10
_LOOK_SECONDS, _DISK_SECONDS, _POLICY_SECONDS = 0.02, 0.1, 0.5
_SUBREAPER = 36
_KNOWS_LADDERS = (25, 0, 0)
_SUBCODES = {"memory": 102, "disk": 104}
_OUT_OF_RESOURCES, _DOWNLOAD, _UPLOAD, _BY_USER = 34, 12, 13, 1
_CANNOT_START, _CANNOT_OPEN = 6, 7
_PREEMPTED, _LOST = 1011, 1008


class Schedd:
    """The queue and the machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = json.loads((folder / "settings.json").read_text())
        machines = [(f"machine{n}.example.org", Requests(**one)) for n, one in enumerate(self._settings["machines"], 1)]
        self._machines = [Machine(name, total, total) for name, total in machines]
        self._jobs: dict[int, Job] = {}
        self._managers: dict[int, Manager] = {}
        self._clusters = iter(range(1, 1 << 31))
        self._next_look = self._next_disk = self._next_policy = 0.0
        self._changed = False

    # The loop

    def serve(self) -> None:
        """Answer and look after jobs until somebody ends us."""
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # what jobs leave behind becomes ours
        near, far = socket.socketpair()
        for end in (near, far):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server, selectors.DefaultSelector() as selector:
            server.bind(str(self._folder / SOCKET))
            server.listen(128)
            selector.register(server, selectors.EVENT_READ)
            selector.register(near, selectors.EVENT_READ)
            while True:
                busy = any(job.execution for job in self._jobs.values())
                for key, _ in selector.select(_LOOK_SECONDS if busy else 0.2):
                    if key.fileobj is server:
                        self._answer(server.accept()[0])
                    else:
                        near.recv(1 << 12)
                self._look_after_jobs()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError, BrokenPipeError):
            request = read_request(connection)
            action: Callable[..., Any] = getattr(self, f"do_{request.pop('do')}")
            try:
                send_answer(connection, answer=action(**request))
            except (LookupError, ValueError) as error:
                send_answer(connection, error=str(error))

    def _look_after_jobs(self) -> None:
        self._reap()
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._measure(with_disk=now >= self._next_disk)
            if now >= self._next_disk:
                self._next_disk = now + _DISK_SECONDS
        if now >= self._next_policy:
            self._next_policy = now + _POLICY_SECONDS
            for job in list(self._jobs.values()):
                self._apply_policy(job)
        if self._changed:
            self._changed = False
            self._match()

    def _reap(self) -> None:
        running = {job.execution.process.pid: job for job in self._jobs.values() if job.execution}
        managers = {one.process.pid: one for one in self._managers.values() if one.process}
        with suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                process, status, used = ended
                value = os.waitstatus_to_exitcode(status)
                if process in running and running[process].execution:
                    self._finish(running[process], value, (used.ru_utime, used.ru_stime))
                elif process in managers:
                    self._manager_ended(managers[process], value)

    # Matching and running

    def _match(self) -> None:
        waiting = [job for job in self._jobs.values() if job.ad["JobStatus"] == IDLE]
        for job in sorted(waiting, key=lambda job: (-job.ad["JobPrio"], job.cluster)):
            given = self._provisioned(job.asked)
            machine = next((one for one in self._machines if one.has_room(given)), None)
            if machine is not None:
                self._start(job, machine, given)

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
            self._hold(job, reason, _UPLOAD, 2)
            return
        except OSError as error:
            code = _CANNOT_START if error.filename == job.ad["Cmd"] else _CANNOT_OPEN
            reason = f"Error from {slot}: Failed to execute or open '{error.filename}': {error.strerror}"
            self._hold(job, reason, code, error.errno or 0)
            return
        job.execution.measure()  # it may be over before we look again
        if transfers:
            job.tell(eventlog.transferring(job.name, "Finished transferring input files"))
        machine.take(given)
        self._record(job, machine)
        job.become(RUNNING)
        job.ad["JobCurrentStartDate"] = int(time.time())
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

    def _measure(self, *, with_disk: bool) -> None:
        for job in list(self._jobs.values()):
            execution = job.execution
            if execution is None:
                continue
            memory = execution.measure()
            disk = execution.measure_disk() if with_disk else 0
            if execution.memory > 2 * execution.told:
                execution.told = execution.memory
                job.tell(eventlog.grown(job.name, execution.memory // _KIB))
            if self._settings["enforces"]:
                if memory > execution.given.memory * _MIB:
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
        self._stop(job, reason, codes)
        if not (self._knows_ladders() and job.grow(resource)):
            self._hold(job, reason, *codes)

    def _knows_ladders(self) -> bool:
        version = (self._folder / "version").read_text().split(".")
        return tuple(map(int, version)) >= _KNOWS_LADDERS

    def _finish(self, job: Job, value: int, times: tuple[float, float]) -> None:
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
            self._hold(job, reason, _DOWNLOAD, 2)
            return
        finally:
            execution.kill()  # what it left behind
            shutil.rmtree(execution.order.scratch, ignore_errors=True)
        if execution.order.transfers:
            job.tell(eventlog.transferring(job.name, "Finished transferring output files"))
        self._leave(job, eventlog.terminated(job.name, _usage(execution, times, sent), value))

    def _stop(self, job: Job, reason: str, codes: tuple[int, int] | None) -> None:
        """Take a job from its machine; it waits again."""
        execution = self._ended(job)
        job.tell(eventlog.evicted(job.name, _usage(execution, execution.times), reason, codes))
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
        job.ad["MemoryUsage"] = -(-execution.memory // _MIB)
        execution.machine.take(execution.given, -1)
        self._record(job, execution.machine)
        self._changed = True
        return execution

    def _hold(self, job: Job, reason: str, code: int, subcode: int) -> None:
        job.become(HELD)
        job.ad |= {"HoldReason": reason, "HoldReasonCode": code, "HoldReasonSubCode": subcode}
        job.tell(eventlog.held(job.name, reason, code, subcode))
        self._apply_policy(job)

    def _apply_policy(self, job: Job) -> None:
        """Remove or release a job whose description says when."""
        expression = job.commands.get("periodic_remove")
        if expression and evaluated(expression, job.ad) is True:
            self._remove(job, f"The job attribute PeriodicRemove expression '{expression}' evaluated to TRUE")
            return
        expression = job.commands.get("periodic_release")
        if job.ad["JobStatus"] == HELD and expression and evaluated(expression, job.ad) is True:
            self._release(job, f"The job attribute PeriodicRelease expression '{expression}' evaluated to TRUE")

    def _release(self, job: Job, reason: str) -> None:
        job.become(IDLE)
        job.tell(eventlog.released(job.name, reason))
        self._changed = True

    def _remove(self, job: Job, reason: str) -> None:
        if job.execution:
            self._ended(job)
        self._leave(job, eventlog.aborted(job.name, reason))

    def _leave(self, job: Job, event: str) -> None:
        self._jobs.pop(job.cluster, None)
        self._changed = True
        job.tell(event)

    # DAGMans

    def _start_manager(self, manager: Manager) -> None:
        manager.status, manager.started = RUNNING, int(time.time())
        manager.tell(eventlog.executing(manager.name, ADDRESS))
        words = [str(self._folder), str(manager.cluster), str(manager.dag), json.dumps(dict(manager.options))]
        with Path(f"{manager.dag}.lib.out").open("ab") as out, Path(f"{manager.dag}.lib.err").open("ab") as err:
            manager.process = subprocess.Popen(
                [str(self._folder / "libexec" / "condor_dagman"), *words],
                cwd=manager.folder,
                env=dict(manager.environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def _manager_ended(self, manager: Manager, value: int) -> None:
        manager.process = None
        if manager.status == HELD:
            return
        if manager.removed_for is None and not 0 <= value <= 2:
            manager.tell(eventlog.ended_and_requeued(manager.name, -value))
            self._start_manager(manager)
            return
        self._managers.pop(manager.cluster, None)
        if manager.removed_for is None:
            manager.tell(eventlog.terminated(manager.name, Usage(), value))
            return
        for job in self._of(manager):
            self._remove(job, manager.removed_for)
        manager.tell(eventlog.aborted(manager.name, manager.removed_for))

    def _of(self, manager: Manager) -> list[Job]:
        return [job for job in self._jobs.values() if job.ad["DAGManJobId"] == manager.cluster]

    def _remove_manager(self, manager: Manager, reason: str) -> None:
        manager.removed_for, was, manager.status = reason, manager.status, REMOVED
        if manager.process:
            os.kill(manager.process.pid, signal.SIGUSR1)
        for job in self._of(manager):
            self._remove(job, f"{reason}: its DAGMan {manager.cluster} was removed")
        if was == HELD or not manager.process:
            self._manager_ended(manager, 2)

    # What programs ask

    def do_submit_dag(self, **request: Any) -> int:
        """Take a DAGMan into the queue, and start it."""
        cluster = next(self._clusters)
        dag = Path(request["dag"])
        batch_name = request["options"].get("batch-name") or f"{dag.name}+{cluster}"
        manager = Manager(
            cluster,
            dag,
            Path(request["folder"]),
            request["options"],
            request["environment"],
            batch_name,
            request["owner"],
        )
        self._managers[cluster] = manager
        manager.tell(eventlog.submitted(manager.name, ADDRESS))
        self._start_manager(manager)
        return cluster

    def do_new_cluster(self) -> int:
        """Return a number for a job that is to be submitted."""
        return next(self._clusters)

    def do_submit(self, *, cluster: int, manager: int, **request: Any) -> None:
        """Take the job of a node into the queue."""
        if manager not in self._managers or self._managers[manager].status == REMOVED:
            raise ValueError(f"DAGMan {manager} is not in the queue")
        job = node_job(request, cluster, self._managers[manager])
        self._jobs[cluster] = job
        job.tell(eventlog.submitted(job.name, ADDRESS, job.node))
        self._changed = True

    def do_facts(self, *, manager: int, facts: dict[str, Any]) -> None:
        """Note what a DAGMan says about itself."""
        if manager in self._managers:
            self._managers[manager].facts = facts

    def do_jobs(self, *, constraint: str | None) -> list[dict[str, Any]]:
        """Return the ads of the jobs that a constraint holds for."""
        ads = [one.ad for one in (*self._managers.values(), *self._jobs.values())]
        ads.sort(key=lambda ad: ad["ClusterId"])
        return [ad for ad in ads if constraint is None or evaluated(constraint, ad) is True]

    def do_machines(self, *, constraint: str | None) -> list[dict[str, Any]]:
        """Return the ads of the machines that a constraint holds for."""
        ads = [ad for machine in self._machines for ad in _machine_ads(machine)]
        return [ad for ad in ads if constraint is None or evaluated(constraint, ad) is True]

    def do_act(self, *, action: str, clusters: list[int], reason: str, codes: tuple[int, int] = (1, 0)) -> list[int]:
        """Remove, hold or release jobs; return those that there were."""
        done = []
        for cluster in clusters:
            if cluster in self._managers:
                self._act_on_manager(self._managers[cluster], action, reason)
            elif cluster not in self._jobs or not self._act_on(self._jobs[cluster], action, reason, codes):
                continue
            done.append(cluster)
        return done

    def _act_on(self, job: Job, action: str, reason: str, codes: tuple[int, int]) -> bool:
        """Do something to a job; whether its state allows it."""
        is_held = job.ad["JobStatus"] == HELD
        if (action == "release") != is_held and action != "remove":
            return False
        if action == "remove":
            self._remove(job, reason)
        elif action == "release":
            self._release(job, reason)
        else:
            if job.execution:
                self._stop(job, reason, codes)
            self._hold(job, reason, *codes)
        return True

    def _act_on_manager(self, manager: Manager, action: str, reason: str) -> None:
        if action == "remove":
            self._remove_manager(manager, reason)
        elif action == "hold":
            manager.status, manager.hold_reason = HELD, reason
            manager.tell(eventlog.held(manager.name, reason, _BY_USER, 0))
            if manager.process:
                os.kill(manager.process.pid, signal.SIGKILL)
        elif manager.status == HELD:
            manager.tell(eventlog.released(manager.name, reason))
            self._start_manager(manager)

    # What tests order

    def do_evict(self, *, node: str, lost: bool = False) -> None:
        """Take a running job from its machine, which may be gone."""
        job = self._running(node)
        slot = job.execution.slot if job.execution else ""
        if lost:
            job.tell(eventlog.disconnected(job.name, slot, ADDRESS))
            job.tell(eventlog.reconnection_failed(job.name, slot))
            self._stop(job, "Job not found at execution machine", (_LOST, 0))
        else:
            self._stop(job, "PREEMPT expression evaluated to True", (_PREEMPTED, 0))

    def do_kill_dagman(self, *, restarts: bool) -> None:
        """Kill the DAGMan that runs; the schedd starts it again, or all trace of it is lost."""
        for manager in [one for one in self._managers.values() if one.process]:
            if manager.process:
                os.kill(manager.process.pid, signal.SIGKILL)
            if not restarts:
                del self._managers[manager.cluster]

    def _running(self, node: str) -> Job:
        for job in self._jobs.values():
            if job.node == node and job.execution:
                return job
        raise LookupError(f"node {node} does not run")

    def end(self) -> None:
        """Kill everything that we have started."""
        for manager in self._managers.values():
            if manager.process:
                kill_tree(manager.process.pid)
        for job in self._jobs.values():
            if job.execution:
                job.execution.kill()
        for child in _children():  # what was left behind by others
            kill_tree(child)


def _children() -> list[int]:
    me = os.getpid()
    return [int(word) for word in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


def _usage(execution: Execution, times: tuple[float, float], sent: int = 0) -> Usage:
    asked, given = execution.order.ad, execution.given
    seconds = int(time.time() - execution.began)
    memory = -(-execution.memory // _MIB) or None
    cpus = sum(times) / seconds if seconds else None
    return Usage(
        *times,
        sent=sent,
        amounts=(
            Amount("Cpus", cpus, int(str(asked["RequestCpus"])), given.cpus),
            Amount("Disk (KB)", execution.disk // _KIB, int(str(asked["RequestDisk"])), given.disk),
            Amount("Memory (MB)", memory, int(str(asked["RequestMemory"])), given.memory),
            Amount("TimeExecute (s)", seconds),
            Amount("TimeSlotBusy (s)", seconds),
        ),
    )


def _machine_ads(machine: Machine) -> Iterator[dict[str, Any]]:
    total, free = machine.total, machine.free
    yield {
        "Name": f"slot1@{machine.name}",
        "Machine": machine.name,
        "MyType": "Machine",
        "SlotType": "Partitionable",
        "PartitionableSlot": True,
        "State": "Unclaimed",
        "Activity": "Idle",
        "TotalSlotCpus": total.cpus,
        "TotalSlotMemory": total.memory,
        "TotalSlotDisk": total.disk,
        "Cpus": free.cpus,
        "Memory": free.memory,
        "Disk": free.disk,
    }


def main() -> None:
    """Serve the pool in a folder until a signal ends us."""
    schedd = Schedd(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        schedd.serve()
    finally:
        schedd.end()
