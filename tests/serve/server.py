"""Real servers for tests: in a thread of the test's process or, where that matters, in one of their own."""

import logging
import re
import signal
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.deadlines import HANGS
from tests.warm import Warm
from tonnage.archive import Archive
from tonnage.serve.access import COOKIE, cookie_value
from tonnage.serve.app import make_app
from tonnage.serve.limits import Punctual
from tonnage.serve.server import listen, make_server
from tonnage.serve.settings import Settings

if TYPE_CHECKING:
    from tests.browsers import Watched

__all__ = ["TOKEN", "Served", "Server", "ServerProcess"]

TOKEN = "a-token-that-only-the-tests-know"


class Served:
    """A server that answers already, and those who ask it; it ends with its `with` statement whatever happens."""

    def __init__(self, url: str, archive: str, log: Path) -> None:
        self.url = url
        self.archive = archive
        self.log = log
        self.token = {"Authorization": f"Bearer {TOKEN}"}
        self.client = httpx.Client(base_url=url, timeout=HANGS, headers=self.token)
        self.stranger = httpx.Client(base_url=url, timeout=HANGS)
        """Somebody who has no token, and may get a cookie."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def let_in(self, watched: "Watched") -> None:
        """Let a browser be logged in."""
        cookie = {"name": COOKIE, "value": cookie_value(TOKEN), "url": self.url}
        watched.context.add_cookies([cookie])  # type: ignore[list-item] # as playwright describes it

    def close(self) -> None:
        self.client.close()
        self.stranger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Server(Served):
    """As `tonnage serve` has it, but in a thread, which starts in a tenth of a second."""

    def __init__(self, archive: str, *, folder: Path, http: type[Punctual] = Punctual, **settings: Any) -> None:
        self._opened = ExitStack()
        given = Settings(**{"archive": archive, "token": TOKEN, "port": 0, "runs": (folder,), **settings})
        listening = self._opened.enter_context(closing(listen(given)))
        port = listening.getsockname()[1]
        opened = self._opened.enter_context(Archive.open(archive, create=True))
        app = make_app(replace(given, port=port), opened)
        self._opened.callback(app.state.site.close)
        self._server = make_server(app, http=http)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [listening]}, name=f"server {port}")
        log = folder / f"serve-{port}.log"
        self._handler = logging.FileHandler(log)
        logging.getLogger().addHandler(self._handler)
        super().__init__(f"http://127.0.0.1:{port}", archive, log)
        self._thread.start()

    def close(self) -> None:
        super().close()
        self._server.should_exit = True
        self._thread.join(HANGS)
        self._opened.close()
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()


class ServerProcess(Served):
    """`tonnage serve` in a process of its own, which can be killed."""

    def __init__(self, archive: str, *options: str, folder: Path) -> None:
        file = folder / "token"
        file.write_text(TOKEN)
        log = Path(tempfile.mkstemp(prefix="serve-", suffix=".log", dir=folder)[1])
        words = ["serve", "--archive", archive, "--port", "0", "--token-file", file, *options]
        self._process = Warm(*words, folder=folder, log=log)
        super().__init__(self._address(log), archive, log)

    def _address(self, log: Path) -> str:
        deadline = time.monotonic() + HANGS
        while time.monotonic() < deadline and self._process.poll() is None:
            found = re.search(r" at (http://\S+)/", log.read_text())
            if found:
                return found.group(1)
            time.sleep(0.01)
        with self._process:
            raise RuntimeError(log.read_text())

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()

    def close(self) -> None:
        super().close()
        with self._process:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                self._process.wait()
