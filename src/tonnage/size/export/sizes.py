"""What is exported: the sizes of one category, as whole numbers and as safe comments."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tonnage.jobs import GIVEN, Decision, Resource

__all__ = ["LONGEST_NAME", "MIB", "Sizes", "longest"]

MIB = 2**20

LONGEST_NAME = 500
"""Some tools cannot read lines that are much longer."""
_LONGEST_COMMENT = 200


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the jobs of a category get of each resource."""

    category: str
    decisions: Mapping[Resource, Decision]

    def rungs(self, resource: Resource, unit: int = 1) -> tuple[int, ...]:
        """Return what attempts get in whole units, rounded up, strictly increasing; empty if undecided.

        Cores stay the same: a job with too few is slow but does not fail, so a retry has another reason.
        """
        decision = self.decisions.get(resource)
        if decision is None:
            return ()
        # At least 1, because 0 means everything to Slurm.
        whole = sorted({max(1, math.ceil(amount / unit)) for amount in decision.ladder[decision.rung :]})
        return tuple(whole[:1] if resource is Resource.CORES else whole)

    def comments(self, resources: Iterable[Resource] = GIVEN) -> Iterator[str]:
        """Yield the category and the reason of each size, without the comment sign."""
        yield f"category {_one_line(self.category)}"
        for resource in resources:
            if resource in self.decisions:
                yield f"  {resource}: {_one_line(self.decisions[resource].reason)}"


def longest(ladders: Iterable[tuple[int, ...]]) -> int:
    """Return the length of the longest ladder."""
    return max(map(len, ladders), default=0)


def _one_line(text: str) -> str:
    """Sanitise text from elsewhere so that no format reads it as more than a part of a comment.

    Backslashes are replaced because they can continue a line or, as in Groovy's ``\\u000a``, spell a line break even in
    a comment; unprintable characters are replaced because some tools take them for line breaks.
    """
    plain = "".join(sign if sign.isprintable() and sign != "\\" else "?" for sign in " ".join(text.split()))
    return plain if len(plain) <= _LONGEST_COMMENT else f"{plain[:_LONGEST_COMMENT]}..."
