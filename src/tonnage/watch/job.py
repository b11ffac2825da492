"""A command to be minded, and how."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tonnage.watch.cgroup import Cgroup

__all__ = ["Job"]


class Job:
    """One command with its limits: bytes, seconds, cores and numbers."""

    __slots__ = (
        "cgroup",
        "command",
        "cores_window",
        "executable",
        "folder",
        "grace",
        "interval",
        "limits",
        "measure_only",
    )

    def __init__(
        self,
        command: "list[str]",
        *,
        executable: "str | None" = None,
        folder: str = ".",
        limits: "dict[str, float] | None" = None,
        measure_only: bool = False,
        grace: float = 0.0,
        interval: float = 1.0,
        cores_window: float = 20.0,
        cgroup: "Cgroup | None" = None,
    ) -> None:
        self.command = command
        self.executable = executable or command[0]
        self.folder = folder
        self.limits = limits or {}
        self.measure_only = measure_only
        self.grace = grace
        self.interval = interval
        self.cores_window = cores_window
        self.cgroup = cgroup  # where the kernel enforces the memory limit as well; entering it takes 10 ms
