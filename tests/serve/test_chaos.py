"""The server and its clients killed at any moment: what was acknowledged is there, the rest comes, nothing twice."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.archive.servers import Postgres
from tests.deadlines import HANGS
from tests.serve.server import TOKEN, ServerProcess
from tests.serve.users import stored
from tests.warm import Warm
from tonnage.archive import Archive, check, record
from tonnage.archive.remote import Server as Address
from tonnage.archive.remote.outbox import Outbox
from tonnage.jobs import Amounts, Attempt, Outcome

SOAK = int(os.environ.get("TONNAGE_SOAK", "0"))
TOGETHER = 20


class Client:
    """A user with measurements that wait for a server, and `tonnage archive send`, again and again."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self.name = name
        self.parcels: dict[Path, set[str]] = {}
        self._variables = {**os.environ, "XDG_DATA_HOME": str(folder / name), "TONNAGE_TOKEN": TOKEN}
        with pytest.MonkeyPatch.context() as here:
            here.setenv("XDG_DATA_HOME", str(folder / name))
            self.outbox = Outbox(Address.of(url))
        self._words = ["archive", "send", "--archive", url]
        self._process: Warm | None = None
        self._sent_before = 0

    def measure(self, parcels: int) -> None:
        """Let more measurements wait."""
        source = {"label": self.name, "format": "tonnage", "path": None}
        for parcel in range(len(self.parcels), len(self.parcels) + parcels):
            ids = [f"{self.name}:{parcel}:{number}" for number in range(TOGETHER)]
            before = set(self.outbox.files())
            self.outbox.put(source, {}, [record(_attempt(one)) for one in ids])
            (file,) = set(self.outbox.files()) - before
            self.parcels[file] = set(ids)

    def acknowledged(self) -> set[str]:
        """Return what the client holds to be safe: what it no longer keeps."""
        return set().union(*(ids for file, ids in self.parcels.items() if not file.exists()))

    @property
    def sent(self) -> int:
        """How many parcels it no longer keeps."""
        return sum(not file.exists() for file in self.parcels)

    def go_on(self) -> None:
        """Send, unless that is under way or done."""
        if self.is_done or (self._process is not None and self._process.poll() is None):
            return
        self.fall()
        self._sent_before = self.sent
        self._process = Warm(*self._words, variables=self._variables)

    @property
    def is_sending(self) -> bool:
        """Whether it has sent something since it began: on a busy machine, that may take a while."""
        return self._process is not None and self._process.poll() is None and self.sent > self._sent_before

    def fall(self) -> None:
        """Die, whatever it does."""
        if self._process is not None:
            with self._process:
                self._process = None

    @property
    def is_done(self) -> bool:
        return self.sent == len(self.parcels)


def _attempt(name: str) -> Attempt:
    used = Amounts.of(memory=10**9, wall_time=60.0)
    return Attempt(native_id=name, category="align", task=name, outcome=Outcome.DONE, used=used, inputs=(f"{name}.fa",))


def unleash(url: str, folder: Path, *, clients: int, parcels: int, kills: int, seed: int) -> None:
    """Let clients send while the server and they themselves are killed; check after each death, and at the end.

    There are more measurements after each death, so that something is under way at the next.
    """
    random = Random(seed)
    server = ServerProcess(url, folder=folder)
    users = [Client(f"user{number}", server.url, folder) for number in range(clients)]
    fallen = 0
    try:
        for death in range(kills + 1):
            sent = sum(user.sent for user in users)
            for user in users:
                user.measure(parcels // (kills + 1))
            left = sum(len(user.parcels) for user in users) - sent
            fallen += send(users, sent + (random.randint(1, left) if death < kills else left), random)
            if death == kills:
                break
            server.kill()
            safe = set().union(*(user.acknowledged() for user in users))
            assert safe <= {str(one.native_id) for one in stored(url)}
            server.close()
            server = ServerProcess(url, "--port", str(server.port), folder=folder)
    finally:
        for user in users:
            user.fall()
        server.close()
    print(f"{clients * parcels * TOGETHER} attempts, server killed {kills}, clients {fallen}")  # noqa: T201 (for `-s`)
    found = stored(url)  # none twice
    assert {str(one.native_id) for one in found} == set().union(*(set().union(*u.parcels.values()) for u in users))
    assert all(one.inputs == (f"{one.task}.fa",) for one in found)
    with Archive.open(url) as archive:
        assert check(archive) == []
    assert not any(user.outbox.parked() for user in users)


def send(users: Sequence[Client], wanted: int, random: Random) -> int:
    """Let clients send until so many parcels are sent; return how many of them died on the way."""
    fallen, deadline = 0, time.monotonic() + HANGS
    while sum(user.sent for user in users) < wanted:
        assert time.monotonic() < deadline, "it does not come to its end"
        for user in users:
            user.go_on()
        time.sleep(random.uniform(0.001, 0.02))
        user = random.choice(users)
        if random.random() < 0.1 and user.is_sending:
            user.fall()
            fallen += 1
    return fallen


def test_what_was_acknowledged_is_there_whatever_is_killed(url: str, tmp_path: Path) -> None:
    unleash(url, tmp_path, clients=2, parcels=16, kills=1, seed=3)


@pytest.mark.long
def test_what_was_acknowledged_is_there_after_a_few_deaths(url: str, tmp_path: Path) -> None:
    unleash(url, tmp_path, clients=3, parcels=40, kills=2, seed=3)


@pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_is_there_after_fifty_deaths(url: str, tmp_path: Path, seed: int) -> None:
    unleash(url, tmp_path, clients=8, parcels=200, kills=50, seed=seed)


@pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_acknowledged_is_there_when_the_database_dies_too(
    postgres: Postgres, tmp_path: Path, seed: int
) -> None:
    """PostgreSQL stops in the middle: clients are told to come again, and do."""
    url = postgres.new_schema()
    random = Random(seed)
    with ServerProcess(url, folder=tmp_path) as server:
        users = [Client(f"user{number}", server.url, tmp_path) for number in range(4)]
        for user in users:
            user.measure(200)
        deaths, deadline = 0, time.monotonic() + HANGS
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
