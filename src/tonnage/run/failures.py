"""Failed tasks as a person needs them: what ran, what it printed last, where its logs are, and what will not run."""

from collections import Counter
from pathlib import Path

from tonnage.files import tail
from tonnage.run.engine import Engine
from tonnage.run.events import NOT_RETRIED, Ended, Settled
from tonnage.run.recovery import following
from tonnage.units import format_seconds
from tonnage.wording import counted
from tonnage.workflow import Workflow

__all__ = ["Failures", "printed_last", "reason_for"]

_BYTES, _LINES, _WIDTH = 4096, 5, 200
_IN_FULL = 3
"""Failures of a category with the same reason that are described in full: a thousand of them have one cause."""


def reason_for(end: Ended, settled: Settled) -> str:
    """Return in one line how an attempt ended, and what becomes of its task."""
    what_next = "" if settled.reason == NOT_RETRIED else settled.reason
    return "; ".join(part for part in (end.note, what_next) if part) or settled.reason


def printed_last(stderr: str | None, stdout: str | None) -> list[str]:
    """Return the last lines of an attempt's standard error, and the path of its log."""
    printed = tail(Path(stderr), _BYTES).splitlines() if stderr else []
    lines = [_cut(line.rstrip()) for line in printed if line.strip()][-_LINES:]
    path = stderr or stdout
    return [*lines, f"log: {_from_here(path)}"] if path else lines


class Failures:
    """The failed tasks of a run, and the words for each."""

    def __init__(self, engine: Engine, workflow: Workflow) -> None:
        self.reasons: dict[int, str] = {}
        """Why each task failed, by its number."""
        self._engine = engine
        self._workflow = workflow
        self._alike: Counter[tuple[str, str]] = Counter()

    def describe(self, end: Ended, settled: Settled) -> list[str]:
        """Take in a failed task; return the lines to print: many for the first of a kind, none once there are many."""
        task, reason = self._engine.tasks[settled.task], reason_for(end, settled)
        self.reasons[settled.task] = end.note or settled.reason
        self._alike[task.category, reason] += 1
        count = self._alike[task.category, reason]
        if count > _IN_FULL:
            return []
        lines = [f"{task.name} failed{_after(end)}: {reason}"]
        lines += [f"    $ {_cut(' '.join(task.command.split()))}"] if task.command else []
        lines += [f"    {line}" for line in printed_last(end.stderr, end.stdout)]
        behind = self._behind(settled.task)
        lines += [f"    will not run, because they depend on it: {counted(behind, 'task')}"] if behind else []
        if count == _IN_FULL:
            lines.append(f"    more failures of {task.category} with this reason are only counted")
        return lines

    def summary(self) -> list[str]:
        """Return a line for each kind of failure, the most common first."""
        return [
            f"{counted(count, 'task')} of {category} failed: {reason}"
            for (category, reason), count in self._alike.most_common()
        ]

    def _behind(self, task: int) -> int:
        """Count the tasks that depend on a task, directly or not."""
        if task >= len(self._workflow):
            return 0  # FINAL nodes have nothing behind them
        return len(following(self._workflow, [task])) - 1


def _after(end: Ended) -> str:
    if end.started is None or end.ended is None:
        return ""
    seconds = max(0.0, end.ended - end.started)
    return f" after {format_seconds(round(seconds) if seconds >= 10 else float(f'{seconds:.2g}'))}"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 4]} ..."


def _from_here(name: str) -> str:
    """Return a path as the user would type it."""
    path, here = Path(name).absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
