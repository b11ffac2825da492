"""Nodes, partitions, settings and accounts; the texts are from a real Slurm 22.05, shortened."""

from math import inf

import pytest

from tonnage.batch.scheduler import Node
from tonnage.batch.slurm.access import check_rights
from tonnage.batch.slurm.accounts import Allowed, allowed, associations, is_enforced, qualities
from tonnage.batch.slurm.scontrol import machines, parse_slurm_time, partitions, settings
from tonnage.batch.slurm.scripts import SlurmOptions
from tonnage.errors import InputError

MIB = 1 << 20
NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=3.95 AvailableFeatures=(null)"
    " NodeHostName=vm Port=38105 Version=22.05.8 OS=Linux 6.18.44-fc-v445 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=2000"
    " AllocMem=0 FreeMem=22241 Sockets=1 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=10000"
    "  CfgTRES=cpu=4,mem=2000M,billing=4 AllocTRES= Reason=a RealMemory=1 State=DOWN [root@1794848904]\n"
)
PARTITIONS = (
    "PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A"
    " DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes=n[1-8]"
    " PriorityTier=1 State=UP TotalNodes=8 DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=16000M\n"
    "PartitionName=short AllowGroups=nobody,staff AllowAccounts=lab DenyAccounts=guest AllowQos=high,low Default=NO"
    " QoS=part MaxNodes=1 MaxTime=1-00:10:00 MaxCPUsPerNode=2 Nodes=n[1-2] PriorityTier=5 State=DOWN"
    " MaxMemPerNode=500\n"
)
CONFIG = """\
Configuration data as of 1794848904
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = tonnage
AuthInfo                = socket=/tmp/a=b
MaxArraySize            = 10001

Slurmctld(primary) at vm is UP
"""


def test_a_node_has_what_jobs_can_have_of_it() -> None:
    machine = machines(NODE)["n1"]
    assert machine.node == Node("n1", 4, 2000 * MIB, 10000 * MIB)
    assert (machine.reserved, machine.allocated) == (False, False)


def test_what_slurm_keeps_is_taken_off() -> None:
    text = NODE.replace(" AllocMem", " MemSpecLimit=500 AllocMem").replace("TmpDisk=10000", "TmpDisk=0")
    old = text.replace(" CPUEfctv=4", "").replace("CPUTot=4", "CPUTot=16 CoreSpecCount=2")
    old = old.replace("ThreadsPerCore=1", "ThreadsPerCore=2")
    node = machines(old)["n1"].node
    assert (node.cores, node.memory, node.disk) == (12, 1500 * MIB, inf)


@pytest.mark.parametrize(
    ("state", "usable", "reserved"),
    [
        *[(state, True, False) for state in ("IDLE", "MIXED", "ALLOCATED", "ALLOCATED+COMPLETING", "MIXED+PLANNED")],
        *[(state, True, False) for state in ("IDLE+CLOUD+POWERED_DOWN", "IDLE~", "MIXED#", "IDLE+REBOOT_REQUESTED")],
        *[(state, False, False) for state in ("DOWN", "DOWN*", "IDLE*", "DOWN+NOT_RESPONDING", "IDLE+DRAIN", "FAIL")],
        *[(state, False, False) for state in ("ALLOCATED+DRAIN", "UNKNOWN", "FUTURE", "ERROR", "IDLE+FAIL", "INVAL")],
        *[(state, True, True) for state in ("RESERVED", "IDLE+MAINTENANCE", "ALLOCATED+RESERVED", "IDLE$")],
    ],
)
def test_states_of_nodes(state: str, usable: bool, reserved: bool) -> None:
    machine = machines(NODE.replace("State=IDLE", f"State={state}"))["n1"]
    assert (machine.node.usable, machine.reserved) == (usable, reserved)


def test_partitions() -> None:
    found = partitions(PARTITIONS)
    main, short = found["main"], found["short"]
    assert main.nodes == tuple(f"n{number}" for number in range(1, 9))
    assert (main.default, main.seconds, main.job_nodes, main.groups, main.qos) == (True, inf, None, None, None)
    assert (main.node_cores, main.node_memory) == (inf, inf)
    assert (short.default, short.seconds, short.job_nodes, short.tier) == (False, 87000.0, 1, 5)
    assert (short.node_cores, short.node_memory, short.qos) == (2, 500 * MIB, "part")


def test_settings_are_what_stands_behind_the_first_equals_sign() -> None:
    found = settings(CONFIG)
    assert found["AuthInfo"] == "socket=/tmp/a=b"
    assert found["MaxArraySize"] == "10001"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("UNLIMITED", inf),
        ("INFINITE", inf),
        ("", inf),
        ("NONE", inf),
        ("10:00", 600),
        ("1-00:00:01", 86401),
        ("1:02:03", 3723),
    ],
)
def test_limits_of_time(text: str, seconds: float) -> None:
    assert parse_slurm_time(text) == seconds


@pytest.mark.parametrize(
    ("old", "new", "options", "words"),
    [
        ("", "", SlurmOptions(), "is down"),
        ("State=DOWN", "State=DRAIN", SlurmOptions(), "being drained"),
        ("State=DOWN", "State=INACTIVE", SlurmOptions(), "is inactive"),
        ("State=DOWN", "State=UP", SlurmOptions(account="other"), "account other may not use"),
        ("State=DOWN", "State=UP", SlurmOptions(account="guest"), "account guest may not use"),
        ("State=DOWN", "State=UP", SlurmOptions(account="lab", qos="odd"), "QOS odd may not be used"),
    ],
)
def test_who_cannot_use_a_partition_is_told_why(
    old: str, new: str, options: SlurmOptions, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 0)
    with pytest.raises(InputError, match=words):
        check_rights(partitions(PARTITIONS.replace(old, new))["short"], options)


def test_a_partition_of_other_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 12345)
    monkeypatch.setattr("os.getgid", lambda: 12345)
    monkeypatch.setattr("os.getgroups", lambda: [12345])
    with pytest.raises(InputError, match="restricted to the groups nobody, staff"):
        check_rights(partitions(PARTITIONS.replace("State=DOWN", "State=UP"))["short"], SlurmOptions())


# defaultaccount|account|partition|maxjobs|maxsubmit|maxwall|defaultqos|qos
ASSOCIATIONS = """\
root|test|||7|00:30:00||normal,quick
root|test|short|3|||quick|normal,quick
root|root||||||normal,quick
"""
QUALITIES = """\
normal||||
quick||2|00:05:00|
part|1|||
"""


def limits_of(
    *, account: str | None = None, qos: str | None = None, partition: str = "main", partition_qos: str | None = None
) -> Allowed:
    found, known = associations(ASSOCIATIONS), qualities(QUALITIES)
    options = {"account": account, "qos": qos, "partition_qos": partition_qos}
    return allowed(found, known, partition=partition, **options)[1]


def test_limits_of_a_quality_of_service_go_before_the_accounts() -> None:
    assert limits_of() == Allowed()
    assert limits_of(account="test") == Allowed(None, 7, 1800.0)
    assert limits_of(account="test", qos="quick") == Allowed(None, 2, 300.0)
    assert limits_of(account="test", partition="short") == Allowed(3, 2, 300.0)
    assert limits_of(account="test", partition_qos="part") == Allowed(1, 7, 1800.0)


def test_accounts_and_qualities_that_are_not_the_users() -> None:
    with pytest.raises(InputError, match='does not belong to the account "x"') as problem:
        limits_of(account="x")
    assert problem.value.hint == "accounts: root, test"
    with pytest.raises(InputError, match='may not use the QOS "x"'):
        limits_of(qos="x")
    with pytest.raises(InputError, match="no account in Slurm"):
        allowed([], {}, account=None, qos=None, partition="main", partition_qos=None)


@pytest.mark.parametrize(
    ("setting", "enforced"),
    [("none", False), ("", False), ("associations,limits,qos", True), ("safe", True), ("wckeys", False)],
)
def test_accounts_bind_only_where_that_is_enforced(setting: str, enforced: bool) -> None:
    assert is_enforced(setting) is enforced
