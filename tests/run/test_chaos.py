"""Whatever is killed, and when: each task is recorded as done exactly once, and nothing is incomplete or forgotten."""

import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from subprocess import DEVNULL, Popen

import pytest

from tests.deadlines import HANGS
from tests.run.cli_runs import Place, kill, marked
from tonnage.errors import TonnageError
from tonnage.run.journal import Reader
from tonnage.run.state import facts_of
from tonnage.watch.proc import children

SOAK = bool(os.environ.get("TONNAGE_SOAK"))


def random_makeflow(tasks: int, pauses: list[float], random: Random) -> str:
    """Return a workflow whose tasks fail unless what they read is complete, and write in two steps."""
    lines = ["CORES=1", "MEMORY=100", "DISK=10"]
    for number in range(tasks):
        parents = random.sample(range(max(0, number - 30), number), min(number, random.choice([0, 1, 1, 2, 3])))
        inputs = [f"out/{parent}" for parent in parents]
        steps = [f"grep -q end {name}" for name in inputs]
        steps += [
            f"echo begin > out/{number}",
            f"sleep {random.choice(pauses)}",
            f"echo end >> out/{number}",
        ]
        lines += [f"out/{number}: {' '.join(inputs)}", "\t" + " && ".join(steps)]
    return "\n".join(lines) + "\n"


@dataclass
class Chaos:
    """Runs a workflow to its end, in spite of everything."""

    place: Place
    name: str
    random: Random
    killed: dict[str, int] = field(default_factory=lambda: {"engine": 0, "fork_server": 0, "minder": 0, "task": 0})
    lives: int = 0

    def go(self, engine_kills: int, options: tuple[str, ...], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            assert time.monotonic() < deadline, "it does not come to its end"
            self.lives += 1
            arguments = ("run", self.name, "--quiet", *options)
            log = (self.place.folder / "chaos.log").open("a")
            with log, self.place.begin(*arguments, stdout=DEVNULL, stderr=log) as engine:
                if self.killed["engine"] == engine_kills:
                    assert engine.wait(seconds) == 0, (self.place.folder / "chaos.log").read_text()
                    return
                self._harass(engine)
                if engine.poll() is not None:  # on a busy machine it may have done the rest before we come to it
                    assert engine.returncode == 0, (self.place.folder / "chaos.log").read_text()
                    return
                kill(engine.pid)
                self.killed["engine"] += 1
            if self._has_finished():  # just before it was killed: the next call would be another run
                return

    def _harass(self, engine: "Popen[str]") -> None:
        """Let an engine live for a while, and kill this and that below it.

        Some die while they prepare, most when a few attempts have ended: how long that takes depends on the machine.
        """
        if self.random.random() < 0.15:
            time.sleep(self.random.uniform(0.05, 1.5))
            return
        enough = self._ended() + self.random.randint(0, 9)
        kills = self.random.randint(0, 4)
        while engine.poll() is None and (not children(engine.pid) or self._ended() < enough):
            time.sleep(self.random.uniform(0.02, 0.2))
            if kills and self._kill_something(engine.pid):
                kills -= 1
        time.sleep(self.random.uniform(0, 0.1))

    def _has_finished(self) -> bool:
        """Whether the run has noted that everything is done."""
        return any("finished" in facts_of(run) for run in self.place.runs())

    def _ended(self) -> int:
        """Return how many attempts have ended so far."""
        try:
            return sum(row.ended is not None for row in self.place.rows())
        except (IndexError, TonnageError):
            return 0  # there is no journal yet

    def _kill_something(self, engine: int) -> bool:
        """Kill a process below an engine; whether there was one."""
        fork_servers = children(engine)
        minders = [pid for fork_server in fork_servers for pid in children(fork_server)]
        tasks = [pid for minder in minders for pid in children(minder)]
        kind = self.random.choices(["fork_server", "minder", "task"], [1, 4, 6])[0]
        there = {"fork_server": fork_servers, "minder": minders, "task": tasks}[kind]
        if there:
            kill(self.random.choice(there))
            self.killed[kind] += 1
        return bool(there)


def unleash(
    folder: Path,
    tasks: int,
    engine_kills: int,
    *,
    pauses: list[float],
    seed: int,
    options: tuple[str, ...],
    seconds: float,
) -> None:
    """Run a random workflow under fire, and check everything that can be checked afterwards."""
    random = Random(seed)
    place = Place(folder)
    (folder / "out").mkdir(parents=True)
    place.write("w.makeflow", random_makeflow(tasks, pauses, random))
    chaos = Chaos(place, "w.makeflow", random)
    chaos.go(engine_kills, options, seconds)
    assert len(place.runs()) == 1
    place.check("w.makeflow")
    for number in range(tasks):
        assert (folder / "out" / str(number)).read_text() == "begin\nend\n"
    with closing(Reader(place.runs()[0].journal)) as reader:
        assert marked(reader.facts()["token"]) == []
    print(f"{tasks} tasks, {len(place.rows())} attempts, killed: {chaos.killed}")  # noqa: T201 (figures for `-s`)
    if not chaos.killed["engine"]:
        pytest.skip("the machine was too busy to kill anything in time")


@pytest.mark.parametrize("options", [(), ("--sandbox",)], ids=["in place", "sandbox"])
def test_every_task_is_done_exactly_once_whatever_is_killed(options: tuple[str, ...], tmp_path: Path) -> None:
    unleash(tmp_path / "w", 40, 4, pauses=[0, 0, 0.02, 0.05, 0.3], seed=7, options=options, seconds=HANGS)


@pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("options", [(), ("--sandbox",)], ids=["in place", "sandbox"])
def test_five_hundred_tasks_survive_a_hundred_kills_of_the_engine(
    seed: int, options: tuple[str, ...], tmp_path: Path
) -> None:
    unleash(tmp_path / "w", 500, 100, pauses=[0.1, 0.2, 0.4, 0.6, 1], seed=seed, options=options, seconds=1800)
