"""An archive with jobs of many kinds, hostile names among them."""

from collections.abc import Iterator

from tonnage.archive import Archive, import_source
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.sources import Source

__all__ = ["HOSTILE", "fill", "jobs"]

HOSTILE = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">'\"&amp;</textarea>"
"""What would run in a browser if it were taken for more than a text."""


def jobs() -> Iterator[Attempt]:
    """Yield 300 jobs of two categories, some that failed, one without a category, and one with hostile names."""
    for number in range(200):
        yield _job(number, "align", 2e9 + 1e7 * number + (4e9 if number % 5 == 0 else 0), "ada")
    for number in range(200, 300):
        yield _job(number, "merge", 5e8 + 1e6 * number, "grace")
    yield _job(300, "align", 2e9, "ada", outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY)
    yield _job(301, None, 1e9, "lin")
    yield _job(302, HOSTILE, 1e9, HOSTILE, outcome=Outcome.FAILED)


def _job(
    number: int,
    category: str | None,
    memory: float,
    user: str,
    outcome: Outcome = Outcome.DONE,
    exhausted: Resource | None = None,
) -> Attempt:
    name = category if category == HOSTILE else f"{category}-{number:03}"
    return Attempt(
        native_id=f"test:{number}",
        run="genomes-1" if number < 300 else f"run {user}",
        workflow="genomes" if number < 300 else HOSTILE,
        task=name,
        category=category,
        label="large" if memory > 4e9 else None,
        command=f"{category} --in /data/{number}.bam {'--fast' if number % 3 else ''}",
        executable=category,
        user=user,
        ended=1.79e9 + 60.0 * number,
        outcome=outcome,
        exhausted=exhausted,
        exit_status=0 if outcome is Outcome.DONE else 137,
        requested=Amounts.of(memory=16e9),
        used=Amounts.of(cores=1.0 + number % 4, memory=memory, disk=memory / 2, wall_time=60.0 + number),
        memory_method="pss",
        inputs=(f"/data/{number}.bam", "/data/all.fa"),
        outputs=(f"/out/{name}",),
        fields={"project": "atlas" if number % 2 else name},
    )


def fill(url: str) -> None:
    """Make an archive with these jobs."""
    with Archive.open(url, create=True) as archive:
        import_source(archive, Source("jobs", "jobs", "csv", jobs()))
