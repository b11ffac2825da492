"""Every way to pack by the name that it has on the command line."""

from collections.abc import Callable
from typing import TypeAlias

from tonnage.pack.decisions import Packed, Settings, Situation
from tonnage.pack.glume import glume
from tonnage.pack.plain import level_by_level, one_job, per_task
from tonnage.pack.zhang import zhang, zhang_improved, zhang_printed

__all__ = ["PACKERS", "Packer"]

Packer: TypeAlias = Callable[[Situation, Settings], Packed]

PACKERS: dict[str, Packer] = {
    "per-task": per_task,
    "one-job": one_job,
    "level-by-level": level_by_level,
    "zhang": zhang,
    "zhang-printed": zhang_printed,
    "zhang-improved": zhang_improved,
    "glume": glume,
}
"""What to submit next, given what is left and what the queue looks like."""
