"""An archive on a server: read at the start of a run and written at its end; a run never blocks on it."""

from tonnage.archive.remote.download import find_at, find_there
from tonnage.archive.remote.server import Server
from tonnage.archive.remote.session import messages_about

__all__ = ["Server", "find_at", "find_there", "messages_about"]
