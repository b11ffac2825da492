"""A command to be minded, and how."""

import os

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
    )

    def __init__(
        self,
        command: "list[str]",
        *,
        executable: "str | None" = None,
        environment: "dict[str, str] | None" = None,
        folder: str = ".",
        limits: "dict[str, float] | None" = None,
        measure_only: bool = False,
        grace: float = 0.0,
        interval: float = 1.0,
        cores_window: float = 20.0,
        cgroup: bool = False,
    ) -> None:
        self.command = command
        self.executable = executable or command[0]
        self.environment = os.environ if environment is None else environment
        self.folder = folder
        self.limits = limits or {}
        self.measure_only = measure_only
        self.grace = grace
        self.interval = interval
        self.cores_window = cores_window
        self.cgroup = cgroup  # let the kernel enforce the memory limit as well; entering a group takes 10 ms
