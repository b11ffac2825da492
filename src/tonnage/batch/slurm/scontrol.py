"""Parsers for scontrol: nodes, partitions and settings of the cluster."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from tonnage.batch.scheduler import Node
from tonnage.batch.slurm.host_lists import expanded
from tonnage.logs.amounts import clock_seconds
from tonnage.logs.log import UnusableError

__all__ = ["Machine", "Partition", "blocks", "machines", "parse_slurm_time", "partitions", "settings"]

_MIB = 1 << 20
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)")
_GONE = frozenset(("DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN"))
_CLOSED = frozenset(("DRAIN", "DRAINED", "DRAINING", "FAIL", "INVAL", "INVALID_REG", "NOT_RESPONDING", "NO_RESPOND"))
_HELD_BACK = frozenset(("MAINT", "MAINTENANCE", "RESERVED"))


@dataclass(frozen=True, slots=True)
class Machine:
    """A node and its current state."""

    node: Node
    reserved: bool = False
    """Whether it is reserved now: jobs outside of the reservation wait for its end."""
    allocated: bool = False
    """Whether a job is using some of it."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A queue: its nodes, and who may do what there."""

    name: str
    nodes: tuple[str, ...]
    default: bool
    state: str
    seconds: float
    job_nodes: int | None
    tier: int
    """Jobs in a partition of a higher tier go before all others."""
    node_cores: float
    node_memory: float
    """The most that a job may use of a node, in bytes."""
    qos: str | None
    groups: frozenset[str] | None
    """The groups that may use it; None: all."""
    accounts: frozenset[str] | None
    denied_accounts: frozenset[str]
    all_qos: frozenset[str] | None


def blocks(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each line of ``scontrol -o show``; the first occurrence of a field counts."""
    for line in text.splitlines():
        fields: dict[str, str] = {}
        for name, value in _FIELD.findall(line):
            fields.setdefault(name, value)
        if fields:
            yield fields


def settings(text: str) -> dict[str, str]:
    """Parse the output of ``scontrol show config``."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def machines(text: str) -> dict[str, Machine]:
    """Parse the nodes printed by ``scontrol -o show node``, by name."""
    return {fields["NodeName"]: _machine(fields) for fields in blocks(text) if fields.get("NodeName")}


def _machine(fields: Mapping[str, str]) -> Machine:
    flags = _states(fields.get("State", ""))
    memory = _number(fields.get("RealMemory")) - _number(fields.get("MemSpecLimit"))
    disk = _number(fields.get("TmpDisk"))
    node = Node(
        name=fields["NodeName"],
        cores=_cores(fields),
        memory=max(0, memory) * _MIB,
        disk=disk * _MIB if disk else inf,
        usable=not flags & (_GONE | _CLOSED),
    )
    return Machine(node, bool(flags & _HELD_BACK), _number(fields.get("CPUAlloc")) > 0)


def _states(text: str) -> frozenset[str]:
    """Return the state and its flags; a star means that the node does not respond, other marks are harmless."""
    flags = text.upper().split("+")
    bare = {flag.rstrip("*~#!%$@^-") for flag in flags}
    return frozenset(bare | ({"NOT_RESPONDING"} if "*" in text else set()) | ({"MAINT"} if "$" in text else set()))


def _cores(fields: Mapping[str, str]) -> int:
    """Return the CPUs available to jobs, without those reserved for Slurm, which newer versions report."""
    if "CPUEfctv" in fields:
        return _number(fields["CPUEfctv"])
    kept = _number(fields.get("CoreSpecCount")) * max(1, _number(fields.get("ThreadsPerCore")))
    return max(0, _number(fields.get("CPUTot")) - kept)


def partitions(text: str) -> dict[str, Partition]:
    """Parse the partitions printed by ``scontrol -o show partition``, by name."""
    return {fields["PartitionName"]: _partition(fields) for fields in blocks(text) if fields.get("PartitionName")}


def _partition(fields: Mapping[str, str]) -> Partition:
    qos = fields.get("QoS", "N/A")
    return Partition(
        name=fields["PartitionName"],
        nodes=expanded(fields.get("Nodes", "")),
        default=fields.get("Default") == "YES",
        state=fields.get("State", "UP"),
        seconds=parse_slurm_time(fields.get("MaxTime", "")),
        job_nodes=_count(fields.get("MaxNodes")),
        tier=_number(fields.get("PriorityTier")),
        node_cores=_count(fields.get("MaxCPUsPerNode")) or inf,
        node_memory=(_count(fields.get("MaxMemPerNode")) or inf) * _MIB,
        qos=None if qos in ("N/A", "(null)", "") else qos,
        groups=_names(fields.get("AllowGroups")),
        accounts=_names(fields.get("AllowAccounts")),
        denied_accounts=_names(fields.get("DenyAccounts")) or frozenset(),
        all_qos=_names(fields.get("AllowQos")),
    )


def parse_slurm_time(text: str) -> float:
    """Parse a time limit such as ``1-00:00:00``; infinite if UNLIMITED or unknown."""
    try:
        found = clock_seconds(text, "a limit")
    except UnusableError:
        return inf
    return inf if found is None else found


def _count(text: str | None) -> int | None:
    """Parse a count of at least one; None if unlimited."""
    return int(text) if text and text.isdigit() else None


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _names(text: str | None) -> frozenset[str] | None:
    return None if not text or text in ("ALL", "(null)", "N/A") else frozenset(text.split(","))
