"""YAML, read safely: no tags, no guessed types, no unlimited depth or expansion.

Scalars remain the text in the file ("1001" and "no" are strings); an absent one is None. The values are built from the
parser's events with an explicit stack, because the usual loaders recurse, and a small file of aliases can expand to
more nodes than fit into memory.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import yaml

from tonnage.files import Document

__all__ = ["Value", "load"]

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"

_DEEPEST = 100
_MOST_NODES = 50_000_000
_NOTHING = frozenset(("", "~", "null", "Null", "NULL"))
# The C parser is ten times faster; the wheels include it, an unusual build might not.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(document: Document) -> Value:
    """Parse a YAML file; raise an error that names the line if it is not valid."""
    try:
        return _Builder(document).build(yaml.parse(document.text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise document.error(f"is not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError as error:
        raise document.error(f"is not YAML: {error}") from None
    except RecursionError:
        raise document.error("is nested too deeply") from None


def _line(event: Any) -> int:  # noqa: ANN401 (PyYAML's events have no types)
    return int(event.start_mark.line) + 1


class _Builder:
    """Builds values from the events that the parser reports."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._stack: list[tuple[Value, str | None]] = []
        self._keys: list[str | None] = []
        self._anchors: dict[str, tuple[Value, int]] = {}
        self._nodes = 0
        self._starts: list[int] = []
        self._top: Value = None

    def build(self, events: Iterator[Any]) -> Value:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                plain = event.style is None or event.style == ""
                value = None if plain and event.value in _NOTHING else event.value
                self._add(value, event.anchor, self._count(1, event), event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open([], event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._close(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
        return self._top

    def _count(self, nodes: int, event: yaml.Event) -> int:
        """Count nodes as if every alias were written out, so that a bomb is detected before it is expanded."""
        self._nodes += nodes
        if self._nodes > _MOST_NODES:
            raise self._document.error(f"expands to more than {_MOST_NODES:,} values", _line(event))
        return nodes

    def _open(self, value: Value, event: Any) -> None:  # noqa: ANN401
        if len(self._stack) == _DEEPEST:
            raise self._document.error(f"is nested deeper than {_DEEPEST}", _line(event))
        self._starts.append(self._nodes)
        self._count(1, event)
        self._stack.append((value, event.anchor))
        self._keys.append(None)

    def _close(self, event: yaml.Event) -> None:
        value, anchor = self._stack.pop()
        self._keys.pop()
        self._add(value, anchor, self._nodes - self._starts.pop(), event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise self._document.error(f'alias "{event.anchor}" has no anchor', _line(event))
        value, nodes = self._anchors[event.anchor]
        self._add(value, None, self._count(nodes, event), event)

    def _add(self, value: Value, anchor: str | None, nodes: int, event: yaml.Event) -> None:
        if anchor:
            self._anchors[anchor] = (value, nodes)
        if not self._stack:
            self._top = value
            return
        holder = self._stack[-1][0]
        if isinstance(holder, list):
            holder.append(value)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = self._as_key(value, event)
        elif isinstance(holder, dict):
            holder[key] = value
            self._keys[-1] = None

    def _as_key(self, value: Value, event: yaml.Event) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        raise self._document.error("a key must be a string", _line(event))
