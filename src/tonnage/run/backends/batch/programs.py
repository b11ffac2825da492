"""Our own programs, as a batch job on another machine of the same file system starts them."""

import sys

__all__ = ["program"]


def program(module: str) -> tuple[str, ...]:
    """Return the words that start a module of ours with the same Python as here."""
    return sys.executable, "-P", "-m", module
