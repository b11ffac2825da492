"""The graph in arrays says the same as networkx and as brute force."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Edge, edges, graphs
from tonnage import jit
from tonnage.workflow import Graph
from tonnage.workflow.graph import Cycle


def build(size: int, pairs: list[Edge]) -> Graph:
    return Graph.from_edges(size, [a for a, _ in pairs], [b for _, b in pairs])


def oracle(size: int, pairs: list[Edge]) -> "nx.DiGraph[int]":
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(size))
    return graph


@pytest.fixture(params=["plain", "compiled"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the kernels as Python and as machine code: both must say the same."""
    if request.param == "compiled":
        monkeypatch.setattr(jit, "COMPILE_FROM", 0)
        monkeypatch.setattr("tonnage.workflow.graph.COMPILE_FROM", 0)


either_way = pytest.mark.usefixtures("_either_way")


def random_graphs(count: int) -> list[tuple[int, list[Edge]]]:
    """Random graphs of many shapes, from sparse to dense, large enough for several blocks of bits."""
    rng = np.random.default_rng(7)
    made = []
    for _ in range(count):
        size = int(rng.integers(1, 700))
        numbering = rng.permutation(size)
        pairs = rng.integers(0, size, (int(size * rng.choice([0.3, 1, 3, 10])), 2))
        made.append((size, [(int(numbering[min(p)]), int(numbering[max(p)])) for p in pairs if p[0] != p[1]]))
    return made


@pytest.mark.parametrize("near", [1, 20, 10**9])
@pytest.mark.parametrize(("size", "pairs"), random_graphs(4))
def test_shortcuts_are_found_close_by_and_far_away(
    size: int, pairs: list[Edge], near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As large graphs are searched, but not compiled: ways back are given up early, late or never."""
    monkeypatch.setattr("tonnage.workflow.graph.COMPILE_FROM", 0)
    monkeypatch.setattr("tonnage.workflow.graph._NEAR", near)
    reduced, expected = build(size, pairs).reduced(), nx.transitive_reduction(oracle(size, pairs))
    assert sorted(zip(reduced.edge_parents().tolist(), reduced.child.tolist(), strict=True)) == sorted(expected.edges)


@either_way
@pytest.mark.parametrize(("size", "pairs"), random_graphs(8))
def test_order_levels_reachability_and_reduction_agree_with_networkx(size: int, pairs: list[Edge]) -> None:
    graph, truth = build(size, pairs), oracle(size, pairs)
    assert graph.edges == truth.number_of_edges()

    place = {int(task): number for number, task in enumerate(graph.order)}
    assert sorted(place) == list(range(size))
    assert all(place[a] < place[b] for a, b in truth.edges)

    for level, members in enumerate(nx.topological_generations(truth)):
        assert {int(graph.level[task]) for task in members} == {level}
        assert graph.widths[level] == len(members)

    assert graph.descendants.tolist() == [len(nx.descendants(truth, task)) for task in range(size)]
    assert graph.ancestors.tolist() == [len(nx.ancestors(truth, task)) for task in range(size)]

    reduced = graph.reduced()
    expected = nx.transitive_reduction(truth)
    assert sorted(zip(reduced.edge_parents().tolist(), reduced.child.tolist(), strict=True)) == sorted(expected.edges)


@given(graphs(), st.data())
def test_the_longest_path_is_the_longest_and_is_a_path(drawn: tuple[int, list[Edge]], data: st.DataObject) -> None:
    size, pairs = drawn
    graph, truth = build(size, pairs), oracle(size, pairs)
    weights = data.draw(st.lists(st.integers(0, 100), min_size=size, max_size=size))
    length, path = graph.longest_path(weights)
    for a, b in truth.edges:
        truth.edges[a, b]["weight"] = weights[b]
    best = max(
        (
            weights[start] + nx.dag_longest_path_length(truth.subgraph({start} | nx.descendants(truth, start)))
            for start in range(size)
        ),
        default=0,
    )
    assert length == best == sum(weights[task] for task in path)
    assert all(truth.has_edge(a, b) for a, b in pairwise(path))


@given(graphs())
def test_both_directions_hold_the_same_dependencies_in_order(drawn: tuple[int, list[Edge]]) -> None:
    size, pairs = drawn
    graph = build(size, pairs)
    forward = [(task, int(child)) for task in range(size) for child in graph.children_of(task)]
    backward = [(int(parent), task) for task in range(size) for parent in graph.parents_of(task)]
    assert forward == sorted(set(pairs)) == sorted(backward)
    assert graph == build(size, pairs[::-1])


@either_way
@given(drawn=graphs(max_size=12), data=st.data())
def test_a_cycle_is_found_and_is_one(drawn: tuple[int, list[Edge]], data: st.DataObject) -> None:
    size, pairs = drawn
    if size == 0:
        return
    # Close a circle through tasks that are already in some order.
    ring = data.draw(st.lists(st.integers(0, size - 1), unique=True, min_size=1, max_size=size))
    pairs = [*pairs, *zip(ring, [*ring[1:], ring[0]], strict=True)]
    truth = oracle(size, pairs)
    with pytest.raises(Cycle) as caught:
        build(size, pairs)
    found = caught.value.tasks
    assert len(set(found)) == len(found)
    assert all(truth.has_edge(a, b) for a, b in zip(found, [*found[1:], found[0]], strict=True))


@either_way
def test_a_chain_as_deep_as_it_is_long() -> None:
    size = 20_000
    graph = Graph.from_edges(size, np.arange(size - 1), np.arange(1, size))
    assert graph.level.tolist() == list(range(size))
    assert graph.longest_path(np.ones(size))[0] == size
    assert graph.descendants[0] == size - 1


@pytest.mark.parametrize(("parents", "children"), [([2], [-1]), ([0], [3]), ([0, 1], [2]), ([[0]], [[1]])])
def test_dependencies_of_tasks_that_do_not_exist_are_refused(parents: list[int], children: list[int]) -> None:
    with pytest.raises(ValueError, match=r"outside|same length"):
        Graph.from_edges(3, parents, children)


def test_nothing_is_a_graph_too() -> None:
    graph = Graph.from_edges(0, [], [])
    assert (graph.size, graph.edges, graph.widths.tolist(), graph.longest_path([])) == (0, 0, [], (0.0, []))
    assert graph.reduced() == graph


def test_a_graph_cannot_be_changed() -> None:
    graph = build(3, [(0, 1), (1, 2)])
    with pytest.raises(ValueError, match="read-only"):
        graph.child[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        graph.order[0] = 2


@given(st.integers(2, 20).flatmap(lambda size: st.tuples(st.just(size), edges(size))))
def test_reduction_keeps_who_reaches_whom_and_no_shortcut(drawn: tuple[int, list[Edge]]) -> None:
    size, pairs = drawn
    graph = build(size, pairs)
    reduced = graph.reduced()
    assert reduced.descendants.tolist() == graph.descendants.tolist()
    assert not reduced.shortcuts.any()
