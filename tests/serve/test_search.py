"""The search over HTTP finds what a search in the archive finds: page by page, as CSV, and for other Tonnages."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Said
from tests.serve.sample_archive import HOSTILE, fill, jobs
from tests.serve.server import TOKEN, Server
from tests.warm import Warm
from tonnage.archive import Archive, Search, find
from tonnage.archive.remote import Server as Remote
from tonnage.archive.remote import find_there
from tonnage.archive.search import search_of
from tonnage.jobs import Outcome

QUERIES: list[tuple[dict[str, str], int]] = [
    ({}, 303),
    ({"category": "align"}, 201),
    ({"category": "al*"}, 201),
    ({"category": ""}, 1),
    ({"category": HOSTILE}, 1),
    ({"workflow": "genomes"}, 300),
    ({"user": "grace"}, 100),
    ({"label": "large"}, 40),
    ({"command": "--fast"}, 202),
    ({"command": "merge*.bam --fast"}, 67),
    ({"executable": "merge"}, 100),
    ({"file": "/data/7.bam"}, 1),
    ({"input": "/data/all.fa"}, 303),
    ({"output": "/out/merge-250"}, 1),
    ({"field": "project=atlas"}, 151),
    ({"where": "memory>4GB"}, 40),
    ({"where": "wall_time<1m10s"}, 10),
    ({"outcome": "exhausted"}, 1),
    ({"exhausted": "memory"}, 1),
    ({"exit_status": "137"}, 2),
    ({"run": "genomes-1"}, 300),
    ({"task": "align-00?"}, 10),
    ({"since": "2026-09-21T14:13:20+00:00", "until": "2026-09-21T15:13:20+00:00"}, 60),
    ({"source": "jobs"}, 303),
    ({"user": "' OR 1=1 --"}, 0),
    ({"category": "\0"}, 0),
]


def searched(query: dict[str, str]) -> Search:
    texts: dict[str, Any] = dict(query)
    for name in ("where", "field"):
        texts[name] = [query[name]] if name in query else []
    if "exit_status" in query:
        texts["exit_status"] = int(query["exit_status"])
    return search_of(**texts)


@pytest.mark.parametrize(("query", "count"), QUERIES)
def test_every_filter_finds_what_it_finds_in_the_archive(filled: Server, query: dict[str, str], count: int) -> None:
    with Archive.open(filled.archive) as archive:
        expected = [one.identity.hex() for one in find(archive, searched(query)) if one.identity]
    found = filled.client.get("/api/attempts", params={**query, "limit": "1000"})
    assert [one["identity"] for one in found.json()["attempts"]] == expected, found.text
    assert len(expected) == count


@pytest.mark.parametrize("sort", [None, "memory", "ended", "user"])
def test_pages_one_behind_the_other_are_the_whole(filled: Server, sort: str | None) -> None:
    query = {"category": "align", "limit": "40", **({"sort": sort} if sort else {})}
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = filled.client.get("/api/attempts", params={**query, **after}).json()
        found += [one["identity"] for one in page["attempts"]]
        assert page["more"] == (page["next"] is not None)
        if not page["more"]:
            break
        after = {"after": page["next"]}
    with Archive.open(filled.archive) as archive:
        expected = find(archive, Search(category="align"), sort=sort)
        assert found == [one.identity.hex() for one in expected if one.identity]


def test_csv_is_that_of_the_command_line(filled: Server) -> None:
    answer = filled.client.get("/api/attempts.csv", params={"category": "merge", "sort": "memory"})
    words = ["--archive", filled.archive, "--csv", "--category", "merge", "--sort", "memory"]
    with Warm("archive", "query", *words) as call:
        assert call.said() == Said(0, answer.text, "")
    assert len(list(csv.DictReader(io.StringIO(answer.text)))) == 100


def test_other_tonnages_find_the_same_there_as_here(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url)
    monkeypatch.setenv("TONNAGE_TOKEN", TOKEN)
    with Server(url, folder=tmp_path) as server, Archive.open(url) as archive:
        remote = Remote.of(server.url)
        for query, _ in QUERIES:
            search = searched(query)
            assert list(find_there(remote, search)) == list(find(archive, search)), query
        search = Search(outcome=Outcome.DONE)
        for sort, reverse in (("memory", False), ("user", True)):
            there = find_there(remote, search, sort=sort, reverse=reverse, limit=7)
            assert list(there) == list(find(archive, search, sort=sort, reverse=reverse, limit=7))


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("sort=memory;DROP TABLE attempts", "not a column"),
        ("where=memory>lots", "lots"),
        ("where=colour>1", "colour"),
        ("field=project", "NAME=VALUE"),
        ("since=soon", "soon"),
        ("outcome=splendid", "outcome"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=nobody", "after"),
        ("after=00000000000000000000000000000000", "no attempt"),
        ("unheard=of", "unheard"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_the_users_words(filled: Server, query: str, word: str) -> None:
    answer = filled.client.get(f"/api/attempts?{query}")
    assert (answer.status_code, word in answer.json()["error"]) == (422, True), answer.text
    page = filled.client.get(f"/search?{query}")
    assert page.status_code == 200
    if not query.startswith("limit"):  # pages have their own
        assert 'role="alert"' in page.text
    if not query.startswith(("after", "limit=1001")):
        assert filled.client.get(f"/api/attempts.csv?{query}").status_code == 422


def test_an_address_of_any_length_and_letters_is_answered(filled: Server) -> None:
    for text in ("é漢😀", "%ff%fe", "*" * 300, "a" * 4000, "[a-z]", "\\", "%00", "\u2028"):
        for path in ("/search", "/api/attempts"):
            assert filled.client.get(path, params={"category": text, "command": text}).status_code == 200, text
    assert filled.client.get("/api/attempts", params={"category": "a" * 5000}).status_code == 422


def test_the_page_offers_the_next_one_and_the_whole_as_csv(filled: Server) -> None:
    page = filled.client.get("/search", params={"category": "align", "resource": "memory", "least": "1GB"}).text
    assert "the first 50 of 201 jobs" in page
    assert "/api/attempts.csv?category=align&amp;where=memory%3E%3D1000000000B" in page
    assert 'rel="next"' in page
    assert "No matching jobs" in filled.client.get("/search", params={"category": "nobody"}).text


def test_all_jobs_are_there() -> None:
    assert len(list(jobs())) == 303
