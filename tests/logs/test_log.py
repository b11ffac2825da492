"""The text of a log, in pieces."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.files import MAX_LINE
from tonnage.logs.log import Log


def log(data: bytes, size: int = 2**20) -> Log:
    return Log([data[at : at + size] for at in range(0, len(data), size)], Path("x.log"))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=9), max_size=9),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(1, 30),
)
def test_lines_do_not_depend_on_where_the_pieces_end(lines: list[str], end: str, last: bool, size: int) -> None:
    if lines and not last:
        lines[-1] += "x"  # a last line without an end, which is a line only if it is not empty
    text = end.join([*lines, ""] if last else lines)
    expected = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    if expected[-1] == "":
        expected.pop()
    data = text.encode()
    assert list(log(data, max(size, 3)).lines()) == expected
    assert "".join(log(data, max(size, 3)).texts()) == text.removeprefix("\ufeff")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_a_byte_order_mark_is_no_part_of_the_text(size: int) -> None:
    assert list(log(b"\xef\xbb\xbfa\nb", size).lines()) == ["a", "b"]
    assert "".join(log(b"\xef\xbb\xbfa\nb", size).texts()) == "a\nb"


def test_a_byte_order_mark_within_the_text_stays() -> None:
    assert list(Log.of("a\n\ufeffb").lines()) == ["a", "\ufeffb"]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_is_refused(mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(mark + "ab".encode("utf-16-le"))
    with pytest.raises(InputError, match="is encoded in UTF-16; expected UTF-8"):
        Log.open(tmp_path / "x.log")


@pytest.mark.parametrize("size", [1, 2, 100])
def test_bad_bytes_cost_only_their_letters(size: int) -> None:
    assert list(log(b"caf\xe9,1\nb,2\n\xc3", size).lines()) == ["caf\ufffd,1", "b,2", "\ufffd"]


def test_halves_of_characters_never_come_through() -> None:
    assert "".join(Log.of("a\ud800b").texts()).encode()


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(gzip.compress(b"a\nb\n" * 1000))
    opened = Log.open(path)
    assert opened.head.startswith("a\nb\n")
    assert len(list(opened.lines())) == 2000
    assert opened.progress == (path.stat().st_size, path.stat().st_size)


def test_a_damaged_gzip_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\nb\n" * 1000)[:-20])
    with pytest.raises(InputError, match="is a damaged gzip file"):
        list(Log.open(path).lines())


def test_the_head_is_a_part_of_the_text_and_read_once(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("0123456789abcde\n" * 200_000)
    opened = Log.open(path)
    assert len(opened.head) == 2**20
    assert sum(map(len, opened.texts())) == path.stat().st_size
    assert list(opened.texts()) == [""]


def test_the_memory_does_not_grow_with_the_log() -> None:
    def pieces() -> list[bytes]:
        return [b"a line of a log\n" * 4096] * 100

    assert sum(1 for _ in Log(pieces(), Path("x")).lines()) == 4096 * 100


def test_a_line_without_an_end_is_refused() -> None:
    pieces = [b"x" * 2**20] * (MAX_LINE // 2**20 + 2)
    with pytest.raises(InputError, match=r"x\.log: a line is longer than 16 MiB"):
        list(Log(pieces, Path("x.log")).lines())
    ended = [b"a\n" + b"x" * 2**20, *pieces]
    with pytest.raises(InputError, match="a line is longer than 16 MiB"):
        list(Log(ended, Path("x.log")).lines())


def test_a_line_just_short_enough_is_read() -> None:
    pieces = [b"x" * 2**20] * (MAX_LINE // 2**20) + [b"\ny"]
    assert [len(line) for line in Log(pieces, Path("x")).lines()] == [MAX_LINE, 1]


def test_no_text_has_no_lines() -> None:
    assert list(Log.of("").lines()) == []
    assert list(Log.of("\n\n").lines()) == ["", ""]
    assert Log([], Path("x")).head == ""


@pytest.mark.parametrize(
    ("name", "stem"), [("jobs.csv.gz", "jobs"), ("a/b/trace.txt", "trace"), ("x", "x"), (".gz", ".gz")]
)
def test_the_stem_is_the_name_without_endings(name: str, stem: str) -> None:
    assert Log.of("", name).stem == stem


def test_an_error_names_the_file_and_the_line() -> None:
    error = Log.of("a", "x.log").error("is odd", 3, hint="look")
    assert error.report() == "x.log:3: is odd\n  look"


@pytest.mark.parametrize(("name", "message"), [("none", "no such file"), (".", "is a folder, not a file")])
def test_what_cannot_be_opened_is_an_error(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        Log.open(tmp_path / name)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(InputError, match="is a binary file"):
        Log.open(tmp_path / "x")
