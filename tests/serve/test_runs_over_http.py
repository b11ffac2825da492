"""Runs whose archive is on a server: they learn from it, tell it what they measured, and never wait for it."""

from pathlib import Path

import pytest

from serve.serving import TOKEN, Server
from serve.users import WORKFLOW, User, stored
from tonnage.run.executor import Executor

UNKNOWN = "nothing is known"


def restarted(server: Server, folder: Path, *options: str) -> Server:
    """Return a server at the address of one that is gone."""
    return Server(server.archive, *options, "--port", server.url.rpartition(":")[2], folder=folder)


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
        killing = f"kill -9 {server.process.pid} && echo done > out9"
        ada.write("w.makeflow", f"{WORKFLOW}out9:\n\t{killing}\n")
        said = ada.run()
        assert "nobody is there; attempts that wait for it" in said.stderr
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
        assert "sizes go by what is known here from earlier runs" in said.stderr or runs == 2
        assert "nobody is there" in said.stderr
        assert UNKNOWN not in said.stdout
        assert len(ada.waiting()) == runs
    with restarted(server, tmp_path):
        said = ada.run()
        assert "wait" not in said.stderr
        assert ada.waiting() == []
        assert len(stored(server.archive)) == 20


@pytest.mark.parametrize(("token", "words"), [(None, "it wants a token"), (TOKEN[::-1], "the token is wrong (401)")])
def test_who_may_not_write_is_told_why_still_learns_and_loses_nothing(
    tmp_path: Path, token: str | None, words: str
) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        User(tmp_path / "ada", server.url).run()
        eve = User(tmp_path / "eve", server.url, token)
        said = eve.run()
        assert words in said.stderr
        assert "TONNAGE_TOKEN" in said.stderr
        assert "of 5 jobs" in said.stdout
        said = eve.run()  # now something waits that cannot be sent
        assert words in said.stderr
        assert UNKNOWN not in said.stdout
        assert len(stored(server.archive)) == 5
        eve.knows(TOKEN)
        assert eve.call("archive", "send").status == 0
        assert len(stored(server.archive)) == 15


def test_a_private_server_tells_strangers_nothing_and_their_runs_go_on(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), "--private", folder=tmp_path) as server:
        ada, eve = User(tmp_path / "ada", server.url), User(tmp_path / "eve", server.url, None)
        ada.run()
        said = eve.run()
        assert "it wants a token" in said.stderr
        assert UNKNOWN in said.stdout
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
        assert "where the archive is, not over its server" in said.stderr
    said = ada.call("archive", "send", "--archive", "jobs.db")
    assert said.status == 2
    assert "only an archive on a server" in said.stderr


def test_jobs_are_read_over_a_server_as_from_the_archive_itself(tmp_path: Path) -> None:
    """Whatever the verb prints or writes, but for the name of the archive."""
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        ada = User(tmp_path / "ada", server.url)
        ada.run("--field", "project=atlas")
        ada.write("w.makeflow", "a.txt:\n\tfalse\n")
        ada.call("run", "w.makeflow", "--new")
        assert len(stored(server.archive)) == 6
        searches = [[], ["--outcome", "done", "--sort", "ended"], ["--field", "project=atlas", "--limit", "2"]]
        searches += [["--since", "1d", "--where", "wall_time<10min", "--reverse"], ["--exit", "1", "--category", "*"]]
        for search in searches:
            here, there = (
                ada.call("archive", "query", "--json", "--archive", url, *search)
                for url in (server.archive, server.url)
            )
            assert (there.status, there.facts) == (0, here.facts)
        assert len(there.facts["attempts"]) == 1  # type: ignore[arg-type]
        for url, file in ((server.archive, "here.csv"), (server.url, "there.csv")):
            assert ada.call("archive", "export", "--archive", url, "-o", file).status == 0
        assert (ada.folder / "here.csv").read_bytes() == (ada.folder / "there.csv").read_bytes()
        for verb in (["size", "--json"], ["discover", "--json"], ["replay", "size", "--json", "--where", "memory>0"]):
            here, there = (ada.call(*verb, url) for url in (server.archive, server.url))
            assert there.status == here.status
            if verb[0] == "size":
                assert there.facts == here.facts
        said = ada.call("archive", "query", "--sort", "nonsense")
        assert said.status == 2
        assert "is not a column to sort by" in said.stderr
    said = ada.call("size", server.url)
    assert said.status == 1
    assert "nobody is there" in said.stderr
