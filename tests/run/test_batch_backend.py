"""Which nodes of a cluster tasks are sized for, and which of them packed batch jobs get."""

from collections.abc import Collection
from pathlib import Path

import pytest

from tonnage.batch import Snapshot
from tonnage.batch.poll_schedule import PollSchedule
from tonnage.batch.scheduler import Limits, Node, QueueEntry, Request, Verdict
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Resource
from tonnage.run.backends.batch.backend import BatchBackend
from tonnage.workflow import Task, Workflow

GIB = 2.0**30
SMALL = tuple(Node(f"s{number}", 4, 4 * GIB) for number in range(2))
USUAL = tuple(Node(f"u{number}", 16, 64 * GIB) for number in range(5))
FAT = (Node("fat", 64, 512 * GIB),)
DOWN = (Node("down", 16, 64 * GIB, usable=False),)


class Nodes:
    """A batch system that only tells which nodes it has."""

    name = "nodes"
    polling = PollSchedule()
    inside = "nowhere:Nothing"

    def __init__(self, *nodes: Node) -> None:
        self._nodes = nodes

    def limits(self) -> Limits:
        return Limits(self._nodes, seconds=3600.0, submitted=50)

    def check(self, request: Request) -> float | None:
        return 0.0

    def script(self, request: Request) -> str:
        raise NotImplementedError

    def submit(self, request: Request, script: Path, held: Collection[int] = ()) -> str:
        raise NotImplementedError

    def element(self, number: str, element: int) -> str:
        raise NotImplementedError

    def job_of(self, number: str) -> str:
        raise NotImplementedError

    def find(self, name: str) -> str | None:
        raise NotImplementedError

    def poll(self) -> dict[str, QueueEntry]:
        raise NotImplementedError

    def verdicts(self, numbers: Collection[str]) -> dict[str, Verdict]:
        raise NotImplementedError

    def read(self, printed: str) -> Verdict | None:
        raise NotImplementedError

    def cancel(self, numbers: Collection[str]) -> None:
        raise NotImplementedError

    def queue(self, run_fraction: float = 1.0) -> Snapshot:
        raise NotImplementedError


def backend(pack: str, max_running: int | None = None, max_submitted: int | None = None) -> BatchBackend:
    nodes = Nodes(*SMALL, *USUAL, *FAT, *DOWN)
    return BatchBackend(nodes, Path("/"), pack=pack, max_running=max_running, max_submitted=max_submitted)


def test_tasks_that_go_alone_may_have_the_largest_node() -> None:
    found = backend("per-task")
    assert found.machine.cores == 64
    assert found.amounts()[Resource.WALL_TIME] == 3600


def test_packed_batch_jobs_get_nodes_like_most_or_larger_and_those_that_come_back() -> None:
    found = backend("glume")
    assert found.machine.cores == 16
    assert set(found.nodes) == {*(node.name for node in USUAL), "fat", "down"}
    assert set(found.avoided) == {node.name for node in SMALL}


def test_what_minds_tasks_has_its_part_of_the_memory() -> None:
    assert 500 * GIB < backend("per-task").machine.memory < 512 * GIB
    assert 60 * GIB < backend("glume").machine.memory < 64 * GIB


@pytest.mark.parametrize("options", [{"max_submitted": 7}, {"max_running": 7}, {"max_submitted": 9, "max_running": 7}])
def test_no_more_is_submitted_than_the_user_says(options: dict[str, int]) -> None:
    assert backend("per-task", **options).most == 7


def test_no_more_is_submitted_than_the_cluster_allows() -> None:
    assert backend("per-task", max_submitted=1000).most == 50


@pytest.mark.parametrize(
    ("pack", "memory", "refused"), [("per-task", 100, False), ("glume", 100, True), ("per-task", 600, True)]
)
def test_a_request_that_no_node_can_satisfy_is_an_error_at_once(pack: str, memory: float, refused: bool) -> None:
    workflow = Workflow.build("w", [Task("a", command="true", request=Amounts.of(memory=memory * GIB))])
    if not refused:
        backend(pack).check(workflow)
        return
    with pytest.raises(InputError, match='task "a" requests'):
        backend(pack).check(workflow)
