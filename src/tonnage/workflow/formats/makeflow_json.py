"""Makeflow's JSON form and JX, in which values are computed; megabytes are 2^20 bytes."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from tonnage.errors import InputError
from tonnage.files import Document
from tonnage.workflow.formats.makeflow_rules import (
    LARGEST,
    Rule,
    amounts,
    gpus,
    note_for,
    resources,
    rules_of,
    workflow_of,
)
from tonnage.workflow.formats.wfformat import HALF_CHARACTER
from tonnage.workflow.jx import JXError, evaluate
from tonnage.workflow.model import Workflow

__all__ = ["read", "recognises", "render"]

Entry: TypeAlias = Mapping[str, Any]

_COMMENTS = re.compile(r"(?:\s|#[^\n]*)*+")
_RULES = re.compile(r'"rules"\s*:')
_NOTE = "tonnage"
_DEFAULT = "default"
# A small file can compute many rules: these limit how much memory they take.
_MOST_RULES = 2_000_000
_MOST_FILES = 20_000_000
_LONGEST_NOTE = 2**24


def recognises(text: str) -> bool:
    """Whether a text is an object with rules, possibly after comments."""
    start = _COMMENTS.match(text)
    return text.startswith("{", start.end() if start else 0) and bool(_RULES.search(text))


def read(document: Document) -> Workflow:
    """Read the rules; expressions are evaluated, but functions that read other files or the network are rejected."""
    top = _load(document)
    if not isinstance(top, dict) or not isinstance(top.get("rules"), list):
        raise document.error('is not a Makeflow: expected an object with a list of "rules"')
    if len(top["rules"]) > _MOST_RULES:
        raise document.error(f"contains {len(top['rules']):,} rules; the limit is {_MOST_RULES:,}")
    reader = _Reader(document, top)
    rules = [reader.rule(number, entry) for number, entry in enumerate(top["rules"], start=1)]
    if not rules:
        raise document.error("contains no rules")
    return workflow_of(document, "makeflow-json", rules, reader.warnings)


def _load(document: Document) -> Any:  # noqa: ANN401 (any JSON value; checked by the caller)
    try:
        if HALF_CHARACTER.search(document.text):
            _refuse("")
        # Most files are plain JSON, for which Python's own reader is a hundred times faster.
        return json.loads(document.text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    try:
        return evaluate(document.text)
    except JXError as error:
        raise document.error(error.message, error.line, hint=error.hint) from None


def _object(pairs: list[tuple[str, Any]]) -> Entry:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("")


def _refuse(_found: str) -> NoReturn:
    """Reject what is not quite JSON (NaN, duplicate keys, half a character), so that JX reports it with its line."""
    raise ValueError


class _Reader:
    """Turns the entries of a file into rules; a rule's own settings override those of its category."""

    def __init__(self, document: Document, top: Entry) -> None:
        self._document = document
        self._top = top
        self._categories = self._object(top, "categories", "the file")
        self._default = self._text(top, "default_category", "the file")
        self._of_category: dict[str | None, tuple[dict[str, float], dict[str, str]]] = {}
        self._files_named = 0
        self.warnings: list[str] = []

    def rule(self, number: int, entry: object) -> Rule:
        """Read one rule; errors name it by number, because computed values have no line."""
        where = f"rule {number}"
        if not isinstance(entry, dict):
            raise self._document.error(f"{where} is not an object")
        named = self._text(entry, "category", where) or self._default
        shared, environment = self._shared(named)
        asked = shared | self._resources(entry, where)
        return Rule(
            command=self._command(entry, where),
            inputs=self._files(entry, "input", where),
            outputs=self._files(entry, "output", where),
            category=named,
            request=amounts(asked),
            gpus=gpus(asked),
            environment=environment | self._environment(entry, where),
            note=self._note(entry, where),
        )

    def _command(self, entry: Entry, where: str) -> str | None:
        command, inner = self._text(entry, "command", where), self._text(entry, "workflow", where)
        if command is not None and inner is not None:
            raise self._document.error(f"{where} has both a command and a workflow")
        if command is None and inner is None:
            raise self._document.error(f"{where} has neither a command nor a workflow")
        if inner is not None:
            self.warnings.append(f'{where} runs the workflow "{inner}", which is not read: it has no command')
        return command

    def _files(self, entry: Entry, kind: str, where: str) -> tuple[str, ...]:
        """Return file names; some files in circulation say "input" for "inputs", which the real tool ignores."""
        found = entry.get(f"{kind}s", entry.get(kind, []))
        if not isinstance(found, list):
            raise self._document.error(f"{where}: {kind}s must be a list")
        self._files_named += len(found)
        if self._files_named > _MOST_FILES:
            raise self._document.error(f"{where}: the rules up to here name more than {_MOST_FILES:,} files")
        return tuple(self._file(one, kind, where) for one in found)

    def _file(self, found: object, kind: str, where: str) -> str:
        name = found.get("dag_name") if isinstance(found, dict) else found
        if not isinstance(name, str) or not name:
            hint = 'expected a name, or {"dag_name": name}'
            raise self._document.error(f"{where}: {_shown(found)} is not an {kind} file", hint=hint)
        return name

    def _shared(self, category: str | None) -> tuple[dict[str, float], dict[str, str]]:
        """Return the settings for all rules of a category: those of the default category, then its own."""
        if category not in self._of_category:
            resources: dict[str, float] = {}
            environment = self._environment(self._top, "the file")
            default = self._default or _DEFAULT
            for name in dict.fromkeys((default, category or default)):
                holder = self._object(self._categories, name, "the categories")
                resources |= self._resources(holder, f'category "{name}"')
                environment |= self._environment(holder, f'category "{name}"')
            self._of_category[category] = resources, environment
        return self._of_category[category]

    def _resources(self, holder: Entry, where: str) -> dict[str, float]:
        values = {}
        for key, value in self._object(holder, "resources", where).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
                raise self._document.error(f"{where}: {key} is {_shown(value)}; expected a number")
            values[key.replace("-", "_")] = float(value)
        return values

    def _environment(self, holder: Entry, where: str) -> dict[str, str]:
        values = {}
        for key, value in self._object(holder, "environment", where).items():
            if not isinstance(value, str) or not key.isidentifier():
                raise self._document.error(f'{where}: the environment variable "{key}" must be a name with a string')
            values[key] = shlex.quote(value)
        return values

    def _note(self, entry: Entry, where: str) -> str | None:
        extra = entry.get(_NOTE)
        if not isinstance(extra, dict):
            return None
        with suppress(RecursionError):
            if _extent(extra, _LONGEST_NOTE) <= _LONGEST_NOTE:
                return json.dumps(extra)
        raise self._document.error(f"{where}: Tonnage's note is too long")

    def _object(self, holder: Entry, key: str, where: str) -> Entry:
        found = holder.get(key, {})
        if not isinstance(found, dict):
            raise self._document.error(f'{where}: "{key}" is not an object')
        return found

    def _text(self, holder: Entry, key: str, where: str) -> str | None:
        found = holder.get(key)
        if found is not None and not isinstance(found, str):
            raise self._document.error(f'{where}: "{key}" is {_shown(found)}; expected a string')
        return found


def _extent(value: object, most: int) -> int:
    """Return about how many characters a value has as JSON; counting stops above `most`.

    A value computed by JX can contain the same array a billion times over, which only writing it out would reveal.
    """
    waiting, extent = [value], 0
    while waiting and extent <= most:
        one = waiting.pop()
        extent += 2 + (len(one) if isinstance(one, str | list | dict) else 0)
        if isinstance(one, list | dict):
            waiting += one.values() if isinstance(one, dict) else one
    return extent


def _shown(value: object) -> str:
    return json.dumps(value)[:60] if _extent(value, 1000) <= 1000 else "something very long"


def render(workflow: Workflow) -> str:
    """Return the workflow as JSON for ``makeflow --json``, one rule per line."""
    try:
        # The real tool does not support escapes beyond ASCII; it passes other characters through unchanged.
        lines = [json.dumps(rule, ensure_ascii=False, allow_nan=False) for rule in _entries(workflow)]
    except ValueError:
        raise InputError("cannot be written as Makeflow: a task's resources are not all finite numbers") from None
    return '{"rules": [\n' + ",\n".join(lines) + "\n]}\n"


def _entries(workflow: Workflow) -> Iterator[Entry]:
    for rule, task in rules_of(workflow):
        extra = note_for(rule, task)
        entry = {
            "command": rule.command,
            "inputs": rule.inputs,
            "outputs": rule.outputs,
            "category": rule.category,
            "resources": {name.replace("_", "-"): amount for name, amount in resources(rule).items()},
            _NOTE: json.loads(extra) if extra else None,
        }
        yield {key: value for key, value in entry.items() if value}
