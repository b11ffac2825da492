"""Somebody who runs workflows with an archive on a server: a folder, settings and a token of their own."""

import os
from pathlib import Path

from tests.command_line import Said
from tests.serve.server import TOKEN
from tests.warm import Warm
from tonnage.archive import Archive, find
from tonnage.jobs import Attempt

__all__ = ["WORKFLOW", "User", "stored"]

WORKFLOW = "".join(f"out{number}:\n\ttrue && echo done > out{number}\n" for number in range(5))
# A server that went away just now may be restarting; how long a run waits for that is not what is tested.
_HASTY = {"tonnage.archive.remote.session._PATIENT": 0.2}


class User:
    """A user of a server."""

    def __init__(self, folder: Path, url: str, token: str | None = TOKEN) -> None:
        self.folder = folder
        self._variables = {**os.environ, "TONNAGE_ARCHIVE": url, "XDG_DATA_HOME": str(folder / "settings")}
        self.knows(token)
        folder.mkdir()
        (folder / "w.makeflow").write_text(WORKFLOW)

    def knows(self, token: str | None) -> None:
        """Let the user know another token, or none."""
        self._variables.pop("TONNAGE_TOKEN", None)
        if token is not None:
            self._variables["TONNAGE_TOKEN"] = token

    def begin(self, *words: object) -> Warm:
        """Call Tonnage, and do not wait."""
        return Warm(*words, folder=self.folder, variables=self._variables, constants=_HASTY)

    def call(self, *words: object) -> Said:
        """Call Tonnage, and wait for its end."""
        with self.begin(*words) as going:
            return going.said()

    def run(self, *options: str) -> Said:
        """Run the workflow once more; it succeeds whatever the server does."""
        said = self.call("run", "w.makeflow", "--machine", "cores=4,memory=1GB", "--new", "--explain", *options)
        assert said.status == 0, said.stderr
        return said

    def waiting(self) -> list[Path]:
        """Return the files that wait for the server."""
        return sorted(self.folder.glob("settings/tonnage/remote/*/outbox/*.json.gz"))


def stored(archive: str) -> list[Attempt]:
    """Return what an archive holds; none of it twice."""
    with Archive.open(archive) as opened:
        found = list(find(opened))
    assert len({one.native_id for one in found}) == len(found)
    return found
