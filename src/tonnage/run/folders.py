"""The folders of runs, in ``.tonnage/runs`` next to the workflow."""

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
_LOCK_TIMEOUT = 60.0  # seconds until all processes of a killed engine have ended, even an sbatch while Slurm is down
_PAUSE = 0.02
_BEGUN = re.compile(r"-(\d{8}-\d{6})(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that executes a run, as recorded in its lock; both fields are empty while the lock is being taken."""

    process: int = 0
    host: str = ""

    @classmethod
    def of(cls, text: str) -> "Holder":
        """Parse the content of a lock file."""
        words = text.split()
        return cls(int(words[0]), words[1]) if len(words) == 2 and words[0].isdecimal() else cls()

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine, so that its state is known."""
        return bool(self.process) and self.host == socket.gethostname()

    def lives(self) -> bool:
        """Whether the engine itself is alive, not only processes that it left behind."""
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
        """The name of the run."""
        return self.path.name

    @property
    def journal(self) -> Path:
        """The database that records the run."""
        return self.path / "journal.db"

    @property
    def log(self) -> Path:
        """The log file of the run."""
        return self.path / "run.log"

    @property
    def logs(self) -> Path:
        """The output of its attempts."""
        return self.path / "logs"

    @property
    def partial(self) -> Path:
        """Partial outputs of unsuccessful attempts."""
        return self.path / "partial"

    @property
    def sandboxes(self) -> Path:
        """The sandboxes of attempts."""
        return self.path / "sandboxes"

    @property
    def batches(self) -> Path:
        """The folders of batch jobs."""
        return self.path / "batches"

    def make(self) -> None:
        """Create the folders of the run and of its logs."""
        for folder in (self.path, self.logs):
            try:
                make_private_folder(folder)
            except OSError as error:
                raise TonnageError(f"{folder}: cannot create the run's folder: {error.strerror}") from None

    def process(self) -> int | None:
        """Return the process that executes the run, if there is one."""
        holder = self.holder()
        return None if holder is None else holder.process

    def check_free(self) -> None:
        """Raise InputError if an engine executes the run; processes that a killed one left behind end soon."""
        holder = self.holder()
        if holder is not None and holder.lives():
            raise _busy(self, holder)

    def holder(self) -> Holder | None:
        """Return the process and host that execute the run, if any."""
        try:
            with (self.path / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Holder.of((self.path / "lock").read_text())
        except OSError:
            return None
        return None


class Lock:
    """Held by the engine of a run, and by the minders of its tasks.

    A process that gets it can be sure that no other process still writes for the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Take the lock, waiting a little for processes of an engine that was killed."""
        try:
            self.descriptor = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TonnageError(f"{folder.path / 'lock'}: the run cannot be locked: {error.strerror}") from None
        deadline = time.monotonic() + _LOCK_TIMEOUT
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
        """Release the lock."""
        os.close(self.descriptor)


def _busy(folder: RunFolder, holder: Holder) -> InputError:
    name = f"process {holder.process} on {holder.host}" if holder.process else "another process"
    return InputError(f"the run {folder.id} is being executed by {name}", hint=f"tonnage stop {folder.path} stops it")


@contextmanager
def choosing(home: Path) -> Iterator[None]:
    """Hold a lock while a run is chosen or created, so that two commands do not start the same workflow twice."""
    place = home / RUNS
    try:
        make_private_folder(place)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TonnageError(f"{place}: cannot create the folder for runs: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def new_run(workflow: Path) -> RunFolder:
    """Create the folder of a new run."""
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
            raise TonnageError(f"{folder.path}: cannot create the run's folder: {error.strerror}") from None
        folder.make()
        return folder
    raise TonnageError(f"{parent}: too many runs are named {name}")


def runs_of(folder: Path) -> Iterator[RunFolder]:
    """Yield the runs of workflows in a folder, newest first."""
    try:
        places = list((folder.absolute() / RUNS).iterdir())
    except OSError:
        return  # there are none, or they are private to another user
    found = [RunFolder(path) for path in places if is_file(path / "journal.db")]
    yield from sorted(found, key=_begun, reverse=True)


def _begun(run: RunFolder) -> tuple[str, int, str]:
    """Return when a run began, taken from its name: the times of its files change while it runs."""
    found = _BEGUN.search(run.id)
    return (found[1], int(found[2] or 1), run.id) if found else ("", 0, run.id)


def find_run(text: str) -> RunFolder:
    """Find a run by its id, its path, or ``last``; ids are looked up in the current folder and its parents."""
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
            hint = "runs are private to the user who started them; chmod -R go+rX .tonnage lets others read them"
            raise InputError("cannot be read: Permission denied", path=place, hint=hint)
    hint = "runs are folders in .tonnage/runs next to their workflow; last is the newest one"
    raise InputError(f'no run "{text}" found here', hint=hint)


def _is_closed(folder: Path) -> bool:
    """Whether a folder exists but cannot be read."""
    try:
        os.scandir(folder).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
