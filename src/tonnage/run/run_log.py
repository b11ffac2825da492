"""The log of a run, ``run.log`` in its folder: one line for each event, with its time."""

import logging
from pathlib import Path
from typing import TextIO

from tonnage.atomic import private_opener
from tonnage.wording import printable

__all__ = ["GROWTH", "OFTEN", "RunLog"]

GROWTH = "tonnage.run.growth"
"""The logger that says for which running tasks something changes, and why: they grow, pause, resume or are stopped."""

OFTEN = "often"
"""The attribute of a log record about what has been said often enough for a terminal; the log of the run has it."""
_LOGGER = logging.getLogger("tonnage")


class RunLog(logging.Handler):
    """Writes everything that Tonnage logs to a private file; messages before `open` are kept and written first."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        self._early: list[str] = []
        self._file: TextIO | None = None
        _LOGGER.addHandler(self)

    def open(self, path: Path) -> None:
        """Start appending to a file."""
        # Line-buffered, so that nothing is missing if the engine is killed.
        self._file = open(path, "a", buffering=1, encoding="utf-8", errors="replace", opener=private_opener)  # noqa: SIM115 (until close)
        self._file.writelines(self._early)
        self._early.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one line, whatever characters it contains; a full disk must not stop a run."""
        line = f"{printable(self.format(record))}\n"
        if self._file is None:
            self._early.append(line)
            return
        try:
            self._file.write(line)
        except OSError:
            self.handleError(record)

    def close(self) -> None:
        """Stop logging, and close the file."""
        _LOGGER.removeHandler(self)
        if self._file is not None:
            self._file.close()
        super().close()
