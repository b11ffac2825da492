"""Every error that Tonnage raises on purpose, each with a message for the user.

::

    TonnageError                       the work failed (exit status 1)
    ├── InputError                     the input or the call is wrong (exit status 2)
    │   ├── CycleError                 the tasks of a workflow depend on each other in a cycle
    │   └── DoesNotFitError            a job needs more than it can ever get
    ├── CannotStartError               a command cannot be started
    ├── TaskFailedError                a task that a Python program submitted has failed
    ├── JournalError                   the journal of a run cannot be read or written
    ├── CannotPackError                no batch job can carry the remaining tasks
    ├── SchedulerError                 a batch system:
    │   ├── SchedulerUnreachableError      does not answer now, but may later
    │   ├── SubmissionRejectedError        will never accept this job
    │   ├── ProgramFailedError             one of its programs ended with an error
    │   └── QueueFullError                 has as many jobs of this user as are allowed (simulated clusters)
    ├── ArchiveServerError             an archive on a server:
    │   ├── ServerUnreachableError         does not answer now, but may later
    │   ├── AccessDeniedError              denies access until its settings or the token change
    │   ├── ServerRejectedError            will never accept what it was sent
    │   └── OutboxBusyError                is already being sent to by another process of this user
    └── ServeError                     tonnage serve:
        ├── ServerBusyError                has too many background jobs waiting
        └── ReportTimeoutError             could not make a report in time

Exceptions that a module raises and catches itself, such as those of parsers, stand in that module.

This one is imported by ``watch`` before it starts a command, so it imports nothing.
"""

__all__ = [
    "AccessDeniedError",
    "ArchiveServerError",
    "CannotPackError",
    "CannotStartError",
    "CycleError",
    "DoesNotFitError",
    "InputError",
    "JournalError",
    "OutboxBusyError",
    "ProgramFailedError",
    "QueueFullError",
    "ReportTimeoutError",
    "SchedulerError",
    "SchedulerUnreachableError",
    "ServeError",
    "ServerBusyError",
    "ServerRejectedError",
    "ServerUnreachableError",
    "SubmissionRejectedError",
    "TaskFailedError",
    "TonnageError",
]


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
    """The tasks of a workflow depend on each other in a cycle."""

    # A circle of thousands of tasks is not worth printing in full: its ends show where to look.
    _SHOWN = 12

    def __init__(self, names: "list[str]", *, path: object = None) -> None:
        self.names = names
        if len(names) == 1:
            message = f'task "{names[0]}" depends on itself'
        else:
            message = f"the tasks wait for each other in a cycle: {' -> '.join(self._shortened())}"
        super().__init__(message, path=path)

    def _shortened(self) -> "list[str]":
        closed = [*self.names, self.names[0]]
        if len(closed) <= self._SHOWN:
            return closed
        half = self._SHOWN // 2
        return [*closed[:half], f"({len(closed) - 2 * half} more)", *closed[-half:]]


class DoesNotFitError(InputError):
    """A job needs more than it can ever get."""

    def __init__(self, most: float) -> None:
        super().__init__(f"a job needs more than {most:g}, the most it can get")
        self.most = most


class CannotStartError(TonnageError):
    """A command cannot be started."""


class TaskFailedError(TonnageError):
    """A task that a Python program submitted has failed: says why, and quotes the end of its standard error."""


class JournalError(TonnageError):
    """The journal of a run cannot be read or written."""


class CannotPackError(TonnageError):
    """No batch job can carry the remaining tasks."""


class SchedulerError(TonnageError):
    """A batch system cannot do what it was asked to."""


class SchedulerUnreachableError(SchedulerError):
    """The batch system does not answer now: nothing is known, and the same call can be made again."""


class SubmissionRejectedError(SchedulerError):
    """The batch system does not accept a job, and would not accept it later either."""


class ProgramFailedError(SchedulerError):
    """A program of the batch system ended with an error that has nothing to do with the network."""

    def __init__(self, program: str, said: str) -> None:
        super().__init__(f"{program}: {said}")
        self.said = said
        """What the program printed."""


class QueueFullError(SchedulerError):
    """A user has as many jobs in a simulated cluster as are allowed."""


class ArchiveServerError(TonnageError):
    """An archive on a server cannot do what it was asked to."""


class ServerUnreachableError(ArchiveServerError):
    """The server did not answer properly; it may later."""

    wait: "float | None" = None
    """How many seconds the server asks to wait before a retry."""


class AccessDeniedError(ArchiveServerError):
    """The server denies access, now and later, until its settings or the token change."""


class ServerRejectedError(ArchiveServerError):
    """The server will never accept what it was sent."""

    places: "dict[int, str] | None" = None
    """The attempts that it rejects, by their places, and why; None if it does not say."""


class OutboxBusyError(ArchiveServerError):
    """Another process of this user is already sending to the server."""


class ServeError(TonnageError):
    """``tonnage serve`` cannot do what it was asked to."""


class ServerBusyError(ServeError):
    """Too many background jobs are waiting to accept another."""


class ReportTimeoutError(ServeError):
    """A report could not be made in time."""
