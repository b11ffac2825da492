"""A function for other processes to call, in a module that takes no time to import."""

import os
import time


def taking(megabytes: int, until: str | None = None) -> int:
    """Hold so much memory, until there is a file where one is named."""
    held = b"x" * (megabytes * 10**6)
    while until is not None and not os.path.exists(until):  # noqa: PTH110 (pathlib takes its time to import)
        time.sleep(0.01)
    return len(held)
