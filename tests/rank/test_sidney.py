"""Sidney's blocks are the densest beginnings, and no order has more eligible tasks than their bound."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rank import literal
from tests.strategies import edges
from tonnage.errors import InputError
from tonnage.rank import sidney as room
from tonnage.rank.eligible import curve, is_possible, mean_eligible
from tonnage.rank.orders import descendants, fifo, gain
from tonnage.rank.prio import prio
from tonnage.rank.sidney import blocks, bound, sidney, sidney_gain
from tonnage.workflow import Graph
from tonnage.workflow.families import FAMILIES


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> Graph:
    size = draw(st.integers(1, most))
    pairs = draw(edges(size))
    return Graph.from_edges(size, [parent for parent, _ in pairs], [child for _, child in pairs])


def densest(graph: Graph, done: frozenset[int]) -> tuple[Fraction, frozenset[int]]:
    """The largest of the densest sets that can run after what is done: all sets are tried."""
    parents = [set(graph.parents_of(task).tolist()) for task in range(graph.size)]
    left = [task for task in range(graph.size) if task not in done]
    best = (Fraction(-1), 0, frozenset[int]())
    for count in range(1, len(left) + 1):
        for chosen in map(frozenset, combinations(left, count)):
            after = done | chosen
            if all(parents[task] <= after for task in chosen):
                made = sum(bool(parents[task]) and parents[task] <= after and not parents[task] <= done
                           for task in range(graph.size))  # fmt: skip
                best = max(best, (Fraction(made, count), count, chosen))
    return best[0], best[2]


@given(graphs())
def test_blocks_are_the_densest_beginnings_one_after_the_other(graph: Graph) -> None:
    found = blocks(graph)
    done: frozenset[int] = frozenset()
    for number, (tasks, made) in enumerate(zip(found.tasks.tolist(), found.eligible.tolist(), strict=True)):
        density, chosen = densest(graph, done)
        assert chosen == frozenset(np.flatnonzero(found.block == number).tolist())
        assert (len(chosen), Fraction(made, tasks)) == (tasks, density)
        done |= chosen
    assert len(done) == graph.size


@given(graphs())
def test_no_order_has_more_eligible_tasks_than_the_bound_at_any_step(graph: Graph) -> None:
    found = blocks(graph)
    most = np.array(literal.most_eligible(graph))
    assert (most <= found.most_eligible()).all()
    ends = np.cumsum(found.tasks)
    assert (most[ends] == found.most_eligible()[ends]).all()  # where a block ends, the bound is reached
    assert found.bound() >= max(mean_eligible(graph, method(graph)) for method in (prio, fifo, gain, sidney))


@given(graphs(30))
def test_both_orders_run_block_after_block(graph: Graph) -> None:
    found = blocks(graph)
    for order in (sidney(graph), sidney_gain(graph)):
        assert is_possible(graph, order)
        assert (np.diff(found.block[order]) >= 0).all()
    # Where blocks end, no order has more eligible tasks than these have.
    ends = np.cumsum(found.tasks)
    assert (curve(graph, sidney(graph))[ends] == found.most_eligible()[ends]).all()


def test_the_compiled_kernels_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FAMILIES["random-layered"].generate(300).graph
    plain = blocks(graph)
    monkeypatch.setattr(room, "_FLOW", 10_000)
    compiled = blocks(graph)
    assert np.array_equal(plain.block, compiled.block)
    assert plain.bound() == compiled.bound()


def test_prio_loses_on_ligo_where_sidney_is_next_to_the_bound() -> None:
    graph = FAMILIES["ligo"].generate(2_988).graph
    found = blocks(graph)
    assert mean_eligible(graph, prio(graph)) < 0.95 * mean_eligible(graph, fifo(graph))
    assert mean_eligible(graph, sidney(graph, found)) > 0.99 * found.bound()
    assert mean_eligible(graph, descendants(graph)) > mean_eligible(graph, fifo(graph))


def test_copies_of_a_workflow_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = FAMILIES["ligo"].generate(60).graph
    copies = [one.size * number for number in range(50)]
    parents = np.concatenate([one.edge_parents() + begin for begin in copies])
    children = np.concatenate([one.child + begin for begin in copies])
    cuts: list[int] = []
    cut = room._denser
    monkeypatch.setattr(room, "_denser", lambda part, size, steps: (cuts.append(size), cut(part, size, steps))[1])  # type: ignore[func-returns-value]
    blocks(one)
    alone = len(cuts)
    many = blocks(Graph.from_edges(one.size * 50, parents, children))
    assert len(cuts) == 2 * alone
    assert many.tasks.tolist() == [50 * size for size in blocks(one).tasks.tolist()]


def test_what_is_too_large_for_cuts_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FAMILIES["montage"].generate(100).graph
    assert bound(graph) is not None
    monkeypatch.setattr(room, "MOST_TASKS", 50)
    assert bound(graph) is None
    with pytest.raises(InputError, match="are connected"):
        sidney(graph)


def test_a_bound_that_takes_too_long_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FAMILIES["random-layered"].generate(300).graph
    monkeypatch.setattr(room, "_SHORT", 1_000)
    assert bound(graph) is None
    assert sidney(graph) is not None


def test_a_workflow_without_tasks_has_no_blocks() -> None:
    empty = Graph.from_edges(0, (), ())
    assert (blocks(empty).bound(), sidney(empty).tolist()) == (0.0, [])
