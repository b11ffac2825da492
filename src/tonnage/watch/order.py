"""Orders and answers: the messages between an engine and the processes that run commands for it.

Both are dictionaries; `Order`, `Answer` and `Seen` in ``tonnage.run.minders`` are their typed counterparts. On a
socket, each message is sent as its length followed by its ``marshal`` bytes, by far the fastest encoding. There, a
number is a request to stop that attempt, ``(PAUSE, number)`` and ``(CONTINUE, number)`` pause it for a while, and None
ends the conversation.
"""

import os
from marshal import dumps, loads
from struct import Struct

from tonnage.atomic import AtomicFile, make_private_folder
from tonnage.watch.limits import Job
from tonnage.watch.record import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tonnage.watch.minder import Outcome

__all__ = [
    "CANCELLED",
    "CONTINUE",
    "ENGINE_GONE",
    "MACHINE_LOST",
    "MONITOR_KILLED",
    "NUMBER",
    "PAUSE",
    "RESULTS",
    "SLOTS",
    "TERMINATED",
    "Inbox",
    "Outputs",
    "answered",
    "frame",
    "job_of",
    "leave_result",
]

# Why a command was stopped.
CANCELLED, ENGINE_GONE, MONITOR_KILLED = "cancelled", "engine gone", "monitor killed"
MACHINE_LOST, TERMINATED = "machine lost", "terminated"
RESULTS, SLOTS, _UNPLACED = "results", "slots", "unplaced"  # subfolders of the engine's; slots: output not placed yet
PAUSE, CONTINUE = "pause", "continue"
NUMBER = Struct("=I")  # the length of a message, or the number of a minder

_APPENDED = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


def frame(message: "dict[str, Any] | tuple[str, int] | int | None") -> bytes:
    """Encode a message for sending."""
    body = dumps(message)
    return NUMBER.pack(len(body)) + body


class Inbox:
    """Assembles messages from the pieces that arrive."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, piece: bytes) -> "list[Any]":
        """Add a piece; return the messages that are now complete."""
        data = self._data + piece if self._data else piece
        messages, begin = [], 0
        while len(data) >= begin + NUMBER.size:
            end = begin + NUMBER.size + NUMBER.unpack_from(data, begin)[0]
            if end > len(data):
                break
            messages.append(loads(data[begin + NUMBER.size : end]))  # noqa: S302 (from our own processes)
            begin = end
        self._data = data[begin:]
        return messages


def job_of(order: "dict[str, Any]", environment: "Mapping[str, str]", outputs: "Outputs") -> Job:
    """Return the command of an order; the order's environment variables are added to `environment`."""
    return Job(
        order["words"],
        executable=order["executable"],
        folder=order["measured"],
        limits=order["limits"],
        start_in=order["folder"],
        environment={**environment, **order["environment"]},
        streams=outputs.streams,
        own_group=True,
    )


def answered(
    order: "dict[str, Any]", outcome: "Outcome", error: "str | None", outputs: "Outputs", folder: str
) -> "dict[str, Any]":
    """Return the answer to an executed order, and move the command's output to its destination."""
    answer: dict[str, Any] = {
        "attempt": order["attempt"],
        "status": outcome.status,
        "stopped_because": outcome.stopped_because,
        "used": outcome.used,
        "memory_method": outcome.memory_method,
        "lower_bounds": outcome.lower_bounds,
        "upper_bounds": outcome.upper_bounds,
        "started": outcome.start,
        "ended": outcome.end,
        "unkilled": outcome.unkilled,
        "notes": [],
    }
    # The rest is usually absent.
    if error is not None:
        answer["error"] = error
    if outcome.paused:
        answer["paused"] = outcome.paused
    if outcome.exceeded:
        answer["exceeded"] = {name: [one.limit, one.value] for name, one in outcome.exceeded.items()}
    outputs.place(order, os.path.join(folder, _UNPLACED), answer)
    return answer


def leave_result(folder: str, answer: "dict[str, Any]") -> None:
    """Write an answer to a file, for an engine that may not have received it."""
    with AtomicFile(os.path.join(folder, RESULTS, str(answer["attempt"]))) as file:
        file.write(render(answer).encode())


class Outputs:
    """The files that collect what commands write to standard output and standard error."""

    def __init__(self, stdout: str, stderr: str) -> None:
        """Open the files; output is moved from them to its destination after each command."""
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._files = {"stdout": _Output(stdout), "stderr": _Output(stderr)}
        self.streams = (nothing, *(file.descriptor for file in self._files.values()))
        """The descriptors of every command's standard streams."""

    def place(self, order: "dict[str, Any]", refuge: str, answer: "dict[str, Any]") -> None:
        """Move what a command wrote to the destination in its order, and record in the answer where it is."""
        for stream, file in self._files.items():
            if file.written():
                answer[stream], note = file.place(order[stream], os.path.join(refuge, f"{order['attempt']}.{stream}"))
                answer["notes"] += [note] if note else []

    def remove(self) -> None:
        """Remove the files."""
        for file in self._files.values():
            file.remove()


class _Output:
    """A file for one stream, reused until a command writes something to it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.descriptor = os.open(path, _APPENDED, 0o600)

    def written(self) -> bool:
        """Whether a command has written anything."""
        return os.lseek(self.descriptor, 0, os.SEEK_END) > 0

    def place(self, target: str, refuge: str) -> "tuple[str, str | None]":
        """Move what a command wrote to its destination; return where it is now, and what went wrong."""
        place, note = target, None
        try:
            os.rename(self._path, target)
        except OSError as error:
            place, note = refuge, f"{target}: {error.strerror}"
            make_private_folder(os.path.dirname(refuge))
            os.rename(self._path, refuge)
        new = os.open(self._path, _APPENDED, 0o600)
        os.dup2(new, self.descriptor, inheritable=False)  # the descriptor stays the same for all commands
        os.close(new)
        return place, note

    def remove(self) -> None:
        """Remove the files."""
        try:
            os.unlink(self._path)
        except OSError:
            pass
