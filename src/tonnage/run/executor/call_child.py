"""Calls one function in a process of its own: ``python -P call_child.py CALL``, where CALL is written by the executor.

The result is written to CALL.result, an exception to CALL.error; both files appear atomically. This file is run as a
script, because ``-m`` would take half as long as Python's own start, and it imports as little as possible.
"""

import os
import sys
from _pickle import dumps, load, loads

__all__ = ["RAISED", "RESULT", "main"]

RESULT, RAISED = ".result", ".error"


def main(call: str) -> int:
    """Call the function; return the exit status."""
    if os.path.exists(call + RAISED):
        os.remove(call + RAISED)  # from an earlier attempt
    try:
        with open(call, "rb") as file:
            sys.path += [place for place in load(file) if place not in sys.path]
            function, arguments, named = load(file)
        _write(call + RESULT, _pickled(function(*arguments, **named)))
    except BaseException as error:
        _write(call + RAISED, dumps(_described(error)))
        return 1
    return 0


def _described(error: BaseException) -> "tuple[str, bytes | None]":
    """Print the traceback of an exception, and return it with the pickled exception, if that is possible."""
    from traceback import format_exception

    frame = error.__traceback__
    text = "".join(format_exception(type(error), error, frame.tb_next if frame else None))  # without our own frame
    sys.stderr.write(text)
    try:
        pickled = _pickled(error)
        loads(pickled)  # some exceptions can be pickled, but not unpickled
    except BaseException:
        return text, None
    return text, pickled


def _pickled(value: object) -> bytes:
    """Pickle a value; cloudpickle is imported only if needed, because that takes longer than many calls."""
    try:
        return dumps(value, 5)
    except Exception:
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(value)
        return pickled


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(path: str, data: bytes) -> None:
    beside = f"{path}.{os.getpid()}"
    with open(beside, "wb", opener=_private) as file:
        file.write(data)
    os.replace(beside, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
