"""An archive on a server: asked at the start of a run, told at its end, and never waited for."""

from tonnage.archive.remote.contact import Contact, contact, said_of
from tonnage.archive.remote.reading import find_at, find_there
from tonnage.archive.remote.server import Server

__all__ = ["Contact", "Server", "contact", "find_at", "find_there", "said_of"]
