"""A function for other processes to call, in a module that takes no time to import."""

import time


def taking(megabytes: int, seconds: float = 0.5) -> int:
    """Hold so much memory for a while."""
    held = b"x" * (megabytes * 10**6)
    time.sleep(seconds)
    return len(held)
