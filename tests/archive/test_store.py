"""The store promises: every row once, exactly as it was."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.archive.attempts import attempts
from tests.archive.conftest import Store
from tonnage.archive import Archive, Search, find, import_source
from tonnage.archive.identity import Identities
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt
from tonnage.logs.log import Entry, Skipped
from tonnage.logs.sources import Source


def plain(attempt: Attempt) -> Attempt:
    """An attempt without what only its way into the archive needs."""
    return replace(attempt, row="", identity=None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(made=st.lists(attempts, max_size=6))
def test_what_is_stored_is_found_again_as_it_was(archive: Archive, store: Store, made: list[Attempt]) -> None:
    before = archive.count()
    report = store([replace(attempt, native_id=f"{before}:{number}") for number, attempt in enumerate(made)])
    assert report.stored == len(made)
    found = list(find(archive))[before:]
    expected = [plain(replace(attempt, native_id=f"{before}:{number}")) for number, attempt in enumerate(made)]
    assert [plain(attempt) for attempt in found] == expected


def test_the_same_log_twice_is_stored_once(archive: Archive, store: Store) -> None:
    rows = [Attempt(row=f"row {number}") for number in range(25)]
    assert store(rows).stored == 25
    again = store(rows)
    assert (again.stored, again.duplicates) == (0, 25)
    assert archive.count() == 25


def test_equal_rows_are_different_jobs(archive: Archive, store: Store) -> None:
    rows = [Attempt(row="same")] * 3 + [Attempt(row="other")] + [Attempt(row="same")]
    assert store(rows).stored == 5
    assert store(rows).stored == 0
    assert store([*rows, Attempt(row="same"), Attempt(row="new")]).stored == 2  # the log has grown
    assert archive.count() == 7


def test_equal_rows_of_different_sources_are_different_jobs(archive: Archive, store: Store) -> None:
    store([Attempt(row="same")], label="one")
    store([Attempt(row="same")], label="two")
    assert archive.count() == 2


def test_a_native_id_is_one_job_in_every_source(archive: Archive, store: Store) -> None:
    store([Attempt(native_id="slurm:c:1", row="a")], label="one")
    report = store([Attempt(native_id="slurm:c:1", row="b")] * 2, label="two")
    assert (report.stored, report.duplicates) == (0, 2)
    assert archive.count() == 1


@given(rows=st.lists(st.sampled_from("abcd"), max_size=60), sizes=st.lists(st.integers(1, 7), min_size=1, max_size=60))
def test_identities_do_not_depend_on_how_a_log_is_cut_into_batches(rows: list[str], sizes: list[int]) -> None:
    made = [Attempt(row=row) for row in rows]
    whole = Identities("x").assign(made)
    pieces, parts, at = Identities("x"), [], 0
    for size in sizes:
        parts += pieces.assign(made[at : at + size])
        at += size
    parts += pieces.assign(made[at:])
    assert parts == whole
    assert len(set(whole)) == len(rows)
    counts = Counter(rows)
    assert all(len({one for one, row in zip(whole, rows, strict=True) if row == key}) == counts[key] for key in counts)


def test_from_one_archive_into_another_nothing_changes(archive: Archive, store: Store, tmp_path: Path) -> None:
    store([Attempt(row="a", fields={"k": "v"}), Attempt(row="a"), Attempt(native_id="n", used=Amounts.of(memory=5))])
    with Archive.open(str(tmp_path / "other.db"), create=True) as other:
        for _ in range(2):
            import_source(other, Source("x", "other", "archive", find(archive)))
        assert list(find(other)) == list(find(archive))


def test_texts_that_databases_refuse_are_stored_without_what_they_refuse(archive: Archive, store: Store) -> None:
    odd = "a\0b\ud800c"
    raw = {"odd": odd, "nan": float("nan"), odd: [float("inf")]}
    made = Attempt(row=odd, run=odd, workflow=odd, category=odd, command=odd, fields={odd: odd}, inputs=(odd,), raw=raw)
    assert store([made], label=odd).stored == 1
    (found,) = find(archive)
    assert found.category == found.command == "ab?c"
    assert found.fields == {"ab?c": "ab?c"}
    assert found.raw == {"odd": "ab?c", "nan": None, "ab?c": [None]}


def test_a_field_has_the_value_that_was_given_last(archive: Archive, store: Store) -> None:
    store([Attempt(row="x", fields={"project": "old", "other": "kept"}, inputs=("input",))])
    store([Attempt(row="x", fields={"project": "new", "input": "a field of this name"})])
    (found,) = find(archive)
    assert found.fields == {"project": "new", "other": "kept", "input": "a field of this name"}
    assert found.inputs == ("input",)
    assert list(find(archive, Search(fields={"project": "old"}))) == []
    assert len(list(find(archive, Search(input="input")))) == 1


def test_names_of_any_length_are_stored(archive: Archive, store: Store) -> None:
    long = "é" * 20_000
    fields = {"long": long}
    store(
        [Attempt(row="x", category=long, user=long, task=long, command=long, fields=fields, run=long, executable=long)]
    )
    (found,) = find(archive)
    assert found.command == long
    assert found.category == "é" * 512  # names are cut where no index could hold them


def test_rows_that_cannot_be_used_are_counted_with_their_reasons(archive: Archive, store: Store) -> None:
    entries = [
        Attempt(row="a"),
        Skipped(2, "it has not finished", "RUNNING"),
        Skipped(5, "it has not finished", "PENDING"),
    ]
    report = store(entries)
    assert (report.read, report.stored, report.skipped) == (3, 1, 2)
    assert report.reasons == {"it has not finished": 2}
    assert [example.line for example in report.examples["it has not finished"]] == [2, 5]


def test_what_stands_before_the_damage_is_stored(archive: Archive) -> None:
    def damaged() -> Iterator[Entry]:
        yield from (Attempt(row=f"{number}") for number in range(7))
        raise InputError("the file ends in the middle")

    with pytest.raises(InputError, match="in the middle") as caught:
        import_source(archive, Source("x", "x", "csv", damaged()))
    assert caught.value.hint == "new jobs stored before the error: 7"
    assert archive.count() == 7


def test_a_number_that_no_database_holds_costs_its_row(archive: Archive, store: Store) -> None:
    report = store([Attempt(row="a", exit_status=10**25), Attempt(row="b", exit_status=3221225477), Attempt(row="c")])
    assert (report.stored, report.reasons) == (2, {"a number is too large": 1})


def test_what_is_nested_too_deeply_is_left_out(archive: Archive, store: Store) -> None:
    deep: object = "\0"
    for _ in range(5000):
        deep = [deep]
    assert store([Attempt(row="a", raw={"deep": deep})]).stored == 1


def test_opening_what_is_not_there_says_how_to_make_it(url: str) -> None:
    with pytest.raises(InputError, match="no archive") as caught:
        Archive.open(url)
    assert "import" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at\n" * 40, b"\0" * 5000])
def test_another_file_is_not_taken_for_an_archive(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"not an archive|something else"):
        Archive.open(str(file), create=True)
    assert file.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    import sqlite3

    file = tmp_path / "browser.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(InputError, match="is a database, but not an archive"):
        Archive.open(str(file), create=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mysql://host/db", "not a kind of archive"),
        ("http://host/", "does not work over HTTP"),
        ("sqlite://", "does not name a file"),
        ("://", "not an archive"),
    ],
)
def test_urls_that_name_no_archive_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Archive.open(text)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(Exception, match=r"refused|No such|translate|connect") as caught:
        Archive.open("postgresql://me:secret@127.0.0.1:1/jobs")
    assert "secret" not in str(caught.value)


def test_the_default_is_a_file_of_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("TONNAGE_ARCHIVE", raising=False)
    Archive.open(create=True).close()
    assert (tmp_path / "data" / "tonnage" / "archive.db").exists()
    monkeypatch.setenv("TONNAGE_ARCHIVE", str(tmp_path / "mine.db"))
    Archive.open(create=True).close()
    assert (tmp_path / "mine.db").exists()


def test_a_search_finds_nothing_in_an_empty_archive(archive: Archive) -> None:
    assert list(find(archive, Search(category="x"))) == []
