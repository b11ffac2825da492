"""A real server for tests: `tonnage serve` in a process of its own, at a free port."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import httpx

from tonnage.serve.access import COOKIE, cookie_value

if TYPE_CHECKING:
    from browsers import Watched

__all__ = ["TOKEN", "Server"]

TOKEN = "a-token-that-only-the-tests-know"


class Server:
    """Starts at once, and ends with its `with` statement whatever happens."""

    def __init__(self, archive: str, *options: str, folder: Path, token: str = TOKEN) -> None:
        file = folder / "token"
        file.write_text(token)
        self.log = Path(tempfile.mkstemp(prefix="serve-", suffix=".log", dir=folder)[1])
        command = [sys.executable, "-m", "tonnage", "serve", "--archive", archive, "--port", "0"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--token-file", str(file), *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        self.archive = archive
        self.url = self._address()
        self.token = {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=self.url, timeout=60, headers=self.token)
        self.stranger = httpx.Client(base_url=self.url, timeout=60)
        """Somebody who has no token, and may get a cookie."""

    def _address(self) -> str:
        for _ in range(600):
            found = re.search(r" at (http://\S+)/", self.log.read_text())
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.close()
        raise RuntimeError(self.log.read_text())

    def let_in(self, watched: "Watched") -> None:
        """Let a browser be logged in."""
        cookie = {"name": COOKIE, "value": cookie_value(TOKEN), "url": self.url}
        watched.context.add_cookies([cookie])  # type: ignore[list-item] # as playwright describes it

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait(20)

    def close(self) -> None:
        if hasattr(self, "stranger"):
            self.client.close()
            self.stranger.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
