"""This process: kernel calls that Python's standard library has no function for, and what it inherits at its start.

The calls go through ``_ctypes``, the part of ``ctypes`` that is written in C: importing all of ``ctypes`` would cost
more than starting the command does.
"""

import os
from sys import byteorder

from tonnage.watch.proc import read

__all__ = [
    "adopt_orphans",
    "be_readable",
    "die_with_parent",
    "fill_standard_streams",
    "forget_coerced_locale",
    "name_process",
    "open_fork_records",
]

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_PERF_TYPE_SOFTWARE = 1
_PERF_COUNT_SW_DUMMY = 9  # counts nothing: only the records of forks and exits are wanted
_PERF_ATTR_SIZE = 64  # the first version of the structure has all that is needed
_PERF_FLAG_FD_CLOEXEC = 8
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HV, _TASK, _WATERMARK = 1 << 1, 1 << 5, 1 << 6, 1 << 13, 1 << 14


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal: int) -> None:
    """Get this signal when the parent process ends."""
    _prctl(_PR_SET_PDEATHSIG, int(signal))


def be_readable() -> None:
    """Let this process read its own files in /proc, also after it gave up being root."""
    _prctl(_PR_SET_DUMPABLE, 1)


def name_process(name: str) -> None:
    """Set the name that ps and top show."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


def open_fork_records(cpu: int, watermark: int) -> int:
    """Open the kernel's records of forks and exits, on one CPU, of this process and all its future descendants.

    The kernel sends a signal when `watermark` bytes of them have gathered. User rights are enough up to
    perf_event_paranoid 2.
    """
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HV | _TASK | _WATERMARK
    attributes = b"".join(
        (
            _PERF_TYPE_SOFTWARE.to_bytes(4, byteorder),
            _PERF_ATTR_SIZE.to_bytes(4, byteorder),
            _PERF_COUNT_SW_DUMMY.to_bytes(8, byteorder),
            bytes(24),  # sample_period, sample_type, read_format
            flags.to_bytes(8, byteorder),
            watermark.to_bytes(4, byteorder),
            bytes(12),
        )
    )
    number = _PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        raise OSError("perf_event_open is not known on this kind of machine")
    descriptor = _call("syscall", number, attributes, 0, cpu, -1, _PERF_FLAG_FD_CLOEXEC)
    if descriptor < 0:
        raise OSError("perf_event_open was refused")
    return descriptor


def _prctl(option: int, value: "int | bytes") -> None:
    if _call("prctl", option, value, 0, 0, 0) != 0:
        raise OSError(f"prctl({option}) was refused")


def _call(function: str, *arguments: "int | bytes") -> int:
    import _ctypes

    address = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), function)  # type: ignore[arg-type] # None: what is loaded
    result: int = _ctypes.call_function(address, arguments)
    return result


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
