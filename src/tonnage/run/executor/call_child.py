"""Calls one function in a process of its own: ``python -P call_child.py CALL``, where the executor has written CALL.

The result goes to CALL.result, or what was raised to CALL.error; each appears whole or not at all. This file is run as
a script, since ``-m`` takes half as long as Python's own start, and it imports as little as it can.
"""

import os
import sys
from _pickle import dumps, load, loads

__all__ = ["RAISED", "RESULT", "main"]

RESULT, RAISED = ".result", ".error"


def main(call: str) -> int:
    """Call the function; return the exit status."""
    if os.path.exists(call + RAISED):
        os.remove(call + RAISED)  # what an earlier attempt raised
    try:
        with open(call, "rb") as file:
            sys.path += [place for place in load(file) if place not in sys.path]
            function, arguments, named = load(file)
        _write(call + RESULT, _pickled(function(*arguments, **named)))
    except BaseException as error:
        _write(call + RAISED, dumps(_told(error)))
        return 1
    return 0


def _told(error: BaseException) -> "tuple[str, bytes | None]":
    """Return an exception as it travels: its traceback, which is printed too, and itself where that can be pickled."""
    from traceback import format_exception

    frame = error.__traceback__
    text = "".join(format_exception(type(error), error, frame.tb_next if frame else None))  # without this file's own
    sys.stderr.write(text)
    try:
        pickled = _pickled(error)
        loads(pickled)  # many an exception cannot be made again from what it was
    except BaseException:
        return text, None
    return text, pickled


def _pickled(value: object) -> bytes:
    """Return the pickle of a value; loading cloudpickle takes longer than many a call, and is seldom needed."""
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
