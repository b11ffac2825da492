"""The minder: starts a command and watches it until its last process has ended; it can then run the next one.

It is one process with one thread. All signals are blocked and taken one at a time from a queue, so events never
interrupt each other: an ended child, a fork, a signal to pass on, or the time for the next sample.
"""

import os
from _signal import SIG_BLOCK, SIGCONT, SIGKILL, SIGPIPE, SIGSTOP, SIGXFSZ, pthread_sigmask, sigtimedwait
from errno import ENOEXEC
from time import monotonic, time

from tonnage.errors import CannotStartError
from tonnage.watch.fork_events import ForkEvents
from tonnage.watch.limits import Exceeded, Job
from tonnage.watch.measure import Measurement
from tonnage.watch.proc import SelfProc
from tonnage.watch.signals import OWN_SIGNALS, SIGNALS, Heard, would_have_ended
from tonnage.watch.system import adopt_orphans, be_readable
from tonnage.watch.tree import ask_tree_to_end, continue_processes, kill_tree, signal_tree, stop_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Minder", "Observer", "Outcome"]

_FIRST_LOOK = 0.010  # short commands are not sampled at all
_LISTEN = 0.025  # seconds between checks for forks,
_LISTEN_CLOSELY = 0.002  # and where the number of processes is limited
_STOP_AGAIN = 0.1  # seconds: a paused process may have been continued by another, or forked at the last moment
_LITTLE = 2**19


class Outcome:
    """How a command ended and what it used; amounts in bytes, seconds, cores and counts."""

    __slots__ = (
        "cgroup",
        "end",
        "exceeded",
        "lower_bounds",
        "memory_method",
        "paused",
        "peak_times",
        "processes_method",
        "start",
        "status",
        "stopped_because",
        "unkilled",
        "upper_bounds",
        "used",
    )

    def __init__(self, start: float) -> None:
        self.start = start
        self.end = start
        self.status: int | None = None  # of the command, as returned by os.wait
        self.stopped_because: str | None = None
        self.exceeded: dict[str, Exceeded] = {}
        self.used: dict[str, float] = {}
        self.peak_times: dict[str, float] = {}
        self.memory_method: str | None = None
        self.paused = 0.0  # seconds, which are not part of its wall time
        self.processes_method: str | None = None
        self.lower_bounds: list[str] = []
        self.upper_bounds: list[str] = []
        self.cgroup: int | None = None  # version of the control group used
        self.unkilled = 0

    @classmethod
    def of_killed_monitor(cls, start: float, end: float) -> "Outcome":
        """Return what is known about a command that was stopped because its minder was killed."""
        outcome = cls(start)
        outcome.end = end
        outcome.status = SIGKILL  # this is how it was stopped
        outcome.stopped_because = "monitor killed"
        outcome.used["wall_time"] = end - start
        return outcome


class Observer:
    """Callbacks for the events of a command, to be overridden."""

    closely = False  # whether every sample looks closely at memory
    asks_when = True  # whether the times of peaks are needed

    def started(self) -> None:
        """Called after the command was started."""

    def measured(self, measurement: Measurement) -> None:
        """Called after each sample."""


class Minder:
    """Runs and watches commands, one after another."""

    pausing = False  # whether the command is to be stopped for the time being

    def __init__(self, mask: "set[int]", guard: "int | None" = None) -> None:
        """Prepare this process, permanently.

        `mask` is the set of signals that are blocked when commands start. `guard` is the parent process: it passes
        signals on, and when it is killed, the command is stopped.
        """
        pthread_sigmask(SIG_BLOCK, SIGNALS)
        adopt_orphans()
        be_readable()
        self.guard = guard
        self._mask = mask
        self.own = SelfProc()
        self.fork_events: ForkEvents | None
        try:
            self.fork_events = ForkEvents()
        except OSError:
            self.fork_events = None
        self._clear_refs: int | None
        try:
            self._clear_refs = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._clear_refs = None  # not supported by this kernel
        self._home: int | None = None

    def mind(self, job: Job, observer: "Observer | None" = None) -> Outcome:
        """Run a command until its last process has ended; raises CannotStartError if it cannot be started."""
        while (signal := sigtimedwait(SIGNALS, 0)) is not None:
            self.is_for_us(signal.si_signo)  # signals that came while nothing ran were not meant for this command
        minding = _Minding(self, job, observer or Observer())
        minding.run()
        return minding.outcome

    def spawn(self, job: Job) -> int:
        """Start the command of a job and return its process id."""
        if job.start_in is None:
            return self._start(job)
        if self._home is None:
            self._home = os.open(".", os.O_PATH | os.O_CLOEXEC)
        try:
            os.chdir(job.start_in)  # briefly ours: forking to change it in the child only takes far longer
            return self._start(job)
        except OSError as error:
            raise CannotStartError(f"{job.start_in}: {error.strerror}") from None
        finally:
            os.fchdir(self._home)

    def _start(self, job: Job) -> int:
        try:
            return self._spawn(job, job.executable, job.command)
        except OSError as error:
            if error.errno != ENOEXEC:
                raise CannotStartError(f"{job.command[0]}: {error.strerror}") from None
        if self.fork_events is not None:
            self.fork_events.restart()
        # A script without "#!": shells run it, and so do we.
        return self._spawn(job, "/bin/sh", ["sh", job.executable, *job.command[1:]])

    def _spawn(self, job: Job, program: str, command: "list[str]") -> int:
        own_group: dict[str, Any] = {"setpgroup": 0} if job.own_group else {}
        return os.posix_spawn(
            program,
            command,
            os.environ if job.environment is None else job.environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(job.streams)],
            setsigmask=self._mask,
            setsigdef=(SIGPIPE, SIGXFSZ),  # Python ignores these, and hence we do
            **own_group,
        )

    def resident_floor(self) -> int:
        """Return the bytes up to which a child's peak resident memory may be inherited from this process."""
        if self._clear_refs is not None:
            os.write(self._clear_refs, b"5")
        return self.own.resident() + _LITTLE

    def why_stop(self) -> "str | None":
        """Return why the command must be stopped, or None; called repeatedly while it runs."""
        return "monitor killed" if self.guard is not None and os.getppid() != self.guard else None

    def is_for_us(self, number: int) -> bool:  # noqa: ARG002 (made to be overridden)
        """Whether a signal is meant for this process and must not be passed on to the command."""
        return False

    def signal_guard(self, number: int) -> None:
        """Stop or continue the guard, as the command did."""
        if self.guard is not None and os.getppid() == self.guard:
            os.kill(self.guard, number)


class _Minding:
    """One command, from its start until its last process has ended."""

    def __init__(self, minder: Minder, job: Job, observer: Observer) -> None:
        self.outcome = Outcome(time())
        self._minder = minder
        self._job = job
        self._observer = observer
        self._measurement = Measurement(job, minder.fork_events, minder.own)
        self._command: int | None = None
        self._next_look = 0.0
        self._deadline: float | None = None  # end of the grace period
        self._listen = _LISTEN_CLOSELY if "processes" in job.limits else _LISTEN
        self._stopped = False
        self._paused_since: float | None = None
        self._paused: set[int] = set()
        self._killing = False
        self._heard = Heard(minder.guard)
        self._floor = 0
        self._at_the_floor = 0

    def run(self) -> None:
        """Start the command and wait until its last process has ended."""
        self._floor = self._minder.resident_floor()
        self.outcome.start = time()
        self._measurement.started()
        try:
            self._spawn()
            self._next_look = monotonic() + _FIRST_LOOK
            self._observer.started()
            self._watch()
        except BaseException:
            kill_tree(self._reap)  # whatever goes wrong here, nothing keeps running unwatched
            raise
        self._close()

    def _spawn(self) -> None:
        cgroup = self._job.cgroup
        if cgroup is None or not cgroup.enter():
            self._job.cgroup = None  # the caller created it and removes it
            self._command = self._minder.spawn(self._job)
            return
        try:
            self._command = self._minder.spawn(self._job)
        finally:
            cgroup.leave()

    def _watch(self) -> None:
        while not self._killing:
            self._take_signal()
            if not self._reap():
                return
            if self._minder.fork_events is not None and self._minder.fork_events.count():
                self._next_look = min(self._next_look, self._measurement.soon())
            if (reason := self._minder.why_stop()) is not None:
                self._kill(reason)
                return
            self._pause_or_continue()
            for number in self._heard.settle():
                if self._command is not None and would_have_ended(self._command, number):
                    self._deliver(number)
            now = monotonic()
            if now >= self._next_look:
                self._look()
            if self._deadline is not None and now >= self._deadline:
                self._kill("limit")

    def _take_signal(self) -> None:
        """Wait for a signal, until the next sample is due, or until the next check for forks."""
        until = min(self._next_look, self._deadline or self._next_look, self._heard.next)
        signal = sigtimedwait(SIGNALS, max(0.0, min(until - monotonic(), self._listen)))
        if signal is None or signal.si_signo in OWN_SIGNALS or self._minder.is_for_us(signal.si_signo):
            return
        number = self._heard.take(signal, apart=self._apart())
        if number is not None:
            self._deliver(number)

    def _apart(self) -> bool:
        """Whether signals to our process group do not reach the command: it has another group, or has ended."""
        try:
            return self._command is None or os.getpgid(self._command) != os.getpgrp()
        except OSError:
            return True

    def _deliver(self, number: int) -> None:
        if self._command is None:  # only processes that the command left behind remain
            signal_tree(number)
            return
        try:
            os.kill(self._command, number)  # not reaped yet, so the process id is still valid
        except OSError:
            pass  # it now runs as another user

    def _reap(self) -> bool:
        """Reap children that have ended; return whether any remain."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                if pid == self._command:
                    self._mirror(stopped=os.WIFSTOPPED(status))
                continue
            self._note_resident(usage.ru_maxrss * 1024)
            if pid == self._command:
                self._mirror(stopped=False)
                self.outcome.status = status
                self._drain_signals_at_the_end()

    def _drain_signals_at_the_end(self) -> None:
        """Keep pending signals that had also reached the command from being sent to the processes it left behind."""
        undelivered = []
        while (signal := sigtimedwait(SIGNALS, 0)) is not None:
            number = self._heard.take(signal, apart=False)
            if number is not None and not self._minder.is_for_us(number):
                undelivered.append(number)
        self._command = None
        for number in undelivered:
            self._deliver(number)

    def _mirror(self, *, stopped: bool) -> None:
        """Stop and continue the guard with the command, so that a shell sees the same as without the monitor."""
        if stopped != self._stopped and not (stopped and self._killing):
            self._stopped = stopped
            self._minder.signal_guard(SIGSTOP if stopped else SIGCONT)

    def _note_resident(self, peak: int) -> None:
        if peak > self._floor:
            self._measurement.largest_reaped = max(self._measurement.largest_reaped, peak)
        else:
            self._at_the_floor = max(self._at_the_floor, peak)

    def _look(self) -> None:
        self._next_look = self._measurement.look(closely=self._observer.closely)
        self._observer.measured(self._measurement)
        if not self._measurement.exceeded or self._job.measure_only or self.outcome.stopped_because:
            return
        if not self._job.grace:
            self._kill("limit")
            return
        self.outcome.stopped_because = "limit"
        ask_tree_to_end()
        self._deadline = monotonic() + self._job.grace

    def _pause_or_continue(self) -> None:
        if self._minder.pausing:
            now = monotonic()
            if self._paused_since is None:
                self._paused_since = self._next_look = now
            if now >= self._next_look:
                self._paused.update(stop_tree())
                self._count_pause()
                self._look()  # it may have grown until it stood still
                self._next_look = now + _STOP_AGAIN
        elif self._paused_since is not None:
            continue_processes(self._paused)
            self._paused.clear()
            self._count_pause()
            self._paused_since = None
            self._next_look = monotonic()

    def _count_pause(self) -> None:
        """Leave out the time of a pause so far: it counts for no limit."""
        if self._paused_since is None:
            return
        since, self._paused_since = self._paused_since, monotonic()
        seconds = self._paused_since - since
        self.outcome.paused += seconds
        self._measurement.paused(seconds)

    def _kill(self, reason: str) -> None:
        self.outcome.stopped_because = reason
        self._deadline = None
        self._killing = True
        self.outcome.unkilled = kill_tree(self._reap)

    def _close(self) -> None:
        self._count_pause()
        outcome, measurement = self.outcome, self._measurement
        outcome.used = measurement.finish()
        if measurement.stopped_by_kernel and not outcome.stopped_because:
            outcome.stopped_because = "limit"
        outcome.end = outcome.start + outcome.used["wall_time"] + outcome.paused
        outcome.exceeded = measurement.exceeded
        if self._observer.asks_when:
            outcome.peak_times = measurement.peak_times()
        outcome.processes_method = "perf" if self._minder.fork_events else "poll"
        outcome.lower_bounds = measurement.lower_bounds()
        outcome.upper_bounds = measurement.upper_bounds()
        if "memory" in outcome.used:
            outcome.memory_method = measurement.memory_method()
        elif self._at_the_floor:
            # Too small and too short to be sampled; it used less memory than this process.
            outcome.used["memory"] = self._at_the_floor
            outcome.memory_method = "max_rss"
            outcome.upper_bounds.append("memory")
        if self._job.cgroup is not None:
            outcome.cgroup = self._job.cgroup.version
            self._job.cgroup.remove()
