"""Order files: what each element of a batch job has to do; `tonnage.watch.single_task` carries it out there.

`tonnage.run.minders.result_of` reads the answers from the folder of the run.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tonnage.files import write_atomically
from tonnage.run.minders import Order
from tonnage.watch.single_task import ORDERS

__all__ = ["read_orders", "write_orders"]


def write_orders(folder: Path, orders: Iterable[Order]) -> None:
    """Write the orders for the elements of a batch job, starting with element 0, into its folder."""
    write_atomically(folder / ORDERS, "".join([f"{json.dumps(order.message())}\n" for order in orders]))


def read_orders(folder: Path) -> tuple[int, ...]:
    """Return the attempts of a batch job in the order of its elements; none if its orders were never written."""
    try:
        return tuple(json.loads(line)["attempt"] for line in (folder / ORDERS).read_text().splitlines())
    except (OSError, ValueError, KeyError):
        return ()
