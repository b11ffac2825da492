"""Priorities in the statements of one DAG: as PRIORITY lines, or as the paper's variable JOBPRIORITY."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tonnage.files import Document
from tonnage.workflow.dagman import submit
from tonnage.workflow.dagman.lines import priority_line, variables_line
from tonnage.workflow.dagman.parts import Parts, variable_pairs
from tonnage.workflow.dagman.patch import Patch, Patches
from tonnage.workflow.dagman.statements import ALL_NODES, WORD, Statement, quoted

__all__ = ["from_macro", "replace_word", "state_macros", "state_priorities", "state_variables"]

_VARIABLE = "jobpriority"


def state_priorities(parts: Parts, wanted: Mapping[str, int], patches: Patches) -> None:
    """Give nodes their PRIORITY lines: an old number is replaced, a missing line added at the end.

    The end is that of the DAG's own file, not of one that it includes. The last line that concerns a node counts, so
    one above a line for ALL_NODES must be said again below it.
    """
    places: dict[str, int] = {}
    everyone = -1
    for place, (statement, document) in enumerate(parts.kept):
        if statement.keyword != "PRIORITY":
            continue
        node, number = statement.words
        if node.upper() == ALL_NODES:
            everyone = place
        elif node in wanted:
            places[node] = place
            if int(number) != wanted[node]:
                replace_word(patches.of(document), statement, 1, str(wanted[node]))
    own = patches.of(parts.documents[0])
    for node, priority in wanted.items():
        if places.get(node, -1) <= everyone:
            own.add(priority_line(quoted(node), priority))


def replace_word(patch: Patch, statement: Statement, place: int, new: str) -> None:
    """Put another word in the place of one of a statement's words."""
    words = [found.span() for found in WORD.finditer(statement.text)]
    patch.replace(statement, *words[place], new)


class _Stated(NamedTuple):
    """Where a variable is set, so that of two the larger one counts."""

    appended: bool
    place: int


def state_variables(parts: Parts, wanted: Mapping[str, int], patches: Patches) -> None:
    """Give nodes the variable JOBPRIORITY: an old value is replaced, a missing line added at the end.

    As for PRIORITY the last one counts, but one that is appended to the description wins over all that are not.
    """
    stated: dict[str, _Stated] = {}
    for place, (statement, document) in enumerate(parts.kept):
        if statement.keyword != "VARS" or _VARIABLE not in statement.text.lower():
            continue
        node, appended, pairs = variable_pairs(statement, document)
        everyone = node.upper() == ALL_NODES
        for pair in pairs:
            if pair.name != _VARIABLE or not (everyone or node in wanted):
                continue
            whom = ALL_NODES if everyone else node
            stated[whom] = max(stated.get(whom, _Stated(False, -1)), _Stated(appended, place))
            if not everyone and pair.value != str(wanted[node]):
                patches.of(document).replace(statement, pair.begin, pair.end, f'"{wanted[node]}"')
    nobody = _Stated(False, -1)
    last = stated.get(ALL_NODES, nobody)
    own = patches.of(parts.documents[0])
    for node, number in wanted.items():
        if stated.get(node, nobody) <= last:
            own.add(variables_line(quoted(node), {"JOBPRIORITY": number}, append=last.appended))


def state_macros(parts: Parts, jobs: Collection[str], used: Collection[str], patches: Patches) -> list[tuple[str, str]]:
    """Let the descriptions that stand in the DAG take the variable: those of `jobs`, and the named ones in `used`.

    Returns the names of those that set a priority of their own, and what that means.
    """
    others: list[tuple[str, str]] = []
    seen: set[str] = set()
    for statement, document in parts.kept:
        if statement.description is None:
            continue
        name = statement.words[0]
        named = statement.keyword == "SUBMIT_DESCRIPTION"
        if named and name in seen:
            continue  # the first of several with one name counts
        if named:
            seen.add(name)
        if (named and name in used) or (statement.keyword == "JOB" and name in jobs):
            place = submit.priority_from_macro(statement.description)
            if place.warning:
                others.append((name, place.warning))
            if place.line is not None:
                patches.of(document).insert(_line_of(statement, place.line), submit.PRIORITY_LINE)
    return others


def _line_of(statement: Statement, place: int) -> int:
    """Return the index in the file of a line of an inline description, or of the line that closes it."""
    closing = statement.last - 1
    lines = (statement.description or "").count("\n") + 1
    return closing if place >= lines else closing - lines + place


def from_macro(document: Document) -> tuple[Patch, str | None]:
    """Let a submit file take the variable; also say what it means that it sets a priority of its own."""
    patch = Patch(document)
    place = submit.priority_from_macro(document.text)
    if place.line is not None:
        patch.insert(place.line, submit.PRIORITY_LINE)
    return patch, place.warning
