"""qsub, qstat and qdel as small programs: they run scripts on this machine, one process for each element."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.deadlines import HANGS

__all__ = ["install"]

_DIRECTIVE = "#PBS "


def install(folder: Path) -> dict[str, str]:
    """Write the programs into a folder; return the variables with which they are found."""
    (folder / "jobs").mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("qsub", "qstat", "qdel"):
        program = folder / "bin" / name
        call = f"from tests.pbs.programs import {name}\nsys.exit({name}({str(folder)!r}, sys.argv[1:]))\n"
        path = str(Path(__file__).resolve().parents[2])
        program.write_text(f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {path!r})\n{call}")
        program.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def qsub(folder: str, words: list[str]) -> int:
    """Start a script, as often as its array has elements, and print the number of the job."""
    script = Path(words[-1])
    lines = [line for line in script.read_text().splitlines() if line.startswith(_DIRECTIVE)]
    given = {name: value for _, name, value in map(str.split, lines)}
    jobs = Path(folder, "jobs")
    number = len(list(jobs.iterdir())) + 1
    first, _, last = given.get("-J", "0-0").partition("-")
    processes = {}
    for element in range(int(first), int(last) + 1):
        output = given["-o"] + (f".{element}" if "-J" in given else "")
        variables = {"PBS_JOBID": f"{number}.here", "PBS_ARRAY_INDEX": str(element)}
        nodes = jobs / f"{number}.nodes"
        nodes.write_text("".join(f"n{one}\n" for one in range(int(given.get("-l", "nodes=1").partition("=")[2]))))
        with Path(output).open("ab") as file:
            process = subprocess.Popen(
                ["/bin/sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **variables, "PBS_NODEFILE": str(nodes)},
                start_new_session=True,
            )
        processes[str(element)] = process.pid
    facts = {"name": given["-N"], "array": "-J" in given, "processes": processes}
    (jobs / str(number)).write_text(json.dumps(facts))
    print(f"{number}.here")  # noqa: T201 (as qsub does)
    return 0


def qstat(folder: str, words: list[str]) -> int:
    """Print what runs: the number of a job or an element, and its name."""
    for path in sorted(Path(folder, "jobs").glob("[0-9]*[0-9]"), key=lambda path: int(path.name)):
        facts = json.loads(path.read_text())
        for element, pid in facts["processes"].items():
            if _runs(pid):
                number = f"{path.name}[{element}].here" if facts["array"] else f"{path.name}.here"
                print(number, facts["name"])  # noqa: T201
    return 0


def qdel(folder: str, words: list[str]) -> int:
    """End jobs or elements: SIGTERM, and after a while SIGKILL."""
    for word in words:
        number, _, element = word.partition(".")[0].rstrip("]").partition("[")
        processes = json.loads(Path(folder, "jobs", number).read_text())["processes"]
        for pid in [processes[element]] if element else processes.values():
            for sent in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(pid, sent)
                deadline = time.monotonic() + HANGS
                while _runs(pid) and time.monotonic() < deadline:
                    time.sleep(0.02)
    return 0


def _runs(pid: int) -> bool:
    try:
        state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")
