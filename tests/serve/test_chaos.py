"""The server and its clients killed at any moment: what was acknowledged is there, the rest comes, nothing twice."""

import os
import time
from pathlib import Path
from random import Random
from subprocess import DEVNULL, Popen

import pytest

from archive.servers import Postgres
from run.helping import TONNAGE, kill
from serve.serving import TOKEN, Server
from serve.users import stored
from tonnage.archive import Archive, check, record
from tonnage.archive.remote import Server as Address
from tonnage.archive.remote.spool import Spool
from tonnage.jobs import Amounts, Attempt, Outcome

SOAK = int(os.environ.get("TONNAGE_SOAK", "0"))
TOGETHER = 20


class Client:
    """A user with measurements that wait for a server, and `tonnage archive send`, again and again."""

    def __init__(self, name: str, url: str, folder: Path, parcels: int, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = folder / name
        monkeypatch.setenv("XDG_DATA_HOME", str(settings))
        spool = Spool(Address.of(url))
        self.spool = spool.folder
        self.parcels: dict[Path, set[str]] = {}
        for parcel in range(parcels):
            ids = [f"{name}:{parcel}:{number}" for number in range(TOGETHER)]
            before = set(spool.files())
            spool.put({"label": name, "format": "tonnage", "path": None}, {}, [record(_attempt(one)) for one in ids])
            (file,) = set(spool.files()) - before
            self.parcels[file] = set(ids)
        self.environment = {**os.environ, "XDG_DATA_HOME": str(settings), "TONNAGE_TOKEN": TOKEN}
        self._words = [*TONNAGE, "archive", "send", "--archive", url]
        self._process: Popen[bytes] | None = None

    def acknowledged(self) -> set[str]:
        """Return what the client holds to be safe: what it no longer keeps."""
        return set().union(*(ids for file, ids in self.parcels.items() if not file.exists()))

    def go_on(self) -> None:
        """Send, unless that is under way or done."""
        if self.is_done or (self._process is not None and self._process.poll() is None):
            return
        self._process = Popen(self._words, env=self.environment, stdout=DEVNULL, stderr=DEVNULL)

    def fall(self) -> bool:
        """Die in the middle of sending; whether it did."""
        if self._process is None or self._process.poll() is not None:
            return False
        kill(self._process.pid)
        self._process.wait()
        return True

    @property
    def is_done(self) -> bool:
        return not any(file.exists() for file in self.parcels)


def _attempt(name: str) -> Attempt:
    used = Amounts.of(memory=10**9, wall_time=60.0)
    return Attempt(native_id=name, category="align", task=name, outcome=Outcome.DONE, used=used, inputs=(f"{name}.fa",))


def unleash(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, clients: int, parcels: int, kills: int, seed: int
) -> None:
    """Let clients send while the server and they themselves are killed; check after each death, and at the end."""
    random = Random(seed)
    server = Server(url, folder=folder)
    port = server.url.rpartition(":")[2]
    users = [Client(f"user{number}", server.url, folder, parcels, monkeypatch) for number in range(clients)]
    total = clients * parcels
    killed = fallen = 0
    deadline = time.monotonic() + 120 + 10 * kills
    try:
        while not all(user.is_done for user in users):
            assert time.monotonic() < deadline, "it does not come to its end"
            for user in users:
                user.go_on()
            time.sleep(random.uniform(0.01, 0.1))
            fallen += random.random() < 0.1 and random.choice(users).fall()
            sent = sum(not file.exists() for user in users for file in user.parcels)
            if killed < kills and sent > total * (killed + random.random()) / (kills + 1):
                server.kill()
                killed += 1
                safe = set().union(*(user.acknowledged() for user in users))
                assert safe <= {str(one.native_id) for one in stored(url)}
                server = Server(url, "--port", port, folder=folder)
    finally:
        for user in users:
            user.fall()
        server.close()
    print(f"{total * TOGETHER} attempts, server killed {killed}, clients {fallen}")  # noqa: T201 (figures for `-s`)
    assert killed == kills
    found = stored(url)  # none twice
    assert {str(one.native_id) for one in found} == set().union(*(set().union(*u.parcels.values()) for u in users))
    assert all(one.inputs == (f"{one.task}.fa",) for one in found)
    with Archive.open(url) as archive:
        assert check(archive) == []
    assert not any(list((user.spool / "refused").iterdir()) for user in users)


def test_what_was_acknowledged_is_there_whatever_is_killed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unleash(url, tmp_path, monkeypatch, clients=3, parcels=40, kills=2, seed=3)


@pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_is_there_after_fifty_deaths(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    unleash(url, tmp_path, monkeypatch, clients=8, parcels=200, kills=50, seed=seed)


@pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_acknowledged_is_there_when_the_database_dies_too(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """PostgreSQL stops in the middle: clients are told to come again, and do."""
    url = postgres.new_database()
    random = Random(seed)
    with Server(url, folder=tmp_path) as server:
        users = [Client(f"user{number}", server.url, tmp_path, 200, monkeypatch) for number in range(4)]
        deaths, deadline = 0, time.monotonic() + 300
        while not all(user.is_done for user in users):
            assert time.monotonic() < deadline
            for user in users:
                user.go_on()
            time.sleep(random.uniform(0.3, 1.5))
            if deaths < 5:
                postgres.stop("immediate")
                time.sleep(random.uniform(0, 1))
                postgres.start()
                deaths += 1
        assert deaths
    assert len(stored(url)) == 4 * 200 * TOGETHER
