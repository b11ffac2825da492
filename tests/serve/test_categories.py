"""The categories of an archive: what `archive stats` says, and never older than what is stored."""

import time
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.serve.sample_archive import HOSTILE, fill, jobs
from tests.serve.server import Server
from tests.warm import Warm
from tonnage.archive import Archive, import_source, stats
from tonnage.jobs import Attempt
from tonnage.logs.sources import Source
from tonnage.serve import overview
from tonnage.serve.overview import Overview


def test_categories_are_those_of_the_command_line(url: str, tmp_path: Path) -> None:
    fill(url)
    with Server(url, folder=tmp_path) as server:
        answer = server.client.get("/api/categories").json()
    with Warm("archive", "stats", "--archive", url, "--json") as call:
        printed = call.said().facts
    assert answer["categories"] == printed["categories"]
    assert (answer["jobs"], answer["total"]) == (303, 4)


def test_categories_are_filtered_sorted_and_cut(filled: Server) -> None:
    def names(query: str) -> list[str]:
        found = filled.client.get(f"/api/categories?{query}").json()["categories"]
        return [one["category"] for one in found]

    assert names("sort=jobs") == ["align", "merge", *names("sort=jobs")[2:]]
    assert names("sort=category") == sorted(["align", "merge", "", HOSTILE])
    assert names("sort=max&resource=memory")[0] == "align"
    assert names("sort=max&resource=memory&reverse=true")[0] == "merge"
    assert names("name=ALI") == ["align"]
    assert names("sort=category&offset=1&limit=1") == sorted(["align", "merge", "", HOSTILE])[1:2]
    assert filled.client.get("/api/categories?sort=colour").status_code == 422


def test_what_was_just_stored_is_in_the_table(served: Server) -> None:
    def categories() -> dict[str, int]:
        return {one["category"]: one["jobs"] for one in served.client.get("/api/categories").json()["categories"]}

    assert "fresh" not in categories()
    for number in (1, 2):
        attempt = {"native_id": f"fresh:{number}", "category": "fresh", "memory": 1}
        body = {"source": {"label": "test", "format": "csv"}, "attempts": [attempt]}
        assert served.client.post("/api/attempts", json=body, headers=served.token).status_code == 200
        assert categories()["fresh"] == number


def test_an_empty_archive_says_how_it_is_filled(tmp_path: Path) -> None:
    with Server(f"sqlite:///{tmp_path}/empty.db", folder=tmp_path) as server:
        page = server.client.get("/").text
    assert "empty" in page
    assert "/upload" in page


def test_a_large_archive_is_counted_elsewhere_and_shown_as_it_was_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_SMALL", 0)
    monkeypatch.setattr(overview, "_REST", 0.0)
    fill(f"sqlite:///{tmp_path}/archive.db")
    with Archive.open(f"sqlite:///{tmp_path}/archive.db") as archive:
        counting = Overview(archive)
        try:
            assert counting.begun() is None
            first = counting.now(HANGS)
            assert list(first.categories) == [one.facts() for one in stats(archive)]
            assert first.jobs == len(list(jobs()))
            import_source(archive, Source("more", "more", "csv", iter([Attempt(row="1", category="fresh")])))
            assert counting.now(HANGS) is first  # nobody waits for the second count
            deadline = time.monotonic() + HANGS
            while counting.now(HANGS) is first and time.monotonic() < deadline:
                time.sleep(0.05)
            assert counting.now(HANGS).jobs == first.jobs + 1
        finally:
            counting.close()
