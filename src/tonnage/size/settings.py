"""What a sizer is to keep to."""

from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.size.histograms import ABSURD, check_half_life
from tonnage.size.strategies import Objective

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a sizer is to keep to, in the resource's own unit."""

    capacity: float
    """All there is of the resource on the largest machine."""
    objective: Objective = "waste"
    largest: float | None = None
    """What a job gets that exceeds its first allocation; by default the largest peak so far."""
    declared: float | None = None
    """What the user says a job needs."""
    share: float = 0.95
    """The part of the jobs that `percentile` covers."""
    buckets: int = 2
    aligned: bool = False
    """Whether each bucket is a rung, even one that ends like the next: where all resources climb together."""
    width: float = 0.0
    """How wide a bucket of the histogram is; with 0 it holds one peak."""
    least: float = 0.0
    """What `auto` and `regression` give at least: below it nothing is saved that is worth a retry."""
    half_life: float | None = None
    """After how many jobs a job counts half as much."""
    growth: float = 2.0
    """How many times more each attempt gets beyond the largest peak."""
    steps: float = 3
    """In how many such steps at most a job gets everything: where they are too many, each is larger."""
    attempt_cost: float | None = None
    """What an attempt is reckoned to cost beside its amount, as a part of the largest peak; None: as is usual."""
    refit: float = 0.05
    """By which part the jobs must have become more before a strategy looks at its histogram again."""
    patience: float = 1 / 64
    """By which part they must be more before even a new largest peak is looked at: where peaks rise and rise."""
    unit: float = 0.0
    """What amounts are a multiple of; with 0 they are any."""
    parts: int | None = None
    """To one of how many sizes between powers of two amounts are rounded up; None: to none."""
    few: bool = False
    """Whether there are only a few rungs, well apart."""

    def __post_init__(self) -> None:
        if not 0 < self.capacity < ABSURD:
            raise InputError(f"a machine cannot have {self.capacity:g} of a resource")
        check_half_life(self.half_life)
        if not self.growth > 1:
            raise InputError(f"a retry must get more: the growth cannot be {self.growth:g}")
        if not 0 <= self.width < ABSURD:
            raise InputError(f"a bucket cannot be {self.width:g} wide")
