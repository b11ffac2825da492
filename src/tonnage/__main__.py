"""The entry point of the command line: ``tonnage`` and ``python -m tonnage``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its status."""
    if sys.argv[1:2] == ["watch"]:
        _watch()
    from tonnage.cli import main as run

    sys.exit(run(sys.argv[1:]))


def _watch() -> None:
    """Start immediately, without the imports of other verbs, and exit as soon as the command has finished.

    Returns only if help is requested, which click prints.
    """
    import os
    from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal

    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, SIG_DFL)  # this early, Ctrl-C ends us as it would end the command: without a traceback

    from tonnage.watch.main import main as watch

    status = watch(sys.argv[2:])
    if status is not None:
        os._exit(status)


if __name__ == "__main__":
    main()
