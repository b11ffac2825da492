"""Classic Makeflow: ``targets : sources``, then a tab and one command; megabytes are 2^20 bytes.

What this module knows beyond the manual was found by trying the real tool: resources belong to a category, whose last
setting in the file applies to all its rules; an assignment between the head of a rule and its command applies only to
that rule; a colon before an = makes a rule, an = before a colon an assignment.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import dropwhile, islice

from tonnage import __version__
from tonnage.errors import InputError
from tonnage.files import Document
from tonnage.workflow.formats.makeflow_rules import (
    Rule,
    amounts,
    enclosed,
    gpus,
    note_for,
    resources,
    rules_of,
    workflow_of,
)
from tonnage.workflow.formats.makeflow_syntax import (
    MalformedError,
    as_command,
    as_text,
    as_words,
    escaped,
    escaped_name,
    is_continued,
    statement,
)
from tonnage.workflow.model import Task, Workflow
from tonnage.workflow.shell import one_line, several_lines

__all__ = ["read", "recognises", "render"]

_IN_DIRECTIVES = frozenset(("CORES", "DISK", "MEMORY", "WALL_TIME"))
_RESOURCES = _IN_DIRECTIVES | {"GPUS"}
_OTHER_SETTINGS = ("CATEGORY", "MODE", "MPI_PROCESSES")
_DEFAULT = "default"
# The most characters that variables can add to a file: each line could double the value of the line before.
_MOST_INSERTED = 2**28

_ASSIGNMENT = re.compile(r"[ \t]*(export[ \t]+)?(@?)(\w+)[ \t]*(\+?)=(.*)", re.DOTALL | re.ASCII)
_EXPORT = re.compile(r"export((?:[ \t]++\w++)++)[ \t]*(?:#.*)?", re.ASCII | re.DOTALL)
_NOTE = re.compile(r"# tonnage: (\{.*\})[ \t]*")
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,12})?", re.ASCII)
_SIZE = re.compile(r"(\d{1,18})([KMGTP]?)(?:I?B)?", re.ASCII | re.IGNORECASE)
_LOCAL = re.compile(r"(?:LOCAL(?: +|$))+")
_UNWRITABLE = re.compile(r"[\n\r\0]")


def recognises(text: str) -> bool:
    """Whether a text begins with optional settings or comments, and then a rule with a command after a tab."""
    lines = (line for line in islice(text[:200_000].split("\n"), 2_000) if line.strip() and line.lstrip()[0] != "#")
    for line in lines:
        kind = "command" if line[0] in " \t" else statement(line)
        if kind == "rule":
            # Python, YAML and prose have indented lines below a colon as well, and must never be run as commands.
            command = next(dropwhile(lambda line: line[0] != "\t" and _ASSIGNMENT.match(line), lines), "")
            return command[:1] == "\t" and not line.startswith(('{"', '["'))
        if kind == "command" or (kind == "other" and not line.startswith((".MAKEFLOW ", ".SIZE ", "export "))):
            return False
    return False


def read(document: Document) -> Workflow:
    """Read the rules; variables are replaced as defined in the file, never from the environment."""
    reader = _Reader(document)
    for number, line in _logical_lines(document):
        try:
            reader.line(number, line)
        except MalformedError as error:
            raise document.error(error.message, number, hint=error.hint) from None
    rules = reader.rules()
    if not rules:
        raise document.error("contains no rules")
    return workflow_of(document, "makeflow", rules, reader.warnings)


def _logical_lines(document: Document) -> Iterator[tuple[int, str]]:
    """Yield lines, with continued ones joined, each with the number of its first line."""
    parts: list[str] = []
    for number, line in enumerate(document.lines(), start=1):
        parts.append(line)
        if not is_continued(line):
            yield number - len(parts) + 1, "\n".join(parts)
            parts = []
    if parts:
        raise document.error("the file ends after a backslash", number)


@dataclass(slots=True)
class _Draft:
    """A rule while the file is being read; its category's resources are only known at the end."""

    line: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    note: str | None
    variables: dict[str, str] = field(default_factory=dict)
    command: str | None = None
    category: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class _Reader:
    """Reads lines, and collects rules, variables and settings."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._variables: dict[str, str] = {}
        self._resources: dict[str, dict[str, str]] = {}
        self._exported: dict[str, None] = {}
        self._sizes: dict[str, int] = {}
        self._drafts: list[_Draft] = []
        self._open: _Draft | None = None
        self._note: str | None = None
        self._line = 0
        self._inserted = 0
        self._warnings: dict[str, str] = {}

    @property
    def warnings(self) -> list[str]:
        """The warnings, in the order of the file."""
        return list(self._warnings.values())

    def line(self, number: int, line: str) -> None:
        """Read one line."""
        self._line = number
        bare = line.lstrip(" \t")
        if not bare:
            return
        if bare[0] == "#":
            found = _NOTE.fullmatch(line)
            self._note = found.group(1) if found else self._note
        elif len(bare) < len(line):
            self._indented(bare)
        else:
            self._statement(line)

    def _indented(self, text: str) -> None:
        if self._open is None:
            raise MalformedError("a command without a rule", "a rule has one command; join several with ; or &&")
        if text[0] == "@" and _ASSIGNMENT.match(text):
            self._assign(text)
        elif command := as_command(text, self._value):
            self._close(self._open, command)

    def _statement(self, line: str) -> None:
        match statement(line):
            case "rule":
                self._rule(line)
            case "assignment":
                self._assign(line)
            case _ if line.startswith("."):
                self._directive(line)
            case _:
                found = _EXPORT.fullmatch(line)
                if found is None:
                    hint = "expected targets : sources, NAME=value, export NAME, .MAKEFLOW, or an indented command"
                    raise MalformedError("this is not a Makeflow statement", hint)
                self._exported |= dict.fromkeys(found.group(1).split())

    def _rule(self, line: str) -> None:
        if self._open is not None:
            raise self._document.error("the rule has no command", self._open.line)
        targets, sources = as_words(line, self._value)
        if "" in targets or "" in sources:
            raise MalformedError("a file name is empty")
        self._open = _Draft(self._line, tuple(sources), tuple(targets), self._note)
        self._note = None

    def _close(self, draft: _Draft, command: str) -> None:
        """Complete a rule with its command, and with the settings at this line of the file."""
        command = _LOCAL.sub("", command, count=1) if _LOCAL.match(command) else command
        if not command:
            raise MalformedError("the rule has no command")
        if command.split(" ", 1)[0] == "MAKEFLOW":
            inner = command.partition(" ")[2]
            self._warn(f"{self._line}", f"runs the workflow {inner}, which is not read: the task has no command")
        else:
            draft.command = several_lines(command)
        draft.category = self._category()
        draft.environment = dict(self._environment())
        self._drafts.append(draft)
        self._open = None

    def _assign(self, line: str) -> None:
        found = _ASSIGNMENT.fullmatch(line)
        if found is None:
            raise MalformedError("the name of a variable can only have letters, digits and _")
        exported, _, name, more, text = found.groups()
        value = as_text(text, self._value)
        if more and (before := self._known(name)) is not None:
            value = f"{before} {value}"
        if self._open is not None:
            self._open.variables[name] = value
        else:
            self._set(name, value)
        if exported:
            self._exported[name] = None

    def _set(self, name: str, value: str) -> None:
        """Define a variable; a resource belongs to the category that is set at this line."""
        holder = self._variables
        if name in _RESOURCES:
            holder = self._resources.setdefault(self._category() or _DEFAULT, {})
        holder[name] = value

    def _directive(self, line: str) -> None:
        (kind, *words), _ = as_words(line, self._value)
        match kind, words:
            case ".MAKEFLOW", [name, value] if name in _IN_DIRECTIVES:
                if not _NUMBER.fullmatch(value):
                    raise MalformedError(f'{name} is "{value}"; expected a number')
                self._set(name, value)
            case ".MAKEFLOW", [name, value] if name in _OTHER_SETTINGS:
                self._set(name, value)
            case ".SIZE", [name, size]:
                self._sizes[name] = _bytes(size)
            case ".UMBRELLA", _:
                pass
            case _:
                known = ", ".join(sorted((*_IN_DIRECTIVES, *_OTHER_SETTINGS)))
                raise MalformedError(
                    "this is not a Makeflow directive", f"expected .MAKEFLOW NAME value, with NAME of {known}; or .SIZE"
                )

    def _known(self, name: str) -> str | None:
        if self._open is not None and name in self._open.variables:
            return self._open.variables[name]
        if name not in _RESOURCES:
            return self._variables.get(name)
        own = self._resources.get(self._category() or _DEFAULT, {})
        return own.get(name, self._resources.get(_DEFAULT, {}).get(name))

    def _value(self, name: str) -> str | None:
        value = self._known(name)
        self._inserted += len(value or "")
        if self._inserted > _MOST_INSERTED:
            raise MalformedError(f"the variables of the file expand to more than {_MOST_INSERTED // 2**20} MiB")
        if value is None:
            self._warn(name, f"variable {name} is not defined in the file; the environment of the command decides")
        return value

    def _category(self) -> str | None:
        local = self._open.variables if self._open is not None else {}
        return _unquoted(local.get("CATEGORY", self._variables.get("CATEGORY", ""))) or None

    def _environment(self) -> Iterator[tuple[str, str]]:
        for name in self._exported:
            value = self._known(name)
            if value is not None:
                yield name, _shell_word(_unquoted(value))

    def _warn(self, about: str, message: str) -> None:
        self._warnings.setdefault(about, f"line {self._line}: {message}")

    def rules(self) -> list[Rule]:
        """Return the rules, after all lines have been read."""
        if self._open is not None:
            raise self._document.error("the rule has no command", self._open.line)
        return [self._finished(draft) for draft in self._drafts]

    def _finished(self, draft: _Draft) -> Rule:
        asked = self._request(draft)
        return Rule(
            command=draft.command,
            inputs=draft.inputs,
            outputs=draft.outputs,
            category=draft.category,
            request=amounts(asked),
            gpus=gpus(asked),
            environment=draft.environment,
            input_bytes=self._input_bytes(draft),
            note=draft.note,
            line=draft.line,
        )

    def _request(self, draft: _Draft) -> dict[str, float]:
        settings = (_DEFAULT, draft.category or _DEFAULT)
        values: dict[str, float] = {}
        for holder in (*(self._resources.get(name, {}) for name in settings), draft.variables):
            for name in sorted(holder.keys() & _RESOURCES):
                text = _unquoted(holder[name])
                if _NUMBER.fullmatch(text):
                    values[name.lower()] = float(text)
                elif name == "GPUS" and text:  # a task must not run without the GPUs that it needs
                    raise self._document.error(f'GPUS is "{text}"; expected a number', draft.line)
                else:
                    self._warn(f"{name}={text}", f'{name} is "{text}", which is not a number and is ignored')
        return values

    def _input_bytes(self, draft: _Draft) -> int | None:
        sizes = [self._sizes.get(name) for name in draft.inputs]
        known = [size for size in sizes if size is not None]
        return sum(known) if sizes and len(known) == len(sizes) else None


def _unquoted(value: str) -> str:
    """Return a value without the quotes around it, which the real tool keeps although its manual does not intend it."""
    value = value.strip(" \t")
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _shell_word(value: str) -> str:
    """Quote a value for the shell, which still replaces the variables that the file does not define."""
    if "${" not in value:
        return shlex.quote(value)
    return '"' + re.sub(r'(["`\\]|\$(?!\{\w+\}))', r"\\\1", value) + '"'


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = int(found.group(1)) << 10 * " KMGTP".index(found.group(2).upper() or " ") if found else -1
    if not 0 <= size < 2**63:
        raise MalformedError(f'the size is "{text}"; expected bytes, or K, M, G, T or P of base 1024')
    return size


def render(workflow: Workflow) -> str:
    """Return the workflow in the classic form."""
    name = " ".join(workflow.name.split())
    lines = [f"# {name}: {len(workflow):,} tasks, written by Tonnage {__version__}"]
    for rule, task in rules_of(workflow):
        lines += ["", *_rule_lines(rule, task)]
    return "\n".join(lines) + "\n"


def _rule_lines(rule: Rule, task: Task) -> Iterator[str]:
    rule = replace(rule, category=rule.category if _category_survives(rule.category) else None)
    command = _written(one_line(rule.command or ""))
    if command is None:
        # A word such as LOCAL at the beginning has a special meaning, but not in parentheses.
        rule = replace(rule, command=enclosed(rule.command or ""))
        command = _written(one_line(rule.command or "")) or ""
    extra = note_for(rule, task)
    if extra is not None:
        yield f"# tonnage: {extra}"
    yield f"{_names(rule.outputs)}: {_names(rule.inputs)}" if rule.inputs else f"{_names(rule.outputs)}:"
    if rule.category is not None:
        yield f"@CATEGORY={escaped(rule.category)}"
    for resource, amount in resources(rule).items():
        yield f"@{resource.upper()}={amount}"
    yield f"\t{command}"


def _names(names: tuple[str, ...]) -> str:
    for name in names:
        if _UNWRITABLE.search(name):
            raise InputError(f"cannot be written as Makeflow: the file name {name!r} contains a line break or NUL")
    return " ".join(map(escaped_name, names))


def _written(command: str) -> str | None:
    """Return a command as Makeflow must read it to run it unchanged: plain if possible, otherwise with escapes."""
    if "\0" in command:
        raise InputError(f"cannot be written as Makeflow: the command {command[:60]!r} contains a NUL")
    ways = (way for way in (command, escaped(command)) if _read_back(way) == command)
    return next(ways, None)


def _read_back(text: str) -> str | None:
    try:
        found = as_command(text, _nothing_defined)
    except MalformedError:
        return None
    if _LOCAL.match(found) or found.split(" ", 1)[0] == "MAKEFLOW" or text.startswith("@") or is_continued(text):
        return None
    return found


def _nothing_defined(name: str) -> str | None:
    raise MalformedError(f"{name} is for the shell")


def _category_survives(category: str | None) -> bool:
    if category is None or _UNWRITABLE.search(category):
        return False
    return _unquoted(as_text(escaped(category), _nothing_defined)) == category != ""
