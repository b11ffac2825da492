"""Runs one daemon and answers for all that comes of it: `supervisor.py COMMAND ...`.

Slurm's daemons let go of their children on purpose: a job outlives the slurmd that started it. So that nothing
outlives a test, every daemon has a supervisor, to which its orphans fall. The supervisor writes the daemon's process
id, and kills everything below itself as soon as its standard input ends: because a test asks for it, or because it was
killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36


def below(root: int) -> list[int]:
    """Return the processes that descend from one."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to load than all the rest
        if not name.isdigit():
            continue
        # A process that ends meanwhile is none. A program's name may hold anything, but nothing after it holds a ")".
        with suppress(OSError), open(f"/proc/{name}/stat", errors="replace") as file:  # noqa: PTH123
            parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found, new = set[int](), {root}
    while new:
        new = {process for process, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    while True:  # until the main thread finds no child left and ends us: what forks meanwhile is found the next time
        for process in below(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)


def main(command: list[str]) -> None:
    """Start the daemon; return when neither it nor anything that came of it is left."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # our end is that of our standard input; ignoring would be inherited
    daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)
    os.write(1, b"%d\n" % daemon.pid)
    threading.Thread(target=_end_with_input, daemon=True).start()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)  # the thread may be in the middle of a read


if __name__ == "__main__":
    main(sys.argv[1:])
