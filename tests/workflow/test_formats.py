"""Formats are recognised by content, and a workflow means the same in each of them."""

import gzip
from pathlib import Path

import click
import pytest
from hypothesis import given

from tests.strategies import workflows
from tonnage.cli.show import show
from tonnage.errors import CycleError, InputError
from tonnage.files import Document
from tonnage.workflow import READERS, WRITERS, Task, Workflow, read, write
from tonnage.workflow.formats import recognise

SAMPLES = {
    "dagman": "# comment\nJob A a.sub\nParent A Child B\n",
    "dax": '<?xml version="1.0"?>\n<adag name="x"><job id="a" name="y"/></adag>',
    "wfformat": '{"name": "x", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": []}}}',
    "pegasus": "x-pegasus:\n  apiLang: python\npegasus: 5.0.4\njobs:\n- {id: a, name: x}\n",
    "makeflow": "# comment\nCATEGORY=align\n\nout.bam: in.fq bwa\n\t./bwa in.fq > out.bam\n",
    "makeflow-json": '{"rules": [{"command": "x", "outputs": ["y"]}]}',
    "text": "bwa mem a.fq > a.bam\nbwa mem b.fq > b.bam\n",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("ending", ["", ".txt", ".dag", ".json", ".unknown"])
def test_a_format_is_recognised_whatever_the_ending_says(name: str, ending: str) -> None:
    if name == "text" and ending != ".txt":
        return  # nothing in it says that it is a list of commands
    document = Document(Path(f"file{ending}"), SAMPLES[name].encode())
    assert recognise(document) == name


@pytest.mark.parametrize(
    "text",
    [
        "job --name x\njob --name y\n",
        "python3 run.py: a\n",
        "FOO=1 ./program\n",
        "parent\n",
        "[ -f x ] && echo y\n",
        "env T=4 ./run.sh a\n",
        "script -c x log\n",
        "retry ./flaky a\n",
        "dot -Tsvg a\n",
        "echo '<job>'\n",
    ],
)
def test_a_bag_of_tasks_is_not_taken_for_something_else(text: str) -> None:
    assert recognise(Document(Path("bag.txt"), text.encode())) == "text"


@pytest.mark.parametrize("name", ["Makeflow", "a.mf", "a.makeflow", "a.MF"])
def test_a_makeflow_indented_by_spaces_is_known_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("out: in\n    sort in > out\n")
    assert [task.command for task in read(tmp_path / name).tasks] == ["sort in > out"]


def test_the_command_line_knows_every_reader() -> None:
    option = next(option for option in show.params if option.name == "source_format")
    assert isinstance(option.type, click.Choice)
    assert set(option.type.choices) == set(READERS)


def test_jx_with_comments_and_expressions_is_recognised() -> None:
    rule = '{"command": "x"+i, "outputs": ["y"+i]} for i in range(N)'
    text = f'# a comment\n{{\n "define": {{"N": 3}},\n "rules": [{rule}]\n}}\n'
    assert recognise(Document(Path("file"), text.encode())) == "makeflow-json"


@pytest.mark.parametrize("name", sorted(WRITERS.keys() & READERS.keys()))
@given(workflow=workflows(files=False, special=False))
def test_a_workflow_survives_every_format_that_is_written(
    tmp_path_factory: pytest.TempPathFactory, name: str, workflow: Workflow
) -> None:
    path = tmp_path_factory.mktemp("formats") / "made"
    write(workflow, path, name)
    assert recognise(Document.open(path)) == name
    again = read(path)
    assert again.tasks == workflow.tasks
    assert again.graph == workflow.graph


@pytest.mark.parametrize("ending", [".dag", ".json", ".mf", ".makeflow", ".jx", ".dot", ".gv", ".dag.gz"])
def test_the_ending_chooses_the_format(tmp_path: Path, ending: str) -> None:
    workflow = Workflow.build("two", [Task("a", "x"), Task("b", "y")], ([0], [1]))
    path = tmp_path / f"out{ending}"
    write(workflow, path)
    data = path.read_bytes()
    text = (gzip.decompress(data) if ending.endswith(".gz") else data).decode()
    if ending in (".dot", ".gv"):
        assert text.startswith("digraph")
    else:
        assert read(path).tasks == workflow.tasks


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a format that can be read"):
        read(tmp_path / "x", "foo")
    with pytest.raises(InputError, match="is not a format that can be written"):
        write(Workflow.build("w", [Task("a")]), tmp_path / "x", "text")


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write(Workflow.build("w", [Task("a")]), tmp_path / "out.pdf")
    assert ".dag" in (caught.value.hint or "")


def real_files(data: Path) -> list[Path]:
    found = [*(data / "workflows").rglob("*.*"), *(data / "dagman").glob("*.dag")]
    return sorted(path for path in found if path.is_file())


def test_every_real_file_is_read(data: Path) -> None:
    files = real_files(data)
    assert len(files) > 80
    for path in files:
        if path.name == "job_dagman_cycle-A.dag":
            with pytest.raises(CycleError, match=r"B -> C -> B|C -> B -> C"):
                read(path)
            continue
        workflow = read(path)
        assert len(workflow) > 0, path
        assert workflow.source is not None


@pytest.mark.parametrize(
    ("name", "tasks", "dependencies", "levels", "width"),
    [
        ("workflows/glume/MONTAGE_500_360000.dax", 500, 1236, 9, 330),
        ("workflows/glume/SIPHT_50_360000.dax", 48, 56, 5, 32),
        ("workflows/wfcommons/soykb-chameleon-50fastq-20ch-001.json", 676, 1674, 11, 500),
        ("workflows/makeflow/blast.mf", 23, 60, 3, 20),
        ("dagman/job_dagman_subdag_in_splice-A-upper.dag", 7, 8, 5, 2),
    ],
)
def test_known_shapes(data: Path, name: str, tasks: int, dependencies: int, levels: int, width: int) -> None:
    workflow = read(data / name)
    graph = workflow.graph
    assert (len(workflow), graph.edges, len(graph.widths), graph.widths.max()) == (tasks, dependencies, levels, width)


@pytest.mark.parametrize("name", sorted(WRITERS.keys() & READERS.keys()))
def test_real_workflows_survive_every_format(data: Path, tmp_path: Path, name: str) -> None:
    sources = ["workflows/glume/GENOME_50_360000.dax", "workflows/wfcommons/helloworld-forkjoin-10-chameleon.json",
               "workflows/makeflow/blast.jx", "workflows/makeflow/blast.mf", "dagman/job_dagman_halt-A.dag",
               "dagman/job_dagman_default_log.dag", "workflows/wfcommons/srasearch-chameleon-50a-001.json"]  # fmt: skip
    for source in sources:
        workflow = read(data / source)
        path = tmp_path / "written"
        write(workflow, path, name)
        again = read(path)
        assert again.tasks == workflow.tasks, source
        assert again.graph == workflow.graph, source
        assert again.checksum == workflow.checksum
