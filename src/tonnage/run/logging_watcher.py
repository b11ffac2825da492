"""A watcher that logs what happens to the attempts of a run."""

import logging
from collections import Counter

from tonnage.jobs import Outcome
from tonnage.run.backends.backend import Watcher
from tonnage.run.bad_nodes import Avoiding
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start, State
from tonnage.run.failed_tasks import Failures, reason_for
from tonnage.run.run_log import OFTEN
from tonnage.wording import counted

__all__ = ["LoggingWatcher"]

_log = logging.getLogger(__name__)

_SHOWN_ALIKE = 3
"""Attempts of a category with the same outcome that are shown while a run goes on; the others are only in its log."""


class LoggingWatcher:
    """Logs what happens to attempts, remembers why tasks failed, and passes all events on."""

    def __init__(self, watcher: Watcher, engine: Engine, failures: Failures) -> None:
        self._engine = engine
        self._failures = failures
        self._watcher = watcher
        self._unfinished: Counter[tuple[str, Outcome]] = Counter()
        self._avoiding = Avoiding(engine.bad_nodes)
        self.seen, self.tick = watcher.seen, watcher.tick

    def started(self, start: Start, now: float) -> None:
        """Log an attempt that started."""
        if _log.isEnabledFor(logging.DEBUG):
            given = ", ".join(f"{one.resource} {one.resource.format_amount(one.amount)}" for one in start.decisions)
            name = self._engine.tasks[start.task].title
            _log.debug("%s: attempt %d started (number %d): %s", name, start.number, start.attempt, given)
        self._watcher.started(start, now)

    def ended(self, end: Ended, settled: Settled) -> None:
        """Log how an attempt ended, and describe a task that failed."""
        if settled.state is State.FAILED:
            for line in self._failures.describe(end, settled):
                _log.warning(line)
        elif end.outcome is not Outcome.DONE:
            task = self._engine.tasks[settled.task]
            self._unfinished[task.category, end.outcome] += 1
            often = self._unfinished[task.category, end.outcome] > _SHOWN_ALIKE
            _log.info("%s: %s", task.title, reason_for(end, settled), extra={OFTEN: often})
        elif _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: done (attempt number %d)", self._engine.tasks[settled.task].title, end.attempt)
        # A batch job may go on with a task that this engine has given up.
        done = (settled.task,) if settled.state is State.DONE else ()
        self._failures.forget((*done, *settled.revived))
        for line in self._avoiding.news():
            retried = f"; {counted(len(settled.revived), 'task')} that failed there will be retried elsewhere"
            _log.warning("%s%s", line, retried if settled.revived else "")
        self._watcher.ended(end, settled)
