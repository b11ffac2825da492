"""The command line's front door: ``tonnage`` and ``python -m tonnage``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit status."""
    if sys.argv[1:2] == ["watch"]:
        _watch()
    from tonnage.cli import main as run

    sys.exit(run(sys.argv[1:]))


def _watch() -> None:
    """Start at once, without all that other verbs need, and leave as soon as the command has ended.

    Returns only where help is asked for, which click prints.
    """
    import os
    from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal

    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, SIG_DFL)  # Ctrl-C, this early, ends us as it would end the command: without a traceback

    from tonnage.watch.main import main as watch

    status = watch(sys.argv[2:])
    if status is not None:
        os._exit(status)


if __name__ == "__main__":
    main()
