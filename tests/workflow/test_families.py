import subprocess
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.strategies import examples
from tonnage.errors import InputError
from tonnage.workflow.families import FAMILIES, Family
from tonnage.workflow.families.profiles import PROFILES
from tonnage.workflow.families.shapes import MOST_TASKS
from tonnage.workflow.graph import Graph
from tonnage.workflow.model import Workflow, file_edges

# How far from the number that is asked for a family may be, as its `sizes` promises.
TOLERANCE = {"airsn": 1, "epigenomics": 2, "ligo": 2, "sdss": 2}

families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def members(workflow: Workflow, category: str) -> list[int]:
    return [number for number, task in enumerate(workflow.tasks) if task.category == category]


def parent_categories(workflow: Workflow, task: int) -> list[str]:
    return sorted(workflow.tasks[parent].category for parent in workflow.graph.parents_of(task))


def networkx_graph(workflow: Workflow) -> "nx.DiGraph[int]":
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(workflow)))
    graph.add_edges_from(zip(workflow.graph.edge_parents().tolist(), workflow.graph.child.tolist(), strict=True))
    return graph


def amounts(workflow: Workflow, category: str) -> tuple[NDArray[np.float64], ...]:
    """Run times, memory and input sizes of a category's tasks."""
    tasks = [task for task in workflow.tasks if task.category == category]
    rows = [(task.expected.wall_time, task.expected.memory, task.input_bytes) for task in tasks]
    return tuple(np.array(rows, dtype=np.float64).T)


class TestEveryFamily:
    @families
    def test_files_carry_the_same_dependencies(self, family: Family) -> None:
        workflow = family.generate(400)
        assert Graph.from_edges(len(workflow), *file_edges(workflow.tasks)) == workflow.graph

    @families
    def test_the_same_seed_gives_the_same_workflow(self, family: Family) -> None:
        assert family.generate(400, seed=7) == family.generate(400, seed=7)

    @families
    def test_another_seed_gives_other_amounts(self, family: Family) -> None:
        first, second = (family.generate(400, seed=seed) for seed in (1, 2))
        assert [task.expected for task in first.tasks] != [task.expected for task in second.tasks]

    @families
    def test_no_task_waits_for_itself_and_no_name_comes_twice(self, family: Family) -> None:
        workflow = family.generate(300)
        assert nx.is_directed_acyclic_graph(networkx_graph(workflow))
        assert Workflow.build(workflow.name, workflow.tasks, file_edges(workflow.tasks)) == workflow

    @pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"random-layered"}))
    def test_every_task_waits_for_another_or_is_waited_for(self, name: str) -> None:
        graph = FAMILIES[name].generate(300).graph
        assert bool((graph.indegree + graph.outdegree > 0).all())

    @families
    def test_everything_about_a_task_is_known(self, family: Family) -> None:
        for task in family.generate(300).tasks:
            expected = task.expected
            assert expected.cores == 1.0
            assert expected.wall_time is not None
            assert expected.wall_time > 0
            assert expected.memory is not None
            assert expected.memory > 0
            assert task.input_bytes is not None
            assert expected.disk is not None
            assert expected.disk >= task.input_bytes
            assert task.category in PROFILES

    @families
    def test_names_sort_as_they_are_numbered(self, family: Family) -> None:
        workflow = family.generate(300)
        for category in workflow.categories:
            names = [workflow.tasks[number].name for number in members(workflow, category)]
            assert names == sorted(names)
            assert names[0].removeprefix(f"{category}_").lstrip("0") == "1"

    @families
    def test_the_commands_run_in_an_empty_folder_and_create_the_outputs(self, family: Family, tmp_path: Path) -> None:
        workflow = family.generate(family.least, **_layers(family, family.least))
        for number in workflow.graph.order:
            task = workflow.tasks[number]
            assert all((tmp_path / name).exists() for name in task.inputs)
            assert task.command is not None
            subprocess.run(task.command, shell=True, cwd=tmp_path, check=True)
            assert all((tmp_path / name).exists() for name in task.outputs)

    @families
    @examples(15)
    @given(data=st.data())
    def test_the_size_is_what_was_asked_for(self, family: Family, data: st.DataObject) -> None:
        wanted = data.draw(st.integers(max(family.least, 50), 3000))
        found = len(family.generate(wanted, seed=data.draw(st.integers(0, 5))))
        assert abs(found - wanted) <= TOLERANCE.get(family.name, 0)

    @families
    def test_every_size_from_the_least_on_exists(self, family: Family) -> None:
        tolerance = 3 if family.name == "montage" else TOLERANCE.get(family.name, 0)
        for wanted in range(family.least, family.least + 60):
            assert abs(len(family.generate(wanted, **_layers(family, wanted))) - wanted) <= tolerance

    @families
    def test_a_size_that_cannot_be_is_refused(self, family: Family) -> None:
        for wanted in (family.least - 1, -5, MOST_TASKS + 1):
            with pytest.raises(InputError, match=f"{family.name} can have {family.least:,} to 10,000,000 tasks"):
                family.generate(wanted)

    @pytest.mark.parametrize(
        ("name", "tasks"),
        [("airsn", 773), ("ligo", 2988), ("montage", 7881), ("sdss", 48_013), ("epigenomics", 1121)],
    )
    def test_the_default_size_is_that_of_the_published_workflow(self, name: str, tasks: int) -> None:
        assert len(FAMILIES[name].generate()) == tasks


def _layers(family: Family, tasks: int) -> dict[str, int]:
    return {"layers": min(tasks, 10)} if family.name == "random-layered" else {}


class TestAirsn:
    @given(width=st.integers(1, 300), fringes_first=st.booleans())
    @examples(30)
    def test_it_is_a_double_umbrella_with_fringes(self, width: int, fringes_first: bool) -> None:
        workflow = FAMILIES["airsn"].generate(width=width, fringes_first=fringes_first)
        graph = workflow.graph
        assert len(workflow) == 3 * width + 23
        assert graph.edges == 5 * width + 20
        assert graph.widths.tolist() == [width + 1, *[1] * 20, width, 1, width, 1]
        bottleneck = members(workflow, "handle")[-1]
        assert graph.children_of(bottleneck).tolist() == members(workflow, "cover")
        fringes = members(workflow, "fringe")
        for fringe, cover in zip(fringes, members(workflow, "cover"), strict=True):
            assert sorted(graph.parents_of(cover).tolist()) == sorted([bottleneck, fringe])
        assert graph.descendants[bottleneck] == 2 * width + 2

    def test_the_handle_or_the_fringes_come_first_in_the_file(self) -> None:
        handle_first = FAMILIES["airsn"].generate(width=5)
        fringes_first = FAMILIES["airsn"].generate(width=5, fringes_first=True)
        assert handle_first.tasks[0].category == "handle"
        assert [task.category for task in fringes_first.tasks[:6]] == ["fringe"] * 5 + ["handle"]

    @pytest.mark.parametrize("width", [0, -1, 4_000_000])
    def test_a_width_that_cannot_be_is_refused(self, width: int) -> None:
        with pytest.raises(InputError, match=r"the width of the umbrella must be 1 to 3,333,325"):
            FAMILIES["airsn"].generate(width=width)


class TestForkJoin:
    def test_one_stage(self) -> None:
        assert FAMILIES["fork-join"].generate(12).graph.widths.tolist() == [1, 10, 1]

    @given(stages=st.integers(1, 8), work=st.integers(0, 60))
    def test_stages_share_the_tasks_evenly(self, stages: int, work: int) -> None:
        widths = FAMILIES["fork-join"].generate(2 * stages + 1 + work, stages=stages).graph.widths.tolist()
        forks, parallel = widths[::2], widths[1::2]
        assert forks == [1] * (stages + 1)
        assert len(parallel) == stages
        assert max(parallel) - min(parallel) <= 1

    @pytest.mark.parametrize("stages", [0, 5])
    def test_too_many_stages_are_refused(self, stages: int) -> None:
        with pytest.raises(InputError, match=f"10 tasks cannot form {stages} stages"):
            FAMILIES["fork-join"].generate(10, stages=stages)


@pytest.fixture(scope="module")
def montage() -> Workflow:
    return FAMILIES["montage"].generate()


class TestMontage:
    def test_the_levels_are_those_of_the_real_one(self, montage: Workflow) -> None:
        images, overlaps = montage.categories["mProject"], montage.categories["mDiffFit"]
        assert montage.graph.widths.tolist() == [images, overlaps, 1, 1, images, 1, 1, 1, 1]

    def test_an_image_overlaps_with_three_to_eight_others(self, montage: Workflow) -> None:
        # A corner that was left out to meet the size takes one away, and each mProject also has its mBackground.
        children = montage.graph.outdegree[members(montage, "mProject")]
        assert 3 <= children.min() <= 4
        assert children.max() == 9

    def test_every_difference_is_of_two_images_and_each_pair_comes_once(self, montage: Workflow) -> None:
        pairs = [tuple(montage.graph.parents_of(task).tolist()) for task in members(montage, "mDiffFit")]
        assert {len(pair) for pair in pairs} == {2}
        assert len(set(pairs)) == len(pairs)

    def test_a_background_waits_for_its_own_image_and_the_model(self, montage: Workflow) -> None:
        model = members(montage, "mBgModel")[0]
        for image, background in zip(members(montage, "mProject"), members(montage, "mBackground"), strict=True):
            assert montage.graph.parents_of(background).tolist() == [image, model]

    def test_images_and_differences_are_one_bipartite_component_of_over_a_thousand(self, montage: Workflow) -> None:
        tasks = [*members(montage, "mProject"), *members(montage, "mDiffFit")]
        assert nx.is_connected(networkx_graph(montage).subgraph(tasks).to_undirected())
        assert len(tasks) > 1000

    @given(st.integers(11, 50))
    def test_below_fifty_tasks_there_may_be_up_to_three_more(self, tasks: int) -> None:
        assert 0 <= len(FAMILIES["montage"].generate(tasks)) - tasks <= 3


class TestLigo:
    def test_a_group_joins_forks_and_joins_again(self) -> None:
        workflow = FAMILIES["ligo"].generate()
        chains, groups = workflow.categories["Inspiral"], workflow.categories["Thinca"]
        assert workflow.graph.widths.tolist() == [chains, chains, groups, chains, chains, groups]
        thinca, final = members(workflow, "Thinca"), members(workflow, "Thinca2")
        assert workflow.graph.indegree[thinca].tolist() == workflow.graph.outdegree[thinca].tolist()
        assert workflow.graph.indegree[thinca].tolist() == workflow.graph.indegree[final].tolist()

    def test_groups_do_not_touch_unless_they_overlap(self) -> None:
        apart, touching = (FAMILIES["ligo"].generate(overlap=overlap) for overlap in (False, True))
        components = nx.number_weakly_connected_components(networkx_graph(apart))
        assert components == apart.categories["Thinca"]
        assert nx.is_weakly_connected(networkx_graph(touching))
        assert len(apart) == len(touching)

    def test_overlapping_groups_form_one_large_component_that_is_not_bipartite(self) -> None:
        workflow = FAMILIES["ligo"].generate(overlap=True)
        largest = max(prio_components(workflow, without="TmpltBank"), key=len)
        assert len(largest) == len(workflow) - workflow.categories["TmpltBank"]
        assert len(largest) > 1000


def prio_components(workflow: Workflow, *, without: str) -> Iterator[set[int]]:
    """The candidates for PRIO's components once a category has run: who must be in it with whom."""
    remaining = [number for number, task in enumerate(workflow.tasks) if task.category != without]
    graph = networkx_graph(workflow).subgraph(remaining)
    needs = graph.reverse(copy=True)
    needs.add_edges_from(edge for edge in graph.edges if graph.in_degree(edge[0]) == 0)
    yield from nx.strongly_connected_components(needs)


class TestEpigenomics:
    def test_it_has_the_size_of_the_real_instance(self) -> None:
        workflow = FAMILIES["epigenomics"].generate()  # WfCommons: hep-7seq-50k
        assert workflow.graph.edges == 1389
        assert workflow.graph.widths.tolist() == [7, 276, 276, 276, 276, 7, 1, 1, 1]

    def test_lanes_are_merged_by_themselves_and_then_together(self) -> None:
        workflow = FAMILIES["epigenomics"].generate()
        *lanes, together = members(workflow, "mapMerge")
        splits = members(workflow, "fastqSplit")
        assert workflow.graph.indegree[lanes].tolist() == workflow.graph.outdegree[splits].tolist()
        assert workflow.graph.parents_of(together).tolist() == lanes


class TestCyberShake:
    @pytest.mark.parametrize(("tasks", "extracts", "edges"), [(50, 2, 92), (250, 2, 492), (500, 4, 988)])
    def test_it_has_the_structure_of_the_real_one(self, tasks: int, extracts: int, edges: int) -> None:
        workflow = FAMILIES["cybershake"].generate(tasks)  # GLUME's CYBERSHAKE_50, _250 and _500
        syntheses = (tasks - extracts - 2) // 2
        assert workflow.graph.edges == edges
        assert workflow.graph.widths.tolist() == [extracts, syntheses, syntheses + 1, 1]
        for task in members(workflow, "SeismogramSynthesis"):
            assert parent_categories(workflow, task) == ["ExtractSGT"]
            assert workflow.graph.outdegree[task] == 2


class TestSipht:
    def test_it_has_the_structure_of_the_real_one(self) -> None:
        workflow = FAMILIES["sipht"].generate(242)  # GLUME's SIPHT_250
        assert workflow.graph.edges == 274
        assert workflow.categories["Patser"] == 146
        assert workflow.categories["SRNA_annotate"] == 8
        assert len(workflow.graph.widths) == 5
        for task in members(workflow, "SRNA_annotate"):
            assert parent_categories(workflow, task) == [
                "Blast_QRNA",
                "Blast_candidate",
                "Blast_paralogues",
                "Blast_synteny",
                "Patser_concate",
                "SRNA",
            ]


@pytest.fixture(scope="module")
def sdss() -> Workflow:
    return FAMILIES["sdss"].generate()


class TestSdss:
    def test_every_source_of_the_large_bipartite_components_has_three_children_some_of_them_shared(
        self, sdss: Workflow
    ) -> None:
        sources, sinks = members(sdss, "brgSearch"), members(sdss, "bcgSearch")
        assert set(sdss.graph.outdegree[sources].tolist()) == {3}
        assert set(sdss.graph.indegree[sinks].tolist()) == {1, 2, 3}
        component = networkx_graph(sdss).subgraph([*sources, *sinks]).to_undirected()
        assert [len(line) for line in nx.connected_components(component)] == [2000] * 12

    def test_a_field_is_compared_with_its_neighbours_on_the_same_line(self, sdss: Workflow) -> None:
        first, middle = members(sdss, "bcgCoalesce")[0], members(sdss, "bcgCoalesce")[500]
        searches = members(sdss, "bcgSearch")
        assert sdss.graph.parents_of(first).tolist() == searches[:2]
        assert sdss.graph.parents_of(middle).tolist() == searches[499:502]
        assert sdss.graph.indegree[members(sdss, "getCatalog")].tolist() == [1001] * 12


class TestRandomLayered:
    @given(tasks=st.integers(1, 400), data=st.data(), parents=st.floats(1, 5))
    @examples(40)
    def test_every_task_waits_for_the_layer_above(self, tasks: int, data: st.DataObject, parents: float) -> None:
        layers = data.draw(st.integers(1, tasks))
        graph = FAMILIES["random-layered"].generate(tasks, layers=layers, parents=parents).graph
        assert len(graph.widths) == layers
        assert bool((graph.level[graph.child] - graph.level[graph.edge_parents()] == 1).all())

    def test_a_task_waits_for_as_many_as_asked(self) -> None:
        graph = FAMILIES["random-layered"].generate(5000, layers=5, parents=4.0).graph
        assert graph.indegree[graph.level > 0].mean() == pytest.approx(4, rel=0.05)

    @pytest.mark.parametrize("options", [{"layers": 0}, {"layers": 101}, {"parents": 0.5}, {"parents": 1e9}])
    def test_options_that_make_no_sense_are_refused(self, options: dict[str, float]) -> None:
        with pytest.raises(InputError):
            FAMILIES["random-layered"].generate(100, 0, **options)


class TestAmounts:
    @pytest.mark.parametrize(
        ("family", "category"),
        [("ligo", "Inspiral"), ("sdss", "bcgSearch"), ("montage", "mDiffFit"), ("fork-join", "work")],
    )
    def test_run_times_are_lognormal_with_the_median_and_spread_of_the_table(self, family: str, category: str) -> None:
        seconds, _, _ = amounts(FAMILIES[family].generate(20_000), category)
        logarithm, profile = np.log(seconds), PROFILES[category]
        assert np.exp(np.median(logarithm)) == pytest.approx(profile.seconds, rel=0.05)
        assert logarithm.std() == pytest.approx(profile.seconds_spread, rel=0.05)
        assert abs(((logarithm - logarithm.mean()) ** 3).mean() / logarithm.std() ** 3) < 0.1

    @pytest.mark.parametrize(
        ("family", "category"), [("cybershake", "SeismogramSynthesis"), ("ligo", "Inspiral"), ("sdss", "bcgSearch")]
    )
    def test_memory_grows_with_the_input_where_the_table_says_so(self, family: str, category: str) -> None:
        _, memory, read = amounts(FAMILIES[family].generate(20_000), category)
        slope, base = np.polyfit(read, memory, 1)
        assert slope == pytest.approx(PROFILES[category].per_input, rel=0.1)
        assert base == pytest.approx(PROFILES[category].memory * 1e6, rel=0.4)
        assert np.corrcoef(read, memory)[0, 1] > 0.8

    def test_memory_does_not_depend_on_the_input_elsewhere(self) -> None:
        _, memory, read = amounts(FAMILIES["ligo"].generate(20_000), "TmpltBank")
        assert abs(np.corrcoef(read, memory)[0, 1]) < 0.05
        assert np.median(memory) == pytest.approx(400e6, rel=0.01)

    @families
    def test_a_task_reads_what_its_parents_wrote_each_once(self, family: Family) -> None:
        workflow = family.generate(400)
        written = [(task.expected.disk or 0) - (task.input_bytes or 0) for task in workflow.tasks]
        for number, task in enumerate(workflow.tasks):
            from_parents = sum(written[parent] for parent in workflow.graph.parents_of(number))
            raw = PROFILES[task.category].raw * 1e6
            # Beside them it reads raw data of its own, which four times the spread of file sizes contains.
            assert from_parents + 0.2 * raw <= (task.input_bytes or 0) <= from_parents + 5 * raw
