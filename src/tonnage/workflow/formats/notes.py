"""Notes: what a file format cannot express about a task, stored next to it so that reading restores the task."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast

from tonnage.jobs import Amounts, Resource
from tonnage.workflow.model import Task

__all__ = ["note", "restored"]

_FIELDS = tuple(field.name for field in fields(Task))
_AMOUNTS = {"request", "expected"}
_FILES = {"inputs", "outputs"}
_WHOLE = {"input_bytes", "priority", "gpus"}


def note(task: Task, plain: Task) -> str | None:
    """Return what is missing from `plain`, the task as a reader sees it, to restore `task`: JSON, or None."""
    differing = (name for name in _FIELDS if getattr(task, name) != getattr(plain, name))
    values = {name: _as_json(name, getattr(task, name)) for name in differing}
    return json.dumps(values, separators=(",", ":")) if values else None


def restored(plain: Task, text: str) -> Task:
    """Return the task that `note` was written for; raise ValueError if the text is not such a note."""
    values = json.loads(text)
    if not isinstance(values, Mapping) or not set(values) <= set(_FIELDS):
        raise ValueError("not a note about a task")
    changes: dict[str, Any] = {name: _from_json(name, value) for name, value in values.items()}
    return replace(plain, **changes)


def _as_json(name: str, value: object) -> object:
    if name not in _AMOUNTS:
        return value
    return dict(cast(Amounts, value).known())


def _from_json(name: str, value: Any) -> object:  # noqa: ANN401 (any JSON value; checked here)
    if name in _AMOUNTS:
        return _amounts(name, value)
    if name in _FILES:
        return tuple(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else _refuse(name)
    expected = int if name in _WHOLE else str
    optional = name not in ("name", "category", "gpus")
    return value if isinstance(value, expected) or (value is None and optional) else _refuse(name)


def _amounts(name: str, value: Any) -> object:  # noqa: ANN401
    if not isinstance(value, dict) or not set(value) <= set(Resource):
        return _refuse(name)
    if not all(type(amount) in (int, float) and 0 <= amount < 2**63 for amount in value.values()):
        return _refuse(name)
    return Amounts.of(**value)


def _refuse(name: str) -> object:
    raise ValueError(f"{name} has the wrong type")
