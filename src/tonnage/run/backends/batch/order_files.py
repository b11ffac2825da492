"""Order files: what each element of a batch job is to do, which `tonnage.watch.single_task` carries out there.

Their answers are found with `tonnage.run.minders.result_of` in the folder of the run.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tonnage.files import write_atomically
from tonnage.run.minders import Order
from tonnage.watch.single_task import ORDERS

__all__ = ["read_orders", "write_orders"]


def write_orders(folder: Path, orders: Iterable[Order]) -> None:
    """Write what the elements of a batch job are to do, the first being number 0, into the batch job's folder."""
    write_atomically(folder / ORDERS, "".join([f"{json.dumps(order.message())}\n" for order in orders]))


def read_orders(folder: Path) -> tuple[int, ...]:
    """Return the attempts of a batch job by their elements; none where its orders were never written."""
    try:
        return tuple(json.loads(line)["attempt"] for line in (folder / ORDERS).read_text().splitlines())
    except (OSError, ValueError, KeyError):
        return ()
