"""The accounting of a private Slurm cluster: slurmdbd, and a MariaDB that only it can reach."""

import atexit
import functools
import getpass
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.waiting import until

from .daemons import LOOPBACK, Daemon, answers

__all__ = ["ACCOUNT", "PACKAGES", "Accounting"]

PACKAGES = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server"}
ACCOUNT = "test"
# Nobody needs this database after a crash, and 96 MB of log would have to be written and copied.
_CARELESS = ("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=4M")

Begin = Callable[..., Daemon]
Command = Callable[..., str]


class Accounting:
    """Starts a database and slurmdbd in a cluster's folder, with what the cluster has to start daemons and commands."""

    def __init__(self, folder: Path, cluster: str, port: int, munge: Path, begin: Begin, command: Command) -> None:
        self.folder = folder
        self.socket = folder / "mariadb.socket"
        self._data = folder / "mariadb"
        self._cluster = cluster
        self._port = port
        self._munge = munge
        self._begin = begin
        self._command = command

    @property
    def options(self) -> dict[str, str]:
        """What slurm.conf says about it."""
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": LOOPBACK,
            "AccountingStoragePort": str(self._port),
            "AccountingStoragePass": str(self._munge),  # where sacct and sacctmgr look, who do not read AuthInfo
            "AccountingStorageEnforce": "associations,limits,qos",
        }

    def start(self) -> None:
        """Start both, with the cluster, an account and the user entered: slurmctld does not start while unknown."""
        self._write_conf()
        template = _template()
        if template.exists():
            shutil.copytree(template, self._data)
            self._run()
            return
        self._install()
        database, server = self._run()
        self._enter()
        server.end(signal.SIGTERM)
        database.end(signal.SIGTERM)
        shutil.copytree(self._data, template)  # at rest, or it would be of no use
        self._run()

    def _enter(self) -> None:
        user = getpass.getuser()
        default = f"DefaultAccount={ACCOUNT}"
        for words in (
            ["add", "cluster", self._cluster],
            ["add", "account", ACCOUNT],
            ["add", "user", user, f"Account={ACCOUNT}", default],
            ["modify", "user", user, "set", default],  # root has another one already
        ):
            self._command("sacctmgr", "--immediate", *words)

    def _install(self) -> None:
        words = ["mariadb-install-db", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={self._data}"]
        words += ["--auth-root-authentication-method=normal", "--skip-test-db", *_CARELESS]
        made = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"mariadb-install-db: exit {made.returncode}: {made.stdout}{made.stderr}")

    def _run(self) -> tuple[Daemon, Daemon]:
        database = self._begin(
            "mariadbd",
            "mariadbd",
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--datadir={self._data}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'mariadb.pid'}",
            "--skip-networking",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=32M",
            *_CARELESS,
        )
        until(database.when(self.socket.exists), "MariaDB")
        server = self._begin("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(self.socket))
        until(server.when(lambda: answers(self._port)), "slurmdbd")
        return database, server

    def _write_conf(self) -> None:
        lines = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self._munge}",
            "DbdHost": "localhost",
            "DbdAddr": LOOPBACK,
            "DbdPort": str(self._port),
            "SlurmUser": getpass.getuser(),
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "localhost",
            "StorageUser": "root",
            "StorageLoc": "slurm",
            "CommitDelay": "0",
            "LogFile": str(self.folder / "logs" / "slurmdbd.log"),
            "PidFile": str(self.folder / "slurmdbd.pid"),
        }
        conf = self.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)  # it refuses a file that others may read
        conf.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))


@functools.cache
def _template() -> Path:
    """Return where a database with accounts is kept for the next cluster of this process: making one takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="tonnage-mariadb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "data"
