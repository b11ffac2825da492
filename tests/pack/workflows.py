"""Made-up workflows with run times, and queues with holes in them."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.strategies import Edge, edges
from tonnage.batch import Snapshot
from tonnage.jobs import Amounts
from tonnage.workflow import Task, Workflow

__all__ = ["NODES", "chain", "snapshots", "timed_workflows", "workflow"]

NODES = 6


def workflow(seconds: Sequence[float], pairs: Sequence[Edge] = ()) -> Workflow:
    """Tasks that take so long, of which the second of each pair waits for the first."""
    tasks = [Task(f"t{number}", expected=Amounts.of(wall_time=time)) for number, time in enumerate(seconds)]
    return Workflow.build("made", tasks, ([a for a, _ in pairs], [b for _, b in pairs]))


def chain(*seconds: float) -> Workflow:
    """Tasks one after the other."""
    return workflow(seconds, [(place, place + 1) for place in range(len(seconds) - 1)])


# Few different run times, so that many tasks are equal; and minutes, since whole ones are asked for.
run_times = st.sampled_from([1, 60, 100, 1000]) | st.integers(1, 4000)


@st.composite
def timed_workflows(draw: st.DrawFn, most: int = 12) -> Workflow:
    size = draw(st.integers(1, most))
    return workflow(draw(st.lists(run_times, min_size=size, max_size=size)), draw(edges(size)))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A queue in which jobs hold places now and later, with or without regard to which nodes are neighbours."""
    now = draw(st.sampled_from([0, 12345]))
    places = np.zeros((int(draw(st.integers(0, 3)) == 0), NODES), np.uint8)
    snapshot = Snapshot(now, NODES, np.array([now]), np.array([NODES]), places)
    # Wide ones that come later leave holes: there a longer job must wait for them to pass.
    wide = st.tuples(st.integers(NODES - 1, NODES), st.integers(60, 5000), st.integers(200, 6000))
    any_kind = st.tuples(st.integers(1, NODES), st.integers(60, 9000), st.just(0) | st.integers(0, 9000))
    for nodes, seconds, later in draw(st.lists(wide | any_kind, max_size=8)):
        snapshot = snapshot.with_job(nodes, seconds, now + later)
    return snapshot
