"""The critical path, beside networkx."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import graphs
from tonnage.jobs import Attempt, Outcome
from tonnage.report.attempt_table import Gathering
from tonnage.report.critical_path import critical_chain
from tonnage.workflow import Task, Workflow


@given(graphs(), st.data())
def test_the_critical_path_is_the_one_that_networkx_finds(
    graph: tuple[int, list[tuple[int, int]]], data: st.DataObject
) -> None:
    size, edges = graph
    tries = data.draw(st.lists(st.lists(st.integers(1, 100), max_size=3), min_size=size, max_size=size))
    tasks = [Task(f"t{place}", category="c") for place in range(size)]
    workflow = Workflow.build("w", tasks, ([one for one, _ in edges], [other for _, other in edges]))
    attempts = [
        Attempt(
            task=f"t{place}",
            number=number,
            started=0.0,
            ended=float(took),
            outcome=Outcome.DONE if number == len(own) else Outcome.FAILED,
        )
        for place, own in enumerate(tries)
        for number, took in enumerate(own, 1)
    ]
    material = Gathering(workflow=workflow).gather(attempts)
    assert material.times is not None
    chain = critical_chain(workflow, material.times)
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(size))
    oracle.add_edges_from(edges)
    # networkx weighs edges: each task becomes one, from where it begins to where it ends
    split = nx.DiGraph()
    for place, own in enumerate(tries):
        split.add_edge(("in", place), ("out", place), weight=sum(own))
    split.add_edges_from((("out", first), ("in", second), {"weight": 0}) for first, second in edges)
    longest = nx.dag_longest_path_length(split) if size else 0
    if chain is None:
        assert longest == 0
        return
    assert chain.seconds == pytest.approx(longest)
    assert sum(step.seconds for step in chain.steps) == pytest.approx(longest)
    assert sum(part for _, part in chain.by_category) == pytest.approx(longest)
    assert chain.missing == sum(not own for own in tries)
    places = [step.place for step in chain.steps]
    assert all(nx.has_path(oracle, one, other) for one, other in pairwise(places))
