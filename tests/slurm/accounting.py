"""The accounting of a private Slurm cluster: slurmdbd, and a MariaDB that only it can reach."""

import atexit
import functools
import getpass
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from .daemons import LOOPBACK, Daemon, answers, wait_for

__all__ = ["ACCOUNT", "PACKAGES", "Accounting"]

PACKAGES = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server"}
ACCOUNT = "test"
_LOG_SIZE = "--innodb-log-file-size=4M"  # instead of 96 MB, which would have to be written and copied

Begin = Callable[..., Daemon]
Command = Callable[..., str]


class Accounting:
    """Starts a database and slurmdbd in a cluster's folder, with what the cluster has to start daemons and commands."""

    def __init__(self, folder: Path, cluster: str, port: int, munge: Path, begin: Begin, command: Command) -> None:
        self.folder = folder
        self.socket = folder / "mariadb.socket"
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
        """Start both, and enter the cluster, an account and the user: slurmctld does not start unless it is known."""
        data = self.folder / "mariadb"
        shutil.copytree(_template(), data)
        self._write_conf()
        database = self._begin(
            "mariadbd",
            "mariadbd",
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--datadir={data}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'mariadb.pid'}",
            "--skip-networking",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",  # nobody needs it after a crash
            "--innodb-buffer-pool-size=32M",
            _LOG_SIZE,
        )
        wait_for(database.when(self.socket.exists), "MariaDB")
        server = self._begin("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(self.socket))
        wait_for(server.when(lambda: answers(self._port)), "slurmdbd")
        add = ["sacctmgr", "--immediate", "add"]
        user = getpass.getuser()
        self._command(*add, "cluster", self._cluster)
        self._command(*add, "account", ACCOUNT)
        self._command(*add, "user", user, f"Account={ACCOUNT}", f"DefaultAccount={ACCOUNT}")
        # Root has an account already, which would remain its default.
        self._command("sacctmgr", "--immediate", "modify", "user", user, "set", f"DefaultAccount={ACCOUNT}")

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
    """Return the folder of an empty database: making one takes three seconds, a copy next to nothing."""
    folder = Path(tempfile.mkdtemp(prefix="tonnage-mariadb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = ["mariadb-install-db", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={folder / 'data'}"]
    words += ["--auth-root-authentication-method=normal", "--skip-test-db", _LOG_SIZE]
    made = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"mariadb-install-db: exit {made.returncode}: {made.stdout}{made.stderr}")
    return folder / "data"
