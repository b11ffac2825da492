"""Who may do what, and what becomes of requests that nobody should send."""

import asyncio
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.deadlines import HANGS
from tests.serve.server import TOKEN, Server
from tests.warm import Warm
from tonnage.archive.token import find_token, make_token
from tonnage.errors import InputError
from tonnage.serve.server import listen
from tonnage.serve.settings import Limits, Settings

MIB = 2**20


def test_the_server_says_who_it_is_on_both_databases(url: str, tmp_path: Path) -> None:
    with Server(url, folder=tmp_path) as server:
        answer = server.client.get("/api/health")
        assert answer.status_code == 200
        assert answer.json()["schema"] == 1
        assert answer.json()["archive"] == url.partition(":")[0]


def test_the_command_line_starts_a_server_with_its_options_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    words = [sys.executable, "-m", "tonnage", "serve", "--archive", str(tmp_path / "a.db"), "--port", "0", "--public"]
    words += ["--token-file", str(tmp_path / "token"), "--allow-host", "Jobs.example.org", "--runs", str(tmp_path)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=tmp_path) as server:
        assert server.stdout is not None
        greeting = server.stdout.readline() + server.stdout.readline()
        url = greeting.partition(" at ")[2].partition(" ")[0]
        assert httpx.get(f"{url}api/runs", headers={"Host": "jobs.example.org"}, timeout=HANGS).status_code == 200
        server.send_signal(signal.SIGINT)
        said, complained = server.communicate(timeout=HANGS)
    assert server.returncode == 130
    assert "the token is required for writes; it is in" in greeting
    assert TOKEN not in greeting + said + complained  # which may be a log
    assert "Traceback" not in complained


def test_a_port_that_is_taken_is_a_clear_error(served: Server, tmp_path: Path) -> None:
    with Warm("serve", "--archive", tmp_path / "other.db", "--port", served.port) as other:
        said = other.said()
    assert said.status == 2
    assert "in use" in said.stderr
    assert not (tmp_path / "other.db").exists()


def test_short_answers_do_not_wait_for_more_to_send() -> None:
    """An answer is sent as a head and a body: the second must not wait until the first was heard."""

    async def is_prompt(settings: Settings) -> bool:
        accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.set_result(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        listening = listen(settings)
        async with await asyncio.start_server(greet, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            writer.close()
            return await accepted

    with ThreadPoolExecutor(1) as thread:  # a browser of another test may have a loop of its own in this one
        assert thread.submit(asyncio.run, is_prompt(Settings(token=TOKEN, port=0))).result()


def test_what_is_not_there_gets_a_clear_answer(served: Server) -> None:
    answer = served.client.get("/api/nothing")
    assert (answer.status_code, answer.json()["error"]) == (404, "there is nothing here")
    page = served.client.get("/nothing", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "there is nothing here" in page.text
    assert served.client.delete("/api/health", headers=served.token).status_code == 405


def test_answers_tell_browsers_to_trust_nobody(served: Server) -> None:
    for path in ("/api/health", "/login", "/api/nothing", "/static/icon.svg"):
        headers = served.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost:99", 200), ("[::1]:80", 200), ("evil.example.org", 421), ("", 421)],
)
def test_only_its_own_names_reach_the_server(served: Server, host: str, status: int) -> None:
    assert served.client.get("/api/health", headers={"Host": host}).status_code == status


def test_more_names_can_be_allowed(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path, hosts=frozenset({"jobs.example.org"})) as server:
        assert server.client.get("/api/health", headers={"Host": "jobs.example.org"}).status_code == 200
        assert server.client.get("/api/health", headers={"Host": "example.org"}).status_code == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": "Bearer é"}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 303),
    ],
)
def test_writing_needs_the_token(served: Server, headers: dict[str, str], status: int) -> None:
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    answer = served.stranger.post("/logout", headers=encoded)
    assert answer.status_code == status
    if status == 401:
        assert "token" in answer.json()["error"]
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_cookie_writes_only_from_our_own_pages(served: Server) -> None:
    assert served.stranger.post("/login", data={"token": "no"}).status_code == 403
    answer = served.stranger.post("/login", data={"token": TOKEN, "next": "/search?a=1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/search?a=1")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert TOKEN not in answer.headers["set-cookie"]
    assert served.stranger.post("/logout").status_code == 403  # nobody says where it comes from
    for there in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example.org"}, {"Origin": "null"}):
        assert served.stranger.post("/logout", headers=there).status_code == 403
    for here in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": served.url}):
        served.stranger.post("/login", data={"token": TOKEN})
        assert served.stranger.post("/logout", headers=here).status_code == 303


@pytest.mark.parametrize("target", ["https://evil.example.org", "//evil.example.org", "/\\evil.example.org", "/a\n"])
def test_logging_in_leads_nowhere_else(served: Server, target: str) -> None:
    answer = served.stranger.post("/login", data={"token": TOKEN, "next": target})
    assert answer.headers["location"] == "/"


PATHS = ("/api/health", "/openapi.json", "/docs", "/", "/search", "/api/attempts", "/api/work/x", "/upload", "/runs")


@pytest.mark.parametrize("path", PATHS)
def test_reading_needs_the_token_or_a_login(served: Server, path: str) -> None:
    refused = served.stranger.get(path)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert served.stranger.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    answer = served.client.get(path)
    assert answer.status_code == (404 if path.endswith("/x") else 200)
    assert answer.headers["cache-control"] == "no-store"
    served.stranger.post("/login", data={"token": TOKEN})
    assert served.stranger.get(path).status_code == answer.status_code


def test_a_browser_that_is_not_logged_in_is_led_to_the_login_and_back(served: Server) -> None:
    page = served.stranger.get("/search?category=a%26b&limit=5", headers={"Accept": "text/html"})
    assert page.status_code == 303
    login = served.stranger.get(page.headers["location"])
    assert login.status_code == 200
    assert 'value="/search?category=a%26b&amp;limit=5"' in login.text
    script = served.stranger.get("/static/login.js")
    assert (script.status_code, script.headers["cache-control"]) == (200, "no-cache")


def test_a_run_at_its_start_and_a_comparison_need_the_token(served: Server) -> None:
    for path, body in (("/api/past", {"workflow": "w"}), ("/api/replays", {"category": "x"})):
        assert served.stranger.post(path, json=body).status_code == 401
        assert served.client.post(path, json=body).status_code in (200, 202)


def test_a_public_server_shows_everything_to_anyone_and_takes_nothing_without_the_token(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path, public=True) as server:
        for path in PATHS:
            assert server.stranger.get(path).status_code == (404 if path.endswith("/x") else 200)
        assert server.stranger.post("/api/past", json={"workflow": "w"}).status_code == 200
        for method, path in (("POST", "/api/attempts"), ("POST", "/api/uploads"), ("POST", "/api/replays")):
            assert server.stranger.request(method, path, json={}).status_code == 401
        assert server.stranger.delete("/api/work/x").status_code == 401
        described = server.stranger.get("/openapi.json").json()["paths"]
    needing = [path for path, calls in described.items() for one in calls.values() if one.get("security")]
    assert needing == ["/api/attempts", "/api/replays", "/api/uploads", "/api/work/{id}"]


def test_a_terminal_is_shown_a_link_that_logs_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    ours, theirs = pty.openpty()
    words = ["serve", "--archive", str(tmp_path / "a.db"), "--port", "0", "--token-file", str(tmp_path / "token")]
    with subprocess.Popen([sys.executable, "-m", "tonnage", *words], stdout=theirs) as server:
        os.close(theirs)
        said = ""
        while "\n" not in said.partition("login#token=")[2]:
            said += os.read(ours, 10_000).decode()
        server.terminate()
    os.close(ours)
    assert re.search(rf"log in: http://127\.0\.0\.1:\d+/login#token={TOKEN}\s", said)


def test_a_body_that_is_too_long_is_refused_however_it_comes(served: Server) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="token"; filename="a"\r\n\r\n'
    pieces = [head, *[b"x" * MIB] * 9]
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    for content in (b"".join(pieces), iter(pieces)):  # with and without Content-Length
        answer = served.client.post("/login", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (413, "the body is longer than 8 MiB")


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"x" * 400_000,
    ],
)
def test_what_is_no_request_is_answered_with_400(served: Server, request_line: bytes) -> None:
    with connected(served) as client:
        with suppress(OSError):  # the server may have seen enough, and be gone
            client.sendall(request_line)
            client.shutdown(socket.SHUT_WR)
        assert b" 400 " in client.recv(1000).split(b"\r\n")[0]
    assert served.client.get("/api/health").status_code == 200


def connected(server: Server) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=HANGS)


def test_names_are_matched_without_regard_to_capitals() -> None:
    settings = Settings(token="t" * 20, host="Example.org", hosts=frozenset({"jobs"}))
    assert settings.called_by("EXAMPLE.ORG")
    assert settings.called_by("jobs.")
    assert settings.called_by("192.168.0.7")
    assert not settings.called_by("127.0.0.1.evil.org")


def test_a_token_is_made_once_and_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TONNAGE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert find_token() is None
    token, place = make_token()
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o600
    assert make_token() == (token, place)
    assert find_token() == token
    assert [file.name for file in Path(place).parent.iterdir()] == ["token"]
    monkeypatch.setenv("TONNAGE_TOKEN", TOKEN)
    assert find_token() == TOKEN


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough", "é" * 20, "a" * 2000])
def test_what_is_no_token_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(InputError, match="token"):
        make_token(file)


def test_a_client_that_sends_its_body_drop_by_drop_does_not_keep_others_waiting(tmp_path: Path) -> None:
    limits = Limits(body_seconds=HANGS)
    with Server(str(tmp_path / "a.db"), folder=tmp_path, limits=limits) as server, connected(server) as slow:
        slow.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n")
        slow.sendall(b"Content-Type: application/x-www-form-urlencoded\r\n\r\nt")
        assert server.client.get("/api/health").status_code == 200
        slow.settimeout(0)
        with pytest.raises(BlockingIOError):  # others were not answered after it
            slow.recv(1)
