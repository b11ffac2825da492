"""Every error that Tonnage raises on purpose, each with a message for the user.

::

    TonnageError          the work failed (exit status 1)
    └── InputError        the input or the call is wrong (exit status 2)
        └── CycleError    a workflow's tasks wait for each other in a circle

This module is imported by ``watch`` before it starts a command, so it imports nothing.
"""

__all__ = ["CycleError", "InputError", "TonnageError"]


class TonnageError(Exception):
    """Something went wrong that the user can do something about."""

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message

    def report(self) -> str:
        """Return what the user reads: where, what, and a hint on its own line where there is one."""
        return f"{self}\n  {self.hint}" if self.hint else str(self)


class InputError(TonnageError):
    """An input or a call is wrong: says in which file and line, what was found and what was expected."""

    exit_status = 2

    def __init__(self, message: str, *, path: object = None, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line

    def __str__(self) -> str:
        if self.path is None:
            return self.message
        where = f"{self.path}:{self.line}" if self.line is not None else f"{self.path}"
        return f"{where}: {self.message}"


class CycleError(InputError):
    """The tasks of a workflow depend on each other in a circle."""

    # A circle of thousands of tasks is not worth printing in full: its ends show where to look.
    _SHOWN = 12

    def __init__(self, names: "list[str]", *, path: object = None) -> None:
        self.names = names
        if len(names) == 1:
            message = f'task "{names[0]}" depends on itself'
        else:
            message = f"the tasks wait for each other in a circle: {' -> '.join(self._shortened())}"
        super().__init__(message, path=path)

    def _shortened(self) -> "list[str]":
        closed = [*self.names, self.names[0]]
        if len(closed) <= self._SHOWN:
            return closed
        half = self._SHOWN // 2
        return [*closed[:half], f"({len(closed) - 2 * half} more)", *closed[-half:]]
