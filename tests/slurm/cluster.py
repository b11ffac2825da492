"""A real Slurm cluster on one machine, in a folder and on ports of its own; nothing of the system's is touched.

`python -m tests.slurm.cluster` (or `make slurm`) starts one to play with.
"""

import argparse
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tests.deadlines import HANGS
from tests.waiting import until

from . import accounting as accounts
from . import cgroups as groups
from .daemons import LOOPBACK, Daemon, Ports, answers

__all__ = ["SlurmCluster", "main", "missing"]

_NOTHING: Mapping[str, str] = MappingProxyType({})
_PACKAGES = {"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm", "munged": "munge"}
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # daemons are not on every user's PATH
_LONGEST_SOCKET = 107
_NAME = "tonnage"

# What makes a cluster quick enough for tests; every line can be overridden.
_SCHEDULING = {
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": ",".join(
        [
            "batch_sched_delay=0",
            "bf_continue",
            "bf_interval=1",
            "bf_max_job_test=10000",
            "bf_resolution=1",
            "default_queue_depth=10000",
            "sched_interval=1",
            "sched_min_interval=1000",
        ]
    ),
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "PriorityType": "priority/basic",
    "MaxJobCount": "20000",
    "MaxArraySize": "10001",
    "MinJobAge": "300",
    "InactiveLimit": "0",
    "KillWait": "2",
    "MessageTimeout": "30",  # on a busy machine an answer may take long, and is no sign of death
    "SlurmdTimeout": "60",  # a dead node is noticed after this and twice the former
    "SlurmctldTimeout": "60",
    "ReturnToService": "2",  # a node that comes back is used again
}
# What lets it run without systemd and cgroups, and with more cores and memory than the machine has.
_CONFINEMENT = {
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "SlurmdParameters": "config_overrides",
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": "task=1",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    "MailProg": "/bin/true",
}
_WELCOME = """\
A Slurm cluster of {nodes} nodes with {cpus} CPUs each is up; Ctrl-C stops it. In another shell:

    export SLURM_CONF={SLURM_CONF}

and then, for instance:

    sinfo
    srun --nodes={nodes} hostname
    python3 examples/survey/survey.py survey --fields 1
    {tonnage} run survey/survey.mf --on slurm
"""


def missing(accounting: bool = False) -> str | None:
    """Return why there can be no cluster here, or None if there can be one."""
    for program, package in (_PACKAGES | (accounts.PACKAGES if accounting else {})).items():
        if shutil.which(program, path=_PATH) is None:
            return f"{program} is not installed (Debian package {package})"
    return None


_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")  # which stand for GPUs


class SlurmCluster:
    """One slurmctld, a slurmd for each node, and the munged that vouches for them; with accounting slurmdbd, too.

    Nodes are called n1, n2 and so on. `options` are lines of slurm.conf, instead of ours or beside them. A partition is
    a name, or a name and settings such as "short Nodes=n[1-2] MaxTime=10"; the first is the default one.

    With `cgroups` a job that takes too much memory ends as OUT_OF_MEMORY, where the machine allows it; nodes then have
    longer names, since groups are called after nodes and two clusters must not share any.

    With `gpus` each node has as many, or says so: other devices stand for them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 8,
        cpus: int = 4,
        memory_mib: int = 2000,
        tmp_mib: int = 10000,
        accounting: bool = False,
        cgroups: bool = False,
        gpus: int = 0,
        options: Mapping[str, str] = _NOTHING,
        partitions: Sequence[str] = ("main",),
    ) -> None:
        self.folder = folder.resolve()
        self.conf = self.folder / "slurm.conf"
        cores = f"CPUs={cpus} Sockets=1 CoresPerSocket={cpus} ThreadsPerCore=1"
        self._node = f"{cores} RealMemory={memory_mib} TmpDisk={tmp_mib} State=UNKNOWN"
        if gpus:
            self._node += f" Gres=gpu:{gpus}"
            options = {"GresTypes": "gpu", **options}
            (self.folder / "gres.conf").write_text(f"Name=gpu File={','.join(_DEVICES[:gpus])}\n")
        self._options = dict(options)
        self._partitions = partitions
        self._socket = self.folder / "munge.socket"
        self._ports = Ports()
        self._port = self._ports.new()
        prefix = f"p{self._port}n" if cgroups else "n"
        self.nodes = [f"{prefix}{number}" for number in range(1, nodes + 1)]
        self._cgroups = cgroups
        self._accounting: accounts.Accounting | None = None
        if accounting:
            self._accounting = accounts.Accounting(
                self.folder, _NAME, self._ports.new(), self._socket, self._begin, self.command
            )
        self._daemons: list[Daemon] = []
        self._controller: Daemon | None = None
        self._slurmds: dict[str, list[Daemon]] = {name: [] for name in self.nodes}

    @property
    def environment(self) -> dict[str, str]:
        """What client commands need on top of os.environ."""
        return {"SLURM_CONF": str(self.conf)}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start every daemon, and wait until every node can be used."""
        if len(str(self._socket)) > _LONGEST_SOCKET:
            raise ValueError(f"{self.folder}: a folder with a shorter name is needed, since it holds sockets")
        try:
            self._write_files()
            self._start_munged()
            if self._accounting:
                self._accounting.start()
            self.start_controller()
            for name in self.nodes:
                self._start_slurmd(name)
            self.wait_until_up()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the cluster and of its jobs; the folder with its logs stays."""
        for daemon in self._daemons:
            daemon.let_go()
        for daemon in self._daemons:
            daemon.kill()
        self._daemons.clear()
        self._ports.close()
        if self._cgroups:
            groups.remove(self.nodes)

    def command(self, *words: str, timeout: float = HANGS) -> str:
        """Run a client command such as sinfo, and return what it writes."""
        ended = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
            timeout=timeout,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"{' '.join(words)}: exit {ended.returncode}: {ended.stderr.strip()}")
        return ended.stdout

    def wait_until_up(self) -> None:
        """Wait until every node can run jobs."""
        condition = self._is_up
        for daemon in (self._controller, *(daemons[-1] for daemons in self._slurmds.values() if daemons)):
            if daemon is not None:
                condition = daemon.when(condition)
        until(condition, f"every node of {self.conf}")

    def stop_controller(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End slurmctld; jobs run on.

        With SIGKILL it forgets what came in the last seconds: a job that it forgot runs on, and the next one gets the
        same number.
        """
        assert self._controller is not None
        self._controller.end(number)

    def start_controller(self) -> None:
        """Start slurmctld with the state that it left, if any, and wait until it answers."""
        self._controller = self._begin("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        until(self._controller.when(lambda: answers(self._port)), "slurmctld")

    def kill_node(self, name: str, *, jobs: bool = True, noticed: bool = False) -> None:
        """Let a node die as a machine does: its slurmd, and with it its jobs' processes unless they are to live on.

        The controller finds out by itself after a minute or two, or is told at once.
        """
        for daemon in self._slurmds[name]:
            if jobs:
                daemon.kill()
            else:
                daemon.end(signal.SIGKILL)
        if noticed:
            self.command("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=test")

    def start_node(self, name: str) -> None:
        """Start a node that was killed, and wait until it can be used."""
        self._start_slurmd(name)
        self.wait_until(name, "idle", "mixed", "allocated", "draining", "drained")

    def drain(self, name: str, reason: str = "test") -> None:
        """Let a node take no new jobs."""
        self.command("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def resume(self, name: str) -> None:
        """Let a node that was drained or is down take jobs again."""
        self.command("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def wait_until(self, name: str, *states: str) -> None:
        """Wait until a node is in one of the states, in the words of `sinfo -o %T`."""
        until(lambda: self.states()[name] in states, f"{name} to be {' or '.join(states)}")

    def clear(self) -> None:
        """Cancel every job, and wait until the queue is empty."""
        self.command("scancel", "--full", f"--user={getpass.getuser()}")
        until(lambda: not self.command("squeue", "--noheader", "--all"), "an empty queue")

    def states(self) -> dict[str, str]:
        """Return the state of every node; one that does not answer ends in a star."""
        lines = self.command("sinfo", "--noheader", "--all", "--Node", "--format=%N %T").splitlines()
        return dict(line.split() for line in lines)

    def _is_up(self) -> bool:
        states = self.states()
        return all(states.get(name) in {"idle", "mixed", "allocated"} for name in self.nodes)

    def _begin(self, label: str, program: str, *arguments: str, **environment: str) -> Daemon:
        found = shutil.which(program, path=_PATH)
        if found is None:
            raise FileNotFoundError(missing(self._accounting is not None))
        output = self.folder / "logs" / f"{label}.out"
        daemon = Daemon([found, *arguments], output, self.environment | environment)
        self._daemons.append(daemon)
        return daemon

    def _start_munged(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        files = {"key-file": key, "socket": self._socket}
        files |= {f"{kind}-file": self.folder / f"munge.{kind}" for kind in ("log", "pid", "seed")}
        # Forced, because it objects to folders that only their owner may enter, such as those of pytest.
        words = [f"--{key}={file}" for key, file in files.items()]
        daemon = self._begin("munged", "munged", "--foreground", "--force", *words)
        until(daemon.when(self._socket.exists), "munged")

    def _start_slurmd(self, name: str) -> None:
        daemon = self._begin(name, "slurmd", "-D", "-N", name, "-f", str(self.conf))
        self._slurmds[name].append(daemon)

    def _write_files(self) -> None:
        for name in ("logs", "state", "spool"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        host = socket.gethostname().partition(".")[0]
        user = getpass.getuser()
        lines = {
            "ClusterName": _NAME,
            "SlurmctldHost": f"{host}({LOOPBACK})",
            "SlurmctldPort": str(self._port),
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/munge",
            "CredType": "cred/munge",
            "AuthInfo": f"socket={self._socket}",
            "StateSaveLocation": str(self.folder / "state"),
            "SlurmdSpoolDir": str(self.folder / "spool" / "%n"),
            "SlurmctldLogFile": str(self.folder / "logs" / "slurmctld.log"),
            "SlurmdLogFile": str(self.folder / "logs" / "%n.log"),
            "SlurmctldPidFile": str(self.folder / "slurmctld.pid"),
            "SlurmdPidFile": str(self.folder / "slurmd-%n.pid"),
            **_SCHEDULING,
            **_CONFINEMENT,
            **(self._accounting.options if self._accounting else {}),
            **(groups.OPTIONS if self._cgroups else {}),
            **self._options,
        }
        text = [f"{key}={value}" for key, value in lines.items()]
        for name in self.nodes:
            text.append(
                f"NodeName={name} NodeHostname={host} NodeAddr={LOOPBACK} Port={self._ports.new()} {self._node}"
            )
        for number, line in enumerate(self._partitions):
            defaults = {"Nodes": "ALL", "Default": "NO" if number else "YES", "MaxTime": "UNLIMITED", "State": "UP"}
            given = {word.partition("=")[0].lower() for word in line.split()}
            rest = [f"{key}={value}" for key, value in defaults.items() if key.lower() not in given]
            text.append(" ".join([f"PartitionName={line}", *rest]))
        if self._cgroups:
            (self.folder / "cgroup.conf").write_text(groups.CONF)
        self.conf.write_text("\n".join(text) + "\n")


def main() -> None:
    """Start a cluster to play with, and stop it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.cluster", description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--memory", type=int, default=2000, metavar="MIB", help="of each node")
    parser.add_argument("--accounting", action="store_true", help="with slurmdbd, for sacct and sacctmgr")
    given = parser.parse_args()
    if reason := missing(given.accounting):
        sys.exit(f"No cluster can be started: {reason}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="tonnage-slurm-") as name:
        cluster = SlurmCluster(
            Path(name), nodes=given.nodes, cpus=given.cpus, memory_mib=given.memory, accounting=given.accounting
        )
        try:
            with cluster:
                tonnage = Path(sys.executable).with_name("tonnage")
                words = {"nodes": given.nodes, "cpus": given.cpus, "tonnage": tonnage, **cluster.environment}
                sys.stdout.write(_WELCOME.format(**words))
                sys.stdout.flush()
                signal.pause()
        except KeyboardInterrupt:
            sys.stdout.write("\nStopped; nothing is left.\n")


if __name__ == "__main__":
    main()
