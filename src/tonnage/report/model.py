"""The contents of a report as values, from which the page and the JSON output are made."""

from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.jobs import Attempt, Decision, History, Resource
from tonnage.report.accounts import Sums, accounts_of, covered
from tonnage.report.advice import Advice, Saving, advise, savings
from tonnage.report.attempt_table import AttemptTable, outcomes_of
from tonnage.report.critical_path import Chain, critical_chain
from tonnage.report.figures.basics import Palette
from tonnage.report.retries import Climb, Reason, climbs, reasons
from tonnage.report.source import ReportSource
from tonnage.report.text import ladder_text
from tonnage.size import Plan, Sized, size

__all__ = ["Report", "next_time", "report_on"]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The contents of a report on a run or on jobs."""

    subject: ReportSource
    material: AttemptTable
    total: Sums
    sums: Mapping[str, Sums]
    """By category, the one that took the most memory first."""
    makespan: float | None
    sized: Mapping[tuple[str, Resource], Sized]
    savings: Mapping[tuple[str, Resource], Saving]
    reasons: list[Reason]
    climbs: list[Climb]
    chain: Chain | None
    advice: list[Advice]
    palette: Palette

    def decision(self, category: str, resource: Resource) -> Decision | None:
        """Return the decision behind what jobs were allocated; if there was none, the recommended one."""
        made = self.material.made.get((category, resource))
        sized = self.sized.get((category, resource))
        return made.decision if made is not None else sized.decision if sized is not None else None

    def called(self, attempt: Attempt) -> str:
        """Return what people call the task of an attempt; the job's id if it has none."""
        name = attempt.task or attempt.native_id or ""
        return self.palette.short(self.subject.titles.get(name, name))

    def facts(self) -> dict[str, object]:
        """Return the contents as plain values: bytes, seconds, fractions of 1."""
        subject, total = self.subject, self.total
        return {
            "kind": subject.kind,
            "title": subject.title,
            "tasks": self.material.tasks if subject.tasks is None else subject.tasks,
            "done": subject.done,
            "attempts": len(self.material),
            "outcomes": dict(outcomes_of(self.material)),
            "retries": total.retries,
            "makespan_seconds": self.makespan,
            "total_seconds": total.seconds,
            "critical_path_seconds": None if self.chain is None else self.chain.seconds,
            **_account_facts(total),
            "categories": [
                {
                    "category": name,
                    "attempts": own.attempts,
                    "done": own.done,
                    "not_done": own.failed,
                    "seconds": own.seconds,
                    **_account_facts(own),
                }
                for name, own in self.sums.items()
            ],
            "allocations": [
                {
                    "category": name,
                    "resource": str(resource),
                    "ladder": list(one.decision.ladder),
                    "strategy": one.decision.strategy,
                    "reason": one.decision.reason,
                    "before": self.savings[name, resource].before if (name, resource) in self.savings else None,
                    "after": self.savings[name, resource].after if (name, resource) in self.savings else None,
                }
                for (name, resource), one in self.sized.items()
            ],
            "failed": [one.facts() for one in subject.failures],
            "advice": [{"category": one.about or None, "text": one.text} for one in self.advice],
        }


def _account_facts(sums: Sums) -> dict[str, object]:
    known = {str(resource): one for resource, one in sums.accounts.items()}
    return {
        "waste_fraction": {name: one.waste_fraction for name, one in known.items()},
        "given": {name: one.given or None for name, one in known.items()},
        "used": {name: one.used for name, one in known.items()},
        "whole_machine": {name: one.whole_machine or None for name, one in known.items()},
        "max_seen": {name: one.max_seen for name, one in known.items()},
    }


def report_on(subject: ReportSource, material: AttemptTable, plan: Plan) -> Report:
    """Return the contents of a report; raises InputError if there are no attempts."""
    if not len(material):
        raise InputError("there are no attempts to report on", hint="nothing has run yet, or no row could be used")
    total, sums = accounts_of(material, subject.machine)
    order = sorted(sums, key=lambda name: (*_weight(sums[name]), name))
    histories = material.records.histories() if len(material.records) else {}
    sized = {(one.category, one.decision.resource): one for one in _sized(histories, plan, subject)}
    found = savings(list(sized.values()), histories, sums)
    why = reasons(material)
    makespan = covered(material)
    chain = None
    if subject.workflow is not None and material.times is not None:
        chain = critical_chain(subject.workflow, material.times)
    return Report(
        subject=subject,
        material=material,
        total=total,
        sums={name: sums[name] for name in order},
        makespan=makespan,
        sized=sized,
        savings=found,
        reasons=why,
        climbs=climbs(material),
        chain=chain,
        advice=advise(subject, material, total, found, why, chain, makespan),
        palette=Palette.of(order),
    )


def _weight(sums: Sums) -> tuple[float, float]:
    """Return a key that sorts categories by the memory they took, else by their time, the largest first."""
    memory = sums.accounts[Resource.MEMORY]
    return -max(memory.given, memory.used), -sums.seconds


def _sized(histories: Mapping[str, History], plan: Plan, subject: ReportSource) -> list[Sized]:
    try:
        return size(histories, plan)
    except InputError:
        if subject.kind != "run":
            raise
        # Cores are not enforced on a machine, so a task may have used more than it has.
        return size(histories, Plan(strategy="auto"))


def next_time(report: Report, category: str, resource: Resource) -> str:
    """Return the recommendation as a sentence, if it takes less than what was allocated."""
    sized = report.sized.get((category, resource))
    made = report.material.made.get((category, resource))
    saving = report.savings.get((category, resource))
    if sized is None or made is None or sized.decision.ladder == made.decision.ladder:
        return ""
    if saving is not None and not saving.is_worth_it:
        return ""
    return f"Next time: {ladder_text(resource, sized.decision.ladder)}. {sized.decision.reason}."
