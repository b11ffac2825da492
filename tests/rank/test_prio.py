"""PRIO keeps many tasks eligible: its parts equal their definitions, and its order is the paper's."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.rank import literal
from tests.strategies import edges
from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.rank import METHODS, rank
from tonnage.rank.decomposition import decompose
from tonnage.rank.eligible import curve, is_possible, mean_eligible
from tonnage.rank.orders import critical_path, descendants, fifo, gain
from tonnage.rank.prio import explain, prio, priority
from tonnage.workflow import Graph, Task, Workflow
from tonnage.workflow.families import FAMILIES


@st.composite
def graphs(draw: st.DrawFn, most: int = 12) -> Graph:
    size = draw(st.integers(1, most))
    return graph(size, draw(edges(size)))


def graph(size: int, pairs: Iterable[tuple[int, int]]) -> Graph:
    listed = list(pairs)
    return Graph.from_edges(size, [parent for parent, _ in listed], [child for _, child in listed])


def parts_of(one: Graph) -> set[tuple[frozenset[int], frozenset[int]]]:
    parts = decompose(one)
    runs_start, runs = parts.runs()
    sinks_start, sinks = parts.sinks()
    found = set()
    for number in range(len(parts)):
        own = frozenset(runs[runs_start[number] : runs_start[number + 1]].tolist())
        found.add((own, own | frozenset(sinks[sinks_start[number] : sinks_start[number + 1]].tolist())))
    return found


@given(graphs())
def test_components_are_those_of_the_definition(one: Graph) -> None:
    assert parts_of(one) == literal.components(one.reduced())


@pytest.mark.parametrize("compile_from", [0, 10**9])
def test_the_compiled_kernels_find_the_same(monkeypatch: pytest.MonkeyPatch, compile_from: int) -> None:
    random = np.random.default_rng(1)
    monkeypatch.setattr("tonnage.jit.COMPILE_FROM", compile_from)
    for _ in range(30):
        size = int(random.integers(2, 12))
        order = random.permutation(size)
        pairs = [(order[a], order[b]) for a in range(size) for b in range(a + 1, size) if random.random() < 0.3]
        one = graph(size, pairs)
        assert parts_of(one) == literal.components(one.reduced())
        for method in (prio, critical_path, descendants, gain):
            assert is_possible(one, method(one))


@given(graphs())
def test_a_component_waits_only_for_earlier_ones(one: Graph) -> None:
    superdag = decompose(one).superdag()
    assert all(first < second for first, second in zip(superdag.edge_parents(), superdag.child, strict=True))


@given(graphs(16))
def test_profiles_count_eligible_tasks_and_the_greedy_choice_is_the_best(one: Graph) -> None:
    """Steps 4 to 6 of the paper, word by word: what is eligible inside, and who loses least against all that could."""
    check_choices(one)


def check_choices(one: Graph) -> None:
    found = explain(one)
    parts, inside = found.parts, found.inside
    runs = [inside.tasks[inside.start[number] : inside.start[number + 1]].tolist() for number in range(len(parts))]
    members = [set(own) | set(np.flatnonzero(parts.sink_of == number).tolist()) for number, own in enumerate(runs)]
    for number, own in enumerate(runs):
        expected = []
        for steps in range(len(own) + 1):
            done = set(own[:steps])
            waits = {task: set(parts.graph.parents_of(task).tolist()) & set(own) for task in members[number] - done}
            expected.append(sum(before <= done for before in waits.values()))
        assert found.profiles[found.kind[number]].tolist() == expected
    profile = [found.profiles[kind] for kind in found.kind]
    superdag, done_parts = parts.superdag(), set[int]()
    for number, least in zip(found.chosen.components.tolist(), found.chosen.least.tolist(), strict=True):
        could = [
            other
            for other in range(len(parts))
            if other not in done_parts and set(superdag.parents_of(other).tolist()) <= done_parts
        ]
        losses = {
            this: min(
                (literal.priority(profile[this], profile[other]) for other in could if other != this), default=1.0
            )
            for this in could
        }
        assert losses[number] == pytest.approx(max(losses.values()))
        assert least == pytest.approx(losses[number])
        done_parts.add(number)


def test_the_gains_of_a_block_beside_a_component_that_is_none() -> None:
    one = graph(8, [(2, 3), (2, 1), (2, 0), (3, 1), (3, 0), (3, 6), (7, 4), (7, 5), (4, 1), (1, 6), (5, 0), (5, 6)])
    check_choices(one)
    assert mean_eligible(one, prio(one)) == 2.125


profiles = st.tuples(st.integers(1, 5), st.lists(st.integers(0, 6), min_size=1, max_size=8)).map(
    lambda drawn: np.maximum(np.cumsum([float(drawn[0]), *(gained - 1.0 for gained in drawn[1])]), 0.0)
)


@given(profiles, profiles)
def test_a_priority_is_the_least_part_over_all_steps(first: NDArray[np.float64], second: NDArray[np.float64]) -> None:
    assert priority(first, second) == pytest.approx(literal.priority(first, second))


@given(graphs())
def test_every_method_gives_an_order_that_can_be_run(one: Graph) -> None:
    for method in (prio, fifo, critical_path, descendants, gain):
        assert is_possible(one, method(one))


@given(graphs())
def test_the_curve_counts_eligible_tasks(one: Graph) -> None:
    order = prio(one).tolist()
    done: set[int] = set()
    for step, eligible in enumerate(curve(one, np.array(order)).tolist()):
        ready = [task for task in range(one.size) if set(one.parents_of(task).tolist()) <= done and task not in done]
        assert eligible == len(ready)
        if step < one.size:
            done.add(order[step])
    assert mean_eligible(one, np.array(order)) == pytest.approx(curve(one, np.array(order))[:-1].mean())


@given(graphs())
def test_gain_takes_the_task_that_makes_most_eligible_at_once(one: Graph) -> None:
    waiting = one.indegree.tolist()
    ready = {task for task in range(one.size) if not waiting[task]}
    for task in gain(one).tolist():
        gains = {other: sum(waiting[after] == 1 for after in one.children_of(other).tolist()) for other in ready}
        assert task == min(ready, key=lambda other: (-gains[other], other))
        ready.remove(task)
        for after in one.children_of(task).tolist():
            waiting[after] -= 1
            if not waiting[after]:
                ready.add(after)


def test_the_papers_example() -> None:
    a, b, c, d, e = range(5)
    assert prio(graph(5, [(a, b), (c, d), (c, e)])).tolist() == [c, a, b, d, e]


@pytest.mark.parametrize("fringes_first", [False, True])
def test_airsn_has_the_papers_priorities(fringes_first: bool) -> None:
    workflow = FAMILIES["airsn"].generate(773, fringes_first=fringes_first)
    order = prio(workflow.graph)
    priorities = {workflow.tasks[task].name: 773 - place for place, task in enumerate(order.tolist())}
    fringes = sorted(value for name, value in priorities.items() if name.startswith("fringe"))
    assert priorities["handle_21"] == 753
    assert (fringes[0], fringes[-1], len(fringes)) == (503, 752, 250)
    assert priorities["join_1"] == 252
    assert mean_eligible(workflow.graph, order) > 1.3 * mean_eligible(workflow.graph, fifo(workflow.graph))


def w_dag(sources: int, degree: int) -> list[tuple[int, int]]:
    return [(one, sources + one * (degree - 1) + place) for one in range(sources) for place in range(degree)]


def m_dag(sinks: int, degree: int) -> list[tuple[int, int]]:
    sources = sinks * (degree - 1) + 1
    return [(one * (degree - 1) + place, sources + one) for one in range(sinks) for place in range(degree)]


def n_dag(sources: int) -> list[tuple[int, int]]:
    return [(one, sources + place) for one in range(sources) for place in (one, one + 1) if place < sources]


def cycle_dag(sources: int) -> list[tuple[int, int]]:
    return [(one, sources + (one + place) % sources) for one in range(sources) for place in (0, 1)]


def complete_dag(sources: int, sinks: int) -> list[tuple[int, int]]:
    return [(one, sources + other) for one in range(sources) for other in range(sinks)]


KNOWN = {
    **{f"W{s},{d}": ("W", w_dag(s, d)) for s, d in ((2, 3), (3, 2), (3, 3), (4, 2), (5, 2))},
    **{f"M{s},{d}": ("M", m_dag(s, d)) for s, d in ((2, 3), (3, 2), (3, 3), (4, 2), (2, 4))},
    **{f"N{s}": ("N", n_dag(s)) for s in (2, 3, 4, 5)},
    **{f"cycle{s}": ("cycle", cycle_dag(s)) for s in (3, 4, 5)},
    **{f"complete{s},{t}": ("complete", complete_dag(s, t)) for s, t in ((2, 2), (3, 4), (2, 5))},
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_block_is_recognised_in_any_numbering_and_its_order_is_best_at_every_step(name: str) -> None:
    family, pairs = KNOWN[name]
    size = max(max(pair) for pair in pairs) + 1
    random = np.random.default_rng(5)
    for _ in range(4):
        numbering = random.permutation(size).tolist()
        one = graph(size, [(numbering[parent], numbering[child]) for parent, child in pairs])
        found = explain(one)
        assert found.inside.family == (family,)
        assert curve(one, found.order).tolist() == literal.most_eligible(one)


@st.composite
def compositions(draw: st.DrawFn) -> Graph:
    """Known blocks, of which each may use sinks of those before as its sources."""
    small = [pairs for _, pairs in KNOWN.values() if max(map(max, pairs)) < 6] + [
        [(0, 1)],
        [(0, 1), (0, 2)],
        [(0, 2), (1, 2)],
    ]
    size = 0
    pairs: list[tuple[int, int]] = []
    sinks: list[int] = []
    for _ in range(draw(st.integers(2, 4))):
        block = draw(st.sampled_from(small))
        number: dict[int, int] = {}
        for source in sorted({parent for parent, _ in block}):
            shared = bool(sinks) and draw(st.booleans())
            number[source] = sinks.pop(draw(st.integers(0, len(sinks) - 1))) if shared else size
            size += not shared
        for sink in sorted({child for _, child in block}):
            number[sink] = size
            sinks.append(size)
            size += 1
        pairs += [(number[parent], number[child]) for parent, child in block]
        if size > 10:
            break
    return graph(size, pairs)


@given(compositions())
def test_the_order_is_best_at_every_step_where_the_theory_says_so(one: Graph) -> None:
    """Blocks that have a best order of their own, each with priority 1 over the next (Malewicz et al., section 2)."""
    found = explain(one)
    profiles = [found.profiles[found.kind[component]] for component in found.chosen.components.tolist()]
    assume("block" not in found.inside.family and "general" not in found.inside.family)
    assume(all(priority(first, second) == 1 for first, second in pairwise(profiles)))
    assert curve(one, found.order).tolist() == literal.most_eligible(one)


def test_methods_are_known_by_their_names() -> None:
    workflow = FAMILIES["montage"].generate(60)
    for method in METHODS:
        assert is_possible(workflow.graph, rank(workflow, method))
    with pytest.raises(InputError, match="is not a method"):
        rank(workflow, "magic")


def test_the_critical_path_goes_by_run_times_where_they_are_known() -> None:
    tasks = [Task("long", expected=Amounts.of(wall_time=100)), Task("short", expected=Amounts.of(wall_time=1))]
    tasks += [Task("after", expected=Amounts.of(wall_time=5))]
    workflow = Workflow.build("w", tasks, ((1,), (2,)))
    assert rank(workflow, "critical-path").tolist() == [0, 1, 2]
    assert critical_path(workflow.graph).tolist() == [1, 0, 2]


@given(st.integers(0, 30))
def test_a_bag_of_tasks_keeps_its_order(size: int) -> None:
    graph = Graph.from_edges(size, [], [])
    assert prio(graph).tolist() == explain(graph).order.tolist() == list(range(size))
