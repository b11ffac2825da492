"""The jobs of a log as input for a simulated cluster: arrays of whole seconds and nodes.

A log counts processors, and so do we: its processors are the *nodes* of the simulated cluster. Missing values are
derived from others: the requested processors, else those allocated; the requested time if the run time is unknown, and
vice versa; a request is never below the run time. A job that ran for 0 seconds counts as one second.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil, floor
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.batch.registry import REQUESTS
from tonnage.errors import InputError
from tonnage.logs.log import Log, UnusableError
from tonnage.logs.swf import header, numbers, refuse_what_never_ran, rows
from tonnage.logs.user_times import zone
from tonnage.units import format_seconds, parse_seconds

__all__ = ["Workload"]

IntArray: TypeAlias = NDArray[np.int64]

_COLUMNS = ("submit", "run", "processors", "requested processors", "requested time", "status", "user")
_SIZES = ("MaxProcs", "MaxNodes")  # the first one present: jobs are counted in processors
_START = "UnixStartTime"
_NOBODY = -1
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOST_NODES = 10_000_000
_LONGEST = 2**40  # seconds; sums of many jobs still fit into 63 bits


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs in order of submission, one array entry per job; times are in seconds since the log's origin."""

    machine_nodes: int
    """The size of the machine."""
    submit: IntArray
    nodes: IntArray
    run: IntArray
    request: IntArray
    user: IntArray
    """The user's number in the log; -1 means unknown."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many jobs of the log were left out, by reason."""
    out_of_order: int = 0
    """How many lines came after one that was submitted later."""
    unix_start: int | None = None
    """The log's origin of time, in seconds since 1970; None if it is not recorded."""

    def __len__(self) -> int:
        return len(self.submit)

    @classmethod
    def of(cls, nodes: int, rows: IntArray) -> "Workload":
        """Return jobs without users, from rows of submission times, nodes, requests and run times."""
        submit, sizes, request, run = rows
        return cls(nodes, submit, sizes, run, request, np.full(len(submit), _NOBODY, np.int64))

    @classmethod
    def load(cls, path: Path, *, nodes: int | None = None) -> "Workload":
        """Read an SWF log, plain or gzip; the machine's size is `nodes`, or what the log says."""
        return cls.read(Log.open(path), nodes=nodes)

    @classmethod
    def read(cls, log: Log, *, nodes: int | None = None) -> "Workload":
        """Read an SWF log."""
        left_out: Counter[str] = Counter()
        sizes: dict[str, float | None] = {}
        jobs: list[tuple[int, ...]] = []
        for _, cells in rows(log):
            if isinstance(cells, str):
                name, value = header(cells)
                sizes.setdefault(name, value)
                continue
            try:
                jobs.append(_job(numbers(cells, _COLUMNS), cells[0]))
            except UnusableError as problem:
                left_out[problem.reason] += 1
        total = nodes or next((int(size) for name in _SIZES if (size := sizes.get(name))), 0)
        if total < 1:
            raise log.error(f"does not say how large the machine is ({' or '.join(_SIZES)})", hint="give --nodes")
        if total > _MOST_NODES:
            raise log.error(f"has {total:,} nodes; at most {_MOST_NODES:,} are supported", hint="give --nodes")
        return _sorted(jobs, total, left_out, unix_start=int(sizes.get(_START) or 0) or None)

    def head(self, jobs: int) -> "Workload":
        """Return the first `jobs` jobs."""
        first = slice(jobs)
        columns = (self.submit[first], self.nodes[first], self.run[first], self.request[first], self.user[first])
        return Workload(self.machine_nodes, *columns, unix_start=self.unix_start)

    def moment(self, text: str | None = None) -> int:
        """Parse a time since the log's first submission, or a date, into the log's seconds; default: its middle.

        A date without a time zone is in the local time zone.
        """
        if not len(self):
            raise InputError("the log has no usable jobs")
        first, last = int(self.submit[0]), int(self.submit[-1])
        if text is None:
            return (first + last) // 2
        second = self._second(text) if _DATE.match(text) else first + int(parse_seconds(text))
        if not first <= second <= last:
            long = format_seconds(last - first)
            raise InputError(f'"{text}" is outside of the log, which is {long} long', hint="give a time such as 5d")
        return second

    def _second(self, date: str) -> int:
        if self.unix_start is None:
            raise InputError(f"the log has no dates: {_START} is missing", hint="give a time since its beginning: 5d")
        try:
            moment = datetime.fromisoformat(date)
        except ValueError:
            raise InputError(f'"{date}" is not a date', hint="expected one such as 1997-03-08T12:00+01:00") from None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=zone())).timestamp()) - self.unix_start

    def requests(self, mode: str) -> IntArray:
        """Return the requested times in a mode of REQUESTS; at least one second each."""
        if mode not in REQUESTS:
            raise InputError(f'"{mode}" is not a kind of requests: expected {" or ".join(REQUESTS)}')
        return np.maximum(self.request if mode == "real" else self.run, 1)


def _job(row: dict[str, float | None], name: str) -> tuple[int, ...]:
    """Return a job's submission time, nodes, run time, requested time and user."""
    refuse_what_never_ran(row, name)
    submit, run, request = row["submit"], row["run"], row["requested time"]
    processors = row["requested processors"] or row["processors"]
    if submit is None:
        raise UnusableError("its submission time is unknown", name)
    if not processors:
        raise UnusableError("no processors", name)
    if not run and not request:
        raise UnusableError("no time", name)
    seconds = max(1, ceil(request or 0 if run is None else run))
    asked = max(seconds, ceil(request or 0))
    if max(submit, asked) > _LONGEST:
        raise UnusableError("not plausible", name)
    user = row["user"]
    return floor(submit), ceil(processors), seconds, asked, _NOBODY if user is None else int(user)


def _sorted(jobs: list[tuple[int, ...]], nodes: int, left_out: Counter[str], unix_start: int | None) -> Workload:
    table = np.array(jobs, np.int64).reshape(-1, 5)
    fits = table[:, 1] <= nodes
    if not fits.all():
        left_out["wider than the machine"] += int((~fits).sum())
        table = table[fits]
    submit = table[:, 0]
    late = int((submit < np.maximum.accumulate(submit)).sum()) if len(submit) else 0
    table = table[np.argsort(submit, kind="stable")]  # jobs of the same second stay in the order of the log
    submit, widths, run, request, user = np.ascontiguousarray(table.T)
    columns = (submit, widths, run, request, user)
    return Workload(nodes, *columns, left_out=dict(left_out), out_of_order=late, unix_start=unix_start)
