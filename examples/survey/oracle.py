"""Write the survey once more, its tasks requesting what they were measured to need: the ideal to compare runs with."""

from pathlib import Path

from tonnage.archive import Archive, Search, find
from tonnage.jobs import Amounts, Outcome
from tonnage.workflow import read, write

__all__ = ["write_oracle"]

MARGIN = 1.03  # what is added to a peak: no two runs of a program use the same to a byte
A_LITTLE = 10**8  # bytes of disk, of which there is enough


def write_oracle(survey: Path, archive_path: Path, oracle: Path) -> None:
    """Write the workflow `survey` to `oracle` with the peaks that an archive has of its tasks as requests."""
    workflow = read(survey)
    peaks: dict[str, float] = {}
    with Archive.open(str(archive_path)) as archive:
        for attempt in find(archive, Search(workflow=workflow.checksum)):
            if attempt.task and attempt.outcome is Outcome.DONE and attempt.used.memory:
                peaks[attempt.task] = max(peaks.get(attempt.task, 0.0), attempt.used.memory)
    requests = {name: Amounts.of(cores=1, memory=peak * MARGIN, disk=A_LITTLE) for name, peak in peaks.items()}
    write(workflow.with_requests(requests), oracle)
