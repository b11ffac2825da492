"""How fast a server over a million jobs answers, and how many measurements it ingests.

    .venv/bin/python benchmarks/serving.py [--quick]

Each address is asked by 32 clients at once, and so is a bare FastAPI endpoint in a process of its own, which answers
the same few bytes to everybody: the ratio says what pages and databases add to what HTTP and Python cost here anyway.
And 16 clients post 10,000 summaries, one by one, every tenth of them twice, to a server over SQLite and to one over
PostgreSQL, and to a bare endpoint that parses and forgets them; afterwards the archive is opened and counted.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
from sqlalchemy import text

from tonnage.archive import Archive, Search, find, histories
from tonnage.archive.engine import connect
from tonnage.jobs import Resource
from tonnage.logs import synthetic

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.archive.servers import Postgres  # the tests are not installed
from tests.serve.server import TOKEN, ServerProcess

READERS = 32
WRITERS = 16
BARE = """
import sys, uvicorn
from fastapi import FastAPI, Request
app = FastAPI()

@app.get("/")
def bare():
    return {"answer": 42}

@app.post("/")
async def parsed(request: Request):
    return {"stored": len((await request.json())["attempts"])}

uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


@dataclass(frozen=True)
class Request:
    """A request of a client."""

    path: str
    body: bytes | None = None

    def head(self) -> bytes:
        """Return the head of the request."""
        lines = [f"{'GET' if self.body is None else 'POST'} {self.path} HTTP/1.1", "Host: localhost"]
        lines += [f"Authorization: Bearer {TOKEN}"]
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, "\r\n"]).encode()


class Load:
    """Concurrent clients, each with its own connection, and how long they wait for each answer."""

    def __init__(self, url: str, requests: Sequence[Request], clients: int) -> None:
        self._host, self._port = str(urlsplit(url).hostname), int(urlsplit(url).port or 80)
        self._requests = iter(requests)
        self._clients = clients
        self.waits: list[float] = []
        self.refused = 0
        """Answers that reported a query timeout."""
        self.seconds = 0.0

    def go(self) -> "Load":
        """Send all requests."""
        asyncio.run(self._go())
        return self

    @property
    def middle(self) -> float:
        """The median of the waits, in milliseconds."""
        return float(np.median(self.waits)) * 1e3

    @property
    def late(self) -> float:
        """The 95th percentile of the waits, in milliseconds."""
        return float(np.percentile(self.waits, 95)) * 1e3

    async def _go(self) -> None:
        start = time.perf_counter()
        await asyncio.gather(*(self._client() for _ in range(self._clients)))
        self.seconds = time.perf_counter() - start

    async def _client(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        for request in self._requests:
            start = time.perf_counter()
            writer.write(request.head() + (request.body or b""))
            await self._answer(reader, request)
            self.waits.append(time.perf_counter() - start)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, request: Request) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length))
        if b" 503 " in head[:20]:
            self.refused += 1
        elif b" 200 " not in head[:20]:
            raise SystemExit(f"{request.path}: {head.splitlines()[0].decode()}: {body[:300].decode()}")


class Bare:
    """A FastAPI endpoint that does nothing, in a separate process."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
        while True:
            try:
                Load(self.url, [Request("/")], 1).go()
                return
            except OSError:
                time.sleep(0.1)

    def close(self) -> None:
        """Stop the process."""
        self._process.terminate()
        self._process.wait()


def free_port() -> int:
    """Return a free port."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# Queries


def fill(jobs: int, url: str, folder: Path) -> None:
    """Store generated jobs in an archive."""
    file = folder / "jobs.csv"
    file.write_text(synthetic.render(synthetic.generate("trimodal", jobs, categories=30, spread=0.5)))
    command = [sys.executable, "-m", "tonnage", "archive", "import", str(file), "--archive", url]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"  {jobs:,} jobs imported in {time.perf_counter() - start:.0f} s")
    with Archive.open(url) as archive:
        if not archive.on_sqlite:
            with connect(archive.engine) as connection:
                connection.execute(text("ANALYZE"))  # as the database would do itself after a minute
    file.unlink()


def questions(url: str) -> dict[str, list[str]]:
    """Return typical requests of users, by a description."""
    with Archive.open(url) as archive:
        names = sorted(histories(archive, Search(), resources=[Resource.MEMORY]))
        most = max(attempt.used.memory or 0 for attempt in find(archive, sort="memory", limit=1))
    chosen = [quote(name) for name in names]
    return {
        "the first page": ["/"],
        "a category's page": [f"/category?name={name}" for name in chosen],
        "its sizes, min-waste": [f"/api/category?name={name}&strategy=min-waste" for name in chosen],
        "search: everything": ["/search"],
        "search: a category": [f"/search?category={name}" for name in chosen],
        "search: its largest jobs": [f"/search?category={name}&sort=memory" for name in chosen],
        "search: rare large ones": [f"/search?where={quote(f'memory>{most * part / 100:.0f}')}" for part in (95, 99)],
        "api: a category": [f"/api/attempts?category={name}&limit=100" for name in chosen],
        "api: nothing found": ["/api/attempts?user=nobody", "/api/attempts?command=nobody"],
    }


def reading(kind: str, url: str, jobs: int, each: int, bare: Bare, folder: Path) -> None:
    """Print how long readers wait for pages over a full archive."""
    print(f"\n{READERS} readers at once, {jobs:,} jobs on {kind}")
    fill(jobs, url, folder)
    plain = Load(bare.url, [Request("/")] * (READERS * each), READERS).go()
    print(f"  {'':26}{'median':>9} {'95 %':>9} {'a second':>9}   95 % to a bare endpoint's")
    print(f"  {'a bare FastAPI endpoint':26}{plain.middle:6.0f} ms {plain.late:6.0f} ms {_rate(plain):9.0f}")
    with ServerProcess(url, folder=folder) as server:
        for name, paths in questions(url).items():
            Load(server.url, [Request(path) for path in paths], 1).go()  # fill the caches
            wanted = [Request(paths[number % len(paths)]) for number in range(READERS * each)]
            found = Load(server.url, wanted, READERS).go()
            print(
                f"  {name:26}{found.middle:6.0f} ms {found.late:6.0f} ms {_rate(found):9.0f}"
                f"   {found.late / plain.late:5.1f}" + (f"   {found.refused} refused" if found.refused else "")
            )


def _rate(load: Load) -> float:
    return len(load.waits) / load.seconds


# Posts


def summaries(posts: int) -> list[Request]:
    """Return posts of one summary each; every tenth is a duplicate."""
    numbers = sorted([*range(posts - posts // 11), *range(0, posts - posts // 11, 10)], key=lambda one: one % 997)
    return [Request("/api/attempts", _body(number)) for number in numbers[:posts]]


def _body(number: int) -> bytes:
    attempt = {
        "native_id": f"bench:{number}",
        "run": f"run {number // 100}",
        "workflow": "survey",
        "task": f"task {number}",
        "category": f"category {number % 30}",
        "command": f"reduce --field {number} --output out/{number}.fits",
        "user": "ada",
        "outcome": "done",
        "exit_status": 0,
        "ended": 1_700_000_000.0 + number,
        "memory": 10**9 + number,
        "cores": 1.0,
        "wall_time": 60.0,
        "outputs": [f"out/{number}.fits"],
    }
    source = {"label": f"run {number // 100}", "format": "tonnage"}
    return json.dumps({"source": source, "attempts": [attempt]}).encode()


def posting(kind: str, url: str, posts: int, bare: Bare, folder: Path) -> None:
    """Print how long writers wait, and count what arrived."""
    wanted = summaries(posts)
    plain = Load(bare.url, [Request("/", one.body) for one in wanted], WRITERS).go()
    with ServerProcess(url, folder=folder) as server:
        found = Load(server.url, wanted, WRITERS).go()
    expected = {json.loads(one.body or b"")["attempts"][0]["native_id"] for one in wanted}
    with Archive.open(url) as archive:
        stored = [attempt.native_id for attempt in find(archive)]
    lost, doubled = len(expected - set(stored)), len(stored) - len(set(stored))
    print(f"\n{posts:,} posts by {WRITERS} writers at once, {kind}")
    for name, load in (("parsed and forgotten", plain), ("stored for good", found)):
        print(f"  {name:22}{load.middle:6.0f} ms {load.late:6.0f} ms (95 %) {_rate(load):7.0f} a second")
    print(f"  ratio of rates {_rate(plain) / _rate(found):.2f}; lost {lost}, doubled {doubled}, stored {len(stored):,}")
    if lost or doubled or found.refused or len(stored) != len(expected):
        raise SystemExit("posts were lost or doubled")


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: only that everything works")
    parser.add_argument("--jobs", type=int, help="jobs stored while others read")
    parser.add_argument("--posts", type=int, help="posts")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave no child process behind
    jobs = options.jobs or (3_000 if options.quick else 1_000_000)
    posts = options.posts or (300 if options.quick else 10_000)
    each = 1 if options.quick else 20
    bare = Bare(free_port())
    postgres = _postgres()
    try:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            numbers = count()
            kinds: dict[str, Callable[[], str]] = {"SQLite": lambda: f"sqlite:///{folder}/{next(numbers)}.db"}
            if postgres is not None:
                kinds["PostgreSQL"] = postgres.new_database
            for kind, new in kinds.items():
                posting(kind, new(), posts, bare, folder)
            for kind, new in kinds.items():
                reading(kind, new(), jobs, each, bare, folder)
    finally:
        bare.close()
        if postgres is not None:
            postgres.close()


def _postgres() -> Postgres | None:
    import pytest

    os.environ.pop("TONNAGE_CI", None)
    try:
        return Postgres(durable=True)
    except pytest.skip.Exception as missing:
        print(f"without PostgreSQL: {missing}")
        return None


if __name__ == "__main__":
    main()
