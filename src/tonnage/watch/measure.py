"""All measurements of one command together, checked against its limits."""

import os
from time import monotonic, process_time

from tonnage.watch.disk import Disk, NoDisk
from tonnage.watch.fork_events import ForkEvents
from tonnage.watch.limits import Exceeded, Job
from tonnage.watch.memory import Memory
from tonnage.watch.proc import Process, SelfProc, io_bytes, read, swapped
from tonnage.watch.sampling import Pace, time_to_reach, usual_cost
from tonnage.watch.tree import Sample, Tree

__all__ = ["Measurement"]

_CHANGE = 2**20
_FEW = 2**22  # bytes that make no difference to the size of a job
_SMALL = 2**24  # a tree below this needs no frequent samples: shells that start one short program after another
_CORES_TOLERANCE = 1.02  # a busy loop on every core measures slightly above their number
_SWAP_PAUSE = 1.0
_NO_LIMIT = float("inf")
_CLOSEST = 0.001
_SCANNING = 0.15  # seconds between two pieces of a long disk scan
_UNSEEN = Memory(None)  # for all commands that end before the first sample
_SPIKE = 0.1  # seconds: a joint peak of several processes seen for less may have been higher between samples


class Measurement:
    """Measures one command from before its start until after its end.

    Create it before the command starts, call `started`, then `look` repeatedly, and `finish` at the end.
    """

    def __init__(self, job: Job, fork_events: "ForkEvents | None", own: SelfProc) -> None:
        self.exceeded: dict[str, Exceeded] = {}
        self.stopped_by_kernel = False
        self.sample: Sample | None = None
        self.memory = _UNSEEN
        self.disk = NoDisk() if job.folder is None else Disk(job.folder, at_once="disk" not in job.limits)
        self.cores = _Cores(job.cores_window)
        self.moved: dict[str, float] = {}  # bytes read and written so far, if samples look closely
        self.largest_reaped = 0
        self._job = job
        self._fork_events = fork_events
        self._own = own
        self._pace = Pace(job.interval)
        self._cost = 0.0
        self._rate = 0.0
        self._peaks: dict[str, tuple[float, float | None]] = {}
        self._swap_next = 0.0 if own.swap_exists else None
        self._io = own.moved  # no child was reaped since the last command
        if fork_events is not None:
            fork_events.restart()

    def started(self) -> None:
        """Record the start time; call this just before the command is started."""
        self.start = self._looked = monotonic()
        self.tree = Tree(self._fork_events, self.start)

    def paused(self, seconds: float) -> None:
        """Leave out a pause: it counts for no limit, and not as run time."""
        self.start += seconds
        self.tree.start += seconds

    def look(self, *, closely: bool = False) -> float:
        """Take one sample of everything; return when to take the next."""
        self._looked = monotonic()
        begin = process_time()
        before, sample = self.sample, self.tree.look()
        self.sample = sample
        if before is None:
            self.memory = Memory(self._job.limits.get("memory"))
        if not closely:
            self._count_cost(begin)  # close looks and disk scans have their own budgets
        self.memory.see(sample, closely=closely)
        disk = self.disk.now
        self.disk.see(sample.at, sample.processes)
        self.cores.see(sample.at, sample.cpu)
        self._peak("max_concurrent_processes", self._at_once(sample), sample.at)
        if sample.processes:  # nothing is known of a command that is just ending
            self._peak("virtual_memory", sample.virtual, sample.at)
            self._see_swap(sample)
        self._check(sample)
        if closely:
            # A process that is just ending is no longer readable and not yet reaped, so never let the sums decrease.
            moved = self._moved_bytes(sample.processes)
            self.moved = {name: max(value, self.moved.get(name, 0)) for name, value in moved.items()}
            self._count_cost(begin)
        if before is None or _moved(before, sample) or self.disk.now != disk:
            self._pace.stirred()
        else:
            self._pace.calm()
        # A close look takes long enough for much to happen: it must not postpone the next sample.
        return max(self._looked + self._pause(before, sample), monotonic() + _CLOSEST)

    def _count_cost(self, begin: float) -> None:
        self._cost = usual_cost(self._cost, process_time() - begin)

    def row(self) -> "dict[str, float | None]":
        """Return the latest sample as one row of a time series; None means unknown."""
        sample = self.sample
        if sample is None:
            return {}
        return {
            "time": sample.at,
            "cpu_time": sample.cpu,
            "cores": self.cores.lately,
            "processes": len(sample.processes),
            "memory": self.memory.latest,
            "virtual_memory": sample.virtual,
            "disk": self.disk.now,
            **self.moved,
        }

    def _moved_bytes(self, processes: "list[Process]") -> "dict[str, float]":
        """Return the bytes read and written so far, by living processes and by those already reaped."""
        ended = self._own.moved_by_descendants()
        if ended is None or self._io is None:
            return {}
        living = [moved for process in processes if (moved := io_bytes(read(f"/proc/{process.pid}/io")))]
        return {
            "bytes_read": ended[0] - self._io[0] + sum(moved[0] for moved in living),
            "bytes_written": ended[1] - self._io[1] + sum(moved[1] for moved in living),
        }

    def soon(self) -> float:
        """Return when to sample after a fork; whether to sample often from then on depends on the memory seen."""
        if self._fork_events is not None and self._fork_events.most_living > self._job.limits.get(
            "processes", _NO_LIMIT
        ):
            return self._looked
        return self._looked + self._pace.after_birth(self._cost)

    def finish(self) -> "dict[str, float]":
        """Return what was used, once the last process has ended, in bytes, seconds, cores and counts."""
        wall = monotonic() - self.start
        cpu, switches = self.tree.in_all()
        self.disk.see_the_end(wall)
        self.cores.finish(wall, cpu)
        used = {name: value for name, (value, _) in self._peaks.items()}
        used |= {"wall_time": wall, "cpu_time": cpu, "cores_avg": cpu / wall if wall else 0.0}
        if self.cores.peak is not None:
            used["cores"] = self.cores.peak
        if memory := self._memory():
            used["memory"] = memory
        if self._swap_next is None:
            used["swap_memory"] = 0  # there is nothing to swap to
        used |= {name: value for name, value, _ in self._disk_facts() if value is not None}
        if self.disk.at_start is not None:
            used["disk_at_start"] = self.disk.at_start
        used |= self._counts(switches)
        self._check_cgroup()
        for resource, value in (
            ("memory", memory),
            ("disk", used.get("disk") if self.disk.exact else None),
            ("cpu_time", cpu),
        ):
            self._exceed(resource, value)  # seen only now: recorded, although nothing is left to stop
        if self._job.cgroup is not None and self._job.cgroup.peak is not None:
            used["cgroup_memory"] = self._job.cgroup.peak
        return used

    def _exceed(self, resource: str, value: "float | None") -> None:
        """Record an exceeded limit, the first time only."""
        limit = self._job.limits.get(resource, _NO_LIMIT)
        if value is not None and value > limit and resource not in self.exceeded:
            self.exceeded[resource] = Exceeded(resource, limit, value)

    def _check_cgroup(self) -> None:
        """Record whether the kernel killed a process at the memory limit."""
        cgroup = self._job.cgroup
        if cgroup is not None and cgroup.killed:
            self.stopped_by_kernel = True
            limit = self._job.limits["memory"]
            self.exceeded.setdefault("memory", Exceeded("memory", limit, cgroup.peak or limit))

    def peak_times(self) -> "dict[str, float]":
        """Return when each peak was seen, in seconds since the start."""
        times = {name: at for name, (_, at) in self._peaks.items()}
        times |= {name: at for name, _, at in self._disk_facts()}
        times["cores"] = self.cores.peak_at
        if self.memory_method() != "max_rss":  # the kernel does not record when that was
            times["memory"] = self.memory.peak_at
        return {name: at for name, at in times.items() if at is not None}

    def memory_method(self) -> str:
        """Return how memory was measured: ``rss``, ``pss`` or ``max_rss``."""
        return "max_rss" if self._memory() > self.memory.peak else self.memory.method

    def _memory(self) -> int:
        """Return the peak; if no sample came near the kernel's own record for one process, that record counts."""
        if self.largest_reaped <= 1.01 * self.memory.largest:
            return self.memory.peak
        return max(self.memory.peak, self.largest_reaped)

    def lower_bounds(self) -> "list[str]":
        """Return the figures that are lower bounds: more may have been used than was seen."""
        bounds = []
        if self._memory_may_be_more():
            bounds.append("memory")
        if self._fork_events is None or not self._fork_events.complete:
            bounds += ["total_processes", "max_concurrent_processes"]
        if self.tree.lost:
            bounds += ["cpu_time", "bytes_read", "bytes_written"]
        return bounds

    def upper_bounds(self) -> "list[str]":
        """Return the figures that are upper bounds: less may have been used than is reported."""
        return ["disk"] if self.disk.peak and not self.disk.exact else []

    def _memory_may_be_more(self) -> bool:
        """Whether several processes together may have had a short spike that was not seen."""
        if self.memory.overlooked > 1.03 * self._memory():
            return True
        if self.memory_method() != "max_rss":
            return self.memory.beside > max(_FEW, 0.03 * self.memory.peak) and self.memory.lasted < _SPIKE
        together = self._fork_events is not None and self._fork_events.most_living > max(1, self.tree.most)
        return together or self.memory.beside > max(_FEW, 0.03 * self.largest_reaped)

    def _disk_facts(self) -> "list[tuple[str, float | None, float | None]]":
        disk = self.disk
        return [
            ("disk", disk.peak, disk.peak_at),
            ("total_files", disk.files, disk.files_at),
            ("open_files", disk.open_files, disk.open_files_at),
        ]

    def _counts(self, switches: int) -> "dict[str, float]":
        """Return the figures that are exact once every process has been reaped."""
        counts: dict[str, float] = {"context_switches": switches}
        counts |= self._moved_bytes([])
        total, at_once = max(1, self.tree.seen), max(1, self.tree.most)
        if self._fork_events is not None:
            self._fork_events.count(last=True)
            total = max(total, self._fork_events.total)
            at_once = max(at_once, self._fork_events.most_living)
        counts |= {"total_processes": total, "max_concurrent_processes": at_once}
        return counts

    def _at_once(self, sample: Sample) -> int:
        return max(len(sample.processes), self._fork_events.most_living if self._fork_events else 0)

    def _peak(self, name: str, value: float, at: float) -> None:
        if name not in self._peaks or value > self._peaks[name][0]:
            self._peaks[name] = (value, at)

    def _see_swap(self, sample: Sample) -> None:
        if self._swap_next is not None and sample.at >= self._swap_next:
            self._swap_next = sample.at + _SWAP_PAUSE
            self._peak("swap_memory", sum(swapped(process.folder) for process in sample.processes), sample.at)

    def _check(self, sample: Sample) -> None:
        """Record every exceeded limit."""
        seen = {
            "memory": self.memory.now,
            "disk": self.disk.now if self.disk.exact else None,
            "wall_time": sample.at,
            "cpu_time": sample.cpu,
            "cores": self.cores.now and self.cores.now / _CORES_TOLERANCE,
            "processes": self._at_once(sample),
        }
        for resource, value in seen.items():
            self._exceed(resource, value)
        self._check_cgroup()

    def _pause(self, before: "Sample | None", sample: Sample) -> float:
        """Return the seconds until the next sample: the nearer a limit, the shorter."""
        limits = {name: limit for name, limit in self._job.limits.items() if name not in self.exceeded}
        guarded = any(resource in limits for resource in ("memory", "disk", "processes", "cpu_time"))
        pause = self._pace.pause(self._cost, guarded)
        if "memory" in limits:
            if before is not None and sample.at > before.at:
                rate = (sample.resident - before.resident) / (sample.at - before.at)
                self._rate = max(rate, 0.7 * self._rate)
            pause = min(pause, time_to_reach(limits["memory"] - self.memory.most, self._rate, self._cost))
        if "cpu_time" in limits:
            busy = min(os.cpu_count() or 1, sum(process.threads for process in sample.processes) or 1)
            pause = min(pause, max(self._cost, (limits["cpu_time"] - sample.cpu) / busy))
        if self.disk.scanning:
            pause = min(pause, _SCANNING)
        if "wall_time" in limits:
            pause = min(pause, limits["wall_time"] - sample.at)
        return max(_CLOSEST, pause)


class _Cores:
    """The peak number of cores in use, averaged over a sliding window."""

    def __init__(self, window: float) -> None:
        self.now: float | None = None
        self.peak: float | None = None
        self.peak_at: float | None = None
        self._window = window
        self._points = [(0.0, 0.0)]

    @property
    def lately(self) -> float | None:
        """The cores in use over the last second or so."""
        at, cpu = self._points[-1]
        then, spent = next((point for point in reversed(self._points) if point[0] <= at - 1.0), self._points[0])
        return (cpu - spent) / (at - then) if at > then else None

    def see(self, at: float, cpu: float) -> None:
        """Add a sample: the CPU seconds spent so far."""
        self._points.append((at, cpu))
        begin = at - self._window
        if begin < 0:
            return
        while self._points[1][0] <= begin:
            del self._points[0]
        (first, spent), (second, spent_then) = self._points[:2]
        at_begin = spent + (spent_then - spent) * (begin - first) / (second - first)
        self.now = (cpu - at_begin) / self._window
        if self.peak is None or self.now > self.peak:
            self.peak, self.peak_at = self.now, at

    def finish(self, wall: float, cpu: float) -> None:
        """Add the final values; for a command shorter than the window, its wall time is the window."""
        if wall >= self._window:
            self.see(wall, cpu)
        elif wall > 0:
            self.peak, self.peak_at = cpu / wall, wall


def _moved(before: Sample, sample: Sample) -> bool:
    if max(sample.resident, before.resident) < _SMALL:
        return False
    return abs(sample.resident - before.resident) > max(_CHANGE, sample.resident // 100)
