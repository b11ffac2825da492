"""The stand-in's DAGMan: a process of its own that submits the jobs of ready nodes and follows the log of their events.

What it knows about its nodes comes from that log alone, so that a DAGMan that was killed recovers by reading it again.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.htcondor import eventlog
from tests.htcondor.dag import Dag, DagError, Node, Variable, newest_rescue, read_dag, read_rescue
from tests.htcondor.description import expanded
from tests.htcondor.wire import ask

__all__ = ["main"]

_PAUSE = 0.01
_MOST_IDLE = 1000
_SUBMIT_FAILED, _REMOVED_JOB = -1001, -1002
_OK, _ERROR, _ABORTED = 0, 1, 2
_EVENT = re.compile(r"(\d{3}) \((\d+)\.\d+\.\d+\)")
_VALUE = re.compile(r"\(return value (\d+)\)|\(signal (\d+)\)")
_NODE = re.compile(r"^ +DAG Node: (.*)$", re.MULTILINE)


@dataclass(slots=True)
class _State:
    """Where a node stands: waiting, ready, pre, queued, post, scripted, done or failed."""

    node: Node
    place: int
    phase: str = "waiting"
    missing: int = 0
    """Its parents that are not done."""
    tries: int = 0
    """How often it was tried again."""
    cluster: int = 0
    value: int = 0
    """What its job returned."""
    prepared: bool = False
    """Whether its PRE script has run."""
    idle: bool = False
    script: subprocess.Popen[bytes] | None = field(default=None, repr=False)


class DagMan:
    """Runs a DAG."""

    def __init__(self, folder: Path, cluster: int, dag: Path, options: dict[str, Any]) -> None:
        self._folder, self._cluster, self._path, self._options = folder, cluster, dag, options
        self._lock, self._halt = Path(f"{dag}.lock"), Path(f"{dag}.halt")
        self._nodes_log = Path(f"{dag}.nodes.log")
        self._offset = 0
        self._states: dict[str, _State] = {}
        self._clusters: dict[int, _State] = {}
        self._dag = Dag()
        self._removed = False
        self._facts: dict[str, Any] = {}

    def run(self) -> int:
        """Run it to its end, and return what DAGMan exits with."""
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "_removed", True))
        recovers = self._lock.exists() or bool(self._options.get("dorecovery"))
        if self._lock.exists() and _lives(self._lock):
            self._say("ERROR: another DAGMan runs this DAG")
            return _ERROR
        self._lock.write_text(f"{os.getpid()}\n")
        self._halt.unlink(missing_ok=True)
        if not recovers:
            self._nodes_log.unlink(missing_ok=True)
        self._nodes_log.touch()
        try:
            self._read()
        except (DagError, OSError) as error:
            self._say(f"ERROR: {error}")
            return self._end(_ERROR)
        if recovers:
            self._say("Running in RECOVERY mode...")
        self._follow()
        return self._end(self._work())

    def _read(self) -> None:
        self._dag = read_dag(self._path)
        if rescue := newest_rescue(self._path):
            self._say(f"Parsing Rescue DAG {rescue}")
            read_rescue(rescue, self._dag)
        for place, node in enumerate(self._dag.nodes.values()):
            missing = sum(not self._dag.nodes[parent].done for parent in node.parents)
            phase = "done" if node.done else "waiting" if missing or node.final else "ready"
            self._states[node.name] = _State(node, place, phase, missing)

    def _end(self, status: int) -> int:
        self._lock.unlink(missing_ok=True)
        self._say(f"**** condor_DAGMAN (condor_DAGMAN) pid {os.getpid()} EXITING WITH STATUS {status}")
        return status

    def _say(self, text: str) -> None:
        with Path(f"{self._path}.dagman.out").open("a") as file:
            file.write(f"{time.strftime('%m/%d/%y %H:%M:%S')} {text}\n")

    # The work

    def _work(self) -> int:
        while True:
            self._follow()
            self._look_at_scripts()
            if self._removed:
                break
            if not self._halt.exists():
                self._begin_nodes()
            if self._is_over():
                break
            self._tell_facts()
            time.sleep(_PAUSE)
        for state in self._states.values():
            if state.script:
                state.script.kill()
        failed = any(state.phase != "done" for state in self._regular())
        final = next((state for state in self._states.values() if state.node.final), None)
        was_removed, self._removed = self._removed, False
        if final is not None:
            failed = not self._runs(final)
        if not failed:
            self._say("All jobs Completed!")
            return _OK
        self._write_rescue()
        return _ABORTED if was_removed else _ERROR

    def _regular(self) -> Iterator[_State]:
        return (state for state in self._states.values() if not state.node.final)

    def _is_over(self) -> bool:
        phases = [state.phase for state in self._regular()]
        if any(phase in ("pre", "queued", "post", "scripted") for phase in phases):
            return False
        return "ready" not in phases or self._halt.exists()

    def _runs(self, final: _State) -> bool:
        """Run the FINAL node; whether it succeeds."""
        final.phase = "ready"
        while final.phase not in ("done", "failed"):
            self._begin(final)
            while final.phase not in ("ready", "done", "failed"):
                time.sleep(_PAUSE)
                self._follow()
                self._look_at_scripts()
        return final.phase == "done"

    # Events

    def _follow(self) -> None:
        """Take the events that were written since the last time."""
        with self._nodes_log.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text.rfind(b"\n...\n") + 5
        if whole < 5:
            return
        self._offset += whole
        for event in text[:whole].decode().split("\n...\n")[:-1]:
            self._take(event)

    def _take(self, event: str) -> None:
        found = _EVENT.match(event)
        if not found:
            return
        kind, cluster = found[1], int(found[2])
        if kind == "000" and (name := _NODE.search(event)) and name[1] in self._states:
            state = self._clusters[cluster] = self._states[name[1]]
            state.phase, state.cluster, state.idle = "queued", cluster, True
        known = self._clusters.get(cluster)
        if known is None or known.cluster != cluster:
            return
        if kind in ("001", "012"):
            known.idle = False
        elif kind in ("004", "013"):
            known.idle = True
        elif kind in ("005", "009"):
            self._job_ended(known, _REMOVED_JOB if kind == "009" else _value(event))
        elif kind == "016":
            self._finish(known, _value(event))

    def _job_ended(self, state: _State, value: int) -> None:
        state.value, state.idle = value, False
        self._say(f"Node {state.node.name} job proc ({state.cluster}.0.0) ended with {value}")
        if "POST" in state.node.scripts:
            state.phase = "post"
        else:
            self._finish(state, value)

    def _finish(self, state: _State, value: int) -> None:
        """Take the value of whatever ran last as the node's."""
        retries = state.node.retries
        state.prepared, state.script = False, None
        if value == 0:
            state.phase = "done"
            for child in state.node.children:
                below = self._states[child]
                below.missing -= 1
                if not below.missing and below.phase == "waiting":
                    below.phase = "ready"
        elif state.tries < retries.most and value != retries.unless:
            state.tries += 1
            state.phase = "ready"
        else:
            self._say(f"Node {state.node.name} failed with {value} after {state.tries} node retries")
            state.phase = "failed"

    # Nodes

    def _begin_nodes(self) -> None:
        """Begin as many ready nodes as the throttles allow, the highest priorities first."""
        busy = [state for state in self._regular() if state.phase in ("pre", "queued")]
        ready = [state for state in self._regular() if state.phase == "ready"]
        most, most_idle = int(self._options.get("maxjobs") or 0), int(self._options.get("maxidle") or _MOST_IDLE)
        room = most - len(busy) if most else len(ready)
        idle = sum(state.idle for state in busy)
        of_categories = Counter(state.node.category for state in busy)
        for state in sorted(ready, key=lambda state: (-state.node.priority, state.place)):
            category = state.node.category
            if room <= 0 or idle >= most_idle or self._removed:
                return
            if category in self._dag.throttles and of_categories[category] >= self._dag.throttles[category]:
                continue
            self._begin(state)
            room, idle = room - 1, idle + 1
            of_categories[category] += 1

    def _begin(self, state: _State) -> None:
        if "PRE" in state.node.scripts and not state.prepared:
            state.phase, state.script = "pre", self._started(state, "PRE")
            return
        try:
            self._submit(state)
        except (OSError, LookupError, ValueError) as error:
            self._say(f"ERROR: submission of node {state.node.name} failed: {error}")
            self._job_ended(state, _SUBMIT_FAILED)

    def _submit(self, state: _State) -> None:
        node = state.node
        folder = Path.cwd() / (node.directory or ".")
        text = node.description if node.is_inline else (folder / node.description).read_text()
        own = [Variable("JOB", node.name), Variable("RETRY", str(state.tries))]
        if node.priority:
            own.append(Variable("priority", str(node.priority), appended=node.is_inline))
        cluster = ask(self._folder, do="new_cluster")
        commands = expanded(text, [*own, *node.variables], cluster)
        if "executable" not in commands:
            raise ValueError("No 'executable' parameter was provided")
        # From here on it is in the queue, whatever becomes of us: the log says so.
        ask(
            self._folder,
            do="submit",
            manager=self._cluster,
            cluster=cluster,
            node=node.name,
            commands=commands,
            home=str(folder / commands.get("initialdir", commands.get("initial_dir", "."))),
            nodes_log=str(self._nodes_log),
        )
        state.phase, state.cluster, state.idle = "queued", cluster, True
        self._clusters[cluster] = state

    # Scripts

    def _look_at_scripts(self) -> None:
        for state in self._states.values():
            if state.phase == "post":
                state.phase, state.script = "scripted", self._started(state, "POST")
            elif state.script and (value := state.script.poll()) is not None:
                state.script = None
                self._script_ended(state, value)

    def _script_ended(self, state: _State, value: int) -> None:
        if state.phase == "scripted":  # the log has it before we know it
            eventlog.append(self._nodes_log, eventlog.post_script_ended((state.cluster, 0), state.node.name, value))
            if not state.cluster:
                self._finish(state, value)
        elif value == 0:
            state.prepared, state.phase = True, "ready"
        else:
            self._finish(state, value)

    def _started(self, state: _State, which: str) -> subprocess.Popen[bytes]:
        node = state.node
        macros = {
            "$JOB": node.name,
            "$RETRY": state.tries,
            "$MAX_RETRIES": node.retries.most,
            "$FAILED_COUNT": sum(one.phase == "failed" for one in self._states.values()),
            "$DAG_STATUS": 0,
        }
        if which == "POST":
            macros |= {"$JOBID": f"{state.cluster}.0", "$RETURN": state.value, "$PRE_SCRIPT_RETURN": -1}
        folder = Path.cwd() / (node.directory or ".")
        program, *words = node.scripts[which]
        command = [str(folder / program) if "/" in program or (folder / program).exists() else program]
        command += [str(macros.get(word, word)) for word in words]
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)

    # What is left for others

    def _tell_facts(self) -> None:
        phases = [state.phase for state in self._states.values()]
        facts = {
            "DAG_Status": 2 if "failed" in phases else 0,
            "DAG_NodesTotal": len(phases),
            "DAG_NodesDone": phases.count("done"),
            "DAG_NodesFailed": phases.count("failed"),
            "DAG_NodesReady": phases.count("ready"),
            "DAG_NodesQueued": phases.count("queued"),
        }
        if facts != self._facts:
            self._facts = facts
            ask(self._folder, do="facts", manager=self._cluster, facts=facts)

    def _write_rescue(self) -> None:
        """Write which nodes are done, and how often the others may be tried."""
        last = newest_rescue(self._path)
        number = int(last.name[-3:]) + 1 if last else 1
        states = list(self._states.values())
        failed = [state.node.name for state in states if state.phase == "failed"]
        lines = [
            "# Rescue DAG file, created after running",
            f"#   the {self._path} DAG file",
            f"# Created {time.strftime('%m/%d/%Y %H:%M:%S', time.gmtime())} UTC",
            "# Rescue DAG version: 2.0.1 (partial)",
            "#",
            f"# Total number of Nodes: {len(states)}",
            f"# Nodes premarked DONE: {sum(state.phase == 'done' for state in states)}",
            f"# Nodes that failed: {len(failed)}",
            f"#   {','.join([*failed, '<ENDLIST>'])}",
            "",
        ]
        for state in states:
            retries = state.node.retries
            if state.phase == "done":
                lines.append(f"DONE {state.node.name}")
            elif retries.most:
                left = retries.most - (0 if self._options["resets-retries"] else state.tries)
                unless = "" if retries.unless is None else f" UNLESS-EXIT {retries.unless}"
                lines.append(f"RETRY {state.node.name} {left}{unless}")
        path = Path(f"{self._path}.rescue{number:03}")
        path.write_text("".join(f"{line}\n" for line in lines))
        self._say(f"Rescue DAG file written to {path}")


def _lives(lock: Path) -> bool:
    """Whether the DAGMan that left a lock still runs."""
    try:
        return b"condor_dagman" in Path(f"/proc/{int(lock.read_text())}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def _value(event: str) -> int:
    found = _VALUE.search(event)
    if not found:
        return _ERROR
    return int(found[1]) if found[1] else -int(found[2])


def main() -> int:
    """Run the DAG that the schedd names."""
    folder, cluster, dag, options = sys.argv[1:]
    return DagMan(Path(folder), int(cluster), Path(dag), json.loads(options)).run()
