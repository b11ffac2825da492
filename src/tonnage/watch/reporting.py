"""What the user sees of a watched command: the summary, the series, a live line and a last line."""

import os
from time import monotonic

from tonnage.atomic import AtomicFile, make_private_folder
from tonnage.errors import InputError, TonnageError
from tonnage.units import format_bytes, format_cores, format_seconds
from tonnage.watch.guard import let_go_of_streams
from tonnage.watch.measure import Measurement
from tonnage.watch.minder import Observer, Outcome
from tonnage.watch.options import Request
from tonnage.watch.record import render, summary

__all__ = ["Reporting", "say"]

_LIVE_PAUSE = 0.25
_COLUMNS = ("time", "cpu_time", "processes", "memory", "virtual_memory", "disk", "bytes_read", "bytes_written")


class Reporting(Observer):
    """Writes the requested outputs; files are opened before the command starts, so that errors show early."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._summaries: list[AtomicFile] = []
        self._series: AtomicFile | None = None
        self._failed = False
        try:
            if request.summary is not None:
                self._summaries.append(AtomicFile(request.summary))
            if request.spool is not None:
                self._summaries.append(_spooled(request.spool))
            if request.series is not None:
                self._series = AtomicFile(request.series)
        except TonnageError:
            self.discard()
            raise
        self.closely = self._series is not None
        self._row(_COLUMNS)
        self._live = request.live and os.isatty(2)
        self._next_live = 0.0
        if self._live:
            request.job.interval = min(request.job.interval, _LIVE_PAUSE)

    def started(self) -> None:
        """Close standard input and output, which now belong to the command."""
        let_go_of_streams()

    def measured(self, measurement: Measurement) -> None:
        """Write a row of the series and the live line."""
        if self._series is not None:
            row = measurement.row()
            self._row([_cell(row.get(column)) for column in _COLUMNS])
        if self._live and monotonic() >= self._next_live:
            self._next_live = monotonic() + _LIVE_PAUSE
            self._show(f"\r\033[K{_line(measurement.row())}")

    def ended(self, outcome: Outcome) -> bool:
        """Write all outputs; return whether that worked."""
        self._show("\r\033[K")
        if outcome.stopped_because == "limit":
            exceeded = "; ".join(str(one) for one in outcome.exceeded.values())
            say(f"stopped at its limit: {exceeded}")
        if outcome.unkilled:
            say(f"{outcome.unkilled} processes could not be stopped")
        if not self._summaries:
            say(_last_line(outcome))
        text = render(summary(self._request.job.command, self._request.about, outcome)) + "\n"
        for output in self._summaries:
            self._try(output, text.encode())
        if self._series is not None:
            self._try(self._series, b"")
        return not self._failed

    def discard(self) -> None:
        """Discard all files: the command was never started."""
        for output in (*self._summaries, *([self._series] if self._series else [])):
            output.discard()

    def _row(self, cells: "tuple[str, ...] | list[str]") -> None:
        """Add a row to the series; if it can no longer be written, end it while the command continues."""
        try:
            if self._series is not None:
                self._series.write((",".join(cells) + "\n").encode())
        except TonnageError as error:
            self._fail(error)
            if self._series is not None:
                self._series.discard()
            self._series = None

    def _try(self, output: AtomicFile, data: bytes) -> None:
        try:
            output.write(data)
            output.commit()
        except TonnageError as error:
            self._fail(error)
            output.discard()

    def _fail(self, error: TonnageError) -> None:
        self._failed = True
        say(str(error))

    def _show(self, text: str) -> None:
        if not self._live:
            return
        try:
            os.write(2, text.encode())
        except OSError:
            self._live = False  # the terminal is gone


def say(message: str) -> None:
    """Print a message on standard error."""
    try:
        os.write(2, f"tonnage: {message}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # standard error is closed


def _spooled(folder: str) -> AtomicFile:
    try:
        make_private_folder(folder)
    except OSError as error:
        raise InputError(f"the folder cannot be created: {error.strerror}", path=folder) from None
    name = f"{os.uname().nodename}-{os.getpid()}-{os.urandom(8).hex()}.json"
    return AtomicFile(os.path.join(folder, name))


def _cell(value: "float | None") -> str:
    """Format a CSV cell: whole numbers, times with microseconds, or empty for unknown."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def _line(row: "dict[str, float | None]") -> str:
    memory, cores, disk = row.get("memory"), row.get("cores"), row.get("disk")
    parts = [
        format_seconds(round(row.get("time") or 0.0, 1)),
        "" if memory is None else f"{format_bytes(memory)} memory",
        "" if cores is None else f"{format_cores(cores)} cores",
        "" if disk is None else f"{format_bytes(disk)} disk",
    ]
    return ", ".join(filter(None, parts))


def _last_line(outcome: Outcome) -> str:
    """Return the line printed when no summary was requested."""
    used = outcome.used
    parts = [format_seconds(used["wall_time"])]
    if "memory" in used:
        at = "at most " if "memory" in outcome.upper_bounds else "at least " if "memory" in outcome.lower_bounds else ""
        parts.append(f"{at}{format_bytes(used['memory'])} memory")
    if "cores" in used:
        parts.append(f"{format_cores(used['cores'])} cores")
    if "disk" in used:
        parts.append(f"{format_bytes(used['disk'])} disk")
    if "total_processes" in used:
        number = int(used["total_processes"])
        parts.append(f"{number} process{'' if number == 1 else 'es'}")
    return ", ".join(parts)
