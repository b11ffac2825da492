"""Sizing jobs: strategies that turn what past jobs used into the amounts to try for the next ones."""

from typing import TYPE_CHECKING

from tonnage.lazy import exports

if TYPE_CHECKING:
    from tonnage.size.costs import Cost, cost
    from tonnage.size.factory import Plan, Settings
    from tonnage.size.histograms import Histogram
    from tonnage.size.ladders import Ladder
    from tonnage.size.learner import Learner, exceeded
    from tonnage.size.queue_choice import QueueChoice, compare_queues
    from tonnage.size.recommend import Sized, size
    from tonnage.size.records import Records, collect
    from tonnage.size.reruns import as_before, climbed
    from tonnage.size.sizers import Sizer, WholeMachineFirst
    from tonnage.size.strategies import STRATEGIES, WITH_OBJECTIVE, Objective, sizer
    from tonnage.size.tally import Tally
else:
    __getattr__ = exports(__name__)

__all__ = [
    "STRATEGIES",
    "WITH_OBJECTIVE",
    "Cost",
    "Histogram",
    "Ladder",
    "Learner",
    "Objective",
    "Plan",
    "QueueChoice",
    "Records",
    "Settings",
    "Sized",
    "Sizer",
    "Tally",
    "WholeMachineFirst",
    "as_before",
    "climbed",
    "collect",
    "compare_queues",
    "cost",
    "exceeded",
    "size",
    "sizer",
]
