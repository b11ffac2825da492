"""Shows log messages on standard error while a verb runs."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tonnage.cli.options import say
from tonnage.run.run_log import GROWTH, OFTEN
from tonnage.wording import printable

__all__ = ["Console", "logged"]


class Console(logging.Handler):
    """Passes each message to `show`, which prints a line by default and is replaced by a live view."""

    def __init__(self, level: int, *, everything: bool = False) -> None:
        super().__init__(level)
        self._everything = everything
        self.show: Callable[[str, int], None] = lambda line, _level: say(line)

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message as one line, unless similar ones were shown often already."""
        if self._everything or not getattr(record, OFTEN, False):
            self.show(printable(record.getMessage()), record.levelno)


@contextmanager
def logged(*, quiet: bool = False, verbose: bool = False, growth: bool = False) -> Iterator[Console]:
    """Show log messages: informational ones and warnings, with `quiet` only warnings, with `verbose` everything.

    With `growth`, changes to running tasks are shown, too.
    """
    logger = logging.getLogger("tonnage")
    before = logger.level
    # The level of the logger applies to run.log, too: a quiet run still has a complete log.
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger(GROWTH).setLevel(logging.DEBUG if growth else logging.NOTSET)
    console = Console(logging.WARNING if quiet else logging.NOTSET, everything=verbose)
    logger.addHandler(console)
    try:
        yield console
    finally:
        logger.removeHandler(console)
        logger.setLevel(before)
