"""A cache of results that are slow to compute and that live pages request repeatedly."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

__all__ = ["Cache"]

_Value = TypeVar("_Value")

_MOST = 100
_SHARE = 5.0
"""Seconds that a result stays valid per second it took: at most a sixth of the time is spent on computing it."""
_AT_LEAST = 0.5


@dataclass
class _Answer:
    lock: Lock = field(default_factory=Lock)
    value: Any = None
    state: object = None
    until: float = -1.0


@dataclass
class Cache:
    """The latest results, each computed by one request at a time, however many wait for it."""

    _answers: OrderedDict[str, _Answer] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, name: str, state: object, find: Callable[[], _Value]) -> _Value:
        """Return a result, computed now or recently; with a known and unchanged `state`, it never expires."""
        with self._lock:
            answer = self._answers.setdefault(name, _Answer())
            self._answers.move_to_end(name)
            while len(self._answers) > _MOST:
                self._answers.popitem(last=False)
        with answer.lock:
            begun = time.monotonic()
            if begun >= answer.until and (state is None or state != answer.state):
                answer.value = find()
                answer.state = state
                ended = time.monotonic()
                answer.until = ended + max(_AT_LEAST, _SHARE * (ended - begun))
            found: _Value = answer.value
            return found
