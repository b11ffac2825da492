"""HTCondor's job event log, the file that a submit description names with ``log = ...``, in its plain form.

Each execution of a job is an attempt: a job that was evicted and restarted has two. The reason why an execution ended
can be in the event after the one that ended it: an eviction is followed by the hold or the removal that caused it.
Therefore an execution that was stopped is kept until the next event. A job is dropped when it leaves the queue.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import tzinfo

from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.classads import ClassAd
from tonnage.logs.htcondor_event_format import HEADER, Event, JobName, Moment, events
from tonnage.logs.htcondor_history import exhausted_by, names, native_id
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped, UnusableError

__all__ = ["Queue", "read", "recognises"]

_KIB, _MIB = 2**10, 2**20
_OTHER_FORMS = {"<": "XML", "{": "JSON", "[": "JSON"}
_MOST_ENDS = 4  # events kept about the end of an execution

_SUBMITTED, _STARTED, _EVICTED, _TERMINATED, _GREW, _SHADOW_FAILED = "000", "001", "004", "005", "006", "007"
_ABORTED, _HELD, _RELEASED, _RECONNECT_FAILED, _AD = "009", "012", "013", "024", "028"
_STOPS = (_EVICTED, _SHADOW_FAILED, _RECONNECT_FAILED)
_LEAVES = {_TERMINATED, _ABORTED}
_BY_USER = 1  # the code of a hold requested by the user

_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
_BATCH = re.compile(r"(.+)\+(\d+)", re.ASCII)
_TYPED = frozenset(name for one in ("Cpus", "Memory", "Disk") for name in (one, f"Request{one}"))
_TYPED |= {"MemoryUsage", "DiskUsage", "CondorScratchDir", "DAGNodeName"}


def recognises(head: str) -> bool:
    """Whether the text begins with an event, even in an unsupported form, so that the reader can report that."""
    text = head.lstrip()
    return "EventTypeNumber" in head if text[:1] in _OTHER_FORMS else bool(HEADER.match(text))


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each execution that ended."""
    if other := _OTHER_FORMS.get(log.head.lstrip()[:1]):
        raise log.error(f"is {other}: only the plain form of HTCondor's event logs is supported")
    if not HEADER.search(log.head):
        raise log.error("is not an HTCondor job event log: no line like 005 (123.000.000) 2024-01-05 10:11:12")
    queue = Queue(hints.zone)
    for event in events(log):
        if isinstance(event, Skipped):
            yield event
            continue
        try:
            yield from queue.take(event)
        except UnusableError as problem:
            yield problem.at(event.line)
    yield from queue.rest()


@dataclass(slots=True)
class _Run:
    """An execution: what started it, what it grew to, and what ended it."""

    start: Event | None = None
    started: Moment | None = None
    memory: float | None = None
    ends: list[Event] = field(default_factory=list)
    ended: Moment | None = None

    def end(self, event: Event, now: Moment) -> None:
        """Record an event that ended it or gives the reason."""
        self.ended = self.ended or now
        if len(self.ends) < _MOST_ENDS:
            self.ends.append(event)

    @property
    def kinds(self) -> set[str]:
        """The kinds of the events that ended it."""
        return {event.kind for event in self.ends}

    def exit(self) -> tuple[int | None, int | None]:
        """Return its exit status or its signal if it ended by itself."""
        return next((found for event in self.ends if (found := event.exit())), (None, None))

    def exhausted(self) -> Resource | None:
        """Return the resource that it ran out of, if that is certain whatever follows."""
        return next(filter(None, (exhausted_by(*event.codes()) for event in self.ends)), None)

    def exceeded(self) -> Resource | None:
        """Return the resource for which it was evicted if the code does not say so: it used more than it had.

        This is None if it was held or removed for another reason: the table may describe an earlier execution.
        """
        if self.kinds not in ({_EVICTED}, {_EVICTED, _ABORTED}) or self.exit() != (None, None):
            return None
        resource = self.ends[0].exceeded()
        if resource and _ABORTED in self.kinds and not names(self.ends[-1].reason(), resource):
            return None
        return resource

    @property
    def waits(self) -> bool:
        """Whether the next event will give the reason for its eviction."""
        return self.kinds == {_EVICTED} and self.exit() == (None, None) and self.exhausted() is None


@dataclass(slots=True)
class _Job:
    """A job in the queue."""

    line: int
    submitted: Moment | None = None
    notes: dict[str, str] = field(default_factory=dict)
    schedd: str | None = None
    global_id: str | None = None
    runs: int = 0
    run: _Run | None = None

    def finish(self) -> Iterator[Entry]:
        """Yield the execution that ended, and wait for the next one."""
        run, self.run = self.run, None
        if run is None:
            return
        try:
            yield _attempt(self, run)
        except UnusableError as problem:
            yield problem.at(run.ends[-1].line if run.ends else self.line)


class Queue:
    """The jobs that have been submitted and have not left the queue."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._jobs: dict[JobName, _Job] = {}
        self._assumed: set[str] = set()

    def take(self, event: Event) -> Iterator[Entry]:
        """Process an event, and yield the executions that it shows to have ended."""
        now = event.moment(self._zone)
        yield from self._assume(event, now)
        if event.kind == _SUBMITTED:
            yield from self._forget(event.job)
            self._jobs[event.job] = _Job(event.line, now, event.notes(), event.alias())
        elif event.kind == _STARTED:
            yield from self._start(event, now)
        elif event.kind in _STOPS:
            yield from self._stop(event, now)
        elif event.kind == _TERMINATED:
            yield from self._terminate(event, now)
        elif event.kind == _ABORTED:
            yield from self._abort(event, now)
        elif job := self._jobs.get(event.job):
            yield from _go_on(job, event, now)
        elif event.kind == _HELD:
            yield _without_start(event)

    def node(self, name: JobName) -> str | None:
        """Return the DAG node that a job in the queue belongs to."""
        job = self._jobs.get(name)
        return job.notes.get("DAGNodeName") if job else None

    def rest(self) -> Iterator[Entry]:
        """Yield the remaining executions at the end of the log."""
        for name in list(self._jobs):
            yield from self._forget(name)

    def _assume(self, event: Event, now: Moment) -> Iterator[Assumed]:
        if not now.has_year:
            what = "dates have no year: it is known how long jobs took, but not when they ran"
        elif not _ZONE.search(event.date):
            what = f"times in the time zone {self._zone}"
        else:
            return
        if what not in self._assumed:
            self._assumed.add(what)
            yield Assumed(what)

    def _start(self, event: Event, now: Moment) -> Iterator[Entry]:
        job = self._jobs.setdefault(event.job, _Job(event.line))
        yield from job.finish()
        job.runs, job.run = job.runs + 1, _Run(event, now)

    def _stop(self, event: Event, now: Moment) -> Iterator[Entry]:
        job = self._jobs.get(event.job)
        if job is None:
            yield _without_start(event)
        elif job.run:
            job.run.end(event, now)
        else:
            yield Skipped(event.line, "it was stopped before it started", _name(event))

    def _terminate(self, event: Event, now: Moment) -> Iterator[Entry]:
        job = self._jobs.pop(event.job, None) or _Job(event.line)
        if not job.run:  # its start is not in this log, but its end and what it used are
            job.runs, job.run = job.runs + 1, _Run()
        job.run.end(event, now)
        yield from job.finish()

    def _abort(self, event: Event, now: Moment) -> Iterator[Entry]:
        job = self._jobs.pop(event.job, None)
        if job and job.run:
            job.run.end(event, now)
            yield from job.finish()
        elif job is None:
            yield _without_start(event)
        elif not job.runs:
            yield Skipped(event.line, "it was removed before it started", _name(event))

    def _forget(self, name: JobName) -> Iterator[Entry]:
        """Drop a job that never left the queue according to the log."""
        job = self._jobs.pop(name, None)
        if job and job.run and job.run.ends and not job.run.waits:
            yield from job.finish()
        elif job and job.run and job.run.start:
            state = "evicted" if job.run.ends else "running"
            yield Skipped(job.run.start.line, "it has not finished", state, healthy=True)
        elif job and not job.runs:
            yield Skipped(job.line, "it has not finished", "waiting", healthy=True)


def _go_on(job: _Job, event: Event, now: Moment) -> Iterator[Entry]:
    """Process an event about a job that stays in the queue."""
    if event.kind == _AD:
        job.global_id = ClassAd(event.attributes()).text("GlobalJobId") or job.global_id
    elif job.run and event.kind == _GREW:
        job.run.memory = max(event.grown_to(), job.run.memory or 0.0) or None
    elif job.run and event.kind == _HELD:
        job.run.end(event, now)
        yield from job.finish()
    elif job.run and event.kind == _RELEASED and job.run.ends:
        yield from job.finish()


def _without_start(event: Event) -> Skipped:
    return Skipped(event.line, "its start is not in this log", _name(event))


def _name(event: Event) -> str:
    return f"job {event.job[0]}.{event.job[1]}"


def _attempt(job: _Job, run: _Run) -> Attempt:
    exit_status, signal = run.exit()
    if _TERMINATED in run.kinds and exit_status is None and signal is None:
        raise UnusableError("the event does not say how the job ended")
    exhausted = run.exhausted() or run.exceeded()
    facts = run.start.attributes() if run.start else {}
    for event in run.ends:
        facts |= event.resources()
    ad = ClassAd(facts)
    memory = ad.positive("MemoryUsage", unit=_MIB) or run.memory
    workflow, dagman = _workflow(job.notes.get("JobBatchName"))
    return Attempt(
        native_id=native_id(job.global_id, None if run.kinds & _LEAVES and not exhausted else job.runs),
        row=(run.start or run.ends[0]).text,  # more may be known about its end when the log is read again
        run=f"{dagman}@{job.schedd}" if dagman and job.schedd else dagman,
        workflow=workflow,
        task=job.notes.get("DAGNodeName"),
        number=job.runs,
        host=run.start.host() if run.start else None,
        submitted=job.submitted.known if job.submitted else None,
        started=run.started.known if run.started else None,
        ended=run.ended.known if run.ended else None,
        outcome=Outcome.EXHAUSTED if exhausted else _outcome(run, exit_status, signal),
        exhausted=exhausted,
        exit_status=exit_status,
        signal=signal,
        requested=Amounts.of(
            cores=ad.number("RequestCpus"),
            memory=ad.number("RequestMemory", unit=_MIB),
            disk=ad.number("RequestDisk", unit=_KIB),
        ),
        allocated=Amounts.of(
            cores=ad.number("Cpus"),
            memory=_first([ad.number("Memory", unit=_MIB), *(event.memory_limit() for event in run.ends)]),
            disk=ad.number("Disk", unit=_KIB),
        ),
        used=Amounts.of(
            memory=memory,
            disk=ad.number("DiskUsage", unit=_KIB),
            wall_time=_wall_time(run, ad),
            cpu_time=_first(event.cpu_seconds() for event in run.ends),
        ),
        memory_method=None if memory is None else "rss",
        lower_bounds=() if exhausted is None else (exhausted.value,),
        raw={name: value for name, value in (job.notes | facts).items() if value is not None and name not in _TYPED},
    )


def _first(found: Iterable[float | None]) -> float | None:
    return next((one for one in found if one is not None), None)


def _workflow(batch: str | None) -> tuple[str | None, str | None]:
    """Split a batch name such as ``all.dag+123`` into the workflow and the number of DAGMan's own job."""
    found = _BATCH.fullmatch(batch or "")
    return (found[1], found[2]) if found else (batch, None)


def _wall_time(run: _Run, ad: ClassAd) -> float | None:
    if run.started and run.ended:
        return run.started.until(run.ended)
    return ad.number("TimeExecuteUsage")


def _outcome(run: _Run, exit_status: int | None, signal: int | None) -> Outcome:
    kinds = run.kinds
    if exit_status is not None or signal is not None:
        return Outcome.DONE if exit_status == 0 else Outcome.FAILED
    if not kinds or kinds & {_SHADOW_FAILED, _RECONNECT_FAILED}:
        return Outcome.LOST
    if _HELD in kinds:
        return Outcome.CANCELLED if run.ends[-1].codes()[0] == _BY_USER else Outcome.FAILED
    return Outcome.CANCELLED if _ABORTED in kinds else Outcome.PREEMPTED
