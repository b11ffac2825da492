"""Runs whose archive is on a server: they learn from it, tell it what they measured, and never wait for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.server import TOKEN, Server
from tests.serve.users import WORKFLOW, User, stored
from tests.waiting import until
from tonnage.archive import Archive, Search, import_source
from tonnage.archive.remote import find_at
from tonnage.jobs import Amounts, Attempt, Outcome
from tonnage.logs.conditions import Condition
from tonnage.logs.sources import Source
from tonnage.run.executor.executor import Executor

UNKNOWN = "nothing is known"


def restarted(server: Server, folder: Path) -> Server:
    """Return a server at the address of one that is gone."""
    return Server(server.archive, port=server.port, folder=folder)


def test_a_run_is_sized_by_what_somebody_else_measured_elsewhere(url: str, tmp_path: Path) -> None:
    with Server(url, folder=tmp_path) as server:
        ada, eve = (User(tmp_path / name, server.url) for name in ("ada", "eve"))
        first = ada.run()
        assert UNKNOWN in first.stdout
        assert len(stored(url)) == 5
        second = eve.run()
        assert UNKNOWN not in second.stdout
        assert "of 5 jobs" in second.stdout
        assert len(stored(url)) == 10
        assert ada.waiting() == eve.waiting() == []
        assert "warning" not in first.stderr + second.stderr


def test_a_preview_asks_the_server_and_tells_it_nothing(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        User(tmp_path / "ada", server.url).run()
        eve = User(tmp_path / "eve", server.url)
        assert "of 5 jobs" in eve.run("--dry-run").stdout
        assert len(stored(server.archive)) == 5


def test_what_a_run_measured_while_the_server_went_away_is_sent_later(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        ada = User(tmp_path / "ada", server.url)
        waiting = "touch begun; until [ -e gone ]; do sleep 0.02; done; touch out9"
        (ada.folder / "w.makeflow").write_text(f"{WORKFLOW}out9:\n\t{waiting}\n")
        with ada.begin("run", "w.makeflow") as going:
            until((ada.folder / "begun").exists)
            server.close()
            (ada.folder / "gone").touch()
            said = going.said()
        assert said.status == 0, said.stderr
        assert "connection refused; attempts waiting for it" in said.stderr
        assert f"tonnage archive send --archive {server.url}" in said.stderr
        assert len(ada.waiting()) == 1
    refused = ada.call("archive", "send", "--json")
    assert (refused.status, refused.facts["waiting"], refused.facts["stored"]) == (1, 6, 0)
    with restarted(server, tmp_path):
        sent = ada.call("archive", "send", "--json")
        assert (sent.status, sent.facts["waiting"], sent.facts["stored"]) == (0, 0, 6)
        assert ada.waiting() == []
        again = ada.call("archive", "send")
        assert "0 attempts sent, 0 waiting" in again.stdout
        assert len(stored(server.archive)) == 6


def test_while_the_server_is_away_runs_go_by_what_they_know_and_the_next_one_sends_everything(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        ada = User(tmp_path / "ada", server.url)
        ada.run()
    for runs in (1, 2):
        said = ada.run()
        assert "sizes are based on earlier runs from this machine" in said.stderr or runs == 2
        assert "connection refused" in said.stderr
        assert UNKNOWN not in said.stdout
        assert len(ada.waiting()) == runs
    with restarted(server, tmp_path):
        said = ada.run()
        assert "wait" not in said.stderr
        assert ada.waiting() == []
        assert len(stored(server.archive)) == 20


@pytest.mark.parametrize(("token", "words"), [(None, "a token is required"), (TOKEN[::-1], "the token is wrong (401)")])
def test_a_run_without_the_token_is_told_why_learns_nothing_and_loses_nothing(
    tmp_path: Path, token: str | None, words: str
) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        User(tmp_path / "ada", server.url).run()
        eve = User(tmp_path / "eve", server.url, token)
        said = eve.run()
        assert words in said.stderr
        assert "put the server's token into the variable TONNAGE_TOKEN or the file " in said.stderr
        assert UNKNOWN in said.stdout
        refused = eve.call("archive", "query")
        assert (refused.status, words in refused.stderr, "TONNAGE_TOKEN" in refused.stderr) == (1, True, True)
        assert len(stored(server.archive)) == 5
        eve.knows(TOKEN)
        assert eve.call("archive", "send").status == 0
        assert len(stored(server.archive)) == 10


def test_a_run_without_the_token_learns_from_a_public_server_and_keeps_what_it_measured(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path, public=True) as server:
        User(tmp_path / "ada", server.url).run()
        eve = User(tmp_path / "eve", server.url, None)
        said = eve.run()
        assert "a token is required" in said.stderr
        assert "of 5 jobs" in said.stdout
        assert len(eve.waiting()) == 1
        assert len(stored(server.archive)) == 5


def test_a_token_can_stand_in_a_file_of_the_server(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        ada = User(tmp_path / "ada", server.url, None)
        ada.run()
        (file,) = ada.folder.glob("settings/tonnage/remote/*/url")
        file.with_name("token").write_text(TOKEN)
        assert ada.call("archive", "send").status == 0
        assert len(stored(server.archive)) == 5


def test_an_executor_learns_from_a_server_and_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_TOKEN", TOKEN)
    reasons = []
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        for user in ("ada", "eve"):
            monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / user / "settings"))
            (tmp_path / user).mkdir()
            with Executor(name="survey", archive=server.url, folder=tmp_path / user) as pool:
                done = [pool.submit(pow, number, 2) for number in range(4)]
                assert [one.result() for one in done] == [0, 1, 4, 9]
            reasons.append(done[0].attempts[0].decisions[1].reason)
        found = stored(server.archive)
    assert UNKNOWN in reasons[0] or "core's share" in reasons[0]
    assert UNKNOWN not in reasons[1]
    assert "core's share" not in reasons[1]
    assert len(found) == 8
    assert {one.workflow for one in found} == {"survey"}


def test_what_is_not_done_over_a_server_says_where_it_is_done(served: Server, tmp_path: Path) -> None:
    ada = User(tmp_path / "ada", served.url)
    for verb in (["check"], ["migrate"], ["forget", "--category", "x"], ["stats"], ["import", "w.makeflow"]):
        said = ada.call("archive", *verb)
        assert said.status == 2
        assert "over HTTP" in said.stderr
    said = ada.call("archive", "send", "--archive", "jobs.db")
    assert said.status == 2
    assert "needs an archive on a server" in said.stderr


SEARCHES = [
    Search(),
    Search(outcome=Outcome.DONE, category="out*"),
    Search(fields={"project": "atlas"}, run="a run"),
    Search(since=1000.5, until=1020.0, where=(Condition.parse("memory>5MB"), Condition.parse("cores!=2"))),
    Search(exit_status=1, user="ada lovelace & co"),
    Search(input="in 7.fa"),
    Search(command="a=b&c", source="a"),
]


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_over_a_server_finds_what_one_in_the_archive_finds(
    filled: Server, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONNAGE_TOKEN", TOKEN)
    found = list(find_at(filled.archive, search))
    assert list(find_at(filled.url, search)) == found
    assert found
    for order in ({"sort": "memory"}, {"sort": "ended", "reverse": True, "limit": 3}, {"limit": 1}):
        assert list(find_at(filled.url, search, **order)) == list(find_at(filled.archive, search, **order))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over some jobs."""
    folder = tmp_path_factory.mktemp("filled")
    jobs = [
        Attempt(
            native_id=f"job {number}",
            run="a run",
            task=f"task {number}",
            category=f"out{number % 3}",
            command="run a=b&c --x '\N{GREEK SMALL LETTER ALPHA}'",
            user="ada lovelace & co",
            ended=1000.0 + number,
            outcome=Outcome.FAILED if number % 5 == 0 else Outcome.DONE,
            exit_status=int(number % 5 == 0),
            used=Amounts.of(memory=number * 10**6, cores=number % 4),
            fields={"project": "atlas", "odd & even": str(number % 2)},
            inputs=(f"in {number}.fa",),
        )
        for number in range(30)
    ]
    with Archive.open(str(folder / "a.db"), create=True) as archive:
        import_source(archive, Source("a", "a", "csv", iter(jobs)))
    with Server(str(folder / "a.db"), folder=folder) as server:
        yield server


def test_every_verb_reads_jobs_over_a_server(filled: Server, tmp_path: Path) -> None:
    ada = User(tmp_path / "ada", filled.url)
    assert len(ada.call("archive", "query", "--json", "--limit", "7").facts["attempts"]) == 7
    assert ada.call("archive", "export", "-o", "jobs.csv").status == 0
    assert len((ada.folder / "jobs.csv").read_text().splitlines()) == 31
    here, there = (ada.call("size", "--json", url) for url in (filled.archive, filled.url))
    assert (there.status, there.facts) == (0, here.facts)
    said = ada.call("archive", "query", "--sort", "nonsense")
    assert said.status == 2
    assert "is not a column to sort by" in said.stderr
    said = ada.call("size", "http://127.0.0.1:1")
    assert said.status == 1
    assert "connection refused" in said.stderr
