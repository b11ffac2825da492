"""Kernel calls that Python's standard library lacks, and corrections to what this process inherits at its start.

The calls go through ``_ctypes``, the part of ``ctypes`` that is written in C: importing all of ``ctypes`` would take
longer than starting the command.
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
_PERF_COUNT_SW_DUMMY = 9  # counts nothing: only the records of forks and exits are needed
_PERF_ATTR_SIZE = 64  # the first version of the structure has everything we need
_PERF_FLAG_FD_CLOEXEC = 8
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HV, _TASK, _WATERMARK = 1 << 1, 1 << 5, 1 << 6, 1 << 13, 1 << 14


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal: int) -> None:
    """Have the kernel send this signal to this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, int(signal))


def be_readable() -> None:
    """Let this process read its own files in /proc, even after dropping root privileges."""
    _prctl(_PR_SET_DUMPABLE, 1)


def name_process(name: str) -> None:
    """Set the name that ps and top show."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


def open_fork_records(cpu: int, watermark: int) -> int:
    """Open the kernel's records of forks and exits, on one CPU, of this process and all its future descendants.

    The kernel sends a signal when `watermark` bytes of them have gathered. No privileges are needed up to
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
        raise OSError("perf_event_open is not supported on this architecture")
    descriptor = _call("syscall", number, attributes, 0, cpu, -1, _PERF_FLAG_FD_CLOEXEC)
    if descriptor < 0:
        raise OSError("perf_event_open was refused")
    return descriptor


def _prctl(option: int, value: "int | bytes") -> None:
    if _call("prctl", option, value, 0, 0, 0) != 0:
        raise OSError(f"prctl({option}) was refused")


def _call(function: str, *arguments: "int | bytes") -> int:
    import _ctypes

    address = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), function)  # type: ignore[arg-type] # None: what is already loaded
    result: int = _ctypes.call_function(address, arguments)
    return result


def fill_standard_streams() -> None:
    """Keep our files from taking the number of a closed standard stream; for the command it stays closed."""
    descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.close(descriptor)


def forget_coerced_locale() -> None:
    """Unset the variable that Python sets in the C locale, so that the command does not see it."""
    if os.environ.get("LC_CTYPE") == "C.UTF-8" and b"LC_CTYPE=" not in (read("/proc/self/environ") or b""):
        del os.environ["LC_CTYPE"]
