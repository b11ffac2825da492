"""One step of the example survey: a real process that reads, waits, computes, holds memory and writes.

python3 work.py SECONDS MEGABYTES OUTPUT KILOBYTES INPUT...

It reads its inputs, fills its memory over the first half of its time and keeps it to the end, computes for a little,
waits for the rest, as one that waits for a disk or a server does, and writes its output.
"""

import sys
import time
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, mmap

PAGE = 4096
STEPS = 4
COMPUTED = 0.02  # of its time


def compute(seconds: float) -> int:
    """Use a core for some time."""
    end, number = time.process_time() + seconds, 1
    while time.process_time() < end:
        for _ in range(1000):
            number = number * 6364136223846793005 % 18446744073709551557
    return number


def work(seconds: float, megabytes: int) -> int:
    """Hold so much memory in the end, every page of it written to, and take so long."""
    end = time.monotonic() + seconds
    part = megabytes * 2**20 // STEPS // PAGE * PAGE
    memory = mmap(-1, STEPS * part, MAP_PRIVATE | MAP_ANONYMOUS)
    memory.madvise(MADV_HUGEPAGE)  # the kernel then needs less time to provide it
    for step in range(STEPS):
        memory[step * part : (step + 1) * part : PAGE] = b"\1" * (part // PAGE)
        time.sleep(seconds / 2 / STEPS)
    found = compute(COMPUTED * seconds)
    time.sleep(max(0.0, end - time.monotonic()))
    return found


def main() -> None:
    """Do one step."""
    seconds, megabytes, output, kilobytes, *inputs = sys.argv[1:]
    read = 0
    for name in inputs:
        with open(name, "rb") as file:  # noqa: PTH123 (loading pathlib would take longer)
            read += len(file.read())
    found = work(float(seconds), int(megabytes))
    with open(output, "wb") as file:  # noqa: PTH123
        file.write(f"{read} {found}\n".encode().ljust(int(kilobytes) * 1000, b"."))


main()
