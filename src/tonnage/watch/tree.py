"""The tree of processes below this one: sampled, signalled, killed."""

import os
from _signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from resource import RUSAGE_CHILDREN, getrusage, struct_rusage
from time import monotonic, process_time, sleep

from tonnage.watch.fork_events import ForkEvents
from tonnage.watch.proc import Process, children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

__all__ = ["Sample", "Tree", "ask_tree_to_end", "continue_processes", "kill_tree", "signal_tree", "stop_tree"]

# Processes started by a privileged (setuid) program are missing from the fork records, so the tree is walked anyway
# after this many seconds, or this many times the duration of the last walk.
_WALK_ANYWAY = 0.1
_PRICE = 200
_GIVE_UP = 10.0  # seconds without progress: a process runs as another user or is stuck in the kernel


class Sample:
    """The whole tree at one moment: seconds since the command started, CPU seconds, bytes."""

    __slots__ = ("at", "cpu", "faults", "processes", "resident", "virtual")

    def __init__(self, at: float, processes: "list[Process]", cpu: float, faults: int) -> None:
        self.at = at
        self.processes = processes
        self.cpu = cpu
        self.faults = faults
        self.resident = sum(process.resident for process in processes)
        self.virtual = sum(process.virtual for process in processes)

    @property
    def largest(self) -> int:
        """The resident memory of the largest process."""
        return max((process.resident for process in self.processes), default=0)


class Tree:
    """The descendants of this process since a command started."""

    def __init__(self, fork_events: "ForkEvents | None", start: float) -> None:
        self.start = start
        self.most = 0  # peak number of processes seen at once
        self._fork_events = fork_events
        self._born = 0
        self._known: list[Process] = []
        self._walk_anyway = 0.0
        self._seen: set[tuple[int, int]] = set()
        self._reaped = getrusage(RUSAGE_CHILDREN)
        self._cpu = 0.0
        self._lost_cpu = 0.0

    @property
    def seen(self) -> int:
        """How many different processes were seen."""
        return len(self._seen)

    def look(self) -> Sample:
        """Sample every process."""
        at = monotonic() - self.start
        if self._births_since_walk() or at >= self._walk_anyway:
            begin = process_time()
            processes = _descendants()
            self._walk_anyway = at + max(_WALK_ANYWAY, _PRICE * (process_time() - begin))
            self._seen.update((process.pid, process.started) for process in processes)
            if self._fork_events is not None and len(self._seen) > self._fork_events.total:
                self._fork_events.complete = False
        else:
            processes = [now for old in self._known if (now := Process.of(old.pid)) and now.started == old.started]
        self._known = processes
        living = [process for process in processes if not process.ended and process.virtual]  # 0: just ending
        self.most = max(self.most, len(living))
        return Sample(at, living, *self._spent(processes))

    def _births_since_walk(self) -> bool:
        if self._fork_events is None or not self._fork_events.complete:
            return True
        self._fork_events.count()
        before, self._born = self._born, self._fork_events.total
        return self._born > before

    @property
    def lost(self) -> bool:
        """Whether processes ended without being reaped, so that their use is only partly known."""
        return self._lost_cpu > 0

    def _cpu_of_ended(self, spent: struct_rusage) -> float:
        """Return the CPU seconds of all processes that ended and were reaped."""
        return spent.ru_utime + spent.ru_stime - self._reaped.ru_utime - self._reaped.ru_stime

    def in_all(self) -> "tuple[float, int]":
        """Return the total CPU seconds and context switches of the tree, after its end."""
        spent, before = getrusage(RUSAGE_CHILDREN), self._reaped
        switches = spent.ru_nvcsw + spent.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
        return max(self._cpu, self._cpu_of_ended(spent) + self._lost_cpu), switches

    def _spent(self, processes: "list[Process]") -> "tuple[float, int]":
        """Add up CPU seconds and page faults of living processes and of those already reaped.

        The children of a process that ignores SIGCHLD are not reaped, and the kernel discards what they used. Their
        last known time is kept: a drop of the sum that a second sample confirms shows how much was lost.
        """
        spent = getrusage(RUSAGE_CHILDREN)
        cpu = sum(process.cpu for process in processes) + self._cpu_of_ended(spent) + self._lost_cpu
        if cpu < self._cpu - 0.005:
            again = [now for process in processes if (now := Process.of(process.pid))]
            spent = getrusage(RUSAGE_CHILDREN)
            cpu = max(cpu, sum(process.cpu for process in again) + self._cpu_of_ended(spent) + self._lost_cpu)
            self._lost_cpu += max(0.0, self._cpu - cpu)
        self._cpu = max(self._cpu, cpu)
        reaped = spent.ru_minflt - self._reaped.ru_minflt
        return self._cpu, sum(process.faults for process in processes) + reaped


def _descendants() -> "list[Process]":
    """Return every process below this one, parents before their children."""
    found = []
    waiting = children(os.getpid())
    for pid in waiting:  # grows during the loop
        process = Process.of(pid)
        if process is not None:
            found.append(process)
            waiting.extend(children(pid, process.threads))
    return found


def kill_tree(reap: "Callable[[], bool]", *, spare: "Container[int]" = (), patience: float = _GIVE_UP) -> int:
    """Kill every descendant of this process; return how many could not be killed.

    `reap` reaps children that ended and returns whether any remain. Children to `spare` are left alone, with everything
    below them. After `patience` seconds without progress, the remaining processes are left running.
    """
    left, since, pause = -1, monotonic(), 0.0005
    with_priority = _raise_priority()
    while True:
        stopped = _stop_all(spare)
        for pid in stopped:
            _signal(pid, SIGKILL)
        if not reap():
            break
        if len(stopped) != left:
            left, since = len(stopped), monotonic()
        elif monotonic() - since > patience:
            break
        sleep(pause)
        pause = min(0.02, 2 * pause)
    if with_priority is not None:
        os.setpriority(os.PRIO_PROCESS, 0, with_priority)
    return left if reap() else 0


def _raise_priority() -> "int | None":
    """Raise our priority above a thousand busy processes, if permitted; return the previous priority."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        return None
    return before


def ask_tree_to_end() -> None:
    """Ask every descendant of this process to end by itself."""
    signal_tree(SIGTERM)
    signal_tree(SIGCONT)  # a stopped process would not react


def signal_tree(number: int) -> None:
    """Send a signal to every descendant of this process."""
    for process in _descendants():
        _signal(process.pid, number)


def stop_tree() -> "list[int]":
    """Stop every descendant of this process; return those that were not stopped before."""
    stopped = []
    waiting = children(os.getpid())
    for pid in waiting:  # grows during the loop
        process = Process.of(pid)
        if process is None:
            continue
        if not process.ended and process.state != b"T":
            _signal(pid, SIGSTOP)
            stopped.append(pid)
        waiting.extend(children(pid, process.threads))
    return stopped


def continue_processes(stopped: "Iterable[int]") -> None:
    """Let processes continue that `stop_tree` has stopped."""
    for pid in stopped:
        _signal(pid, SIGCONT)


def _stop_all(spare: "Container[int]") -> "list[int]":
    """Stop every living process but those to spare; return the stopped ones.

    Each is stopped before its children are listed, so hardly any new ones can appear unnoticed: one pass over the tree
    finds nearly all, however fast it grows.
    """
    stopped = []
    waiting = [pid for pid in children(os.getpid()) if pid not in spare]
    for pid in waiting:  # grows during the loop
        _signal(pid, SIGSTOP)
        process = Process.of(pid)
        if process is None:
            continue
        if not process.ended:
            stopped.append(pid)
        waiting.extend(children(pid, process.threads))
    return stopped


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # it has ended, or runs as another user
