"""A command to be minded, and how."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonnage.watch.cgroup import Cgroup

__all__ = ["Job"]


class Job:
    """One command with its limits: bytes, seconds, cores and numbers."""

    __slots__ = (
        "cgroup",
        "command",
        "cores_window",
        "environment",
        "executable",
        "folder",
        "grace",
        "interval",
        "limits",
        "measure_only",
        "own_group",
        "start_in",
        "streams",
    )

    def __init__(
        self,
        command: "list[str]",
        *,
        executable: "str | None" = None,
        folder: "str | None" = ".",
        limits: "dict[str, float] | None" = None,
        measure_only: bool = False,
        grace: float = 0.0,
        interval: float = 1.0,
        cores_window: float = 20.0,
        cgroup: "Cgroup | None" = None,
        start_in: "str | None" = None,
        environment: "Mapping[str, str] | None" = None,
        streams: "tuple[int, ...]" = (),
        own_group: bool = False,
    ) -> None:
        self.command = command
        self.executable = executable or command[0]
        self.folder = folder  # whose disk use is measured; None: disk is not looked at
        self.limits = limits or {}
        self.measure_only = measure_only
        self.grace = grace
        self.interval = interval
        self.cores_window = cores_window
        self.cgroup = cgroup  # where the kernel enforces the memory limit as well; entering it takes 10 ms
        self.start_in = start_in  # the working folder; None: ours
        self.environment = environment  # None: ours
        self.streams = streams  # descriptors for standard input, output and error; ours where there are none
        self.own_group = own_group  # whether it leads a process group of its own
