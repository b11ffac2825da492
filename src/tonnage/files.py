"""Files on disk: read with limits, decompressed and decoded; written completely or not at all."""

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG

from tonnage.atomic import AtomicFile
from tonnage.errors import InputError

__all__ = [
    "MAX_FILE",
    "MAX_LINE",
    "Document",
    "Pieces",
    "absolute",
    "is_file",
    "is_stream",
    "on_network",
    "refuse_other_encodings",
    "stem",
    "tail",
    "without_gz",
    "write_atomically",
]

MAX_FILE = 2**30
"""The largest file that is read in one piece, after decompression: 1 GiB."""
MAX_LINE = 2**24
"""The longest line of a line-based format: 16 MiB."""

_CHUNK = 2**20
_GZIP = b"\x1f\x8b"
_OTHER_COMPRESSIONS = {b"BZ": "bzip2", b"\xfd7": "xz", b"PK": "zip", b"(\xb5": "zstd"}
_OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class Pieces:
    """The bytes of a file, decompressed, one piece at a time; gzip is recognised by its content.

    A file that is not text raises an error with the first piece.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """The size of the file on disk in bytes; 0 for a pipe."""
        self.position = 0
        """How many of them have been read."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                self.size = status.st_size if S_ISREG(status.st_mode) else 0
                yield from self._read(stream)
        except IsADirectoryError:
            raise InputError("is a folder, not a file", path=self.path) from None
        except FileNotFoundError:
            raise InputError("no such file", path=self.path) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"is a damaged gzip file ({error})", path=self.path) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=self.path) from None

    def _read(self, stream: BufferedReader) -> Iterator[bytes]:
        head = stream.peek(2)[:2]  # peeked, because a pipe cannot be rewound
        if head in _OTHER_COMPRESSIONS and b"\0" in stream.peek(_CHUNK):
            raise InputError(f"is compressed with {_OTHER_COMPRESSIONS[head]}; only gzip is supported", path=self.path)
        source = gzip.GzipFile(fileobj=stream) if head == _GZIP else stream
        first = True
        while chunk := source.read(_CHUNK):
            if first and b"\0" in chunk and chunk[:2] not in _OTHER_ENCODINGS:
                raise InputError("is a binary file; expected text", path=self.path)
            first = False
            self.position = stream.tell() if self.size else 0
            yield chunk


@dataclass(frozen=True)
class Document:
    """The bytes of one file, decompressed, and where they came from."""

    path: Path
    data: bytes

    @classmethod
    def open(cls, path: Path) -> "Document":
        """Read a file of at most MAX_FILE bytes; gzip is recognised by its content."""
        chunks: list[bytes] = []
        size = 0
        for chunk in Pieces(path):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_FILE:
                raise InputError(f"is larger than the limit of {MAX_FILE // 2**30} GiB", path=path)
        return cls(path, b"".join(chunks))

    @property
    def stem(self) -> str:
        """The file's name without its extensions."""
        return stem(self.path)

    @property
    def ending(self) -> str:
        """The file's extension in lower case, ignoring that of gzip: ``.dag`` for ``x.DAG.gz``."""
        return Path(without_gz(self.path)).suffix.lower()

    @cached_property
    def text(self) -> str:
        """The contents as text; they must be UTF-8."""
        refuse_other_encodings(self.path, self.data)
        if b"\0" in self.data:
            line = self.data.count(b"\n", 0, self.data.index(b"\0")) + 1
            raise InputError("is a binary file; expected text", path=self.path, line=line)
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            found = f"byte 0x{self.data[error.start]:02x}"
            raise InputError(f"is not UTF-8 text ({found})", path=self.path, line=line) from None

    def lines(self) -> list[str]:
        """Return the lines without their ends (LF or CR LF); raises an error for one longer than MAX_LINE."""
        lines = self.text.split("\n")
        if lines[-1] == "":
            lines.pop()  # what follows the last line's end is not a line
        if max(map(len, lines), default=0) > MAX_LINE:
            number = next(number for number, line in enumerate(lines, start=1) if len(line) > MAX_LINE)
            raise self.error(f"the line is longer than {MAX_LINE // 2**20} MiB", number)
        return [line.removesuffix("\r") for line in lines] if "\r" in self.text else lines

    def error(self, message: str, line: int | None = None, *, hint: str | None = None) -> InputError:
        """Return an error about this file, to be raised by the caller."""
        return InputError(message, path=self.path, line=line, hint=hint)


def absolute(path: Path) -> Path:
    """Return an absolute path without "..", so that a folder has one name however one gets there."""
    return path.parent.resolve() / path.name if ".." in path.parts else path.absolute()


def is_file(path: Path) -> bool:
    """Whether there is a file; False for an impossible name."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_stream(path: Path) -> bool:
    """Whether a path names a stream, such as ``/dev/stdin`` or ``<(command)``, rather than a permanent file."""
    path = path.absolute()
    if path.is_relative_to("/dev/shm"):  # noqa: S108 (files in memory, often used for scratch data)
        return False
    return path.is_relative_to("/dev") or path.is_relative_to("/proc")


def refuse_other_encodings(path: Path, data: bytes) -> None:
    """Raise InputError if the data begin like text in an encoding other than UTF-8."""
    encoding = _OTHER_ENCODINGS.get(data[:2])
    if encoding:
        raise InputError(f"is encoded in {encoding}; expected UTF-8", path=path)


def stem(path: Path) -> str:
    """Return a file's name without its extensions: ``jobs`` for ``jobs.csv.gz``."""
    return Path(without_gz(path)).stem or path.name


def without_gz(path: Path) -> str:
    """Return a file's name without the extension of gzip."""
    return path.name[:-3] if path.suffix.lower() == ".gz" else path.name


def write_atomically(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file completely or not at all; it is compressed if its name ends in ``.gz``.

    A new file is private to its owner; with the mode 0o666 the umask decides.
    """
    if "\0" in text:
        raise InputError("cannot be written: a text file cannot contain a NUL character", path=path)
    data = text.encode("utf-8")
    if path.suffix.lower() == ".gz":
        data = gzip.compress(data, mtime=0)
    with AtomicFile(path, mode) as file:
        file.write(data)


def tail(path: Path, most: int) -> str:
    """Return the end of a text file, up to a number of bytes, from the beginning of a line; empty if unreadable."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            text = file.read(most).decode(errors="replace")
    except OSError:
        return ""
    return text if size <= most else text.partition("\n")[2] or text


_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs", "afs"}


def on_network(file: Path) -> bool:
    """Whether a file is on a network file system."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    resolved = str(file.resolve())
    best, kind = "", ""
    for device_place_kind in (line.split() for line in mounts):
        place = device_place_kind[1].replace("\\040", " ")
        if len(place) >= len(best) and (resolved == place or resolved.startswith(f"{place.rstrip('/')}/")):
            best, kind = place, device_place_kind[2]
    return kind in _NETWORK
