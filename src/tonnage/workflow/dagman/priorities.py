"""Write priorities into DAGMan files, in place or in a copy.

DAGMan reads PRIORITY lines today. With ``legacy``, priorities are written as in the PRIO paper:
``VARS node JOBPRIORITY="k"`` in the DAG and ``priority = $(JOBPRIORITY:0)`` in the submit descriptions.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.files import Document, is_file
from tonnage.workflow.dagman import submit
from tonnage.workflow.dagman.copies import Copies
from tonnage.workflow.dagman.parts import JOBS, Node, Parts, folder_within, variable_pairs
from tonnage.workflow.dagman.patch import Patch, Patches
from tonnage.workflow.dagman.reader import shortened
from tonnage.workflow.dagman.saving import NewFile, save_all
from tonnage.workflow.dagman.scopes import Scope, scopes
from tonnage.workflow.dagman.statements import ALL_NODES, Statement, quoted
from tonnage.workflow.dagman.writer import priority_line, variables_line
from tonnage.workflow.formats import collector_paused

__all__ = ["Edit", "NewFile", "copy", "in_place", "save"]

_SUBDAGS = "a SUBDAG's priority is added to those of the nodes inside it, which can then overtake other nodes"
_ALWAYS = ("PRIORITY", "INCLUDE", "SPLICE")
_LEGACY = ("VARS", "SUBMIT_DESCRIPTION", *JOBS)


@dataclass(frozen=True, slots=True)
class Edit:
    """The files that a ranking changes or creates, the top DAG last, and warnings for the user."""

    files: tuple[NewFile, ...]
    warnings: tuple[str, ...]


@collector_paused()
def in_place(path: Path, priorities: Mapping[str, int], *, legacy: bool = False) -> Edit:
    """Return the workflow's files that change when its nodes get these priorities.

    The names of nodes are those of the tasks that the reader returns. A file that is used more than once, by splices
    whose nodes need different priorities, is rejected.
    """
    ranking = _Ranking(path, priorities, legacy=legacy)
    found: dict[Path, tuple[Scope, NewFile]] = {}
    changed: set[Path] = set()
    for scope in reversed(ranking.scopes):
        for real, patch in ranking.patches(scope).real.items():
            file = NewFile(patch.document.path, patch.data, _is_compressed(real))
            user, other = found.setdefault(real, (scope, file))
            if other.data != file.data:
                raise _used_twice(file.path, user, scope)
            if patch.changed:
                changed.add(real)
    files = {real: file for real, (_, file) in found.items() if real in changed}
    for patch in ranking.submits.values():
        if patch.changed:
            real = patch.document.path.resolve()
            files.setdefault(real, NewFile(patch.document.path, patch.data, _is_compressed(real)))
    return Edit(tuple(sorted(files.values(), key=lambda file: file.path == path)), ranking.warnings)


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def _used_twice(path: Path, first: Scope, second: Scope) -> InputError:
    users = " and ".join(
        sorted(f"splice {scope.name}" if scope.name else "the DAG itself" for scope in (first, second))
    )
    message = f"is used more than once ({users}), with nodes that need different priorities"
    return InputError(message, path=path, hint="use --output FILE, which makes a copy for each")


@collector_paused()
def copy(path: Path, output: Path, priorities: Mapping[str, int], *, legacy: bool = False) -> Edit:
    """Return the files of a copy of the workflow whose nodes have these priorities.

    Spliced or included files that must change are also copied, once per splice, into a folder next to the copy.
    """
    if output.resolve() == path.resolve():
        raise InputError("is the input workflow itself", path=output, hint="use --in-place to change it")
    ranking = _Ranking(path, priorities, legacy=legacy)
    copies = Copies(path, output, ranking.submits)
    for scope in reversed(ranking.scopes):
        copies.add(scope, ranking.patches(scope), ranking.submit_path)
    copies.check(ranking.sources)
    return Edit(copies.files(), (*ranking.warnings, *copies.warnings()))


def save(edit: Edit, *, backup: bool = False) -> list[Path]:
    """Write all files of an edit, or none, and return their paths; `backup` keeps the old ones as NAME.bak."""
    return save_all(edit.files, backup=backup)


class _Ranking:
    """The changes that a ranking makes to a workflow's files, independent of where they are written."""

    def __init__(self, path: Path, priorities: Mapping[str, int], *, legacy: bool) -> None:
        self._legacy = legacy
        self._folder = path.parent
        self._warnings: Counter[str] = Counter()
        self._submit_paths: dict[tuple[str, str | None, str], Path] = {}
        self._seen: set[Path] = set()
        self.scopes = scopes(Document.open(path), priorities, _ALWAYS + _LEGACY if legacy else _ALWAYS)
        self.submits: dict[Path, Patch] = {}
        """Under `legacy`, the submit files of all nodes with a priority."""
        self.sources: set[Path] = set()
        """Every file of the workflow that was read."""
        for scope in self.scopes:
            self._inspect(scope)
        for scope in self.scopes:
            self._inspect_special(scope)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, each only once."""
        return tuple(shortened(dict.fromkeys(self._warnings, 1)))

    def patches(self, scope: Scope) -> Patches:
        """Return the changes to the file of a DAG and to those that it includes."""
        patches = Patches(scope.parts.documents)
        if not self._legacy:
            _state_priorities(scope.parts, scope.wanted, patches)
            return patches
        jobs = {name: number for name, number in scope.wanted.items() if not _is_subdag(scope, name)}
        # DAGMan does not pass a SUBDAG's variables to its jobs, so it needs a PRIORITY line; and an existing line, for
        # the node or for all nodes, must not contradict the variable.
        stated = scope.parts.priorities
        lines = {
            name: number
            for name, number in scope.wanted.items()
            if name not in jobs or name in stated or ALL_NODES in stated
        }
        _state_priorities(scope.parts, lines, patches)
        _state_variables(scope.parts, jobs, patches)
        for name, other in _state_macros(scope.parts, jobs, scope.used, patches):
            self._warnings[f'the description of "{scope.prefix}{name}" {other}'] += 1
        return patches

    def submit_path(self, scope: Scope, node: Node) -> Path | None:
        """Return the submit file of a node, which need not exist; None if its description is in a DAG."""
        if node.file is None or node.file in scope.named:
            return None
        key = (scope.directory, node.directory, node.file)
        path = self._submit_paths.get(key)
        if path is None:
            path = self._folder / folder_within(scope.directory, node.directory) / node.file
            self._submit_paths[key] = path
        return path

    def _inspect(self, scope: Scope) -> None:
        """Check what matters to the ranking in a DAG's nodes: submit files, descriptions in the DAG, SUBDAGs."""
        self.sources.update(document.path.resolve() for document in scope.parts.documents)
        for name in scope.wanted:
            node = scope.parts.names[name]
            if not isinstance(node, Node):
                continue
            path = self.submit_path(scope, node)
            if node.kind == "SUBDAG":
                self._warnings[_SUBDAGS] += 1
            elif path is None and node.file is not None:
                scope.named[node.file].used.add(node.file)
            if path is not None and path not in self._seen:
                self._seen.add(path)
                self.sources.add(path.resolve())
                self._inspect_file(path, node)

    def _inspect_file(self, path: Path, node: Node) -> None:
        if node.kind == "SUBDAG":
            return
        if not is_file(path) or not os.access(path, os.R_OK):
            if self._legacy and not node.noop:
                self._warnings[f"{path}: cannot be read, so its jobs get no priority"] += 1
        elif self._legacy:
            self.submits[path], other = _from_macro(Document.open(path))
            if other:
                self._warnings[f"{path}: {other}"] += 1
        else:
            settings = submit.parse(Document.open(path).text)
            if any(name in settings for name in submit.OWN_PRIORITY):
                self._warnings[f"{path}: {submit.WINS}"] += 1
            elif submit.JOB_PRIO in settings:
                self._warnings[f"{path}: sets JobPrio, which contradicts the ranking"] += 1

    def _inspect_special(self, scope: Scope) -> None:
        """Warn about FINAL, SERVICE and PROVISIONER nodes that share a submit file that changes."""
        for node in scope.parts.items if self.submits else ():
            if not isinstance(node, Node) or node.kind in ("JOB", "SUBDAG"):
                continue
            path = self.submit_path(scope, node)
            if path in self.submits and self.submits[path].changed:
                name = f'{node.kind} node "{scope.prefix}{node.name}"'
                self._warnings[f"{path}: the {name} also uses it, and gets priority 0"] += 1


def _is_subdag(scope: Scope, name: str) -> bool:
    node = scope.parts.names[name]
    return isinstance(node, Node) and node.kind == "SUBDAG"


_VARIABLE = "jobpriority"


def _state_priorities(parts: Parts, wanted: Mapping[str, int], patches: Patches) -> None:
    """Give nodes their PRIORITY lines: existing numbers are replaced, missing lines added at the end.

    The end is that of the DAG's own file, not of one that it includes. The last line for a node counts, so one above a
    line for ALL_NODES must be repeated below it.
    """
    places: dict[str, int] = {}
    all_nodes = -1
    for place, (statement, document) in enumerate(parts.kept):
        if statement.keyword != "PRIORITY":
            continue
        node, number = statement.words
        if node.upper() == ALL_NODES:
            all_nodes = place
        elif node in wanted:
            places[node] = place
            if int(number) != wanted[node]:
                patches.patch_for(document).replace_word(statement, 1, str(wanted[node]))
    own = patches.patch_for(parts.documents[0])
    for node, priority in wanted.items():
        if places.get(node, -1) <= all_nodes:
            own.add(priority_line(quoted(node), priority))


class _Stated(NamedTuple):
    """Where a variable is set; of two such places, the larger one counts."""

    appended: bool
    place: int


def _state_variables(parts: Parts, wanted: Mapping[str, int], patches: Patches) -> None:
    """Give nodes the variable JOBPRIORITY: existing values are replaced, missing lines added at the end.

    As for PRIORITY the last one counts, but one that is appended to the description overrides all that are not.
    """
    stated: dict[str, _Stated] = {}
    for place, (statement, document) in enumerate(parts.kept):
        if statement.keyword != "VARS" or _VARIABLE not in statement.text.lower():
            continue
        node, appended, pairs = variable_pairs(statement, document)
        all_nodes = node.upper() == ALL_NODES
        for pair in pairs:
            if pair.name != _VARIABLE or not (all_nodes or node in wanted):
                continue
            name = ALL_NODES if all_nodes else node
            stated[name] = max(stated.get(name, _Stated(False, -1)), _Stated(appended, place))
            if not all_nodes and pair.value != str(wanted[node]):
                patches.patch_for(document).replace(statement, pair.begin, pair.end, f'"{wanted[node]}"')
    never = _Stated(False, -1)
    last = stated.get(ALL_NODES, never)
    own = patches.patch_for(parts.documents[0])
    for node, number in wanted.items():
        if stated.get(node, never) <= last:
            own.add(variables_line(quoted(node), {"JOBPRIORITY": number}, append=last.appended))


def _state_macros(
    parts: Parts, jobs: Collection[str], used: Collection[str], patches: Patches
) -> list[tuple[str, str]]:
    """Make the descriptions inside the DAG use the variable: those of `jobs`, and the named ones in `used`.

    Returns the names of those that set their own priority, each with a warning.
    """
    others: list[tuple[str, str]] = []
    seen: set[str] = set()
    for statement, document in parts.kept:
        if statement.description is None:
            continue
        name = statement.words[0]
        named = statement.keyword == "SUBMIT_DESCRIPTION"
        if named and name in seen:
            continue  # the first of several with the same name counts
        if named:
            seen.add(name)
        if (named and name in used) or (statement.keyword == "JOB" and name in jobs):
            place = submit.priority_from_macro(statement.description)
            if place.warning:
                others.append((name, place.warning))
            if place.line is not None:
                patches.patch_for(document).insert(_line_of(statement, place.line), submit.PRIORITY_LINE)
    return others


def _line_of(statement: Statement, place: int) -> int:
    """Return the index in the file of a line of an inline description, or of the line that closes it."""
    closing = statement.last - 1
    lines = (statement.description or "").count("\n") + 1
    return closing if place >= lines else closing - lines + place


def _from_macro(document: Document) -> tuple[Patch, str | None]:
    """Make a submit file use the variable; also return a warning if it sets its own priority."""
    patch = Patch(document)
    place = submit.priority_from_macro(document.text)
    if place.line is not None:
        patch.insert(place.line, submit.PRIORITY_LINE)
    return patch, place.warning
