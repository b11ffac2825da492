"""What is exported: the sizes of one category, as whole numbers and as safe comments."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tonnage.jobs import GIVEN, Decision, Resource
from tonnage.size.factory import percent
from tonnage.size.tools import TOOLS
from tonnage.wording import counted

if TYPE_CHECKING:
    from tonnage.size.recommend import Sized

__all__ = ["LONGEST_NAME", "MIB", "Sizes", "comment", "head", "longest", "with_unit"]

MIB = 2**20

LONGEST_NAME = 500
"""Some tools cannot read lines that are much longer."""
_LONGEST_COMMENT = 200
_ONE_DIGIT = 0.1


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the jobs of a category get of each resource."""

    category: str
    decisions: Mapping[Resource, Decision]
    comments: Mapping[Resource, str] = field(default_factory=dict)
    """What was asked and used, and what a size saves."""

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

    @property
    def heading(self) -> str:
        """The category, without the comment sign."""
        return f"category {_one_line(self.category)}"

    def reasons(self, resources: Iterable[Resource] = GIVEN) -> Iterator[str]:
        """Yield the comment on each size, without the comment sign."""
        for resource in resources:
            if resource in self.decisions and resource in self.comments:
                yield f"{resource}: {_one_line(self.comments[resource])}"


def comment(one: "Sized") -> str:
    """Return what jobs asked for and used, what the size saves, and its risk."""
    asked = "" if one.requested is None else f"asked {one.format_amount(one.requested)}, "
    facts = [f"{asked}used {'an unknown amount' if one.used is None else f'{one.format_amount(one.used)} at most'}"]
    facts += _change(one)
    if one.ran_out:
        facts.append(f"{one.ran_out:,} ran out")
    retried = one.decision.expected_retries
    jobs = counted(one.decision.samples, "job")
    facts.append(f"{percent(retried)} of {jobs} would be retried" if retried else f"no retries in {jobs}")
    return "; ".join(facts)


def _change(one: "Sized") -> Iterator[str]:
    """Yield what the size saves or adds."""
    unit = one.tool.hours(one.decision.resource)
    against = "" if one.compared_with == "requested" else " against the largest peak for all"
    if unit is None or (one.added and against):
        return
    amount = max(one.saved, one.added) / unit[0]
    text = f"{amount:,.1f}" if amount >= _ONE_DIGIT else f"less than {_ONE_DIGIT}"
    if amount:
        yield f"adds {text} {unit[1]}" if one.added else f"saves {text} {unit[1]}{against}"


def head(tool: str, use: str) -> str:
    """Return the first comment of a file: who wrote it, how it is used, and what its units mean."""
    binary = "; 1 GB is 2^30 bytes" if TOOLS[tool].is_binary else ""
    return f"Written by `tonnage size`: {use}{binary}."


def with_unit(megabytes: int) -> str:
    """Return megabytes of 2^20 bytes with their prefix, in whole gigabytes if possible: ``4700M``, ``39G``."""
    return f"{megabytes}M" if megabytes % 1024 else f"{megabytes // 1024}G"


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
