"""Progress of a run: a live view on a terminal, plain lines elsewhere."""

import logging
import sys
import time
from typing import TYPE_CHECKING

from tonnage.cli.tables import cut
from tonnage.jobs import Resource
from tonnage.units import format_bytes, format_cores, format_seconds
from tonnage.wording import printable
from tonnage.workflow.names import title_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from tonnage.cli.console import Console
    from tonnage.run.engine import Engine
    from tonnage.run.events import Ended, Settled, Start
    from tonnage.run.minders import Seen
    from tonnage.run.progress import Progress, Running

__all__ = ["LiveView", "PlainView"]

_PLAIN_PAUSE = 10.0
_LIVE_PAUSE = 0.25
_SHOWN = 12
_NEWS = 4
_NAME = 36

_log = logging.getLogger(__name__)


class PlainView:
    """Logs the progress of a run from time to time; problems are logged when they happen."""

    def __init__(self, progress: "Progress") -> None:
        self.progress = progress
        self._next = time.monotonic() + _PLAIN_PAUSE

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def started(self, start: "Start", now: float) -> None:
        """Update the progress for an attempt that started."""
        self.progress.started(start, now)

    def seen(self, seen: "Seen") -> None:
        """Update the progress for a measurement of a running attempt."""
        self.progress.seen(seen)

    def ended(self, end: "Ended", settled: "Settled") -> None:
        """Update the progress for an attempt that ended."""
        self.progress.ended(end, settled)

    def tick(self, engine: "Engine") -> None:
        """Log the progress, if the last time was long enough ago."""
        if time.monotonic() >= self._next and not engine.finished:
            self._next = time.monotonic() + _PLAIN_PAUSE
            _log.info(_line(self.progress, engine.outstanding - len(self.progress.running)))


class LiveView(PlainView):
    """A view on a terminal that is redrawn in place and includes log messages."""

    def __init__(self, progress: "Progress", console: "Console") -> None:
        super().__init__(progress)
        self._console = console
        self._print = console.show
        self._drawn = 0.0
        self._news: list[str] = []
        self._live: Live | None = None

    def __enter__(self) -> "LiveView":
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.__enter__()
        self._console.show = self._show
        return self

    def __exit__(self, *_: object) -> None:
        self._console.show = self._print
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def tick(self, engine: "Engine") -> None:
        """Redraw, if the last time was long enough ago."""
        now = time.monotonic()
        if self._live is not None and now >= self._drawn + _LIVE_PAUSE:
            self._drawn = now
            self._live.update(self._picture(engine.outstanding - len(self.progress.running)), refresh=True)

    def _show(self, line: str, level: int) -> None:
        """Print a warning above the view, where it stays; show other messages in the view for a while."""
        if level >= logging.WARNING and self._live is not None:
            self._live.console.print(f"tonnage: {line}", style="yellow")
        else:
            self._news = [*self._news, line][-_NEWS:]

    def _picture(self, waiting: int) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [Text(_line(self.progress, waiting), style="bold"), _categories(self.progress)]
        if self.progress.running:
            parts.append(_running(self.progress))
        parts += [Text(line, style="yellow") for line in self._news]
        return Group(*parts)


def _line(progress: "Progress", waiting: int) -> str:
    """Summarise the progress in one line; `waiting` tasks are in the queue of a batch system."""
    now = time.time()
    total = sum(one.tasks for one in progress.categories.values())
    left = progress.seconds_left(now)
    waste = progress.waste(Resource.MEMORY)
    elapsed = max(now - progress.begun, 1e-9)
    parts = [
        f"{progress.done:,} of {total:,} tasks done",
        f"{len(progress.running):,} running",
        f"{waiting:,} in the queue" if waiting > 0 else "",
        f"{progress.failed:,} failed" if progress.failed else "",
        f"{progress.retries:,} retried" if progress.retries else "",
        f"{(progress.done - progress.before) / elapsed:.3g} tasks/s",
        f"{waste:.0%} of memory wasted" if waste is not None else "",
        f"{format_seconds(round(elapsed))} elapsed",
        f"about {format_seconds(max(1, round(left)))} remaining" if left is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _categories(progress: "Progress") -> "RenderableType":
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    shown = sorted(progress.categories.items(), key=lambda item: (item[1].done == item[1].tasks, -item[1].tasks))
    for name, one in shown[:_SHOWN]:
        notes = [f"{one.failed:,} failed" if one.failed else "", f"{one.retries:,} retried" if one.retries else ""]
        table.add_row(
            Text(cut(printable(name), _NAME)),
            ProgressBar(total=max(1, one.tasks), completed=one.done, width=24),
            Text(f"{one.done:,}/{one.tasks:,}"),
            Text(", ".join(note for note in notes if note), style="yellow"),
        )
    if len(shown) > _SHOWN:
        table.add_row(Text(f"and {len(shown) - _SHOWN:,} more categories"))
    return table


def _running(progress: "Progress") -> "RenderableType":
    """Return a table of the running tasks, longest first, with what they use and were allocated."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("running", "time", "memory", "of", "cores", "of"):
        table.add_column(name, justify="left" if name == "running" else "right")
    now = time.time()
    longest = sorted(progress.running.values(), key=lambda one: one.since)
    for one in longest[:_SHOWN]:
        table.add_row(*(Text(cell) for cell in _cells(one, now)))
    if len(longest) > _SHOWN:
        table.add_row(Text(f"and {len(longest) - _SHOWN:,} more"))
    return table


def _cells(one: "Running", now: float) -> list[str]:
    seen, given = one.seen, one.start.allocated
    retry = f" (attempt {one.start.number})" if one.start.number > 1 else ""
    return [
        cut(printable(title_of(one.task.name, one.task.line, one.task.command, _NAME)), _NAME) + retry,
        format_seconds(max(0, round(now - one.since))),
        "" if seen is None or seen.memory is None else format_bytes(seen.memory),
        "" if given.memory is None else format_bytes(given.memory),
        "" if seen is None or seen.cores is None else format_cores(round(seen.cores, 1)),
        "" if given.cores is None else format_cores(given.cores),
    ]


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()
