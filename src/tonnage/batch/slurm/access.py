"""Checks whether the user may submit to a partition, as far as that is visible from outside."""

import grp
import os
import pwd

from tonnage.batch.slurm.scontrol import Partition
from tonnage.batch.slurm.scripts import SlurmOptions
from tonnage.errors import InputError

__all__ = ["check_rights", "user_name"]


def check_rights(partition: Partition, options: SlurmOptions) -> None:
    """Raise InputError if the user visibly cannot submit to a partition."""
    name = partition.name
    if partition.state not in ("UP", "DRAIN"):
        raise InputError(f"the partition {name} is {partition.state.lower()}: jobs would not start")
    if partition.state == "DRAIN":
        raise InputError(f"the partition {name} is being drained and accepts no new jobs")
    if partition.groups is not None and os.getuid() != 0 and partition.groups.isdisjoint(_groups()):
        raise InputError(f"the partition {name} is restricted to the groups {', '.join(sorted(partition.groups))}")
    account, qos = options.account, options.qos
    if account in partition.denied_accounts or (account and partition.accounts and account not in partition.accounts):
        hint = f"accounts that can: {', '.join(sorted(partition.accounts))}" if partition.accounts else None
        raise InputError(f"the account {account} may not use the partition {name}", hint=hint)
    if qos and partition.all_qos and qos not in partition.all_qos:
        hint = f"expected one of {', '.join(sorted(partition.all_qos))}"
        raise InputError(f"the QOS {qos} may not be used in the partition {name}", hint=hint)


def user_name() -> str:
    """Return this user's name in the accounting database."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _groups() -> set[str]:
    names = set()
    for number in {os.getgid(), *os.getgroups()}:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            names.add(str(number))
    return names
