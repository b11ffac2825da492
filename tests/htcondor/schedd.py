"""The stand-in's schedd, and its machines in the same process: it keeps the queue, runs jobs, and answers programs."""

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.htcondor import eventlog
from tests.htcondor.description import evaluated
from tests.htcondor.eventlog import Usage
from tests.htcondor.execution import kill_tree
from tests.htcondor.jobs import HELD, REMOVED, RUNNING, Job, Manager, node_job
from tests.htcondor.machine import Machine
from tests.htcondor.queue import Queue
from tests.htcondor.wire import ADDRESS, SOCKET, read_request, send_answer

__all__ = ["main"]

_LOOK_SECONDS, _DISK_SECONDS, _POLICY_SECONDS, _IDLE_SECONDS = 0.02, 0.1, 0.5, 0.2
_SUBREAPER = 36
_BY_USER, _PREEMPTED, _LOST = 1, 1011, 1008
_LEAVES = range(3)
"""Exit statuses of a DAGMan that does not come back."""


class Schedd:
    """The queue and the machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queue = Queue(folder)
        self._managers: dict[int, Manager] = {}
        self._clusters = iter(range(1, 1 << 31))
        self._next_look = self._next_disk = self._next_policy = 0.0

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
            # The socket appears under its name only when it listens: a call between bind and listen would be refused.
            unready = self._folder / f"{SOCKET}.new"
            server.bind(str(unready))
            server.listen(128)
            unready.rename(self._folder / SOCKET)
            selector.register(server, selectors.EVENT_READ)
            selector.register(near, selectors.EVENT_READ)
            while True:
                busy = any(job.execution for job in self._queue.jobs.values())
                for key, _ in selector.select(_LOOK_SECONDS if busy else _IDLE_SECONDS):
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
            self._queue.measure(with_disk=now >= self._next_disk)
            if now >= self._next_disk:
                self._next_disk = now + _DISK_SECONDS
        if now >= self._next_policy:
            self._next_policy = now + _POLICY_SECONDS
            for job in list(self._queue.jobs.values()):
                self._queue.apply_policy(job)
        self._queue.match()

    def _reap(self) -> None:
        running = {job.execution.process.pid: job for job in self._queue.jobs.values() if job.execution}
        managers = {one.process.pid: one for one in self._managers.values() if one.process}
        with suppress(ChildProcessError):
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                process, status, used = ended
                value = os.waitstatus_to_exitcode(status)
                if process in running and running[process].execution:
                    self._queue.finish(running[process], value, (used.ru_utime, used.ru_stime))
                elif process in managers:
                    self._manager_ended(managers[process], value)

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
        if manager.removed_for is None and value not in _LEAVES:
            manager.tell(eventlog.ended_and_requeued(manager.name, -value))
            self._start_manager(manager)
            return
        self._managers.pop(manager.cluster, None)
        if manager.removed_for is None:
            manager.tell(eventlog.terminated(manager.name, Usage(), value))
            return
        for job in self._of(manager):
            self._queue.remove(job, manager.removed_for)
        if manager.started is not None:
            manager.tell(eventlog.evicted(manager.name, Usage()))
        manager.tell(eventlog.aborted(manager.name, manager.removed_for))

    def _of(self, manager: Manager) -> list[Job]:
        return [job for job in self._queue.jobs.values() if job.ad["DAGManJobId"] == manager.cluster]

    def _remove_manager(self, manager: Manager, reason: str) -> None:
        manager.removed_for, was, manager.status = reason, manager.status, REMOVED
        if manager.process:
            os.kill(manager.process.pid, signal.SIGUSR1)
        for job in self._of(manager):
            self._queue.remove(job, f"{reason}: its DAGMan {manager.cluster} was removed")
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
        if manager not in self._managers:
            raise ValueError(f"DAGMan {manager} is not in the queue")
        self._queue.add(node_job(request, cluster, self._managers[manager]))

    def do_facts(self, *, manager: int, facts: dict[str, Any]) -> None:
        """Note what a DAGMan says about itself."""
        if manager in self._managers:
            self._managers[manager].facts = facts

    def do_jobs(self, *, constraint: str | None) -> list[dict[str, Any]]:
        """Return the ads of the jobs that a constraint holds for."""
        ads = [one.ad for one in self._managers.values()] + [one.ad for one in self._queue.jobs.values()]
        ads.sort(key=lambda ad: ad["ClusterId"])
        return [ad for ad in ads if constraint is None or evaluated(constraint, ad) is True]

    def do_machines(self, *, constraint: str | None) -> list[dict[str, Any]]:
        """Return the ads of the machines that a constraint holds for."""
        ads = [_machine_ad(machine) for machine in self._queue.machines]
        return [ad for ad in ads if constraint is None or evaluated(constraint, ad) is True]

    def do_edit(self, *, constraint: str, attribute: str, value: str) -> int:
        """Change an attribute of the jobs that a constraint holds for; return how many there were."""
        chosen = [job for job in self._queue.jobs.values() if evaluated(constraint, job.ad) is True]
        for job in chosen:
            self._queue.edit(job, attribute.lower(), evaluated(value, {}))
        return len(chosen)

    def do_act(self, *, action: str, clusters: list[int], reason: str, codes: tuple[int, int] = (1, 0)) -> list[int]:
        """Remove, hold or release jobs; return those that there were."""
        done = []
        for cluster in clusters:
            if cluster in self._managers:
                self._act_on_manager(self._managers[cluster], action, reason)
            elif cluster not in self._queue.jobs or not self._act_on(self._queue.jobs[cluster], action, reason, codes):
                continue
            done.append(cluster)
        return done

    def _act_on(self, job: Job, action: str, reason: str, codes: tuple[int, int]) -> bool:
        """Do something to a job; whether its state allows it."""
        is_held = job.ad["JobStatus"] == HELD
        if (action == "release") != is_held and action != "remove":
            return False
        if action == "remove":
            self._queue.remove(job, reason)
        elif action == "release":
            self._queue.release(job, reason)
        else:
            if job.execution:
                self._queue.stop(job, reason, codes)
            self._queue.hold(job, reason, *codes)
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
            self._queue.stop(job, "Job not found at execution machine", (_LOST, 0))
        else:
            self._queue.stop(job, "PREEMPT expression evaluated to True", (_PREEMPTED, 0))

    def do_kill_dagman(self, *, restarts: bool) -> None:
        """Kill the DAGMan that runs; the schedd starts it again, or all trace of it is lost."""
        for manager in [one for one in self._managers.values() if one.process]:
            if manager.process:
                os.kill(manager.process.pid, signal.SIGKILL)
            if not restarts:
                del self._managers[manager.cluster]

    def _running(self, node: str) -> Job:
        for job in self._queue.jobs.values():
            if job.node == node and job.execution:
                return job
        raise LookupError(f"node {node} does not run")

    def end(self) -> None:
        """Kill everything that we have started."""
        for manager in self._managers.values():
            if manager.process:
                kill_tree(manager.process.pid)
        for job in self._queue.jobs.values():
            if job.execution:
                job.execution.kill()
        for child in _children():  # what was left behind by others
            kill_tree(child)


def _children() -> list[int]:
    me = os.getpid()
    return [int(word) for word in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


def _machine_ad(machine: Machine) -> dict[str, Any]:
    total, free = machine.total, machine.free
    return {
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
