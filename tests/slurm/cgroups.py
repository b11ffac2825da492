"""Control groups for a private cluster: the kernel ends jobs that take too much memory, as on most real clusters."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["CONF", "OPTIONS", "remove", "unusable"]

_MEMORY = Path("/sys/fs/cgroup/memory")
OPTIONS = {"TaskPlugin": "task/cgroup"}
CONF = f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={_MEMORY.parent}\nConstrainRAMSpace=yes\n"


def unusable() -> str | None:
    """Return why there can be none here; those of version 2 would want systemd."""
    if (_MEMORY / "memory.limit_in_bytes").exists() and os.access(_MEMORY, os.W_OK):
        return None
    return f"{_MEMORY} is no tree of control groups (version 1) that this user may change"


def remove(nodes: Sequence[str]) -> None:
    """Remove the groups of nodes that have ended, which Slurm leaves."""
    for node in nodes:
        for folder, _, _ in os.walk(_MEMORY / f"slurm_{node}", topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
