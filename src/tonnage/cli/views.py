"""What a run shows while it goes on: a live view on a terminal, plain lines elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, TextIO

import click

from tonnage.cli.options import printable
from tonnage.cli.tables import cut
from tonnage.jobs import Outcome, Resource
from tonnage.units import format_bytes, format_cores, format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

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


class PlainView:
    """Lines for a log: what goes wrong when it happens, and from time to time how far it is."""

    def __init__(self, progress: "Progress", *, quiet: bool, log: TextIO) -> None:
        self.progress = progress
        self._quiet = quiet
        self._log = log
        self._next = time.monotonic() + _PLAIN_PAUSE

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        self._log.flush()

    def started(self, start: "Start", now: float) -> None:
        """Take in an attempt that has started."""
        self.progress.started(start, now)

    def seen(self, seen: "Seen") -> None:
        """Take in what was seen of a running attempt."""
        self.progress.seen(seen)

    def ended(self, end: "Ended", settled: "Settled") -> None:
        """Print what did not go well."""
        self.progress.ended(end, settled)
        if end.outcome is not Outcome.DONE:
            self.say(_said(self.progress.tasks[settled.task].name, end, settled))

    def tick(self, engine: "Engine") -> None:
        """Print how far it is, if that was some time ago."""
        if time.monotonic() >= self._next and not engine.finished:
            self._next = time.monotonic() + _PLAIN_PAUSE
            self.say(_line(self.progress, engine.outstanding - len(self.progress.running)))

    def say(self, text: str) -> None:
        """Print a line, and write it into the run's log."""
        line = printable(text)
        self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
        if not self._quiet:
            self.show(line)

    def show(self, line: str) -> None:
        """Print a line where somebody may read it."""
        click.echo(f"tonnage: {line}", err=True)


class LiveView(PlainView):
    """A view that is drawn again and again, for a terminal."""

    def __init__(self, progress: "Progress", *, log: TextIO) -> None:
        super().__init__(progress, quiet=False, log=log)
        self._drawn = 0.0
        self._news: list[str] = []
        self._live: Live | None = None

    def __enter__(self) -> "LiveView":
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)
        super().__exit__()

    def tick(self, engine: "Engine") -> None:
        """Draw again, if the last time was some time ago."""
        now = time.monotonic()
        if self._live is not None and now >= self._drawn + _LIVE_PAUSE:
            self._drawn = now
            self._live.update(self._picture(engine.outstanding - len(self.progress.running)), refresh=True)

    def show(self, line: str) -> None:
        """Keep a line in view for a while."""
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
    """Return in one line how far a run is; so many tasks wait in a queue that is not ours."""
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
        f"{waste:.0%} of the memory wasted" if waste is not None else "",
        f"{format_seconds(round(elapsed))} so far",
        f"about {format_seconds(max(1, round(left)))} to go" if left is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _said(name: str, end: "Ended", settled: "Settled") -> str:
    what = "; ".join(part for part in (end.note, settled.reason) if part)
    where = f" (see {end.stderr})" if end.stderr and end.outcome is Outcome.FAILED else ""
    return f"{name}: {what}{where}"


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
    """Return the running tasks, the longest first, with what they use of what they have."""
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
    again = f" (attempt {one.start.number})" if one.start.number > 1 else ""
    return [
        cut(printable(one.task.name), _NAME) + again,
        format_seconds(max(0, round(now - one.since))),
        "" if seen is None or seen.memory is None else format_bytes(seen.memory),
        "" if given.memory is None else format_bytes(given.memory),
        "" if seen is None or seen.cores is None else format_cores(round(seen.cores, 1)),
        "" if given.cores is None else format_cores(given.cores),
    ]


def on_terminal() -> bool:
    """Whether somebody sees what is drawn."""
    return sys.stderr.isatty()
