"""The two contacts over HTTP: what is posted is stored once and for good, what is wrong leaves nothing."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archive.attempts import attempts
from tests.serve.server import Server
from tonnage.archive import Archive, check, find, record
from tonnage.archive.codec import attempt_of, text_of
from tonnage.archive.history import MOST
from tonnage.jobs import Amounts, Attempt, Outcome

SOURCE = {"label": "a run", "format": "tonnage", "path": "/home/me/runs/a"}


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Server]:
    """A server over an empty archive on either database."""
    with Server(url, folder=tmp_path) as server:
        yield server


def one(number: int, **others: Any) -> dict[str, object]:
    return {"native_id": f"test:{number}", "category": "align", "outcome": "done", "memory": number, **others}


def body(*records: object, **others: object) -> dict[str, object]:
    return {"source": SOURCE, "attempts": list(records), **others}


def posted(server: Server, found: object, **headers: str) -> tuple[int, Any]:
    response = server.client.post("/api/attempts", json=found, headers={**server.token, **headers})
    return response.status_code, response.json()


def stored(url: str) -> list[Attempt]:
    with Archive.open(url) as archive:
        assert check(archive) == []
        return list(find(archive))


def test_what_is_posted_is_stored_once_however_often_it_is_posted(url: str, server: Server) -> None:
    first = body(*map(one, range(10)), fields={"project": "atlas"})
    assert posted(server, first) == (200, {"schema": 1, "stored": 10, "duplicates": 0})
    assert posted(server, first) == (200, {"schema": 1, "stored": 0, "duplicates": 10})
    assert posted(server, body(one(9), one(10), one(10))) == (200, {"schema": 1, "stored": 1, "duplicates": 2})
    found = stored(url)
    assert sorted(attempt.used.memory or 0 for attempt in found) == list(range(11))
    assert all(attempt.fields == {"project": "atlas"} for attempt in found if attempt.used.memory != 10)


def test_an_attempt_that_was_posted_is_the_same_in_the_archive(url: str, server: Server) -> None:
    @given(st.lists(attempts, max_size=3), st.data())
    def check_posting(found: list[Attempt], data: st.DataObject) -> None:
        records = [{**record(one), "identity": data.draw(st.binary(min_size=16, max_size=16)).hex()} for one in found]
        status, answer = posted(server, body(*records))
        assert status == 200
        assert answer["stored"] + answer["duplicates"] == len(found)
        if answer["stored"] == len(found):
            with Archive.open(url) as archive:
                kept = {one.identity: one for one in find(archive)}
            for one in records:
                assert kept[bytes.fromhex(str(one["identity"]))] == attempt_of(one)

    check_posting()


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        (body(one(1), one(2, memory=-1)), 422, "attempts.1: memory: expected a whole number"),
        (body(one(1), {"category": "x"}), 422, "attempts.1: identity: an attempt needs an identity or a native_id"),
        (body(one(1, colour="red")), 422, '"colour" is not a key'),
        (body(one(1), 7), 422, "an attempt must be a JSON object"),
        (body(*map(one, range(1001))), 413, "at most 1,000"),
        ({"source": SOURCE}, 422, "attempts: expected a list"),
        ({"attempts": []}, 422, "source: expected an object"),
        (body(one(1), colour="red"), 422, '"colour" is not one of'),
        (body(one(1), fields={"a": 1}), 422, "fields: "),
        (body(one(1), source={"label": "a"}), 422, "format: expected a string"),
        ([], 422, "the body: expected an object"),
    ],
)
def test_what_is_wrong_is_refused_in_words_and_nothing_of_it_is_stored(
    served: Server, wrong: object, status: int, said: str
) -> None:
    found, answer = posted(served, wrong)
    assert found == status
    assert said in answer["error"]
    assert past(served, workflow="any", categories=["align"]) == []


def test_every_attempt_that_is_refused_is_named(served: Server) -> None:
    status, answer = posted(served, body(one(1, memory="much"), one(2), one(3, outcome="?")))
    assert status == 422
    assert [(place["place"], place["error"].split(":")[0]) for place in answer["refused"]] == [
        (0, "memory"),
        (2, "outcome"),
    ]


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": NaN}', b"[" * 100_000, b"\xff\xfe", b"1" * 9_000])
def test_what_is_no_json_is_refused(served: Server, content: bytes) -> None:
    headers = {**served.token, "Content-Type": "application/json"}
    for path in ("/api/attempts", "/api/past"):
        response = served.client.post(path, content=content, headers=headers)
        assert response.status_code == 400
        assert "the body is" in response.json()["error"]


def test_what_does_not_say_that_it_is_json_is_refused(served: Server) -> None:
    response = served.client.post("/api/attempts", content=json.dumps(body(one(1))), headers=served.token)
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]


@pytest.mark.parametrize("token", [None, "Bearer wrong", "Basic abc", "Bearer"])
def test_without_the_token_nothing_is_stored(url: str, server: Server, token: str | None) -> None:
    headers = {"Authorization": token} if token else {}
    response = server.stranger.post("/api/attempts", json=body(one(1)), headers=headers)
    assert response.status_code == 401
    assert "token" in response.json()["error"]
    assert stored(url) == []


def test_a_body_that_is_too_long_is_refused_and_nothing_of_it_is_stored(url: str, server: Server) -> None:
    status, answer = posted(server, body(one(1), *(one(number, command="x" * 100_000) for number in range(2, 100))))
    assert status == 413
    assert "8 MiB" in answer["error"]
    assert stored(url) == []


def test_a_client_that_goes_away_in_the_middle_leaves_nothing(url: str, server: Server) -> None:
    data = json.dumps(body(*map(one, range(100)))).encode()
    host, port = server.url.removeprefix("http://").split(":")
    head = f"POST /api/attempts HTTP/1.1\r\nHost: {host}\r\nAuthorization: {server.token['Authorization']}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    for part in (0, 1, len(data) // 2, len(data) - 1):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + data[:part])
    assert posted(server, body(one(500)))[0] == 200
    assert len(stored(url)) == 1


def test_posts_at_once_are_each_stored_and_counted_once(url: str, server: Server) -> None:
    """Every attempt is posted by two of the clients: one of them stores it."""
    answers: list[dict[str, int]] = []

    def post(client: int) -> None:
        for number in range(20):
            first = (client // 2) * 100 + number * 5
            status, answer = posted(server, body(*map(one, range(first, first + 5))))
            assert status == 200
            answers.append(answer)

    threads = [threading.Thread(target=post, args=[client]) for client in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 160
    assert sum(answer["stored"] for answer in answers) == 400
    assert sum(answer["duplicates"] for answer in answers) == 400
    assert len(stored(url)) == 400


# What a run wants to know


def past(server: Server, **wanted: object) -> list[Attempt]:
    response = server.client.post("/api/past", json=wanted)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson"
    return [attempt_of(json.loads(line)) for line in response.text.splitlines()]


def attempt(number: int, **others: Any) -> dict[str, object]:
    made = Attempt(
        native_id=f"past:{number}",
        ended=1000.0 + number,
        used=Amounts.of(memory=number),
        **{"outcome": Outcome.DONE, "category": "align", **others},
    )
    return record(made)


def test_a_run_learns_of_its_own_workflow_first_then_of_its_name_and_never_of_others(server: Server) -> None:
    records = [
        attempt(1, workflow="w", workflow_checksum="c1", category="a"),
        attempt(2, workflow="w", workflow_checksum="c2", category="a"),
        attempt(3, workflow="w", workflow_checksum="c2", category="b"),
        attempt(4, workflow="w", workflow_checksum="c1", category="b", outcome=Outcome.FAILED),
        attempt(5, workflow="v", workflow_checksum="c3", category="c"),
        attempt(6, workflow="v", workflow_checksum="c3", category="other", executable="bwa"),
        attempt(7, workflow="v", workflow_checksum="c3", category="a*", executable="samtools"),
    ]
    assert posted(server, body(*records))[0] == 200
    found = past(server, workflow="w", checksum="c1", categories=["a", "b", "c", "other"])
    assert {one.used.memory for one in found} == {1, 3, 4}
    assert all(one.identity for one in found)
    everything = past(server, workflow="w")
    assert {one.used.memory for one in everything} == {1, 2, 3, 4}
    assert {one.used.memory for one in past(server, workflow="v", categories=["a*"])} == {7}
    assert past(server, workflow="?", categories=["a*"]) == []


def test_of_each_category_the_newest_are_sent(served: Server) -> None:
    for start in range(0, 6000, 1000):
        records = [attempt(number, workflow="many", category="many") for number in range(start, start + 1000)]
        assert posted(served, body(*records))[0] == 200
    found = past(served, workflow="many")
    assert [one.used.memory for one in found] == list(range(6000 - MOST, 6000))


@pytest.mark.parametrize(
    "wrong",
    [{}, {"workflow": 1}, {"workflow": "w", "categories": "a"}, {"workflow": "w", "categories": [{}]}, {"w": 1}, []],
)
def test_a_question_that_makes_no_sense_is_refused(served: Server, wrong: object) -> None:
    response = served.client.post("/api/past", json=wrong)
    assert response.status_code == 422
    assert response.json()["error"]


def test_hostile_texts_stay_texts(url: str, server: Server) -> None:
    nasty = ["'; DROP TABLE attempts; --", "\0", "\ud800", "</script>", "x" * 5000, "%s", "\N{PILE OF POO}"]
    records = [one(number, category=text, command=text, fields={text: text}) for number, text in enumerate(nasty)]
    response = server.client.post(
        "/api/attempts", content=text_of(body(*records)), headers={**server.token, "Content-Type": "application/json"}
    )
    assert response.status_code == 200
    assert len(stored(url)) == len(nasty)
    for text in nasty[:6]:
        question = text_of({"workflow": text[:4096], "categories": [text[:4096]]})
        answer = server.client.post("/api/past", content=question, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200
