"""What a process finds when it starts, made fit for the commands that it will start itself."""

import os

from tonnage.watch.proc import read

__all__ = ["fill_standard_streams", "forget_coerced_locale"]


def fill_standard_streams() -> None:
    """Let no file of ours get the number of a standard stream that was closed; the command still finds it closed."""
    descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.close(descriptor)


def forget_coerced_locale() -> None:
    """Take back the variable that Python sets where it finds the C locale: the command should not see it."""
    if os.environ.get("LC_CTYPE") == "C.UTF-8" and b"LC_CTYPE=" not in (read("/proc/self/environ") or b""):
        del os.environ["LC_CTYPE"]
