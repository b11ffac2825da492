"""The live queue in whole nodes, as a snapshot that answers "what if" questions.

Deliberate simplifications:

- A node is taken until the last of its jobs is expected to end, however little of it they use.
- A waiting job takes as many nodes as its cores or its memory fill, rounded up; jobs that fill parts of a node share
  nodes, which are filled one after another in the order of the queue.
- Waiting jobs are placed in order of priority, each at the earliest start that delays none before it, by the same code
  as in the simulated cluster. Jobs that Slurm itself does not consider now are left out: they are held, wait for other
  jobs or for a begin time, or their users have reached their limit of running jobs.
- A job waiting in a partition that shares nodes with ours takes the same share of its nodes here.
- Nodes that are down or drained are left out; reserved nodes are taken while the reservation lasts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import ceil
from statistics import median

import numpy as np

from tonnage.batch.scheduler import Node
from tonnage.batch.simulator.cluster import Cluster
from tonnage.batch.simulator.workload import Workload
from tonnage.batch.slurm.host_lists import expanded
from tonnage.batch.slurm.jobs import RUNS, rows
from tonnage.batch.slurm.scontrol import Machine, Partition, blocks, parse_slurm_time
from tonnage.batch.snapshot import Snapshot
from tonnage.logs.amounts import binary_bytes

__all__ = ["FIELDS", "Queue", "Queued", "Reservation", "queued", "reservations", "snapshot"]

FIELDS = (
    *("State", "Partition", "NumNodes", "NumCPUs", "tres-alloc", "TimeLimit", "StartTime", "PriorityLong"),
    *("OverSubscribe", "NodeList", "Reservation", "JobID", "Reason"),
)
"""The fields requested from squeue for all users' jobs; none contains text written by users."""

_YEAR = 365 * 86400
"""The expected run time of a job without a time limit: very long, but not forever."""
_SOON = 60
"""When a job that has run longer than expected is expected to end."""
_NOT_NOW = ("BeginTime", "Dependency", "JobArrayTaskLimit", "JobHeld", "Reservation")
_NEVER = ("BadConstraints", "InactiveLimit", "InvalidAccount", "InvalidQOS", "PartitionNodeLimit", "PartitionTimeLimit")
_OWN_LIMITS = ("Assoc", "QOS", "MaxJobsPer", "AccountNotAllowed")
_NOT_CONSIDERED = _NOT_NOW + _NEVER + _OWN_LIMITS


@dataclass(frozen=True, slots=True)
class Queued:
    """A running or waiting job of any user."""

    number: int
    runs: bool
    partitions: tuple[str, ...]
    seconds: float
    """Its time limit."""
    started: float | None = None
    leaves: bool = False
    """Whether it has ended and is being cleaned up."""
    hosts: tuple[str, ...] = ()
    nodes: int = 1
    cores: float = 1
    memory: float = 0
    """In bytes; cores and memory are totals over all of its nodes."""
    alone: bool = False
    """Whether it does not share its nodes."""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes reserved for certain users or purposes."""

    name: str
    hosts: tuple[str, ...]
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Queue:
    """Everything known about a queue at one moment."""

    now: float
    partition: Partition
    partitions: Mapping[str, Partition]
    machines: Mapping[str, Machine]
    jobs: Sequence[Queued]
    reservations: Sequence[Reservation] = ()
    hidden: tuple[float, float] | None = None
    """If other users' jobs are hidden: when the first and the last of their nodes become free."""


def queued(text: str) -> Iterator[Queued]:
    """Parse from squeue's output the jobs that have nodes or are considered for some."""
    for row in rows(text, FIELDS):
        runs = row["State"] in RUNS
        if not runs and (row["State"] != "PENDING" or row["Reason"].startswith(_NOT_CONSIDERED)):
            continue
        if not runs and row["Reservation"] not in ("", "(null)", "N/A"):
            continue  # its nodes are not generally available
        cores, memory = _total(row["tres-alloc"])
        yield Queued(
            number=int(row["JobID"]),
            runs=runs,
            partitions=tuple(row["Partition"].split(",")),
            seconds=_limit(row["TimeLimit"]),
            started=float(row["StartTime"]) if runs and row["StartTime"].isdigit() else None,
            leaves=row["State"] == "COMPLETING",
            hosts=_hosts(row["NodeList"]) if runs else (),
            nodes=_number(row["NumNodes"]),
            cores=cores or _number(row["NumCPUs"]),
            memory=memory,
            alone=row["OverSubscribe"] == "NO",
            priority=_number(row["PriorityLong"]),
        )


def reservations(text: str) -> Iterator[Reservation]:
    """Parse the reservations of nodes printed by ``scontrol -o show reservation``."""
    for fields in blocks(text):
        begin, end = fields.get("StartTime", ""), fields.get("EndTime", "")
        hosts = expanded(fields.get("Nodes", ""))
        if hosts and begin.isdigit() and end.isdigit():
            yield Reservation(fields.get("ReservationName", ""), hosts, float(begin), float(end))


def snapshot(queue: Queue, run_fraction: float = 1.0) -> Snapshot:
    """Return the queue as seen by a job submitted now, if others run for this fraction of their time limits."""
    now = int(queue.now)
    usable = [queue.machines[name].node for name in queue.partition.nodes if _is_usable(queue.machines.get(name))]
    size = len(usable)
    times, free = _free(now, size, _taken(queue, [node.name for node in usable], run_fraction))
    running = Snapshot(now, size, np.array(times, np.int64), np.array(free, np.int64))
    waiting = list(_waiting(queue, usable, run_fraction))
    if not waiting:
        return running
    table = np.array([(now, nodes, seconds, seconds) for nodes, seconds in waiting], np.int64).T
    cluster = Cluster.after(running, Workload.of(size, np.ascontiguousarray(table)))
    cluster.advance(now)
    return cluster.snapshot()


def _is_usable(machine: Machine | None) -> bool:
    return machine is not None and machine.node.usable


def _taken(queue: Queue, names: Sequence[str], run_fraction: float) -> Iterator[list[tuple[int, int]]]:
    """Yield for each node the intervals in which it is taken."""
    now = int(queue.now)
    ends: dict[str, int] = {}
    for job in queue.jobs:
        if job.runs:
            end = _end(job, queue.now, run_fraction)
            for host in job.hosts:
                ends[host] = max(end, ends.get(host, 0))
    if queue.hidden is not None:
        ends |= _hidden(queue, [name for name in names if name not in ends and queue.machines[name].allocated])
    kept: dict[str, list[tuple[int, int]]] = {}
    for reservation in queue.reservations:
        if reservation.end > now:
            for host in reservation.hosts:
                kept.setdefault(host, []).append((max(now, int(reservation.begin)), ceil(reservation.end)))
    for name in names:
        yield [*([(now, ends[name])] if name in ends else []), *kept.get(name, [])]


def _end(job: Queued, now: float, run_fraction: float) -> int:
    """Return when a running job is expected to end: in the future, or soon if it has already run too long."""
    if job.leaves:
        return int(now) + 1
    started = now if job.started is None else job.started
    seconds = min(job.seconds, _YEAR)
    expected = started + seconds * run_fraction
    if expected <= now:
        expected = now + min(_SOON, started + seconds - now)
    return max(ceil(expected), int(now) + 1)


def _hidden(queue: Queue, names: Sequence[str]) -> dict[str, int]:
    """Return when nodes with hidden jobs become free: evenly between the first and the last moment."""
    first, last = queue.hidden or (queue.now, queue.now)
    steps = max(1, len(names) - 1)
    return {
        name: max(ceil(first + (last - first) * place / steps), int(queue.now) + 1) for place, name in enumerate(names)
    }


def _free(now: int, size: int, taken: Iterable[list[tuple[int, int]]]) -> tuple[list[int], list[int]]:
    """Return breakpoints, and the number of free nodes from each on."""
    changes: dict[int, int] = {now: 0}
    for spans in taken:
        until = now
        for begin, end in sorted(spans):  # a reservation may begin while a job is still running there
            if end > until:
                changes[max(begin, until)] = changes.get(max(begin, until), 0) - 1
                changes[end] = changes.get(end, 0) + 1
                until = end
    times = sorted(time for time, change in changes.items() if change or time == now)
    return times, list(accumulate((changes[time] for time in times), initial=size))[1:]


def _waiting(queue: Queue, usable: Sequence[Node], run_fraction: float) -> Iterator[tuple[int, int]]:
    """Yield the nodes and seconds of waiting jobs, in the order in which they are placed."""
    cores, memory = median(node.cores for node in usable), median(node.memory for node in usable)
    shares = _shares(queue)
    placed: list[list[float]] = []  # nodes, seconds
    open_node, room = -1, 0.0
    for job in sorted((job for job in queue.jobs if not job.runs), key=lambda job: _rank(job, queue.partitions)):
        share = max((shares.get(name, 0.0) for name in job.partitions), default=0.0)
        seconds = max(1, ceil(min(job.seconds, _YEAR) * run_fraction))
        filled = max(job.cores / max(cores, 1), job.memory / max(memory, 1), job.nodes if job.alone else 0) * share
        if not filled or ceil(filled) > len(usable):
            continue
        if filled >= 1 or filled > room:
            placed.append([ceil(filled), seconds])
            if filled < 1:
                open_node, room = len(placed) - 1, 1 - filled
        else:
            placed[open_node][1] = max(placed[open_node][1], seconds)
            room -= filled
    yield from ((int(nodes), int(seconds)) for nodes, seconds in placed)


def _shares(queue: Queue) -> dict[str, float]:
    """Return the fraction of each partition's nodes that is also in ours."""
    ours = set(queue.partition.nodes)
    return {
        partition.name: sum(name in ours for name in partition.nodes) / len(partition.nodes)
        for partition in queue.partitions.values()
        if partition.nodes
    }


def _rank(job: Queued, partitions: Mapping[str, Partition]) -> tuple[int, int, int]:
    tier = max((partitions[name].tier for name in job.partitions if name in partitions), default=0)
    return -tier, -job.priority, job.number


@lru_cache(maxsize=4096)
def _total(text: str) -> tuple[float, float]:
    """Parse the cores and bytes from trackable resources such as ``cpu=8,mem=400M,node=2``."""
    tres = dict(item.partition("=")[::2] for item in text.split(","))
    cores, memory = tres.get("cpu", ""), tres.get("mem", "")
    return float(cores) if cores.isdigit() else 0.0, float(binary_bytes(memory, "mem", "M") or 0) if memory else 0.0


_limit = lru_cache(maxsize=4096)(parse_slurm_time)
_hosts = lru_cache(maxsize=4096)(expanded)


def _number(text: str) -> int:
    digits = text.partition("-")[0]
    return int(digits) if digits.isdigit() else 0
