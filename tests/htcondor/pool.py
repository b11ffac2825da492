"""A stand-in for an HTCondor pool on this machine: `with Pool(folder) as pool`, and its end ends all its processes.

It is not HTCondor: there is no security, no fair share and no negotiation, and DAGMan's language is there as far as our
tests need it. What it does, it does in HTCondor's own formats, and jobs really run.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.deadlines import HANGS
from tests.htcondor.machine import Requests
from tests.htcondor.programs import NAMES
from tests.htcondor.wire import SOCKET, ask
from tests.waiting import until

__all__ = ["NEWEST", "Call", "Pool", "Taken"]

NEWEST = "25.14.1"
_MACHINE = Requests(cpus=4, memory=4096, disk=20 * 2**20)
_PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of HTCondor's programs."""

    program: str
    words: tuple[str, ...]
    time: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What of a machine was taken when a job came or went: cores, MiB of memory, KiB of disk."""

    time: float
    machine: str
    node: str
    cpus: int
    memory: int
    disk: int


class Pool:
    """The pool: its programs, its machines, and the faults that a test can order."""

    def __init__(
        self,
        folder: Path,
        *,
        machines: int = 2,
        cpus: int = _MACHINE.cpus,
        memory: int = _MACHINE.memory,
        disk: int = _MACHINE.disk,
        enforces: bool = True,
        preempts: bool = False,
        shared_filesystem: bool = True,
        quantum: int = 128,
        resets_retries: bool = True,
        version: str = NEWEST,
    ) -> None:
        """Describe a pool: MiB of memory and KiB of disk a machine; a job's memory is rounded up to the quantum.

        Where it `enforces`, a job that takes too much is held or tried with more. Where it `preempts`, too, a job that
        takes too much memory is evicted instead, as with PREEMPT_IF_MEMORY_EXCEEDED.
        """
        self.folder = folder
        self._settings = {
            "machines": [asdict(Requests(cpus, memory, disk))] * machines,
            "enforces": enforces,
            "preempts": preempts,
            "shared_filesystem": shared_filesystem,
            "quantum": quantum,
            "resets_retries": resets_retries,
        }
        self._first_version = version
        self._schedd: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "settings.json").write_text(json.dumps(self._settings))
        self.version = self._first_version
        for name in NAMES:
            self._write_program("bin", name, "programs", f"main({name!r}, {str(self.folder)!r})")
        self._write_program("libexec", "condor_dagman", "dagman", "main()")
        self._write_program("libexec", "condor_schedd", "schedd", "main()")
        with (self.folder / "schedd.log").open("wb") as log:
            self._schedd = subprocess.Popen(
                [self.folder / "libexec" / "condor_schedd", self.folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_until((self.folder / SOCKET).exists, "the schedd does not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._schedd is None:
            return
        crashed = self._schedd.poll() is not None
        self._schedd.terminate()
        self._schedd.wait(HANGS)
        if crashed:
            self._end_orphans()
            raise RuntimeError(f"the schedd ended early: {(self.folder / 'schedd.log').read_text()}")

    def _end_orphans(self) -> None:
        """Kill the jobs and DAGMans that a schedd has left behind."""
        mark, dagman = f"_CONDOR_SCRATCH_DIR={self.folder}/".encode(), str(self.folder / "libexec").encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes() or dagman in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)

    def _write_program(self, folder: str, name: str, module: str, call: str) -> None:
        """Write a program that runs in this very Python, whatever the environment of who calls it."""
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {str(_PROJECT)!r})\n"
            f"from tests.htcondor.{module} import main\nsys.exit({call})\n"
        )
        path.chmod(0o755)

    # What users see

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return an environment in which HTCondor's programs are found."""
        own = dict(os.environ if base is None else base)
        return {**own, "PATH": f"{self.folder / 'bin'}{os.pathsep}{own.get('PATH', os.defpath)}"}

    def run(self, *words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as a user of the pool, and return what it said; its exit status is not looked at."""
        return subprocess.run(
            [str(word) for word in words],
            cwd=folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
        )

    def submit(self, dag: Path, *options: str) -> int:
        """Submit a DAG in its folder, and return the number of its DAGMan."""
        said = self.run("condor_submit_dag", *options, dag.name, folder=dag.parent)
        if said.returncode:
            raise RuntimeError(said.stderr)
        return int(said.stdout.rpartition("submitted to cluster ")[2].split(".")[0])

    def jobs(self, constraint: str | None = None) -> list[dict[str, Any]]:
        """Return the ads of the queue, without one of its programs."""
        found: list[dict[str, Any]] = self._ask(do="jobs", constraint=constraint)
        return found

    def wait_until(self, holds: Callable[[], object], otherwise: str) -> None:
        """Wait until something holds; fail with a message where it never does."""
        until(lambda: bool(holds()), otherwise)

    def wait_for(self, cluster: int) -> None:
        """Wait until a job has left the queue."""
        self.wait_until(lambda: not self.jobs(f"ClusterId == {cluster}"), f"job {cluster} does not end")

    def wait_for_node(self, node: str, status: int = 2) -> dict[str, Any]:
        """Wait until the job of a node is in a state, 2 being that it runs, and return its ad."""
        constraint = f'DAGNodeName == "{node}" && JobStatus == {status}'
        self.wait_until(lambda: self.jobs(constraint), f"node {node} does not come to JobStatus {status}")
        return self.jobs(constraint)[0]

    def _ask(self, **request: Any) -> Any:
        try:
            return ask(self.folder, **request)
        except OSError as error:
            raise RuntimeError(f"the schedd is gone: {(self.folder / 'schedd.log').read_text()}") from error

    # What was recorded

    @property
    def calls(self) -> list[Call]:
        """Every call of a program, in their order."""
        return [Call(program, tuple(words), at) for program, *words, at in self._lines("calls.jsonl")]

    @property
    def taken(self) -> list[Taken]:
        """What of the machines was taken, whenever that changed."""
        return [Taken(**one) for one in self._lines("taken.jsonl")]

    def _lines(self, name: str) -> list[Any]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    # What a test can order

    @property
    def version(self) -> str:
        """Which HTCondor this pretends to be; before 25 it does not know retry_request_memory."""
        return (self.folder / "version").read_text()

    @version.setter
    def version(self, version: str) -> None:
        (self.folder / "version").write_text(version)

    def evict(self, node: str) -> None:
        """Take the job of a node from its machine as soon as it runs; it waits again."""
        self.wait_for_node(node)
        self._ask(do="evict", node=node)

    def lose_machine(self, node: str) -> None:
        """Let the machine of a node's job be gone; the job waits again."""
        self.wait_for_node(node)
        self._ask(do="evict", node=node, lost=True)

    def hold(
        self, node: str, code: int = 1, subcode: int = 0, reason: str = "via condor_hold (by user tester)"
    ) -> None:
        """Put the job of a node on hold as soon as it runs."""
        cluster = self.wait_for_node(node)["ClusterId"]
        self._ask(do="act", action="hold", clusters=[cluster], reason=reason, codes=[code, subcode])

    def release(self, node: str) -> None:
        """Release the job of a node, once it is on hold."""
        cluster = self.wait_for_node(node, status=5)["ClusterId"]
        self._ask(do="act", action="release", clusters=[cluster], reason="via condor_release (by user me)")

    def kill_dagman(self, *, restarts: bool = True) -> None:
        """Kill DAGMan with signal 9: the schedd starts it again as HTCondor's does, or nobody knows it any more.

        Its lock file stays, and the jobs of its nodes go on.
        """
        self._ask(do="kill_dagman", restarts=restarts)

    def stop_answering(self) -> None:
        """Let programs find no schedd; what is in the queue goes on."""
        (self.folder / "silent").touch()

    def lose_the_next_answer(self) -> None:
        """Let the next condor_submit_dag submit its DAG, and then say that it could not."""
        (self.folder / "forgetful").touch()

    def answer_again(self) -> None:
        """Let programs find the schedd."""
        (self.folder / "silent").unlink(missing_ok=True)
