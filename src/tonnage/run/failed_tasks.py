"""Failed tasks, described for people: what ran, what it printed last, where its logs are, and what will not run."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tonnage.files import tail
from tonnage.run.events import NOT_RETRIED, Ended, Settled
from tonnage.run.journal import Reader
from tonnage.run.journal_rows import Row
from tonnage.units import format_seconds
from tonnage.wording import counted, one_line, printable, shortened
from tonnage.workflow import Task
from tonnage.workflow.names import title_of

__all__ = ["FailedTask", "Failures", "Kind", "failed_tasks", "kinds_of", "printed_last", "reason_for"]

_BYTES, _LINES, _WIDTH = 4096, 5, 200
_IN_FULL = 3
"""Failures of a category with the same reason that are described in full: a thousand of them have one cause."""
_PARTICULAR = re.compile(r'(?<=did not write ).+|"[^"]*"|\d[\d.,]* [kMGTP]?i?B\b')
"""What differs between failures of one kind: the names of files, and amounts."""


def reason_for(end: Ended, settled: Settled) -> str:
    """Return in one line how an attempt ended, and what becomes of its task."""
    what_next = "" if settled.reason == NOT_RETRIED else settled.reason
    return "; ".join(part for part in (end.note, what_next) if part) or settled.reason


def printed_last(stderr: str | None) -> list[str]:
    """Return the last lines of an attempt's standard error."""
    printed = tail(Path(stderr), _BYTES).splitlines() if stderr else []
    return [printable(shortened(line.rstrip().expandtabs(), _WIDTH)) for line in printed if line.strip()][-_LINES:]


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that failed, with everything that helps to find out why."""

    name: str
    line: int | None
    command: str | None
    category: str
    reason: str
    seconds: float | None = None
    """How long its last attempt ran."""
    stdout: str | None = None
    stderr: str | None = None

    @property
    def title(self) -> str:
        """What people call it."""
        return title_of(self.name, self.line, self.command)

    @property
    def log(self) -> str | None:
        """The file with what it printed, as the user would type it; None if it printed nothing."""
        name = self.stderr or self.stdout
        if name is None:
            return None
        path, here = Path(name).absolute(), Path.cwd()
        return str(path.relative_to(here) if path.is_relative_to(here) else path)

    def facts(self) -> dict[str, object]:
        """Return the same as plain values, for JSON and for pages."""
        return {
            "task": self.name,
            "title": self.title,
            "line": self.line,
            "command": self.command,
            "category": self.category,
            "note": self.reason,
            "printed_last": printed_last(self.stderr),
            "stdout": self.stdout,
            "stderr": self.stderr,
        }

    def described(self) -> list[str]:
        """Return the lines to print: what failed and why, its command, what it printed last, and its log."""
        called = self.name if self.line is None else f"line {self.line}"
        lines = [f"{called} failed{_after(self.seconds)}: {self.reason}"]
        lines += [f"    $ {one_line(self.command, _WIDTH)}"] if self.command else []
        lines += [f"    {line}" for line in printed_last(self.stderr)]
        return [*lines, f"    log: {self.log}"] if self.log else lines


@dataclass(frozen=True, slots=True)
class Kind:
    """The failed tasks of one category that failed for the same reason."""

    category: str
    reason: str
    """What their reasons have in common: without the names of files, and without amounts."""
    count: int
    examples: list[FailedTask]
    """The first few of them."""

    @property
    def others(self) -> str:
        """How many more there are than the examples; empty if none."""
        rest = self.count - len(self.examples)
        return f"{counted(rest, 'more task')} of {self.category} failed: {self.reason}" if rest else ""


def _alike(reason: str) -> str:
    """Return what a reason has in common with those of other tasks that failed in the same way."""
    return _PARTICULAR.sub("…", reason)


def kinds_of(failed: Iterable[FailedTask]) -> list[Kind]:
    """Sort failed tasks by category and reason, the most common first."""
    alike: dict[tuple[str, str], list[FailedTask]] = {}
    for one in failed:
        alike.setdefault((one.category, _alike(one.reason)), []).append(one)
    kinds = [Kind(*key, len(found), found[:_IN_FULL]) for key, found in alike.items()]
    return sorted(kinds, key=lambda kind: -kind.count)


def failed_tasks(reader: Reader, most: int = -1) -> list[FailedTask]:
    """Return the failed tasks of a run, up to `most` of those that had an attempt."""
    refused = (FailedTask(*one) for one in reader.refusals())
    return [*map(_failed, reader.failed(most)), *refused]


def _failed(row: Row) -> FailedTask:
    return FailedTask(
        name=row.task,
        line=row.line,
        command=row.command,
        category=row.category,
        reason=row.note.removesuffix(f"; {NOT_RETRIED}"),
        seconds=None if row.ended is None else row.ended - row.started,
        stdout=row.stdout,
        stderr=row.stderr,
    )


class Failures:
    """The failed tasks of a session, and the words for each."""

    def __init__(self, tasks: Sequence[Task], behind: Callable[[int], int]) -> None:
        """Start without any; `behind` counts the tasks that depend on one, directly or not."""
        self.reasons: dict[int, str] = {}
        """Why each task failed, by its number."""
        self._tasks = tasks
        self._behind = behind
        self._alike: Counter[tuple[str, str]] = Counter()
        self._kinds: dict[int, tuple[str, str]] = {}

    def describe(self, end: Ended, settled: Settled) -> list[str]:
        """Add a failed task; return the lines to print: many for the first of a kind, none once there are many."""
        task, reason = self._tasks[settled.task], reason_for(end, settled)
        self.reasons[settled.task] = end.note or settled.reason
        kind = task.category, _alike(reason)
        self._alike[kind] += 1
        self._kinds[settled.task] = kind
        if self._alike[kind] > _IN_FULL:
            return []
        took = None if end.started is None or end.ended is None else end.ended - end.started
        failed = FailedTask(
            task.name, task.line, task.command, task.category, reason, took, stdout=end.stdout, stderr=end.stderr
        )
        lines = failed.described()
        behind = self._behind(settled.task)
        lines += [f"    will not run, because they depend on it: {counted(behind, 'task')}"] if behind else []
        if self._alike[kind] == _IN_FULL:
            lines.append(f"    more failures of {task.category} with this reason are only counted")
        return lines

    def forget(self, tasks: Iterable[int]) -> None:
        """Forget failures of tasks that are retried after all."""
        for task in tasks:
            self.reasons.pop(task, None)
            alike = self._kinds.pop(task, None)
            if alike is not None:
                self._alike[alike] -= 1

    def summary(self) -> list[str]:
        """Return a line for each kind of failure of which not all were described, the most common first."""
        return [
            f"{counted(count, 'task')} of {category} failed: {reason}"
            for (category, reason), count in self._alike.most_common()
            if count > _IN_FULL
        ]


def _after(seconds: float | None) -> str:
    taken = max(0.0, seconds or 0.0)
    if not taken:
        return ""
    return f" after {format_seconds(round(taken) if taken >= 10 else float(f'{taken:.2g}'))}"
