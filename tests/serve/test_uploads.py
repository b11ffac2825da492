"""Logs that are sent to the server: stored once, whatever they are, and nothing without the token."""

import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deadlines import HANGS
from tests.serve.server import Server
from tonnage.archive import Archive, find

_JOBS = (
    "task,category,memory (MB),wall_time (s),outcome\na,align,100,10,done\nb,align,200,20,done\nc,merge,50,5,failed\n"
)


def send(server: Server, name: str, data: bytes, **fields: str) -> httpx.Response:
    files = {"file": (name, data)}
    return server.client.post("/api/uploads", files=files, data=fields, headers=server.token)


def ended(server: Server, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        work: dict[str, Any] = server.client.get(f"/api/work/{answer.json()['id']}").json()
        if work["state"] not in ("waiting", "working"):
            return work
        time.sleep(0.01)
    raise AssertionError(work)


def test_a_log_is_stored_once_however_often_it_is_sent(url: str, tmp_path: Path) -> None:
    with Server(url, folder=tmp_path) as server:
        first = ended(server, send(server, "jobs.csv", _JOBS.encode()))
        again = ended(server, send(server, "jobs.csv", _JOBS.encode()))
    assert first["result"]["sources"][0]["stored"] == 3
    assert again["result"]["sources"][0]["duplicates"] == 3
    with Archive.open(url) as archive:
        assert sorted(str(one.task) for one in find(archive)) == ["a", "b", "c"]


def test_what_the_log_does_not_say_can_be_added(served: Server) -> None:
    table = b"rss,seconds\n2048,7\n"
    more = {"columns": "memory=rss,wall_time=seconds", "units": "memory=KiB,wall_time=s", "category": "odd"}
    work = ended(served, send(served, "odd.csv", table, label="somewhere", field="project=atlas", **more))
    assert work["state"] == "done", work
    with Archive.open(served.archive) as archive:
        (found,) = [one for one in find(archive) if one.category == "odd"]
    assert found.used.memory == 2 * 2**20
    assert found.fields == {"project": "atlas"}


def test_what_is_no_log_is_refused_in_the_users_words(served: Server) -> None:
    work = ended(served, send(served, "../../etc/picture.png", b"\x89PNG\r\n\x1a\n\0\0\0"))
    assert work["state"] == "failed"
    assert work["error"].startswith("picture.png: ")
    assert "/" not in work["error"].split(":")[0]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"format": "nonsense"}, "nonsense"),
        ({"timezone": "Nowhere/Land"}, "time zone"),
        ({"columns": "x"}, "NAME=VALUE"),
    ],
)
def test_wrong_fields_are_refused_at_once(served: Server, fields: dict[str, str], word: str) -> None:
    answer = send(served, "jobs.csv", _JOBS.encode(), **fields)
    assert answer.status_code == 422
    assert word in answer.json()["error"]


def test_nothing_is_stored_without_the_token(served: Server) -> None:
    with Archive.open(served.archive) as archive:
        before = archive.count()
    files = {"file": ("jobs.csv", _JOBS.encode())}
    assert served.stranger.post("/api/uploads", files=files).status_code == 401
    wrong = {"Authorization": "Bearer wrong"}
    assert served.stranger.post("/api/uploads", files=files, headers=wrong).status_code == 401
    with Archive.open(served.archive) as archive:
        assert archive.count() == before


def test_nothing_is_left_of_an_upload_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with Server(f"sqlite:///{tmp_path}/archive.db", folder=tmp_path) as server:
        ended(server, send(server, "jobs.csv", _JOBS.encode()))
        ended(server, send(server, "jobs.csv", b"\0\0"))
        deadline = time.monotonic() + HANGS
        while list((tmp_path / "tmp").glob("tonnage-upload-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not list((tmp_path / "tmp").glob("tonnage-upload-*"))
