"""Files as they lie on disk: read with limits, decompressed, decoded; written whole or not at all."""

import gzip
import zlib
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path

from tonnage.errors import InputError
from tonnage.whole import WholeFile

__all__ = ["MAX_FILE", "MAX_LINE", "Document", "is_file", "without_gz", "write_whole"]

MAX_FILE = 2**30
"""The largest file that is read as one piece, decompressed: 1 GiB."""
MAX_LINE = 2**24
"""The longest line of a line-based format: 16 MiB."""

_CHUNK = 2**20
_GZIP = b"\x1f\x8b"
_OTHER_COMPRESSIONS = {b"BZ": "bzip2", b"\xfd7": "xz", b"PK": "zip", b"(\xb5": "zstd"}
_OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


@dataclass(frozen=True)
class Document:
    """The bytes of one file, decompressed, and where they came from."""

    path: Path
    data: bytes

    @classmethod
    def open(cls, path: Path) -> "Document":
        """Read a file of at most MAX_FILE bytes; gzip is recognised by its content."""
        try:
            with path.open("rb") as stream:
                return cls(path, _contents(path, stream))
        except IsADirectoryError:
            raise InputError("is a folder, not a file", path=path) from None
        except FileNotFoundError:
            raise InputError("no such file", path=path) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None

    @property
    def stem(self) -> str:
        """The file's name without its endings."""
        return Path(without_gz(self.path)).stem or self.path.name

    @property
    def ending(self) -> str:
        """The file's ending in small letters, without that of gzip: ``.dag`` for ``x.DAG.gz``."""
        return Path(without_gz(self.path)).suffix.lower()

    @cached_property
    def text(self) -> str:
        """The contents as text; they must be UTF-8."""
        encoding = _OTHER_ENCODINGS.get(self.data[:2])
        if encoding:
            raise InputError(f"is encoded in {encoding}; expected UTF-8", path=self.path)
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
        """Return the lines without their ends (LF or CR LF), refusing one above MAX_LINE."""
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


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that no file can have names none."""
    try:
        return path.is_file()
    except OSError:
        return False


def without_gz(path: Path) -> str:
    """Return a file's name without the ending of gzip."""
    return path.name[:-3] if path.suffix.lower() == ".gz" else path.name


def _contents(path: Path, stream: BufferedReader) -> bytes:
    head = stream.peek(2)[:2]  # not read: a pipe could not give it back
    if head in _OTHER_COMPRESSIONS and b"\0" in stream.peek(_CHUNK):
        raise InputError(f"is compressed with {_OTHER_COMPRESSIONS[head]}; only gzip is read", path=path)
    if head != _GZIP:
        return _limited(path, stream)
    try:
        with gzip.GzipFile(fileobj=stream) as decompressed:
            return _limited(path, decompressed)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"is a damaged gzip file ({error})", path=path) from None


def _limited(path: Path, stream: BufferedReader | gzip.GzipFile) -> bytes:
    """Read to the end, a chunk at a time, and give up early on what is no text or too large."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        if not chunks and b"\0" in chunk and chunk[:2] not in _OTHER_ENCODINGS:
            raise InputError("is a binary file; expected text", path=path)
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_FILE:
            raise InputError(f"is larger than {MAX_FILE // 2**30} GiB, the most that is read", path=path)
    return b"".join(chunks)


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all; an ending ``.gz`` compresses."""
    if "\0" in text:
        raise InputError("cannot be written: it would hold a NUL character, which no text file does", path=path)
    data = text.encode("utf-8")
    if path.suffix.lower() == ".gz":
        data = gzip.compress(data, mtime=0)
    file = WholeFile(path)
    try:
        file.write(data)
        file.commit()
    except BaseException:
        file.discard()
        raise
