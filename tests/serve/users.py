"""Somebody who runs workflows with an archive on a server: a folder, settings and a token of their own."""

from pathlib import Path

from run.helping import Place, Said
from serve.serving import TOKEN
from tonnage.archive import Archive, find
from tonnage.jobs import Attempt

__all__ = ["WORKFLOW", "User", "stored"]

WORKFLOW = "".join(f"out{number}:\n\ttrue && echo done > out{number}\n" for number in range(5))


class User(Place):
    """A user of a server."""

    def __init__(self, folder: Path, url: str, token: str | None = TOKEN) -> None:
        super().__init__(folder)
        self.url = url
        self.environment |= {"TONNAGE_ARCHIVE": url, "XDG_DATA_HOME": str(folder / "settings")}
        self.knows(token)
        self.write("w.makeflow", WORKFLOW)

    def knows(self, token: str | None) -> None:
        """Let the user know another token, or none."""
        self.environment.pop("TONNAGE_TOKEN", None)
        if token is not None:
            self.environment["TONNAGE_TOKEN"] = token

    def run(self, *options: str) -> Said:
        """Run the workflow once more; it succeeds whatever the server does."""
        said = self.call("run", "w.makeflow", "--new", "--explain", *options)
        assert said.status == 0, said.stderr
        return said

    def waiting(self) -> list[Path]:
        """Return the files that wait for the server."""
        return sorted(self.folder.glob("settings/tonnage/remote/*/spool/*.json.gz"))


def stored(archive: str) -> list[Attempt]:
    """Return what an archive holds; none of it twice."""
    with Archive.open(archive) as opened:
        found = list(find(opened))
    assert len({one.native_id for one in found}) == len(found)
    return found
