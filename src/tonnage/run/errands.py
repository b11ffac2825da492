"""The submitter's side of errands: orders for batch jobs with a task each, which `tonnage.watch.errand` carries out.

Their answers are found with `tonnage.run.minders.words_of` and `last_words` in the folder of the run.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tonnage.files import write_whole
from tonnage.run.minders import Order
from tonnage.watch.errand import ORDERS

__all__ = ["write_orders"]


def write_orders(folder: Path, orders: Iterable[Order]) -> None:
    """Write what the elements of a batch job are to do, the first being number 0, into the batch job's folder."""
    write_whole(folder / ORDERS, "".join([f"{json.dumps(order.message())}\n" for order in orders]))
