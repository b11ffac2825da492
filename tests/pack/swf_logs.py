"""Made-up SWF logs."""

import random
from collections.abc import Iterable
from pathlib import Path

NODES = 16
HOUR = 3600


def swf(jobs: Iterable[tuple[int, int, int, int]], *, nodes: int = NODES, start: int | None = 1_000_000_000) -> str:
    """Return a log of jobs of (submit, nodes, run, request)."""
    head = [f"; MaxProcs: {nodes}"] + ([] if start is None else [f"; UnixStartTime: {start}"])
    lines = [
        f"{number} {submit} -1 {run} {width} -1 -1 {width} {request} -1 1 1 -1 -1 -1 -1 -1 -1"
        for number, (submit, width, run, request) in enumerate(jobs, start=1)
    ]
    return "\n".join([*head, *lines]) + "\n"


def busy_jobs(days: int = 10, seed: int = 1) -> list[tuple[int, int, int, int]]:
    """Return jobs that keep a machine of NODES busy most of the time; the first is submitted at second 5,000."""
    random_ = random.Random(seed)
    jobs = []
    submit = 5_000
    while submit < days * 24 * HOUR:
        run = random_.randint(60, 2 * HOUR)
        jobs.append((submit, random_.randint(1, NODES), run, run * random_.randint(1, 4)))
        submit += random_.randint(60, 3_900)
    return jobs


def busy_log(folder: Path) -> Path:
    """Write a log of busy jobs."""
    path = folder / "busy.swf"
    path.write_text(swf(busy_jobs()))
    return path
