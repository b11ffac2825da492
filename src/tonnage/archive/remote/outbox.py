"""The outbox for a server: files on this machine, each removed only once the server has acknowledged it."""

import fcntl
import gzip
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from tonnage.archive.codec import parsed, text_of
from tonnage.archive.remote.server import Server
from tonnage.archive.remote.upload import Parcel, Patience, parcels, post
from tonnage.atomic import AtomicFile, make_private_folder
from tonnage.errors import InputError, OutboxBusyError, TonnageError

__all__ = ["Outbox", "Sent"]

_LEFT_OVER = 3600.0  # seconds after which a temporary file is considered abandoned


@dataclass(slots=True)
class Sent:
    """The result of sending the attempts in an outbox."""

    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    waiting: int = 0
    """How many attempts are still waiting."""
    problem: TonnageError | None = None
    """Why they are waiting."""
    reasons: dict[str, int] = field(default_factory=dict)
    """How many attempts were refused, by reason."""


class Outbox:
    """The files waiting for one server, the oldest first.

    A file is written atomically and never changed. Names sort by age and include the number of attempts in the file.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.folder = server.make_folder() / "outbox"
        self.refused = self.folder / "refused"
        try:
            make_private_folder(self.refused)
        except OSError as error:
            raise InputError(f"cannot create the folder: {error.strerror}", path=self.refused) from None

    def put(
        self, source: Mapping[str, str | None], fields: Mapping[str, str], records: Sequence[Mapping[str, object]]
    ) -> None:
        """Store attempts until they are sent; they are on disk when this returns."""
        for parcel in parcels(source, fields, records):
            name = f"{time.time_ns():020d}-{os.urandom(4).hex()}-{len(parcel.attempts)}.json.gz"
            with AtomicFile(self.folder / name) as file:
                file.write(gzip.compress(text_of(parcel.body()).encode(), compresslevel=1))

    def files(self) -> list[Path]:
        """Return the waiting files, the oldest first."""
        return sorted(self.folder.glob("*.json.gz"))

    def waiting(self) -> int:
        """Return how many attempts are waiting."""
        return sum(_count(file) for file in self.files())

    def parked(self) -> int:
        """Return how many attempts the server has refused."""
        return sum(1 for _ in self.refused.glob("*.json"))

    def take_back(self) -> None:
        """Requeue attempts that the server has refused: its settings may have changed."""
        for file in sorted(self.refused.glob("*.json")):
            with suppress(TonnageError, OSError):  # unreadable files stay where they are
                parcel = _parcel(parsed(file.read_bytes()))
                self.put(parcel.source, parcel.fields, parcel.attempts)
                file.unlink(missing_ok=True)

    def send(self, seconds: float, *, most_seconds: float | None = None) -> Sent:
        """Send everything that is waiting; if the server does not answer, retry for `seconds`.

        After `most_seconds`, if given, no further file is started, even if all goes well.
        """
        sent, patience = Sent(), Patience(seconds)
        end = None if most_seconds is None else time.monotonic() + most_seconds
        try:
            if self.files():
                with self._alone(seconds):
                    self._send(sent, patience, end)
        except TonnageError as problem:
            sent.problem = problem
        sent.waiting = self.waiting()
        return sent

    def _send(self, sent: Sent, patience: Patience, end: float | None) -> None:
        self._clear()
        for file in self.files():
            if end is not None and time.monotonic() > end:
                return
            parcel = self._read(file)
            if parcel is None:
                continue
            posted = post(self.server, parcel, patience)
            for record, why in posted.refused:
                self._park(parcel, record, why)
                sent.reasons[why] = sent.reasons.get(why, 0) + 1
            file.unlink(missing_ok=True)  # only now: the server has it, or it is parked
            sent.stored += posted.stored
            sent.duplicates += posted.duplicates
            sent.refused += len(posted.refused)

    def _read(self, file: Path) -> Parcel | None:
        """Return the contents of a file; None if another process has sent it, or if it is damaged and was put aside."""
        try:
            return _parcel(parsed(gzip.decompress(file.read_bytes())))
        except FileNotFoundError:
            return None
        except (EOFError, gzip.BadGzipFile, zlib.error, InputError):
            with suppress(FileNotFoundError):
                file.rename(self.refused / f"damaged-{file.name}")
            return None
        except OSError as error:
            raise TonnageError(f"{file}: cannot be read: {error.strerror}") from None

    def _park(self, parcel: Parcel, record: Mapping[str, object], why: str) -> None:
        """Put aside an attempt that the server will never accept; the same attempt always gets the same file."""
        name = blake2b(text_of(record).encode(), digest_size=12).hexdigest()
        facts = {"refused": why, "server": self.server.url, **parcel.body([record])}
        with AtomicFile(self.refused / f"{name}.json") as file:
            file.write(json.dumps(facts, indent=1).encode())

    def _clear(self) -> None:
        """Remove partially written files of killed processes."""
        for file in (*self.folder.glob(".tonnage-*"), *self.refused.glob(".tonnage-*")):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > _LEFT_OVER:
                    file.unlink()

    @contextmanager
    def _alone(self, seconds: float) -> Iterator[None]:
        """Let one process send at a time: two would send everything twice, which is harmless but pointless."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + seconds
            while not _locked(descriptor):
                if time.monotonic() > until:
                    raise OutboxBusyError(f"{self.server}: another process is sending to it")
                time.sleep(0.1)
            yield
        finally:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: two processes may then send the same attempts
    return True


def _count(file: Path) -> int:
    number = file.name.removesuffix(".json.gz").rpartition("-")[2]
    return int(number) if number.isdigit() else 1


def _parcel(value: object) -> Parcel:
    """Return the parcel in a file; raises InputError if there is none."""
    if isinstance(value, dict):
        source, fields, attempts = value.get("source"), value.get("fields"), value.get("attempts")
        if isinstance(source, dict) and isinstance(fields, dict) and isinstance(attempts, list):
            return Parcel(source, fields, attempts)
    raise InputError("is not a file of an outbox")
