"""An event log, read while HTCondor writes it: whole events only, and each once."""

from pathlib import Path

from tonnage.errors import TonnageError
from tonnage.logs.htcondor_event import Event, events
from tonnage.logs.log import Log

__all__ = ["EventFile"]

_PIECE = 1 << 24  # bytes at a time: a hundred thousand jobs are ten of them
_END = b"\n...\n"


class EventFile:
    """Reads what was added since the last time."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """Prepare to read from a place on where an event begins."""
        self.path = path
        self._offset = offset

    def new(self) -> list[Event]:
        """Return the events that were completed since the last call, not too many at a time."""
        try:
            with self.path.open("rb") as file:  # anew each time: so a network file system shows what there is
                file.seek(self._offset)
                data = file.read(_PIECE)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TonnageError(f"{self.path}: the event log cannot be read: {error.strerror or error}") from None
        end = data.rfind(_END)
        if end < 0:
            return []
        whole = data[: end + len(_END)]
        self._offset += len(whole)
        found = events(Log.of(whole.decode(errors="replace"), self.path))
        return [event for event in found if isinstance(event, Event)]
