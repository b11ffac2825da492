"""``tonnage discover`` as its users call it."""

from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine
from tonnage.workflow import read

JOBS = "category,memory,disk,cores,wall_time\n" + "".join(
    f"{category},{memory + n},10,1,100\n" for category, memory in (("small", 1000), ("large", 9000)) for n in range(6)
)


@pytest.fixture
def run(command_line: CommandLine, tmp_path: Path) -> Call:
    (tmp_path / "jobs.csv").write_text(JOBS)
    return command_line


def test_the_table_names_clusters_and_savings(run: Call) -> None:
    said = run("discover", "jobs.csv").stdout
    assert "cluster-1" in said
    assert "2 clusters at eps" in said
    assert "compared with one size for all" in said


def test_json_holds_the_documented_keys(run: Call) -> None:
    facts = run("discover", "jobs.csv", "--eps", "100", "--margin", "10%", "--json").facts
    assert (facts["schema"], facts["eps"], facts["chosen_by"]) == (1, 100.0, "given")
    assert [(one["label"], one["jobs"]) for one in facts["clusters"]] == [("cluster-1", 6), ("cluster-2", 6)]
    assert facts["clusters"][0]["maxima"]["memory"] == 1005e6
    assert facts["clusters"][0]["allocation"]["memory"] == pytest.approx(1.1 * 1005e6)
    assert set(facts["savings"]) == {"cores", "memory", "disk"}


def test_a_range_of_distances_is_tried(run: Call) -> None:
    facts = run("discover", "jobs.csv", "--eps-range", "60:220:20", "--json").facts
    assert (facts["eps"], facts["score"]) == (60.0, 1.0)


def test_labels_are_written_to_the_archive_and_size_uses_them(run: Call) -> None:
    run("archive", "import", "jobs.csv", "--archive", "a.db")
    assert "12 jobs labelled" in run("discover", "a.db", "--write").stdout
    sizes = run("size", "a.db", "--by", "label", "--resource", "memory", "--json").facts
    assert {(one["category"], one["samples"]) for one in sizes["allocations"]} == {("cluster-1", 6), ("cluster-2", 6)}
    categories = run("size", "a.db", "--resource", "memory", "--json").facts
    assert {one["category"] for one in categories["allocations"]} == {"small", "large"}  # they stay as they were


def test_density_sizes_each_cluster(run: Call) -> None:
    sizes = run("size", "jobs.csv", "--strategy", "density", "--resource", "memory", "--json").facts
    assert [one["ladder"][0] for one in sizes["allocations"]] == [
        1.1e9,
        9.5e9,
    ]  # 1.05 * 1005 MB and 1.05 * 9005 MB, rounded


@pytest.mark.parametrize("name", ["sized.mf", "sized.jx", "sized.dag"])
def test_a_workflow_gets_the_sizes_of_its_clusters(run: Call, tmp_path: Path, name: str) -> None:
    (tmp_path / "w.mf").write_text("CATEGORY=small\na: \n\techo a > a\n\nCATEGORY=large\nb: a\n\tcat a > b\n")
    said = run("discover", "jobs.csv", "--apply", "w.mf", "-o", name).stdout
    assert f"{name}: 2 tasks, sizes found 2 by category" in said
    sizes = sorted(task.request.memory or 0 for task in read(tmp_path / name).tasks)
    assert sizes[0] == pytest.approx(1.05 * 1005e6, rel=0.002)
    assert sizes[1] == pytest.approx(1.05 * 9005e6, rel=0.002)


@pytest.mark.parametrize(
    "words",
    [
        ("jobs.csv", "--eps", "1", "--eps-range", "1:2"),
        ("jobs.csv", "--eps-range", "5:1"),
        ("jobs.csv", "--eps-range", "a:b"),
        ("jobs.csv", "--eps", "-1"),
        ("jobs.csv", "--weights", "memory=-1"),
        ("jobs.csv", "--weights", "colour=1"),
        ("jobs.csv", "--weights", "memory=0"),
        ("jobs.csv", "--margin", "lots"),
        ("jobs.csv", "--write"),
        ("jobs.csv", "--apply", "w.mf"),
        ("jobs.csv", "-o", "x.mf"),
        ("nosuch.csv",),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(run: Call, words: tuple[str, ...]) -> None:
    assert run("discover", *words, status=2).stderr.startswith("tonnage: ")
