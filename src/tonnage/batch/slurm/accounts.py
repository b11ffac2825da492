"""Limits from Slurm's accounting database: how many jobs a user may have, and how long."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tonnage.batch.slurm.scontrol import parse_slurm_time
from tonnage.errors import InputError

__all__ = ["ASSOCIATION", "QOS", "Allowed", "Association", "Qos", "allowed", "associations", "is_enforced", "qualities"]

ASSOCIATION = "defaultaccount,account,partition,maxjobs,maxsubmit,maxwall,defaultqos,qos"
"""The fields requested from sacctmgr for a user."""
QOS = "name,maxjobspu,maxsubmitpu,maxwall,flags"
"""The fields requested from sacctmgr for qualities of service."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Limits of a user's jobs; None means no limit."""

    running: int | None = None
    submitted: int | None = None
    seconds: float | None = None

    def unless(self, other: "Allowed") -> "Allowed":
        """Return the limits of `other`, with these where it has none."""
        return Allowed(
            self.running if other.running is None else other.running,
            self.submitted if other.submitted is None else other.submitted,
            self.seconds if other.seconds is None else other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Association:
    """A user in an account."""

    default_account: str
    account: str
    partition: str
    """Empty: all partitions."""
    limits: Allowed
    default_qos: str
    qos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service."""

    name: str
    limits: Allowed


def is_enforced(setting: str) -> bool:
    """Whether Slurm enforces accounts and their limits, given AccountingStorageEnforce."""
    return not {"associations", "limits", "qos", "safe", "all"}.isdisjoint(setting.lower().split(","))


def associations(text: str) -> list[Association]:
    """Parse a user's accounts from the output of sacctmgr."""
    found = []
    for default, account, partition, jobs, submit, wall, default_qos, qos in _rows(text, ASSOCIATION):
        limits = Allowed(_count(jobs), _count(submit), _seconds(wall))
        found.append(Association(default, account, partition, limits, default_qos, tuple(filter(None, qos.split(",")))))
    return found


def qualities(text: str) -> dict[str, Qos]:
    """Parse the qualities of service from the output of sacctmgr, by name."""
    rows = _rows(text, QOS)
    return {
        name: Qos(name, Allowed(_count(jobs), _count(submit), _seconds(wall))) for name, jobs, submit, wall, _ in rows
    }


def allowed(
    found: Iterable[Association],
    known: dict[str, Qos],
    *,
    account: str | None,
    qos: str | None,
    partition: str,
    partition_qos: str | None,
) -> tuple[Association, Allowed]:
    """Return the account and limits of the user's jobs; limits of the quality of service override the account's.

    Raises InputError if the user does not have the account or the quality of service.
    """
    here = [one for one in found if one.partition in ("", partition)]
    if not here:
        raise InputError("this user has no account in Slurm", hint="ask the administrators of the cluster for one")
    wanted = account or here[0].default_account or here[0].account
    mine = [one for one in here if one.account == wanted]
    if not mine:
        names = ", ".join(sorted({one.account for one in here}))
        raise InputError(f'this user does not belong to the account "{wanted}"', hint=f"accounts: {names}")
    association = max(mine, key=lambda one: one.partition)  # an association with this partition takes precedence
    if qos is not None and association.qos and qos not in association.qos:
        hint = f"available in the account {association.account}: {', '.join(association.qos)}"
        raise InputError(f'this user may not use the QOS "{qos}"', hint=hint)
    limits = association.limits
    for name in (qos or association.default_qos or _only(association.qos), partition_qos):
        if name in known:
            limits = limits.unless(known[name].limits)
    return association, limits


def _only(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else "normal"


def _rows(text: str, fields: str) -> Iterator[list[str]]:
    count = fields.count(",") + 1
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) == count:
            yield cells


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _seconds(text: str) -> float | None:
    return parse_slurm_time(text) if text else None
