"""Files are read within limits, and written completely or not at all."""

import bz2
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage import files
from tonnage.errors import InputError
from tonnage.files import Document, is_stream, write_atomically


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    path = tmp_path / "looks-plain.dag"
    path.write_bytes(gzip.compress(b"JOB A a.sub\n"))
    assert Document.open(path).text == "JOB A a.sub\n"
    assert Document.open(path).stem == "looks-plain"


def test_lines_lose_their_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "windows.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nfour")
    assert Document.open(path).lines() == ["one", "two", "", "four"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\0\0\0", "binary"),
        (b"caf\xe9\n", "not UTF-8"),
        ("JOB A a.sub".encode("utf-16"), "UTF-16"),
        (gzip.compress(b"x" * 1000, mtime=0)[:20], "damaged gzip"),
        (b"\x1f\x8bnot really", "damaged gzip"),
        (bz2.compress(b"JOB A a.sub\n" * 50), "bzip2; only gzip"),
        (b"PK\x03\x04\0\0\0", "zip; only gzip"),
    ],
    ids=["program", "latin-1", "utf-16", "truncated gzip", "no gzip", "bzip2", "zip"],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        _ = Document.open(path).text


def test_a_wrong_byte_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthr\xffe\n")
    with pytest.raises(InputError) as caught:
        _ = Document.open(path).text
    assert str(caught.value).startswith(f"{path}:3: ")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        Document.open(tmp_path / "absent")
    with pytest.raises(InputError, match="is a folder"):
        Document.open(tmp_path)


def test_a_file_that_unpacks_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE", 2**20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"x" * 2**22))
    with pytest.raises(InputError, match="larger than"):
        Document.open(path)


def test_a_line_beyond_the_limit_is_refused_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 1000)
    path = tmp_path / "long"
    path.write_text("short\n" + "x" * 1001)
    with pytest.raises(InputError) as caught:
        Document.open(path).lines()
    assert caught.value.line == 2


def test_writing_replaces_a_file_keeps_its_mode_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_an_ending_gz_compresses_and_the_same_text_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    write_atomically(first, "text")
    write_atomically(second, "text")
    assert gzip.decompress(first.read_bytes()) == b"text"
    assert first.read_bytes() == second.read_bytes()


def test_where_writing_is_impossible_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "absent" / "out", "x")


def test_a_pipe_may_be_gzipped_and_shared_memory_is_a_folder_like_any_other(tmp_path: Path) -> None:
    code = "from pathlib import Path; from tonnage.files import Document; print(Document.open(Path('/dev/stdin')).text)"
    packed = gzip.compress(b"text")
    found = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, check=True)
    assert found.stdout == b"text\n"
    shared = Path("/dev/shm") / f"tonnage-test-{os.getpid()}"
    try:
        write_atomically(shared, "one")
        write_atomically(shared, "two")
        assert shared.read_text() == "two"
    finally:
        shared.unlink(missing_ok=True)


def test_long_names_are_written_and_links_in_a_circle_are_not(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)
    write_atomically(path, "text")
    assert path.read_text() == "text"
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "a", "text")


def test_a_new_file_is_private_unless_the_umask_is_to_decide(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "private", "x")
        write_atomically(tmp_path / "shared", "x", mode=0o666)
    finally:
        os.umask(old)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("redirected", [True, False])
def test_standard_output_is_written_to_and_not_replaced(tmp_path: Path, redirected: bool) -> None:
    code = "from pathlib import Path; from tonnage.files import write_atomically; print('before', flush=True); "
    code += "write_atomically(Path('/dev/stdout'), 'text')"
    command = [sys.executable, "-c", code]
    if redirected:
        with (tmp_path / "out").open("w") as stream:
            subprocess.run(command, stdout=stream, check=True)
        assert (tmp_path / "out").read_text() == "before\ntext"
    else:
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "before\ntext"


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/stdout", "/dev/fd/63", "/proc/self/fd/0"])
def test_what_another_program_reads_or_writes_is_a_stream(name: str) -> None:
    assert is_stream(Path(name))


@pytest.mark.parametrize("name", ["w.dag", "/data/w.dag", "/dev/shm/me/w.dag", "/developers/w.dag"])
def test_a_file_is_no_stream_though_it_is_kept_in_memory(name: str) -> None:
    assert not is_stream(Path(name))
