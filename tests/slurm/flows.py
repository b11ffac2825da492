"""What acceptance tests of runs on Slurm share: workflows that leave witnesses, and what must be true afterwards."""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from random import Random

from tests.deadlines import HANGS
from tests.run.cli_runs import Begun, Place, check_archive, check_order, check_private
from tests.slurm.cluster import SlurmCluster
from tests.waiting import until
from tonnage.errors import TonnageError
from tonnage.jobs import NOTHING_KNOWN, Amounts, Outcome
from tonnage.run.backends.batch.arrays import MONITOR
from tonnage.run.batch_jobs import BatchJob, batch_jobs
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.workflow import Task, Workflow
from tonnage.workflow.formats.wfformat import render

WORKFLOW = "flow.json"
CORES, MEMORY_MIB = 4, 2000  # of each node of the shared cluster
MIB = 1 << 20
_JOB = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"  # as scancel takes it
_TICK = 0.5  # by which the clocks of two processes may differ in a virtual machine with much to do
_NO_LIMIT = ("UNLIMITED", "Partition_Limit", "365-00:00:00")  # what Slurm makes of it where a partition has none
# Programs of Slurm, each of which says that it was called before it is: an oracle that shares nothing with the engine.
_COUNTED = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sacctmgr", "sinfo")


@dataclass(frozen=True)
class Does:
    """What a task does: takes memory, waits, and more in words of a shell."""

    seconds: float = 0.1
    megabytes: int = 0
    more: str = "true"
    category: str = ""
    request: Amounts = NOTHING_KNOWN
    gpus: int = 0

    def task(self, name: str, parents: Sequence[str]) -> Task:
        """Return a task that fails unless what it depends on is there, and tells a witness when it runs."""
        steps = [f"test -s out/{parent}" for parent in parents]
        steps.append(f"echo begin {name} $(date +%s.%N) ${{SLURMD_NODENAME:-here}} {_JOB} >> witness")
        size = self.megabytes * 10**6
        # tail keeps what it has read until its input ends: so memory is held while the task waits, and can be seen.
        held = f"{{ head -c {size} /dev/zero; sleep {self.seconds}; }} | tail -c {size} > /dev/null"
        steps += [self.more, held if size else f"sleep {self.seconds}"]
        steps += [f"echo end {name} $(date +%s.%N) >> witness", f"echo {name} > out/{name}"]
        return Task(
            name=name,
            command=" && ".join(steps),
            category=self.category or f"takes{self.megabytes}",
            inputs=tuple(f"out/{parent}" for parent in parents),
            outputs=(f"out/{name}",),
            request=self.request,
            gpus=self.gpus,
            expected=Amounts.of(wall_time=max(self.seconds, 0.1) + 0.5),
        )


def gate(name: str, request: Amounts = NOTHING_KNOWN) -> tuple[str, list[str], Does]:
    """Return a task that waits until it is let go."""
    waits = f"until [ -e go-{name} ]; do sleep 0.05; done"
    return name, [], Does(0.1, more=waits, category="gate", request=request)


def layered(widths: Sequence[int], kinds: Sequence[Does], seed: int = 1) -> list[tuple[str, list[str], Does]]:
    """Return tasks in levels of such widths, of all kinds in turn; each waits for one or two of the level before."""
    random = Random(seed)
    found: list[tuple[str, list[str], Does]] = []
    before: list[str] = []
    for level, width in enumerate(widths):
        now = [f"t{level}x{place}" for place in range(width)]
        for place, name in enumerate(now):
            # The first of all parents and children are paired, so that every task is in a path through all levels.
            parents = {before[place % len(before)], random.choice(before)} if before else set()
            found.append((name, sorted(parents), kinds[len(found) % len(kinds)]))
        before = now
    return found


class SlurmPlace(Place):
    """A folder with a workflow, an archive of its own, and the command line on a cluster."""

    def __init__(self, folder: Path, cluster: SlurmCluster) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "out").mkdir(exist_ok=True)
        self.cluster = cluster
        self.environment |= cluster.environment
        self.workflow = Workflow.build("flow", [Does().task("none", [])])

    def words(self, *arguments: object) -> list[str]:
        """Return a command; runs are on Slurm, of the only workflow."""
        if arguments[0] == "run":
            arguments = ("run", WORKFLOW, "--on", "slurm", "--machine", "disk=100MB", *arguments[1:])
        return super().words(*arguments)

    def flow(self, tasks: Iterable[tuple[str, list[str], Does]]) -> None:
        """Write a workflow: names, what they wait for, and what they do."""
        listed = list(tasks)
        number = {name: place for place, (name, _, _) in enumerate(listed)}
        edges = [(number[parent], number[name]) for name, parents, _ in listed for parent in parents]
        self.workflow = Workflow.build(
            "flow",
            [does.task(name, parents) for name, parents, does in listed],
            ([one for one, _ in edges], [other for _, other in edges]),
        )
        self.write(WORKFLOW, render(self.workflow))

    def count_commands(self, folder: Path) -> "Commands":
        """Let every program of Slurm that the command line calls say so first."""
        folder.mkdir()
        for program in _COUNTED:
            put_before(folder, program, f'date "+%s.%N {program} $*" >> {folder}/calls')
        self.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
        return Commands(folder / "calls")

    # What is under way

    def node_of(self, task: str) -> str | None:
        """Return where a task began last, by its own words."""
        return next((words[3] for words in reversed(self._witness()) if words[:2] == ["begin", task]), None)

    def cancel(self, task: str) -> None:
        """Cancel the batch job in which a task runs, as its user would."""
        number = next(words[4] for words in reversed(self._witness()) if words[:2] == ["begin", task])
        self.cluster.command("scancel", number)

    def let_go(self, *tasks: str) -> None:
        """Let tasks go on that wait at gates."""
        for task in tasks:
            (self.folder / f"go-{task}").touch()

    def _witness(self) -> list[list[str]]:
        path = self.folder / "witness"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def attempts(self) -> list[Row]:
        """Return the attempts of the newest run; none where there is no journal yet."""
        try:
            return self.rows()
        except (IndexError, TonnageError):
            return []

    def done(self) -> set[str]:
        """Return the tasks that are done."""
        return {row.task for row in self.attempts() if row.outcome is Outcome.DONE}

    def jobs(self) -> list[BatchJob]:
        """Return the batch jobs of the newest run."""
        try:
            with closing(Reader(self.runs()[0].journal)) as reader:
                return batch_jobs(reader)
        except (IndexError, TonnageError):
            return []

    def when(self, condition: Callable[[], bool], what: str, engine: Begun | None = None) -> None:
        """Wait until something is the case, as long as an engine lives."""

        def checked() -> bool:
            there = condition()
            assert there or engine is None or engine.poll() is None, f"it ended before {what}: {engine.communicate()}"
            return there

        until(checked, what)
        time.sleep(0.02)

    def ends(self, engine: Begun, status: int = 0) -> str:
        """Wait for the end of an engine, and return what it said."""
        out, said = engine.communicate(timeout=HANGS)
        assert "\nTraceback" not in f"\n{said}", said
        assert engine.returncode == status, f"status {engine.returncode}: {out}{said}"
        return str(out + said)

    def queued(self) -> dict[str, str]:
        """Return what the cluster has of this user's jobs, each with its state."""
        lines = self.cluster.command("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    # What must be true

    def check_all(self) -> None:
        """Check everything that a finished run promises."""
        rows = self.rows()
        times = Counter(row.task for row in rows if row.outcome is Outcome.DONE)
        assert times == dict.fromkeys(self.workflow.index, 1)
        assert all(row.ended is not None for row in rows)
        assert all(job.ended is not None for job in self.jobs())
        check_order(rows, self.workflow)
        check_archive(self.archive, self.runs()[0])
        check_private(self.runs()[0])
        self.check_witness(rows)
        self.check_nodes(rows)
        self.check_names()
        until(lambda: self.queued() == {}, "an empty queue")

    def check_witness(self, rows: Sequence[Row]) -> None:
        """Check by what tasks wrote themselves that each ran after its parents, once for each attempt at most."""
        attempts = Counter(row.task for row in rows)
        begins: dict[str, list[float]] = defaultdict(list)
        ends: dict[str, list[float]] = defaultdict(list)
        for words in self._witness():
            (begins if words[0] == "begin" else ends)[words[1]].append(float(words[2]))
        recorded = {row.task: row.ended or 0.0 for row in rows if row.outcome is Outcome.DONE}
        for number, task in enumerate(self.workflow.tasks):
            assert max(begins[task.name]) <= recorded[task.name] + _TICK, f"{task.name} ran again after it was done"
            assert min(ends[task.name]) <= recorded[task.name] + _TICK, f"{task.name} was done before its end"
            for parent in self.workflow.graph.parents_of(number).tolist():
                name = self.workflow.tasks[parent].name
                # Each task also fails where its inputs are not there.
                assert ends[name][0] <= min(begins[task.name]) + _TICK, f"{task.name} did not wait for {name}"
            assert len(begins[task.name]) <= attempts[task.name], f"{task.name} ran, and the journal does not know"

    def check_nodes(self, rows: Sequence[Row]) -> None:
        """Check that what ran on a node at the same time never had more than the node has."""
        events = []
        for row in rows:
            assert row.ended is not None
            if row.host is not None:
                given = (row.allocated.cores or 0.0, row.allocated.memory or 0.0)
                events += [(row.started, 1, row.host, given), (row.ended, 0, row.host, (-given[0], -given[1]))]
        assert events, "the journal does not say where attempts ran"
        taken: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for _, _, host, given in sorted(events):
            taken[host] = taken[host][0] + given[0], taken[host][1] + given[1]
            assert taken[host][0] <= CORES + 1e-6, f"{taken[host][0]} cores were given of {host}"
            assert taken[host][1] <= MEMORY_MIB * MIB + 1, f"{taken[host][1]} bytes were given of {host}"

    def check_names(self) -> None:
        """Check that Slurm knows no two jobs of one name: none was submitted twice."""
        own = {job.name for job in self.jobs()}
        named: dict[str, set[str]] = defaultdict(set)
        for job in self._remembered():
            if job["JobName"] in own:  # others' tests share the cluster
                named[job["JobName"]].add(job.get("ArrayJobId", job["JobId"]))
        assert {name: numbers for name, numbers in named.items() if len(numbers) > 1} == {}

    def check_requests(self) -> int:
        """Check that Slurm was asked for what was decided; return for how many attempts that could be seen."""
        said = {job["JobId"]: job for job in self._remembered()}
        arrays = {(job["ArrayJobId"], job["ArrayTaskId"]): job for job in said.values() if "ArrayTaskId" in job}
        seen = 0
        rows = {row.attempt: row for row in self.rows()}
        for job in self.jobs():
            if job.packed or job.native is None:
                continue
            for element, attempt in enumerate(self._elements(job)):
                known = arrays.get((job.native, str(element))) or said.get(job.native)
                if known is None:
                    continue
                given = rows[attempt].allocated
                assert given.memory is not None
                assert given.cores is not None
                assert int(known["MinMemoryNode"].removesuffix("M")) == ceil((given.memory + MONITOR) / MIB)
                assert int(known["CPUs/Task"]) == ceil(given.cores)
                limits = _NO_LIMIT if given.wall_time is None else (_slurm_time(ceil(given.wall_time / 60)),)
                assert known["TimeLimit"] in limits
                seen += 1
        return seen

    def _remembered(self) -> list[dict[str, str]]:
        lines = self.cluster.command("scontrol", "--oneliner", "show", "job").splitlines()
        return [dict(word.partition("=")[::2] for word in line.split()) for line in lines if "JobId=" in line]

    def _elements(self, job: BatchJob) -> list[int]:
        orders = self.runs()[0].batches / str(job.id) / "orders"
        return [json.loads(line)["attempt"] for line in orders.read_text().splitlines()]


class Commands:
    """The calls of Slurm's programs, each with its moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[tuple[float, str]]:
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            moment, _, words = line.partition(" ")
            yield float(moment), words

    def named(self, program: str) -> list[str]:
        return [words for _, words in self if words.split()[0] == program]

    def check_rate(self, mean: float = 3, burst: int = 12) -> str:
        """Check that there were at most so many calls a second: on average, and in the worst one."""
        moments = sorted(moment for moment, _ in self)
        seconds = moments[-1] - moments[0]
        worst = max(sum(one <= other < one + 1 for other in moments) for one in moments)
        figures = f"{len(moments)} commands in {seconds:.1f} s, at most {worst} in a second"
        assert len(moments) <= mean * seconds + burst, figures
        assert worst <= burst, figures
        return figures


def put_before(folder: Path, program: str, words: str) -> None:
    """Put a program on the way to one of Slurm's, which does something first."""
    real = next(path for part in os.environ["PATH"].split(":") if (path := Path(part, program)).exists())
    script = folder / program
    script.write_text(f'#!/bin/sh\n{words}\nexec {real} "$@"\n')
    script.chmod(0o755)


def natives(jobs: Iterable[BatchJob]) -> list[str]:
    """Return what the cluster calls batch jobs that have not ended."""
    return [job.native for job in jobs if job.native is not None and job.ended is None]


def _slurm_time(minutes: int) -> str:
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02}:{rest % 60:02}:00"
