"""Where logs come from."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tonnage.cli.source_options import source_options
from tonnage.errors import InputError
from tonnage.job_sources import Reading
from tonnage.jobs import Attempt
from tonnage.logs.log import Assumed, Hints, Skipped
from tonnage.logs.sources import Source, open_source
from tonnage.option_values import pairs

TABLE = "category,memory\nalign,1\nmerge,2\n"
OTHER_TABLE = "category,memory\nsort,3\nodd,x\n"
PHUNG = (
    "taskid -- core -- memory -- virtual_memory -- disk -- time -- average_cores -- tag\n"
    "28 -- 2 -- 6202 -- 358792 -- 5 -- 256.5 -- 1.5 -- 1\n"
)
NOBODY = 65534


def sources(text: object, hints: Hints | None = None, format: str | None = None) -> list[Source]:
    return list(open_source(str(text), hints or Hints(), format))


def only(text: object, hints: Hints | None = None, format: str | None = None) -> Source:
    (source,) = sources(text, hints, format)
    return source


def categories(source: Source) -> list[str | None]:
    return [entry.category for entry in source.entries if isinstance(entry, Attempt)]


def skipped(source: Source) -> list[Skipped]:
    return [entry for entry in source.entries if isinstance(entry, Skipped)]


def refused(text: object, format: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        for source in sources(text, format=format):
            list(source.entries)
    return caught.value.report()


def reading(**given: object) -> Reading:
    return Reading(**({"timezone": "UTC"} | given))  # type: ignore[arg-type]


@contextmanager
def without_rights() -> Iterator[None]:
    """Let permissions count for root, too."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    source = only(path)
    assert (source.name, source.label, source.format) == (str(path), "jobs", "csv")
    assert categories(source) == ["align", "merge"]
    assert source.progress() == (len(TABLE), len(TABLE))


def test_a_file_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(TABLE.encode(), mtime=0))
    source = only(path)
    assert (source.label, source.format, categories(source)) == ("jobs", "csv", ["align", "merge"])
    assert source.progress() == (path.stat().st_size, path.stat().st_size)


def test_a_label_of_the_users_own_wins(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    assert only(tmp_path / "jobs.csv", Hints(label="monday")).label == "monday"
    assert only(tmp_path, Hints(label="monday")).label == "monday"


def test_a_format_of_the_users_own_wins(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("memory\n5\n")
    assert only(tmp_path / "x", format="csv").format == "csv"
    assert "is not a Nextflow trace" in refused(tmp_path / "x", "nextflow")


def test_hints_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("rss,cores\n5,1\n")
    hints = Hints(columns={"memory": "rss"}, units={"memory": "KiB"})
    for place in (tmp_path / "x.csv", tmp_path):
        (attempt,) = (entry for entry in only(place, hints).entries if isinstance(entry, Attempt))
        assert attempt.used.memory == 5 * 1024


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    assert refused(tmp_path / "x.csv") == f"{tmp_path}/x.csv: is empty"


def test_what_is_no_log_is_an_error_that_lists_the_formats(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("Dear diary\n")
    report = refused(tmp_path / "x.txt")
    assert report.startswith(f"{tmp_path}/x.txt: is not in a known job log format\n  for a table with other columns")
    assert "--from sets the format: " in report
    assert "nextflow: Nextflow traces" in report


def test_an_unknown_format_is_an_error_that_lists_them(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(TABLE)
    assert refused(tmp_path / "x.csv", "exel").startswith('"exel" is not a job log format\n  use one of sacct-json, ')


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.csv") == f"{tmp_path}/none.csv: no such file"
    assert "cannot be read: " in refused(tmp_path / ("x" * 5000))


def test_a_binary_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\0\0")
    assert refused(tmp_path / "x") == f"{tmp_path}/x: is a binary file; expected text"


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(TABLE.encode(), mtime=0)[:-9])
    assert "is a damaged gzip file" in refused(tmp_path / "x.gz")


def test_a_folder_is_a_source_for_each_format_below_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "z.csv").write_text(TABLE)
    (tmp_path / "a" / "b" / "c.csv").write_text(OTHER_TABLE)
    (tmp_path / "a" / "peaks.txt").write_text(PHUNG)
    (tmp_path / "a" / "README").write_text("About these logs\n")
    (tmp_path / "empty").touch()
    found = sources(tmp_path)
    assert [(source.name, source.label, source.format) for source in found] == [
        (str(tmp_path), tmp_path.name, "csv"),
        (str(tmp_path), tmp_path.name, "phung"),
        (str(tmp_path), tmp_path.name, "other"),
    ]
    tables, peaks, others = found
    assert tables.progress() == (0, 2)
    entries = list(tables.entries)
    assert [one.category for one in entries if isinstance(one, Attempt)] == ["align", "merge", "sort"]  # in order
    assert [one for one in entries if isinstance(one, Skipped)] == [
        Skipped(3, "memory is not a number", f"{tmp_path}/a/b/c.csv: x")
    ]
    assert any(isinstance(one, Assumed) for one in entries)
    assert tables.progress() == (2, 2)
    assert len(categories(peaks)) == 1
    assert skipped(others) == [
        Skipped(None, "not a job log", f"{tmp_path}/empty", healthy=True),
        Skipped(None, "not a job log", f"{tmp_path}/a/README", healthy=True),
    ]


def test_hidden_files_and_links_in_a_folder_are_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "other.csv").write_text(OTHER_TABLE)
    folder = tmp_path / "folder"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "x.csv").write_text(OTHER_TABLE)
    (folder / ".hidden.csv").write_text(OTHER_TABLE)
    (folder / "link.csv").symlink_to(outside / "other.csv")
    (folder / "link").symlink_to(outside)
    (folder / "circle").symlink_to(folder)
    (folder / "broken.csv").symlink_to(tmp_path / "none")
    (folder / "jobs.csv").write_text(TABLE)
    os.mkfifo(folder / "pipe")
    assert categories(only(folder)) == ["align", "merge"]


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "jobs.csv").write_text(TABLE)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    assert categories(only(tmp_path / "link")) == ["align", "merge"]


@pytest.mark.parametrize("format", [None, "csv"])
def test_a_file_that_cannot_be_read_is_skipped_with_its_reason(format: str | None, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "damaged.csv.gz").write_bytes(gzip.compress(TABLE.encode(), mtime=0)[:-9])
    entries = [entry for source in sources(tmp_path, format=format) for entry in source.entries]
    assert sum(isinstance(entry, Attempt) for entry in entries) == 2
    found = {entry.found: entry.reason for entry in entries if isinstance(entry, Skipped)}
    assert set(found.values()) == {"the file cannot be read"}
    binary, damaged = sorted(found)
    assert binary == f"{tmp_path}/binary: is a binary file; expected text"
    assert damaged.startswith(f"{tmp_path}/damaged.csv.gz: is a damaged gzip file")


@pytest.mark.parametrize("mode", [0o000, 0o400])
@pytest.mark.parametrize("format", [None, "csv"])
def test_what_the_user_may_not_open_is_skipped_with_its_reason(
    mode: int, format: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "a.csv").write_text(TABLE)
    (tmp_path / "mine.csv").write_text(TABLE)
    if os.geteuid() == 0:
        for path in (tmp_path, *tmp_path.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    (tmp_path / "mine.csv").chmod(0)
    (tmp_path / "locked").chmod(mode)
    monkeypatch.chdir(tmp_path)  # the folders above belong to others
    with without_rights():
        entries = [entry for source in sources(".", format=format) for entry in source.entries]
    (tmp_path / "locked").chmod(0o700)
    assert sum(isinstance(entry, Attempt) for entry in entries) == 2
    found = sorted((entry.reason, entry.found) for entry in entries if isinstance(entry, Skipped))
    locked = "locked/a.csv" if mode else "locked"
    assert found == [
        ("the file cannot be read", f"{locked}: cannot be read: Permission denied"),
        ("the file cannot be read", "mine.csv: cannot be read: Permission denied"),
    ]


def test_a_file_that_vanishes_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "b.csv").write_text(TABLE)
    source = only(tmp_path)
    (tmp_path / "a.csv").unlink()
    assert [entry.found for entry in source.entries if isinstance(entry, Skipped)] == [
        f"{tmp_path}/a.csv: no such file"
    ]


def test_a_folder_without_logs_is_an_error(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"{tmp_path}: this folder contains no job logs"
    (tmp_path / "README").write_text("About\n")
    assert refused(tmp_path) == f"{tmp_path}: this folder contains no job logs"


def piped(data: bytes) -> list[str]:
    """Return what a source of standard input says: its name, label, format, progress, and the categories."""
    program = (
        "from tonnage.logs.log import Hints\n"
        "from tonnage.logs.sources import open_source\n"
        "for one in open_source('-', Hints()):\n"
        "    print(one.name, one.label, one.format, one.progress())\n"
        "    print(*(entry.category for entry in one.entries if hasattr(entry, 'category')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode().splitlines()


@pytest.mark.parametrize("data", [TABLE.encode(), gzip.compress(TABLE.encode(), mtime=0)])
def test_standard_input_is_a_source(data: bytes) -> None:
    assert piped(data) == ["- stdin csv (0, 0)", "align merge"]


def test_nothing_on_standard_input_is_an_error() -> None:
    assert piped(b"")[-1] == "tonnage.errors.InputError: /dev/stdin: is empty"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], {}),
        (["memory=rss"], {"memory": "rss"}),
        (["memory=rss", "note=a,b"], {"memory": "rss", "note": "a,b"}),
        ([" memory = peak mem "], {"memory": "peak mem"}),
        (["a=b=c", "x="], {"a": "b=c", "x": ""}),
    ],
)
def test_options_hold_pairs(values: list[str], found: dict[str, str]) -> None:
    assert pairs(values, "--columns") == found


@pytest.mark.parametrize("value", ["", "memory", "=rss", " =x"])
def test_what_is_no_pair_is_an_error(value: str) -> None:
    with pytest.raises(InputError, match=r'^--columns: ".*" is not of the form NAME=VALUE$'):
        pairs([value], "--columns")


def test_options_choose_among_the_jobs_but_keep_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "b.csv").write_text(OTHER_TABLE)
    wanted = reading(columns={"memory": "memory"}, units={"memory": "GB"}, where=("memory>=2GB", "memory<3GB"))
    first, second = wanted.sources([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert categories(first) == ["merge"]
    assert [entry for entry in second.entries if not isinstance(entry, Assumed)] == [
        Skipped(3, "memory is not a number", "x")
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"where": ("memory>4",)}, "a unit is missing"),
        ({"timezone": "Mars"}, '"Mars" is not a time zone'),
    ],
)
def test_a_wrong_option_is_an_error_before_anything_is_read(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        next(reading(**given).sources(["/no/such/file"]))
    assert message in caught.value.report()


def test_a_verb_gets_its_options_as_one_value(tmp_path: Path) -> None:
    @click.command()
    @source_options
    def verb(reading: Reading) -> None:
        click.echo(repr(reading))

    options = ["--from=csv", "--columns=a=b", "--columns=c=d", "--units=a=KiB", "--timezone=UTC", "--label=x"]
    expected = Reading("csv", {"a": "b", "c": "d"}, {"a": "KiB"}, "UTC", "x", ("cores>1",))
    assert CliRunner().invoke(verb, [*options, "--where=cores>1"]).output == f"{expected!r}\n"
    assert CliRunner().invoke(verb, ["--from", "exel"]).exit_code == 2
    for option in ("--columns", "--units"):
        assert f'{option}: "rss" is not of the form' in str(CliRunner().invoke(verb, [option, "rss"]).exception)


def test_an_archive_is_a_source(tmp_path: Path) -> None:
    from tonnage.archive import Archive, import_source

    (tmp_path / "jobs.csv").write_text(TABLE)
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Archive.open(url, create=True) as archive:
        import_source(archive, only(tmp_path / "jobs.csv"))
    found = [
        (source.label, source.format, sorted(filter(None, categories(source)))) for source in reading().sources([url])
    ]
    assert found == [("jobs", "archive", ["align", "merge"])]
