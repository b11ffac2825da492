"""A search promises: exactly the attempts that meet all conditions, found with an index."""

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from tests.archive.conftest import Store
from tonnage.archive import Archive, Search, count_up_to, find, import_source
from tonnage.archive.engine import connect
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.conditions import Condition
from tonnage.logs.sources import Source

JOBS = [
    Attempt(
        row=f"{number}",
        run=f"run {number % 3}",
        workflow=["genome", "sky", None][number % 3],
        workflow_checksum=["abc", None, None][number % 3],
        task=f"task {number % 7}",
        command=["bwa mem ref.fa a.fq", "samtools sort [x] 100%", "BWA index", None][number % 4],
        executable=["bwa", "samtools", "BWA", None][number % 4],
        category=["align", "sort", "Align"][number % 3],
        user=["ada", "bob", None][number % 3],
        outcome=[Outcome.DONE, Outcome.FAILED, Outcome.EXHAUSTED, None][number % 4],
        exit_status=[0, 1, 137, None][number % 4],
        ended=[1000.0 + number, None][number % 2],
        used=Amounts.of(memory=number * 10**8, wall_time=float(number % 5), cores=1 + number % 4),
        requested=Amounts.of(memory=[None, 4 * 10**9][number % 2]),
        inputs=("ref.fa", f"{number % 4}.fq"),
        outputs=(f"{number % 5}.bam",),
        fields={"project": ["atlas", "lhcb"][number % 2]},
    )
    for number in range(60)
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """An archive with these jobs; tests only read from it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('filled')}/archive.db"
    else:
        url = request.getfixturevalue("postgres").new_schema()
    with Archive.open(url, create=True) as archive:
        import_source(archive, Source("test", "test", "csv", iter(JOBS)))
        yield archive


Oracle = Callable[[Attempt], bool]
CASES: list[tuple[Search, Oracle]] = [
    (Search(), lambda job: True),
    (Search(workflow="sky"), lambda job: job.workflow == "sky"),
    (Search(workflow="abc"), lambda job: job.workflow_checksum == "abc"),
    (Search(run="run 1"), lambda job: job.run == "run 1"),
    (Search(run="no such run"), lambda job: False),
    (Search(user="ada"), lambda job: job.user == "ada"),
    (Search(category="align"), lambda job: job.category == "align"),
    (Search(task="task 3"), lambda job: job.task == "task 3"),
    (Search(executable="bwa"), lambda job: job.executable == "bwa"),
    (Search(input="1.fq"), lambda job: "1.fq" in job.inputs),
    (Search(output="2.bam"), lambda job: "2.bam" in job.outputs),
    (Search(file="1.fq"), lambda job: "1.fq" in job.inputs),
    (Search(file="2.bam"), lambda job: "2.bam" in job.outputs),
    (Search(exit_status=137), lambda job: job.exit_status == 137),
    (Search(outcome=Outcome.FAILED), lambda job: job.outcome is Outcome.FAILED),
    (Search(since=1020, until=1040), lambda job: job.ended is not None and 1020 <= job.ended < 1040),
    (Search(source="test"), lambda job: True),
    (Search(source="another"), lambda job: False),
    (Search(fields={"project": "atlas"}), lambda job: job.fields["project"] == "atlas"),
    (Search(where=(Condition.parse("memory>4GB"),)), lambda job: (job.used.memory or 0) > 4e9),
    (Search(where=(Condition.parse("memory<=1GB"), Condition.parse("wall_time!=2s"))),
     lambda job: (job.used.memory or 0) <= 1e9 and job.used.wall_time != 2.0),
    (Search(where=(Condition.parse("requested_memory=4GB"),)), lambda job: job.requested.memory == 4e9),
    (Search(category="sort", user="bob", where=(Condition.parse("cores>=3"),)),
     lambda job: job.category == "sort" and job.user == "bob" and (job.used.cores or 0) >= 3),
]  # fmt: skip


@pytest.mark.parametrize(("search", "oracle"), CASES)
def test_each_filter_finds_what_it_names(filled: Archive, search: Search, oracle: Oracle) -> None:
    found = [attempt.used.memory for attempt in find(filled, search)]
    assert found == [job.used.memory for job in JOBS if oracle(job)]


PATTERNS = [
    "bwa",
    "BWA",
    "%",
    "_",
    "[x]",
    "*bwa*",
    "bwa*",
    "?wa mem*",
    "*100%",
    "*[[]x]*",
    "[bB][wW][aA]*",
    "[!s]*",
    "'",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_command_is_searched_for_its_parts_or_by_a_pattern(filled: Archive, pattern: str) -> None:
    glob = any(sign in pattern for sign in "*?")
    shell = pattern.replace("[", "[[]")  # sets of letters are not known here: a bracket is a bracket
    found = {attempt.command for attempt in find(filled, Search(command=pattern))}
    commands = {job.command for job in JOBS if job.command}
    assert found == {one for one in commands if (fnmatchcase(one, shell) if glob else pattern in one)}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=st.text(st.sampled_from("ab*?[]!^-.%_\\'"), min_size=1, max_size=6))
def test_no_pattern_is_an_error(archive: Archive, store: Store, pattern: str) -> None:
    store([Attempt(row="one", category="c", command="run it")])
    assert list(find(archive, Search(command=pattern, category=pattern, fields={pattern: pattern}))) == []


def test_texts_that_no_database_holds_find_nothing(archive: Archive, store: Store) -> None:
    store(JOBS[:3])
    odd = "a\0\ud800"
    searches = [Search(user=odd), Search(run=odd), Search(task=odd), Search(command=odd), Search(command=f"{odd}*")]
    searches += [Search(workflow=odd), Search(fields={odd: odd}), Search(input=odd), Search(executable=odd)]
    assert [list(find(archive, search)) for search in searches] == [[]] * len(searches)


SORTED: list[tuple[str, Callable[[Attempt], Any], bool]] = [
    ("memory", lambda job: job.used.memory, True),
    ("ended", lambda job: job.ended, True),
    ("user", lambda job: job.user, False),
]


@pytest.mark.parametrize(("column", "key", "largest_first"), SORTED)
@pytest.mark.parametrize("reverse", [False, True])
def test_results_are_sorted_and_what_is_not_known_comes_last(
    filled: Archive, column: str, key: Callable[[Attempt], Any], largest_first: bool, reverse: bool
) -> None:
    found = [key(attempt) for attempt in find(filled, sort=column, reverse=reverse, limit=50)]
    known = sorted((key(job) for job in JOBS if key(job) is not None), reverse=largest_first != reverse)
    assert found == [*known, *[None] * (len(JOBS) - len(known))][:50]


def test_an_unknown_column_to_sort_by_is_an_error(archive: Archive) -> None:
    with pytest.raises(InputError, match="not a column"):
        list(find(archive, sort="memory; DROP TABLE attempts"))


INDEXED = [
    Search(category="align"),
    Search(user="ada"),
    Search(workflow="sky"),
    Search(executable="bwa"),
    Search(run="run 1"),
    Search(task="task 3"),
    Search(since=59_000),
    Search(where=(Condition.parse("memory>59GB"),)),
    Search(where=(Condition.parse("disk>=1TB"),)),
    Search(where=(Condition.parse("wall_time>990s"),)),
    Search(fields={"project": "rare"}),
    Search(input="rare.fa"),
]


@pytest.fixture(scope="module")
def many() -> list[Attempt]:
    return [
        Attempt(
            row=f"{number}",
            run=f"run {number}",
            workflow=f"flow {number % 900}",
            task=f"task {number}",
            executable=f"exe {number % 900}",
            category=f"category {number % 900}",
            user=f"user {number % 900}",
            ended=float(number * 10),
            used=Amounts.of(memory=number * 10**7, disk=number * 10**8, wall_time=number % 1000),
            fields={"project": f"project {number % 900}"},
        )
        for number in range(6000)
    ]


def test_searches_use_an_index(archive: Archive, store: Store, many: list[Attempt]) -> None:
    store(many)
    if not archive.on_sqlite:
        with connect(archive.engine) as connection:
            # As the server does by itself after a while.
            connection.execute(text("ANALYZE attempts, fields, files, runs, tasks"))
    for search in INDEXED:
        plan = "\n".join(_plan(archive, search))
        assert "SCAN attempts" not in plan, plan
        assert "Seq Scan on attempts" not in plan, plan
        assert not re.search("using attempts_pkey on attempts .*\\n *Filter", plan), plan


def _plan(archive: Archive, search: Search) -> Iterator[str]:
    """Return how the database answers the very statement that `find` sends."""
    sent: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        sent.append((statement, parameters))

    event.listen(archive.engine, "before_cursor_execute", note)
    list(find(archive, search, limit=50))
    event.remove(archive.engine, "before_cursor_execute", note)
    statement, parameters = next(one for one in sent if "FROM attempts" in one[0])
    explain = "EXPLAIN QUERY PLAN " if archive.on_sqlite else "EXPLAIN "
    with connect(archive.engine) as connection:
        yield from (str(row[-1]) for row in connection.exec_driver_sql(explain + statement, parameters))


@pytest.mark.parametrize("sort", [None, "memory", "requested_memory", "wall_time", "ended", "user", "executable"])
@pytest.mark.parametrize("reverse", [False, True])
def test_pages_one_behind_the_other_are_the_whole(filled: Archive, sort: str | None, reverse: bool) -> None:
    for search in (Search(), Search(fields={"project": "atlas"})):
        whole = [job.identity for job in find(filled, search, sort=sort, reverse=reverse)]
        for length in (2, 7, 100):
            pages: list[bytes | None] = []
            while page := [
                job.identity
                for job in find(
                    filled, search, sort=sort, reverse=reverse, limit=length, after=pages[-1] if pages else None
                )
            ]:
                pages += page
            assert pages == whole


@pytest.mark.parametrize("first", [1, 20, 5000])
def test_the_largest_of_every_search_are_the_same_wherever_they_are_looked_for(
    filled: Archive, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr("tonnage.archive.reading._FIRST", first)
    for search, oracle in CASES:
        for sort in (Resource.MEMORY, Resource.WALL_TIME):
            wanted = sorted((getattr(job.used, sort) for job in JOBS if oracle(job)), reverse=True)[:4]
            assert [getattr(job.used, sort) for job in find(filled, search, sort=sort, limit=4)] == wanted


def test_what_is_not_known_comes_last_in_either_direction(filled: Archive) -> None:
    for reverse in (False, True):
        found = [job.requested.memory for job in find(filled, sort="requested_memory", reverse=reverse)]
        assert found == [4 * 10**9] * 30 + [None] * 30


def test_nothing_comes_after_an_attempt_that_is_not_there(filled: Archive) -> None:
    with pytest.raises(InputError, match="there is no attempt"):
        list(find(filled, after=b"0" * 16))


def test_a_count_goes_no_further_than_it_must(filled: Archive) -> None:
    assert count_up_to(filled, Search(), 100) == 60
    assert count_up_to(filled, Search(category="sort"), 20) == 20
    assert count_up_to(filled, Search(), 10) == 11
