"""Who writes down what becomes of attempts that run elsewhere: the engine, the journal and the watcher hear of it."""

import time
from dataclasses import dataclass, field

from tonnage.run.backends.local_driver import Watcher
from tonnage.run.engine import Engine
from tonnage.run.events import Ended, Settled, Start
from tonnage.run.journal import Journal

__all__ = ["AttemptRecorder"]


@dataclass(kw_only=True)
class AttemptRecorder:
    """Tells all who must know."""

    engine: Engine
    journal: Journal
    watcher: Watcher
    _shown: set[int] = field(default_factory=set)

    def show(self, start: Start, since: float) -> bool:
        """Let the watcher know that an attempt runs; whether that is news."""
        if start.attempt in self._shown:
            return False
        self._shown.add(start.attempt)
        self.watcher.started(start, since)
        return True

    def settle(self, end: Ended) -> Settled:
        """Take in the end of an attempt."""
        self.show(self.engine.start_of(end.attempt), end.started or time.time())
        self._shown.discard(end.attempt)
        settled = self.engine.ended(end)
        self.journal.ended(end, settled)
        self.watcher.ended(end, settled)
        return settled
