"""Where runs are kept: a folder for each, beside the workflow, in ``.tonnage/runs``."""

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tonnage.atomic import make_private_folder
from tonnage.errors import InputError, TonnageError
from tonnage.files import is_file, stem

__all__ = ["RUNS", "Holder", "Lock", "RunFolder", "choosing", "find_run", "new_run", "runs_of"]

RUNS = Path(".tonnage", "runs")
_PATIENCE = 60.0  # seconds in which whatever is left of a killed engine has ended: sbatch, where Slurm is down, too
_PAUSE = 0.02
_BEGUN = re.compile(r"-(\d{8}-\d{6})(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that executes a run, as its lock says; both are empty while the lock is being taken."""

    process: int = 0
    host: str = ""

    @classmethod
    def of(cls, text: str) -> "Holder":
        """Read what a lock says."""
        words = text.split()
        return cls(int(words[0]), words[1]) if len(words) == 2 and words[0].isdecimal() else cls()

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine, which can be asked for."""
        return bool(self.process) and self.host == socket.gethostname()

    def lives(self) -> bool:
        """Whether the engine itself is there, and not only what it left behind."""
        if not self.is_here:
            return bool(self.process)
        try:
            state = Path("/proc", str(self.process), "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return False
        return state not in ("Z", "X")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def id(self) -> str:
        """What the run is called."""
        return self.path.name

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.path / "journal.db"

    @property
    def logs(self) -> Path:
        """What its attempts printed."""
        return self.path / "logs"

    @property
    def partial(self) -> Path:
        """What attempts left behind that did not succeed."""
        return self.path / "partial"

    @property
    def sandboxes(self) -> Path:
        """Folders of attempts that run in one of their own."""
        return self.path / "sandboxes"

    @property
    def batches(self) -> Path:
        """Folders of batch jobs."""
        return self.path / "batches"

    def make(self) -> None:
        """Make the folders."""
        for folder in (self.path, self.logs):
            try:
                make_private_folder(folder)
            except OSError as error:
                raise TonnageError(f"{folder}: the folder of the run cannot be made: {error.strerror}") from None

    def process(self) -> int | None:
        """Return the process that executes the run; None where there is none."""
        holder = self.holder()
        return None if holder is None else holder.process

    def check_free(self) -> None:
        """Raise InputError where an engine executes the run; what a killed one has left behind soon ends."""
        holder = self.holder()
        if holder is not None and holder.lives():
            raise _busy(self, holder)

    def holder(self) -> Holder | None:
        """Return the process and host that execute the run; None where none does."""
        try:
            with (self.path / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Holder.of((self.path / "lock").read_text())
        except OSError:
            return None
        return None


class Lock:
    """Held by the engine of a run, and by the processes that mind its tasks.

    So a process that gets it knows that no other is left that could still write for the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Take the lock; waits a little for what is left of an engine that was killed."""
        try:
            self.descriptor = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TonnageError(f"{folder.path / 'lock'}: the run cannot be locked: {error.strerror}") from None
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = Holder.of(os.pread(self.descriptor, 200, 0).decode(errors="replace"))
                if holder.lives() or time.monotonic() > deadline:
                    os.close(self.descriptor)
                    raise _busy(folder, holder) from None
                time.sleep(_PAUSE)
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have it."""
        os.close(self.descriptor)


def _busy(folder: RunFolder, holder: Holder) -> InputError:
    who = f"process {holder.process} on {holder.host}" if holder.process else "another process"
    return InputError(f"the run {folder.id} is being executed by {who}", hint=f"tonnage stop {folder.path} ends it")


@contextmanager
def choosing(home: Path) -> Iterator[None]:
    """Let only one at a time look for a run to go on with, or begin one: two would begin the same workflow twice."""
    place = home / RUNS
    try:
        make_private_folder(place)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TonnageError(f"{place}: the folder of the runs cannot be made: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def new_run(workflow: Path) -> RunFolder:
    """Return a new folder for a run of a workflow."""
    parent = workflow.absolute().parent / RUNS
    name = f"{stem(workflow)}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 1000):
        folder = RunFolder(parent / (name if number == 1 else f"{name}-{number}"))
        try:
            make_private_folder(parent)
            folder.path.mkdir(0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise TonnageError(f"{folder.path}: the folder of the run cannot be made: {error.strerror}") from None
        folder.make()
        return folder
    raise TonnageError(f"{parent}: there are too many runs named {name}")


def runs_of(folder: Path) -> Iterator[RunFolder]:
    """Yield the runs whose workflows are in a folder, the newest first."""
    try:
        places = list((folder.absolute() / RUNS).iterdir())
    except OSError:
        return  # there are none, or they are private to another user
    found = [RunFolder(path) for path in places if is_file(path / "journal.db")]
    yield from sorted(found, key=_begun, reverse=True)


def _begun(run: RunFolder) -> tuple[str, int, str]:
    """Return when a run began, as its name tells: the times of its files change while it goes on."""
    found = _BEGUN.search(run.id)
    return (found[1], int(found[2] or 1), run.id) if found else ("", 0, run.id)


def find_run(text: str) -> RunFolder:
    """Return the run that a user names: its id, its path, or ``last``; ids are looked for here and further up."""
    path = Path(text)
    if is_file(path / "journal.db"):
        return RunFolder(path.absolute())
    here = Path.cwd()
    for folder in (here, *here.parents):
        runs = list(runs_of(folder))
        if runs and text == "last":
            return runs[0]
        for run in runs:
            if run.id == text:
                return run
    for place in (path, *(folder / RUNS for folder in (here, *here.parents))):
        if _is_closed(place):
            hint = "runs are private to the user who began them; chmod -R go+rX .tonnage opens them to others"
            raise InputError("cannot be read: Permission denied", path=place, hint=hint)
    hint = "a run is a folder in .tonnage/runs beside its workflow; last is the newest"
    raise InputError(f'there is no run "{text}" here', hint=hint)


def _is_closed(folder: Path) -> bool:
    """Whether another user keeps a folder private."""
    try:
        os.scandir(folder).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
