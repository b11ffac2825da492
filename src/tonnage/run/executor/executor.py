"""Functions and commands that a program submits: sized, monitored and retried like tasks of a workflow.

A function call is written to a file, and `call_child` carries it out in a process of its own.
"""

import os
import pickle
import shlex
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar

from tonnage.atomic import private_opener
from tonnage.errors import InputError, TaskFailedError
from tonnage.jobs import NOTHING_KNOWN, SHARED, Amounts, Resource
from tonnage.option_values import amounts_given
from tonnage.run.events import Ended, Settled, State
from tonnage.run.executor import call_child
from tonnage.run.executor.dynamic_run import UNNAMED, DynamicRun
from tonnage.run.executor.futures import Finished, TaskFuture, failure, finished
from tonnage.run.retry_rules import Rules
from tonnage.workflow import Task
from tonnage.workflow.shell import executable

__all__ = ["Category", "Executor", "category_of"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
Amount = float | str
"""An amount in bytes, seconds or cores, or a string with a unit: ``"2GB"``."""
Name = str | os.PathLike[str]


class Executor(futures.Executor):
    """Runs functions and commands, each in a process of its own with the resources that it needs.

    The sizes of tasks are learnt from finished tasks of the same category, in this program and in earlier ones. A task
    that needs more than it was allocated is stopped and retried with more. The run has a folder in ``.tonnage/runs``,
    and ``tonnage status`` shows its progress.
    """

    def __init__(
        self,
        *,
        machine: Mapping[str, Amount] | None = None,
        size: str = "auto",
        retries: int = 0,
        enforce: Literal["elastic", "strict"] = "elastic",
        archive: str | None = None,
        name: str = UNNAMED,
        folder: Name | None = None,
    ) -> None:
        """Start a run.

        :param machine: what all tasks together may use, such as ``{"cores": 4, "memory": "8GB"}``; by default the whole
            machine.
        :param size: how tasks are sized: a strategy of ``tonnage size``.
        :param retries: how often a failed task is retried.
        :param enforce: what happens to a task that needs more memory than it was allocated: with ``elastic``, it grows
            while the machine has room; with ``strict``, it is killed and retried with more.
        :param archive: the file or URL of the archive; by default the user's own.
        :param name: the name of the run: sizes are learnt from programs with this name or, without a name, from those
            in the same folder.
        :param folder: where tasks run; by default the current folder.
        """
        home = Path(folder or ".").absolute()
        allowed = amounts_given(machine or {}, SHARED)
        rules = Rules(retries=retries, elastic=enforce == "elastic")
        self._run = DynamicRun(name, home, dict(allowed.known()), size, rules, archive)
        self._numbers = count(1)
        weakref.finalize(self, self._run.close).atexit = False  # the run handles the end of the program itself

    @property
    def folder(self) -> Path:
        """The folder of the run, with its journal and the output of its tasks."""
        return self._run.folder.path

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> TaskFuture[_T]:
        """Call a function in a process of its own; its name is its category."""
        return self.category(category_of(fn)).submit(fn, *args, **kwargs)

    def category(
        self,
        name: str,
        *,
        cores: Amount | None = None,
        memory: Amount | None = None,
        disk: Amount | None = None,
        wall_time: Amount | None = None,
        inputs: Sequence[Name] = (),
    ) -> "Category":
        """Return an executor for functions of a category, with their requests and the files that they read.

        Requests are used until it is known what functions of the category use; the size of its inputs helps to predict
        what a call needs. A call that takes longer than `wall_time` is stopped, and retried with twice the time.
        """
        request = _request(cores, memory, disk, wall_time)
        return Category(self, name, request, self._existing(inputs))

    def command(
        self,
        command: str,
        *,
        category: str | None = None,
        cores: Amount | None = None,
        memory: Amount | None = None,
        disk: Amount | None = None,
        wall_time: Amount | None = None,
        inputs: Sequence[Name] = (),
        outputs: Sequence[Name] = (),
    ) -> TaskFuture[Finished]:
        """Run a shell command in the executor's folder; its category is its program by default.

        It fails if its exit status is not 0, or if one of its outputs does not exist afterwards: the future then raises
        a `TaskFailedError` with the end of its standard error.
        """
        if not command.strip():
            raise InputError("the command is empty")
        kind = category or executable(command) or "command"
        task = Task(
            name=self._name(kind),
            command=command,
            category=kind,
            inputs=self._existing(inputs),
            outputs=tuple(os.fspath(one) for one in outputs),
            request=_request(cores, memory, disk, wall_time),
        )
        future = TaskFuture(task.name, kind, finished, self._run.cancelled)
        self._run.add(task, future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks; with `wait`, wait until all have finished and are stored in the archive.

        With `cancel_futures`, tasks that have not started are cancelled. Ctrl-C during the wait kills running tasks.
        """
        self._run.close(cancel_waiting=cancel_futures)
        if wait:
            self._run.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all tasks; after Ctrl-C or ``sys.exit``, cancel them."""
        if kind is not None and not issubclass(kind, Exception):
            self._run.close(cancel_all=True)
        self.shutdown()

    def _call(self, category: "Category", data: bytes) -> TaskFuture[_T]:
        """Add a function call to the run."""
        name = self._name(category.name)
        call = _Call(self._run.calls / name.rpartition(".")[2])
        task = Task(
            name=name,
            command=call.command,
            category=category.name,
            inputs=category.inputs,
            outputs=(str(call.result),),
            request=category.request,
        )
        future = TaskFuture[_T](name, category.name, call.collect, self._run.cancelled)
        self._run.add(task, future, lambda: call.write(data))
        return future

    def _name(self, category: str) -> str:
        return f"{category}.{next(self._numbers)}"

    def _existing(self, names: Sequence[Name]) -> tuple[str, ...]:
        """Return the names of a task's inputs, which must exist: a task is submitted after those that it depends on."""
        found = tuple(os.fspath(one) for one in names)
        for name in found:
            if not (self._run.home / name).exists():
                raise InputError(f'the input "{name}" does not exist')
        return found


class Category(futures.Executor):
    """An executor for functions of one category; created by `Executor.category`, and shut down with its executor."""

    def __init__(self, executor: Executor, name: str, request: Amounts, inputs: tuple[str, ...]) -> None:
        self.name = name
        self.request = request
        self.inputs = inputs
        self._executor = executor

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> TaskFuture[_T]:
        """Call a function in a process of its own."""
        return self._executor._call(self, _pickled(fn, args, kwargs))


def _request(cores: Amount | None, memory: Amount | None, disk: Amount | None, wall_time: Amount | None) -> Amounts:
    given = {"cores": cores, "memory": memory, "disk": disk, "wall_time": wall_time}
    found = {name: amount for name, amount in given.items() if amount is not None}
    return amounts_given(found, (*SHARED, Resource.WALL_TIME)) if found else NOTHING_KNOWN


def category_of(function: Callable[..., object]) -> str:
    """Return the default category of a function: its name."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else str(name)


def _pickled(function: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]) -> bytes:
    """Pickle a call: first the module search path, then the function and its arguments."""
    import cloudpickle

    try:
        body: bytes = cloudpickle.dumps((function, arguments, dict(named)))
    except Exception as error:
        message = f"{category_of(function)} cannot be sent to another process: {error}"
        raise InputError(message, hint="a function and its arguments must be picklable") from error
    return pickle.dumps([str(Path(place).absolute()) for place in sys.path]) + body


@dataclass(frozen=True, slots=True)
class _Call:
    """A call in a file; it is safe to unpickle, because only this user can write to its folder."""

    path: Path

    @property
    def command(self) -> str:
        """The command that carries it out."""
        return shlex.join([sys.executable, "-P", call_child.__file__, str(self.path)])

    @property
    def result(self) -> Path:
        """The file for its result."""
        return self._beside(call_child.RESULT)

    def write(self, data: bytes) -> None:
        """Write the call to its file."""
        with open(self.path, "wb", opener=private_opener) as file:
            file.write(data)

    def collect(self, end: Ended, settled: Settled) -> Any:  # noqa: ANN401 (whatever the function returns)
        """Return what the function returned, or raise what it raised, and remove the call's files."""
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
        """Return what the function raised, with its traceback as a note, or the reason why it was not called."""
        try:
            text, data = pickle.loads(self._beside(call_child.RAISED).read_bytes())  # noqa: S301 (our own file)
        except OSError:
            return failure(end, settled)
        try:
            error = None if data is None else pickle.loads(data)  # noqa: S301 (our own file)
        except Exception:
            error = None  # it depends on something that exists only in the other process
        if not isinstance(error, BaseException):
            return TaskFailedError(text.rstrip())
        error.add_note(f"\nIn the task's own process:\n{text.rstrip()}")
        return error

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)
