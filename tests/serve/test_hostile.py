"""Requests that nobody should send: the right status, clear words, nothing stored, and the server goes on."""

import gzip
import json
import resource
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import HANGS
from tests.serve.server import TOKEN, Server
from tests.serve.test_access import connected
from tests.serve.test_uploads import ended, send
from tonnage.archive import Archive
from tonnage.errors import InputError
from tonnage.logs.log import Hints
from tonnage.serve import responses
from tonnage.serve.limits import Punctual
from tonnage.serve.routes import uploads
from tonnage.serve.routes.uploads import Upload, take_in
from tonnage.serve.settings import Limits

KIB, GIB = 2**10, 2**30
RECORD = {"native_id": "hostile:1", "category": "align", "memory": 1}
POSTED = json.dumps({"source": {"label": "a", "format": "tonnage"}, "attempts": [RECORD]})


@pytest.fixture(autouse=True)
def nothing_is_stored_and_the_server_goes_on(served: Server) -> Iterator[None]:
    with Archive.open(served.archive) as archive:
        before = archive.count()
        yield
        assert archive.count() == before
    assert served.client.get("/api/health").status_code == 200
    assert "Traceback" not in served.log.read_text()


def status(server: Server, request: bytes) -> str:
    """Send bytes as they are; return the status of the answer, or "closed" where the door was."""
    with connected(server) as client:
        try:
            client.sendall(request)
            return client.recv(100).split()[1].decode()
        except (OSError, IndexError):
            return "closed"


# Who asks


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "text/plain"])
@pytest.mark.parametrize("path", ["/api/attempts", "/api/uploads", "/logout"])
def test_forms_of_other_sites_write_nothing_even_where_the_browser_is_logged_in(
    served: Server, path: str, kind: str
) -> None:
    """Only kinds of bodies that a browser sends to other sites without asking them first."""
    elsewhere = {"Origin": "https://evil.example.org", "Sec-Fetch-Site": "cross-site", "Content-Type": kind}
    served.stranger.post("/login", data={"token": TOKEN})
    assert served.stranger.post(path, content=POSTED, headers=elsewhere).status_code == 403
    served.stranger.cookies.clear()
    assert served.stranger.post(path, content=POSTED, headers=elsewhere).status_code == 401


@pytest.mark.parametrize("token", [f"{TOKEN}\0", TOKEN[:-1], TOKEN.upper(), f"{TOKEN} {TOKEN}", "Bearer", ""])
def test_a_token_that_is_nearly_right_is_wrong(served: Server, token: str) -> None:
    head = f"POST /api/attempts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(POSTED)}\r\n\r\n{POSTED}"
    assert status(served, head.encode()) in ("400", "401")


def test_a_name_that_was_turned_to_the_server_writes_nothing(served: Server) -> None:
    headers = {**served.token, "Host": "evil.example.org", "Content-Type": "application/json"}
    answer = served.client.post("/api/attempts", content=POSTED, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (421, "this server is not called evil.example.org")


# Addresses


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../../../../etc/passwd",
        "/static/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static/..\\..\\app.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/%00",
        "/../../etc/passwd",
        "/api/work/..%2f..%2fetc%2fpasswd",
        "/api/run?id=../../../../etc/passwd",
        "/api/run?id=%2Fetc%2Fpasswd",
        "/api/run?id=%00",
        "/run?id=..%2F..%2Fetc",
    ],
)
def test_no_address_leads_out_of_the_server(served: Server, path: str) -> None:
    with connected(served) as client:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.split()[1] in (b"400", b"404", b"422"), answer[:200]
    assert b"root:" not in answer
    assert b"import" not in answer


def test_addresses_and_heads_without_end_are_refused(served: Server) -> None:
    start = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n"
    endless = b"a" * (1024 * KIB)
    many = b"".join(b"X-%d: a\r\n" % number for number in range(100_000))
    assert status(served, b"GET /api/runs?" + endless) in ("400", "closed")
    assert status(served, start + b"X-A: " + endless) in ("400", "closed")
    assert status(served, start + many) in ("400", "closed")
    assert status(served, start + b"X-A: a\0b\r\n\r\n") == "400"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: -1\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 99999999999999999999999999\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\nhello",
        b"Host: evil.example.org\r\n",
    ],
)
def test_heads_that_contradict_themselves_are_refused(
    served: Server, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two readers of one request could disagree about where it ends, somebody else's could be hidden in it."""
    monkeypatch.setattr(responses, "_DRAINING", 0.1)
    start = f"POST /api/attempts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    start += "Content-Type: application/json\r\n"
    assert status(served, start.encode() + head + b"\r\n" + POSTED.encode()) in ("400", "413", "501")


# Bodies


@pytest.mark.parametrize("path", ["/api/attempts", "/api/past", "/api/replays"])
@pytest.mark.parametrize(
    "body", [b"[" * 1_000_000, b'{"a":' * 200_000, b'{"raw": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"]
)
def test_what_is_nested_without_end_is_refused(served: Server, path: str, body: bytes) -> None:
    headers = {**served.token, "Content-Type": "application/json"}
    answer = served.client.post(path, content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]


def test_a_body_that_claims_to_be_packed_is_not_unpacked(served: Server) -> None:
    packed = gzip.compress(POSTED.encode())
    headers = {**served.token, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert served.client.post("/api/attempts", content=packed, headers=headers).status_code == 400


class Hasty(Punctual):
    seconds = 0.3

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.timeout_keep_alive = 0.3  # type: ignore[assignment] # of uvicorn, which means whole seconds


def test_a_body_that_comes_drop_by_drop_is_refused_in_the_end(tmp_path: Path) -> None:
    limits = Limits(body_seconds=0.5, body_speed=1000)
    with Server(str(tmp_path / "a.db"), folder=tmp_path, limits=limits) as server, connected(server) as client:
        head = f"POST /api/attempts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(POSTED)}\r\n\r\n".encode())
        heard: list[bytes] = []
        answer = threading.Thread(target=lambda: heard.extend(iter(lambda: client.recv(1000), b"")))
        answer.start()
        for letter in POSTED.encode()[:-1]:
            if heard:
                break
            client.sendall(bytes([letter]))
            time.sleep(0.05)
        answer.join(HANGS)
        assert b" 408 " in heard[0].partition(b"\r\n")[0]
        assert b"too slowly" in b"".join(heard)


def test_who_connects_and_does_not_say_what_for_is_sent_away(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path, http=Hasty) as server:
        for first, begun in product((b"", b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n"), (b"", b"GET /api/hea")):
            with connected(server) as client, suppress(ConnectionError):  # on a busy machine, even before it asks
                if first:
                    client.sendall(first)
                    assert client.recv(10_000)[9:12] in (b"200", b"")
                client.sendall(begun)
                while client.recv(10_000):
                    pass  # until the server hangs up


def test_who_may_not_write_cannot_keep_a_connection_with_a_body_that_never_comes(
    served: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "_DRAINING", 0.1)
    with connected(served) as client:
        client.sendall(b"POST /api/attempts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        assert b" 401 " in client.recv(1000).partition(b"\r\n")[0]


def allow_open_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < number:
        pytest.skip(f"this user may open {hard} files at a time, and the test needs {number}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))


def test_a_thousand_connections_that_say_nothing_do_not_shut_others_out_for_ever(served: Server) -> None:
    """Beyond some hundreds, more are told to come back; when they are gone, everybody is served again."""
    allow_open_files(2_000)  # both ends of 700 connections are in this process
    silent = []
    try:
        for _ in range(700):
            client = connected(served)
            client.sendall(b"GET /api/health HT")
            silent.append(client)
    finally:
        for client in silent:
            client.close()
    deadline = time.monotonic() + HANGS
    while served.client.get("/api/health").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Uploads


def bomb(gigabytes: int, line: bytes) -> bytes:
    """Return a gzip file that unpacks to so many gigabytes of one line, again and again."""
    piece = line * (2**20 // len(line))
    packing = zlib.compressobj(9, wbits=-15)
    block = packing.compress(piece * 64) + packing.flush(zlib.Z_FULL_FLUSH)  # can be repeated as it is
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03"
    start = zlib.compressobj(9, wbits=-15)
    names = start.compress(b"task,memory (MB)\n") + start.flush(zlib.Z_FULL_FLUSH)
    return head + names + block * (gigabytes * GIB // (len(piece) * 64)) + b"\x03\x00" + bytes(8)


def test_a_file_that_unpacks_to_far_more_than_a_log_would_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_UNSUSPICIOUS", 2**20)
    (tmp_path / "log").write_bytes(bomb(1, b"a,1\n"))
    sent = Upload(file=str(tmp_path / "log"), name="jobs.csv.gz", hints=Hints())
    with pytest.raises(InputError, match=r"^jobs\.csv\.gz: unpacks to more than "):
        take_in(lambda *_: None, str(tmp_path / "a.db"), sent)


@pytest.mark.long
def test_a_file_that_unpacks_to_tens_of_gigabytes_is_refused(served: Server) -> None:
    packed = bomb(40, b"a,1\n")
    assert len(packed) < GIB // 8
    work = ended(served, send(served, "jobs.csv.gz", packed))
    assert work["state"] == "failed"
    assert work["error"].startswith("jobs.csv.gz: unpacks to more than ")


@pytest.mark.parametrize("columns", [100_000, pytest.param(2_000_000, marks=pytest.mark.long)])
def test_a_table_of_very_many_columns_is_refused_row_by_row(served: Server, columns: int) -> None:
    table = b"memory," + b"a," * columns + b"\n" + (b"x," + b"," * columns + b"\n") * 3
    work = ended(served, send(served, "wide.csv", table))
    assert (work["state"], work["result"]["sources"][0]["skipped"]) == ("done", 3)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/cron.d/evil", "..\\..\\boot.ini", "a\0b.csv", "$(touch evil).csv", "-o.csv", "."]
)
def test_the_name_of_an_upload_names_nothing_here(served: Server, name: str) -> None:
    body = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\nno log\r\n--b--\r\n'
    headers = {**served.token, "Content-Type": "multipart/form-data; boundary=b"}
    answer = served.client.post("/api/uploads", content=body.encode(), headers=headers)
    if answer.status_code == 202:
        work = ended(served, answer)
        assert work["state"] == "failed"
        assert "/" not in work["error"].partition(":")[0]
    else:
        assert answer.status_code in (400, 422)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--b\r\n",
        b"--b--\r\n",
        b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nno file name\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nnever ends',
        b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' * 2_000 + b"--b--\r\n",
        b"--b\r\n" + b"X: y\r\n" * 10_000 + b"\r\n\r\n--b--\r\n",
        b"\0" * 1_000,
    ],
)
def test_forms_that_are_none_are_refused(served: Server, body: bytes) -> None:
    headers = {**served.token, "Content-Type": "multipart/form-data; boundary=b"}
    answer = served.client.post("/api/uploads", content=body, headers=headers)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]
