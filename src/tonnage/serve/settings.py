"""What a server was told when it was started."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

__all__ = ["Limits", "Settings"]

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a request may cost."""

    body: int = 8 * _MIB
    """Bytes of a request's body."""
    upload: int = 512 * _MIB
    """Bytes of the body of an upload."""
    seconds: float = 10.0
    """How long a question to the archive may take."""
    body_seconds: float = 20.0
    """How long a body may take, on top of what its bytes need at a slow network's speed."""
    body_speed: int = 64 * 1024
    """Bytes a second that a slow network carries."""
    stall_seconds: float = 60.0
    """How long a client may take no bytes of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server was told when it was started."""

    archive: str | None = None
    """The URL of the archive; by default the user's own."""
    host: str = "127.0.0.1"
    port: int = 8000
    runs: tuple[Path, ...] = ()
    """Folders in which runs are looked for."""
    token: str
    """What clients must send to read or write."""
    public: bool = False
    """Whether anyone may read."""
    hosts: frozenset[str] = frozenset()
    """Names that the server is called by, beside its own."""
    limits: Limits = field(default_factory=Limits)

    def called_by(self, host: str) -> bool:
        """Whether this server is meant by a name in a request, so that no other site's name was turned to it."""
        name = host.lower().rstrip(".")
        if name in ("localhost", self.host.lower()) or name in self.hosts:
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True  # only names can be turned elsewhere
