"""Calls of Python functions as files: written here, carried out by `call_child` in another process."""

import pickle
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tonnage.atomic import private_opener
from tonnage.errors import InputError
from tonnage.run.events import Ended, Settled, State
from tonnage.run.executor import call_child
from tonnage.run.executor.futures import TaskFailedError, failure

__all__ = ["Call", "category_of", "pickled"]


def category_of(function: Callable[..., object]) -> str:
    """Return the category of a function of which nobody says more: its name."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else str(name)


def pickled(function: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]) -> bytes:
    """Return a call as it travels: first where modules are found, then the function and what it is called with."""
    import cloudpickle

    try:
        body: bytes = cloudpickle.dumps((function, arguments, dict(named)))
    except Exception as error:
        message = f"{category_of(function)} cannot be sent to another process: {error}"
        raise InputError(message, hint="a function and its arguments must be picklable") from error
    return pickle.dumps([str(Path(place).absolute()) for place in sys.path]) + body


@dataclass(frozen=True, slots=True)
class Call:
    """A call that waits in a file; its folder is one into which nobody else can write, so it may be unpickled."""

    path: Path

    @property
    def command(self) -> str:
        """What carries it out."""
        return shlex.join([sys.executable, "-P", call_child.__file__, str(self.path)])

    @property
    def result(self) -> Path:
        """Where its result will be."""
        return self._beside(call_child.RESULT)

    def write(self, data: bytes) -> None:
        """Let it wait."""
        with open(self.path, "wb", opener=private_opener) as file:
            file.write(data)

    def collect(self, end: Ended, settled: Settled) -> Any:  # noqa: ANN401 (whatever the function returns)
        """Return what the function returned, or raise what it raised; afterwards the call is gone."""
        try:
            if settled.state is State.DONE:
                return pickle.loads(self.result.read_bytes())  # noqa: S301 (our own file)
            raise self._raised(end, settled)
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove all of its files."""
        for path in (self.path, self.result, self._beside(call_child.RAISED)):
            path.unlink(missing_ok=True)

    def _raised(self, end: Ended, settled: Settled) -> BaseException:
        """Return what the function raised, with its traceback as a note; or that it never came so far."""
        try:
            text, data = pickle.loads(self._beside(call_child.RAISED).read_bytes())  # noqa: S301 (our own file)
        except OSError:
            return failure(end, settled)
        try:
            error = None if data is None else pickle.loads(data)  # noqa: S301 (our own file)
        except Exception:
            error = None  # what it needs is only there in the other process
        if not isinstance(error, BaseException):
            return TaskFailedError(text.rstrip())
        error.add_note(f"\nIn the task's own process:\n{text.rstrip()}")
        return error

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)
