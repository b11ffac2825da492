"""The minder: starts a command, watches over it until its last process has ended, then may take the next.

It is one process with one thread. All signals are blocked and taken one at a time from a queue, so that nothing ever
happens in between: a child that ended, a birth, a request to pass on, or time for the next look.
"""

import os
from _signal import SIG_BLOCK, SIGCHLD, SIGCONT, SIGIO, SIGPIPE, SIGSTOP, SIGXFSZ, pthread_sigmask, sigtimedwait
from errno import ENOEXEC
from time import monotonic, time

from tonnage.watch.births import Births
from tonnage.watch.cgroup import Cgroup
from tonnage.watch.job import Job
from tonnage.watch.kill import ask_tree_to_end, kill_tree, signal_tree
from tonnage.watch.limits import Exceeded
from tonnage.watch.measure import Measurement
from tonnage.watch.proc import Process, read
from tonnage.watch.system import adopt_orphans, be_readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import struct_siginfo

__all__ = ["KEEPER_DIED", "SIGNALS", "Minder", "Observer", "Outcome"]

# All but those that cannot be blocked, and those that report an error of this very process.
_NEVER = {4, 5, 7, 8, 9, 11, 19}  # ILL, TRAP, BUS, FPE, KILL, SEGV, STOP
SIGNALS = frozenset(range(1, 65)) - _NEVER - {32, 33}  # 32 and 33 are the C library's own
_WITHOUT_BIRTHS = SIGNALS - {SIGIO}
KEEPER_DIED = 64  # the last real-time signal: nobody else uses it

_FIRST_LOOK = 0.010  # short commands cost nothing
_BUSY = 0.025  # while processes come and go, their records are taken in this often
_BUSY_LIMITED = 0.002  # and this often where their number is limited
_FROM_KERNEL = 128  # si_code of what the terminal sends to all of a process group
_SETTLED = 0.05
_HANDLED = (b"SigBlk", b"SigIgn", b"SigCgt")
_LITTLE = 2**19


class Outcome:
    """How a command ended and what it used; amounts in bytes, seconds, cores and numbers."""

    __slots__ = (
        "cgroup",
        "end",
        "exceeded",
        "lower_bounds",
        "memory_method",
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
        self.status: int | None = None  # of the command, as os.wait gives it
        self.stopped_because: str | None = None
        self.exceeded: dict[str, Exceeded] = {}
        self.used: dict[str, float] = {}
        self.peak_times: dict[str, float] = {}
        self.memory_method: str | None = None
        self.processes_method: str | None = None
        self.lower_bounds: list[str] = []
        self.upper_bounds: list[str] = []
        self.cgroup: int | None = None  # the version of the control group that was used
        self.unkilled = 0


class Observer:
    """Is told what happens to a command; made to be overridden."""

    closely = False  # whether every sample should look closely at memory

    def started(self) -> None:
        """The command was started."""

    def looked(self, measurement: Measurement) -> None:
        """The command was looked at."""


class Minder:
    """Minds one command after another."""

    def __init__(self, mask: "set[int]", keeper: "int | None" = None) -> None:
        """Prepare this process, for good.

        `mask` are the signals that commands start with blocked. `keeper` is the parent process: it passes signals on,
        and when it is killed, the command is stopped.
        """
        pthread_sigmask(SIG_BLOCK, SIGNALS)
        adopt_orphans()
        be_readable()
        self._mask = mask
        self._keeper = keeper
        self._clear_refs = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        self.births: Births | None
        try:
            self.births = Births()
        except OSError:
            self.births = None

    def mind(self, job: Job, observer: "Observer | None" = None) -> Outcome:
        """Run a command to the end of its last process; raises OSError where it cannot be started."""
        minding = _Minding(self, job, observer or Observer())
        minding.run()
        return minding.outcome

    def spawn(self, job: Job) -> int:
        """Start the command of a job."""
        try:
            return self._spawn(job, job.executable, job.command)
        except OSError as error:
            if error.errno != ENOEXEC:
                raise
            # A script without "#!": shells run it, so we do.
            return self._spawn(job, "/bin/sh", ["sh", job.executable, *job.command[1:]])

    def _spawn(self, job: Job, program: str, command: "list[str]") -> int:
        ignored = (SIGPIPE, SIGXFSZ)  # by Python, and so by us
        return os.posix_spawn(program, command, job.environment, setsigmask=self._mask, setsigdef=ignored)

    def resident_floor(self) -> int:
        """Return the bytes up to which a child's highest resident memory may be this process's, inherited."""
        os.write(self._clear_refs, b"5")
        own = Process.of(os.getpid())
        return own.resident + _LITTLE if own else 0

    @property
    def abandoned(self) -> bool:
        """Whether the keeper is gone."""
        return self._keeper is not None and os.getppid() != self._keeper

    def tell_keeper(self, number: int) -> None:
        """Let the keeper stop or go on, as the command did."""
        if self._keeper is not None and not self.abandoned:
            os.kill(self._keeper, number)

    def passed_on(self, sender: int) -> bool:
        """Whether a signal was meant for the command alone: its sender reached the keeper, or us, and no one else."""
        return self._keeper is None or sender == self._keeper


class _Minding:
    """One command, from its start to the end of its last process."""

    def __init__(self, minder: Minder, job: Job, observer: Observer) -> None:
        self.outcome = Outcome(time())
        self._minder = minder
        self._job = job
        self._observer = observer
        self._measurement = Measurement(job, minder.births)
        self._command: int | None = None
        self._next_look = 0.0
        self._deadline: float | None = None  # when grace ends
        self._busy = False  # whether processes come and go
        self._stopped = False
        self._killing = False
        self._to_check: list[tuple[float, int]] = []
        self._cgroup: Cgroup | None = None
        self._floor = 0
        self._at_the_floor = 0

    def run(self) -> None:
        """Start the command and stay until its last process has ended."""
        self._floor = self._minder.resident_floor()
        self.outcome.start = time()
        self._enter_cgroup()
        self._measurement.started()
        self._spawn()
        self._next_look = monotonic() + _FIRST_LOOK
        try:
            self._observer.started()
            self._watch()
        except BaseException:
            kill_tree(self._reap)  # whatever goes wrong here, nothing lives on unwatched
            raise
        self._close()

    def _enter_cgroup(self) -> None:
        """Let the kernel enforce the memory limit too, where it lets us."""
        limit = self._job.limits.get("memory")
        if limit is not None and self._job.cgroup and not self._job.measure_only:
            self._cgroup = Cgroup.enter(limit)

    def _spawn(self) -> None:
        try:
            self._command = self._minder.spawn(self._job)
        finally:
            if self._cgroup is not None:
                self._cgroup.leave()
                if self._command is None:
                    self._cgroup.remove()

    def _watch(self) -> None:
        while self._reap():
            self._take_signal()
            if self._minder.abandoned and not self.outcome.stopped_because:
                self._kill("monitor killed")
            now = monotonic()
            for moment, number in [entry for entry in self._to_check if entry[0] <= now]:
                self._to_check.remove((moment, number))
                self._deliver_if_unheard(number)
            if now >= self._next_look:
                self._look()
            if self._deadline is not None and now >= self._deadline:
                self._kill("limit")
            if self.outcome.unkilled:
                return

    def _take_signal(self) -> None:
        """Wait for a signal or for the time of the next look."""
        births, signals = self._minder.births, SIGNALS
        until = min([self._next_look, self._deadline or self._next_look, *(moment for moment, _ in self._to_check)])
        pause = max(0.0, until - monotonic())
        if self._busy:
            signals, pause = _WITHOUT_BIRTHS, min(pause, _BUSY_LIMITED if "processes" in self._job.limits else _BUSY)
        signal = sigtimedwait(signals, pause)
        if births is not None and (self._busy or (signal is not None and signal.si_signo == SIGIO)):
            self._busy = births.count()
            if self._busy:
                self._next_look = min(self._next_look, monotonic() + self._measurement.stirred())
        if signal is not None and signal.si_signo not in {SIGCHLD, SIGIO, KEEPER_DIED}:
            self._pass_on(signal)

    def _pass_on(self, signal: "struct_siginfo") -> None:
        """Let the command have a signal, unless it had it already.

        What the terminal sends, it sends to the command as well. What a process sends to all of our process group
        reaches the command, us and the keeper; what it sends to the keeper alone comes to us through the keeper.
        """
        if signal.si_code == _FROM_KERNEL:
            return
        if self._minder.passed_on(signal.si_pid):
            if all(number != signal.si_signo for _, number in self._to_check):  # else it went to the whole group
                self._deliver(signal.si_signo)
        else:
            self._to_check.append((monotonic() + _SETTLED, signal.si_signo))

    def _deliver(self, number: int) -> None:
        if self._command is None:  # only what the command left behind is here to listen
            signal_tree(number)
            return
        os.kill(self._command, number)  # not yet waited for, so the number is still its own

    def _deliver_if_unheard(self, number: int) -> None:
        """Deliver a signal that came to us from elsewhere, if the command would have ended by it and has not."""
        status = read(f"/proc/{self._command}/status") if self._command else b""
        masks = [line.split()[1] for line in (status or b"").splitlines() if line.startswith(_HANDLED)]
        handled = any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
        if not handled and number != SIGCONT:
            self._deliver(number)

    def _reap(self) -> bool:
        """Wait for children that have ended; whether any are left."""
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
                self._command = None
                self.outcome.status = status

    def _mirror(self, *, stopped: bool) -> None:
        """Let the keeper stop and go on with the command, so that a shell sees what it would see without us."""
        if stopped != self._stopped and not (stopped and self._killing):
            self._stopped = stopped
            self._minder.tell_keeper(SIGSTOP if stopped else SIGCONT)

    def _note_resident(self, peak: int) -> None:
        if peak > self._floor:
            self._measurement.largest_reaped = max(self._measurement.largest_reaped, peak)
        else:
            self._at_the_floor = max(self._at_the_floor, peak)

    def _look(self) -> None:
        while sigtimedwait({SIGIO}, 0) is not None:
            pass  # the births that it told of are taken in now
        self._next_look = monotonic() + self._measurement.look(closely=self._observer.closely)
        self._observer.looked(self._measurement)
        if self._cgroup is not None and self._cgroup.killed:
            self._measurement.exceed("memory", self._cgroup.peak)
        if not self._measurement.exceeded or self._job.measure_only or self.outcome.stopped_because:
            return
        if not self._job.grace:
            self._kill("limit")
            return
        self.outcome.stopped_because = "limit"
        ask_tree_to_end()
        self._deadline = monotonic() + self._job.grace

    def _kill(self, reason: str) -> None:
        self.outcome.stopped_because = reason
        self._deadline = None
        self._killing = True
        self.outcome.unkilled = kill_tree(self._reap)

    def _close(self) -> None:
        outcome, measurement = self.outcome, self._measurement
        if self._cgroup is not None:
            self._close_cgroup(self._cgroup)
        outcome.used = measurement.finish()
        outcome.end = outcome.start + outcome.used["wall_time"]
        outcome.exceeded = measurement.exceeded
        outcome.peak_times = measurement.peak_times()
        outcome.processes_method = "perf" if self._minder.births else "poll"
        outcome.lower_bounds = measurement.lower_bounds()
        if "memory" in outcome.used:
            outcome.memory_method = measurement.memory_method()
        elif self._at_the_floor:
            # Too small and too short to be seen; it had less than we have.
            outcome.used["memory"] = self._at_the_floor
            outcome.memory_method = "max_rss"
            outcome.upper_bounds.append("memory")

    def _close_cgroup(self, cgroup: Cgroup) -> None:
        if cgroup.killed and not self.outcome.stopped_because:
            self._measurement.exceed("memory", cgroup.peak)
            self.outcome.stopped_because = "limit"
        self._measurement.in_cgroup(cgroup.peak)
        self.outcome.cgroup = cgroup.version
        cgroup.remove()
