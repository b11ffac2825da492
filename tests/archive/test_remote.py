"""A server that is not as it should be: nothing that waits for it is lost, and the user hears why it waits."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import HANGS
from tonnage.archive import record
from tonnage.archive.history import Wanted
from tonnage.archive.remote import Server, upload
from tonnage.archive.remote.download import download_past
from tonnage.archive.remote.outbox import Outbox, Sent
from tonnage.archive.remote.upload import MOST
from tonnage.archive.session import archive_session
from tonnage.archive.url import remote_url
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Attempt

SOURCE = {"label": "a run", "format": "tonnage", "path": None}
Answer = tuple[int, dict[str, str], bytes]


class Other(ThreadingHTTPServer):
    """Somebody's web server: answers whatever it is told to, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answer: Callable[[Any], Answer] = stores
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answering(BaseHTTPRequestHandler):
    server: Other

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, dict(self.headers)))
        status, headers, content = self.server.answer(body)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def said(status: int, /, **facts: object) -> Callable[[Any], Answer]:
    return lambda body: (status, {"Content-Type": "application/json"}, json.dumps(facts).encode())


def stores(body: Any) -> Answer:
    return said(200, stored=len(body["attempts"]), duplicates=0)(body)


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("TONNAGE_TOKEN", "a-token-for-this-test")
    with Other() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def records(*numbers: int) -> list[dict[str, object]]:
    return [record(Attempt(native_id=f"test:{number}", category="align")) for number in numbers]


def spooled(server: Other, *numbers: int) -> Outbox:
    outbox = Outbox(Server.of(server.url))
    outbox.put(SOURCE, {"project": "atlas"}, records(*numbers))
    return outbox


def test_many_attempts_go_in_batches_with_the_token_and_what_is_said_about_all_of_them(other: Other) -> None:
    outbox = spooled(other, *range(2 * MOST + 1))
    assert outbox.send(0.0) == Sent(stored=2 * MOST + 1)
    assert outbox.files() == []
    assert [len(body["attempts"]) for _, body, _ in other.asked] == [MOST, MOST, 1]
    for path, body, headers in other.asked:
        assert (path, body["source"], body["fields"]) == ("/api/attempts", SOURCE, {"project": "atlas"})
        assert headers["Authorization"] == "Bearer a-token-for-this-test"


@pytest.mark.parametrize(
    "answer",
    [
        lambda body: (200, {"Content-Type": "text/html"}, b"<h1>Welcome to our network. Please log in.</h1>"),
        said(200),
        said(200, stored=0, duplicates=0),
        said(200, stored="3", duplicates=0),
        said(200, stored=5, duplicates=-2),
        said(200, stored=True, duplicates=2),
        lambda body: (302, {"Location": "https://login.example.org/"}, b""),
        lambda body: (204, {}, b""),
        lambda body: (404, {}, b"not here"),
        lambda body: (200, {"Content-Length": "1000"}, b'{"stored": 3, "duplicates": 0}'),
        lambda body: (500, {}, b"\xff" * 5000),
        said(503, error="more is posted than can be stored"),
        said(401, error="the token is wrong"),
        said(422, detail="a form of somebody else's"),
    ],
)
def test_what_is_no_acknowledgement_leaves_everything_waiting(other: Other, answer: Callable[[Any], Answer]) -> None:
    other.answer = answer
    outbox = spooled(other, 1, 2, 3)
    (file,) = outbox.files()
    sent = outbox.send(0.0)
    assert (sent.stored, sent.waiting, outbox.files()) == (0, 3, [file])
    assert sent.problem is not None
    assert other.url in str(sent.problem)
    assert str(sent.problem).isprintable()
    other.answer = stores
    assert outbox.send(0.0) == Sent(stored=3)


def test_a_server_that_is_busy_is_tried_again_when_it_says(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_PAUSES", (0.01,))
    answers = iter([said(503, error="too many wait"), said(429, error="too much"), stores])

    def answer(body: Any) -> Answer:
        return next(answers)(body)

    other.answer = answer
    outbox = spooled(other, 1, 2)
    assert outbox.send(HANGS) == Sent(stored=2)
    assert len(other.asked) == 3


def test_what_the_server_will_never_take_is_put_aside_and_the_rest_goes_through(other: Other) -> None:
    def picky(body: Any) -> Answer:
        wrong = [place for place, one in enumerate(body["attempts"]) if one["native_id"] in ("test:2", "test:5")]
        if wrong:
            places = [{"place": place, "error": "memory: less, please"} for place in wrong]
            return said(422, error="no", refused=places)(body)
        return stores(body)

    other.answer = picky
    outbox = spooled(other, *range(8))
    sent = outbox.send(0.0)
    assert (sent.stored, sent.refused, sent.waiting) == (6, 2, 0)
    assert sent.reasons == {"memory: less, please": 2}
    assert outbox.parked() == 2
    other.answer = stores
    outbox.take_back()
    assert outbox.send(0.0) == Sent(stored=2)
    assert outbox.parked() == 0


def test_a_batch_that_is_too_much_at_once_is_halved(other: Other) -> None:
    other.answer = lambda body: said(413, error="too long")(body) if len(body["attempts"]) > 3 else stores(body)
    assert spooled(other, *range(10)).send(0.0) == Sent(stored=10)


def test_a_damaged_file_of_the_spool_is_put_aside_and_the_others_are_sent(other: Other) -> None:
    outbox = spooled(other, 1)
    (outbox.folder / "00000000000000000001-aaaaaaaa-1.json.gz").write_bytes(b"no gzip")
    (outbox.folder / "00000000000000000002-aaaaaaaa-1.json.gz").write_bytes(gzip.compress(b'{"source": 1}'))
    (outbox.folder / "00000000000000000003-aaaaaaaa-1.json.gz").write_bytes(gzip.compress(b"{}" * 9)[:-9])
    assert outbox.send(0.0) == Sent(stored=1)
    assert len(list(outbox.refused.glob("damaged-*"))) == 3


def test_what_waits_is_for_its_owners_eyes_only(other: Other) -> None:
    outbox = spooled(other, 1)
    assert outbox.folder.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [b"<html>", b'{"colour": "red"}\n', b"[]\n", b'{"memory": -1}\n', b"\xff\xfe\n"])
def test_a_past_that_makes_no_sense_is_a_warning_and_the_run_goes_on(other: Other, content: bytes) -> None:
    other.answer = lambda body: (200, {}, content)
    with archive_session(other.url) as opened:
        (warning,) = opened.ask(Wanted(workflow="w"))
        assert "invalid response" in warning
        assert opened.archive.count() == 0


def test_a_past_that_breaks_off_is_an_error_not_a_shorter_past(other: Other) -> None:
    line = json.dumps({"native_id": "test:1", "category": "align"}).encode() + b"\n"
    other.answer = lambda body: (200, {"Content-Length": str(len(line) + 10)}, line)
    with pytest.raises(TonnageError, match="the connection was lost"):
        list(download_past(Server.of(other.url), Wanted(workflow="w"), seconds=HANGS))


@pytest.mark.parametrize(
    "url",
    ["http://", "http://me:secret@host", "http://host/?a=1", "http://host/#a", "http://ho st", "http://host:port"],
)
def test_what_is_no_url_of_a_server_is_refused_and_no_password_is_shown(url: str) -> None:
    with pytest.raises(InputError) as error:
        remote_url(url)
    assert "secret" not in str(error.value)


def test_the_same_server_is_known_by_the_same_name() -> None:
    assert remote_url("HTTP://Jobs.Example.org:80/") == remote_url("http://jobs.example.org")
    assert remote_url("https://jobs.example.org:443/a/") == "https://jobs.example.org/a"


def test_a_token_is_sent_to_no_other_machine_than_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("TONNAGE_TOKEN", raising=False)
    (tmp_path / "tonnage").mkdir()
    (tmp_path / "tonnage" / "token").write_text("the-token-of-my-own-server")
    assert Server.of("http://localhost:8000").token() == "the-token-of-my-own-server"
    assert Server.of("http://jobs.example.org").token() is None
