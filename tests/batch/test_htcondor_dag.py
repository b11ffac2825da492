"""The files for HTCondor: DAGs that match the workflow, and jobs that request what was decided."""

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.deadlines import HANGS
from tests.htcondor import dag as htcondor_dag
from tests.htcondor.dag import read_dag
from tests.htcondor.description import environment, evaluated, expanded, words
from tonnage.batch.htcondor import HTCondor
from tonnage.batch.htcondor.dag import MONITOR, Dag, Node, Order, write_dag
from tonnage.errors import InputError
from tonnage.jobs import Decision, Resource
from tonnage.rank import rank
from tonnage.workflow import Task, Workflow, read
from tonnage.workflow.families import FAMILIES, Family
from tonnage.workflow.shell import one_line

htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")
MIB = 2**20


def decided(memory: Sequence[float], disk: Sequence[float] = (1e6,)) -> tuple[Decision, ...]:
    ladders = {Resource.CORES: (1.5,), Resource.MEMORY: tuple(memory), Resource.DISK: tuple(disk)}
    return tuple(
        Decision(resource=resource, ladder=ladder, strategy="test", samples=1, reason="a test")
        for resource, ladder in ladders.items()
    )


def made(
    folder: Path,
    workflow: Workflow,
    *,
    more_memory: Sequence[float] = (4e8, 2e9),
    disk: Sequence[float] = (1e6,),
    **options: object,
) -> tuple[Dag, list[Node]]:
    """Write the DAG of a workflow, with an order for each task."""
    order = rank(workflow, "prio").tolist()
    place = {task: number for number, task in enumerate(order)}
    orders = [
        Order(task, decided((1e8 + number, *more_memory), disk), len(workflow) - place[number])
        for number, task in enumerate(workflow.tasks)
    ]
    children = [workflow.graph.children_of(number).tolist() for number in range(len(workflow))]
    dag = Dag(
        folder=folder / "dag",
        home=folder,
        title=workflow.name,
        orders=orders,
        children=children,
        **options,  # type: ignore[arg-type]
    )
    return dag, write_dag(dag)


def with_commands(workflow: Workflow) -> Workflow:
    """Return a workflow that can run."""
    tasks = [task if task.command else replace(task, command="true") for task in workflow.tasks]
    return Workflow.build(workflow.name, tasks, (workflow.graph.edge_parents(), workflow.graph.child))


def commands_of(node: htcondor_dag.Node, retry: int = 0) -> dict[str, str]:
    """Return a node's submit commands as HTCondor's own library reads them, at the first or a later try."""
    variables = [replace(one, value=one.value.replace("$(RETRY)", str(retry))) for one in node.variables]
    return expanded(Path(node.description).read_text(), variables, cluster=7)


def check(dag: Dag, nodes: list[Node], workflow: Workflow) -> None:
    """Check that the DAG matches the workflow, and that HTCondor's own library reads what was decided."""
    back = read(dag.path)
    index = {node.name: number for number, node in enumerate(nodes)}
    assert [task.name for task in back.tasks] == [node.name for node in nodes]
    assert np.array_equal(np.sort(_keys(back)), np.sort(_keys(workflow)))
    assert {index[task.name]: task.priority for task in back.tasks} == {
        number: node.order.priority for number, node in enumerate(nodes)
    }
    theirs = read_dag(dag.path)  # an independent reader
    for number, node in enumerate(nodes[:: max(1, len(nodes) // 40)]):
        commands = commands_of(theirs.nodes[node.name])
        memory = next(one for one in node.order.decisions if one.resource is Resource.MEMORY)
        rungs = [f"{ceil((amount + MONITOR) / MIB)} MB" for amount in memory.ladder]
        assert commands["request_memory"] == rungs[0], number
        assert commands_of(theirs.nodes[node.name], retry=2)["request_memory"] == rungs[2], number
        assert commands["request_cpus"] == "2"
        assert commands["request_disk"] == "977 KB"
        assert "retry_request_disk" not in commands, "there is only one rung"
        assert words(commands["arguments"])[3] == one_line(node.order.task.command or "")
        assert words(commands["arguments"])[4:] == list(node.order.task.outputs)


def _keys(workflow: Workflow) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return workflow.graph.edge_parents().astype(np.int64) * len(workflow) + workflow.graph.child


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_dag_of_every_family_is_the_workflow_and_asks_for_what_was_decided(family: Family, tmp_path: Path) -> None:
    workflow = with_commands(family.generate(120))
    check(*made(tmp_path, workflow), workflow)


@pytest.mark.parametrize(("step", "least"), [(8, 5), pytest.param(1, 40, marks=pytest.mark.long)])
def test_the_dags_of_real_workflows_are_those_workflows(data: Path, tmp_path: Path, step: int, least: int) -> None:
    seen = 0
    paths = [path for path in (data / "workflows").rglob("*") if path.suffix in (".dax", ".json", ".mf", ".jx")]
    for path in sorted(paths)[::step]:
        try:
            workflow = read(path)
        except InputError:
            continue  # meant to be refused
        if not len(workflow) or len(workflow) > 2000:
            continue
        workflow = with_commands(workflow)
        folder = tmp_path / str(seen)
        check(*made(folder, workflow), workflow)
        seen += 1
    assert seen > least


# HTCondor cannot express its own placeholder for a dollar, which hypothesis finds in our source.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30).filter(
    lambda text: "$(DOLLAR)" not in text.upper()
)


@given(st.lists(texts.filter(str.strip), min_size=1, max_size=4), st.lists(texts, max_size=3, unique=True))
def test_any_command_and_any_name_reach_the_job_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, commands: list[str], outputs: list[str]
) -> None:
    names = [name for name in outputs if "\n" not in name and "\r" not in name]
    tasks = [Task(f"t {number}", command, outputs=tuple(names)) for number, command in enumerate(commands)]
    workflow = Workflow.build("any", tasks)
    dag, nodes = made(tmp_path_factory.mktemp("dag"), workflow)
    theirs = read_dag(dag.path)
    for node in nodes:
        found = words(commands_of(theirs.nodes[node.name])["arguments"])
        assert found[4:] == names
        shown = subprocess.run(["/bin/sh", "-c", f"printf %s {shlex.quote(found[3])}"], capture_output=True, check=True)
        if "\n" not in str(node.order.task.command) and "\r" not in str(node.order.task.command):
            assert shown.stdout.decode() == node.order.task.command


@pytest.mark.parametrize("grows_disk", [True, False])
def test_the_number_of_the_retry_chooses_how_much_a_job_asks_for(tmp_path: Path, grows_disk: bool) -> None:
    """For disk only in older versions: newer ones notice themselves when there was too little."""
    workflow = Workflow.build("w", [Task("a", "true")])
    dag, _ = made(tmp_path, workflow, disk=(1e6, 2e6), grows_disk=grows_disk, retries=1)
    theirs = read_dag(dag.path).nodes["a"]
    assert theirs.retries.most == 3  # two more rungs, and one failure
    for retry, megabytes in enumerate([128, 414, 1940, 1940]):
        commands = commands_of(theirs, retry)
        assert commands["request_memory"] == f"{megabytes} MB"
        assert "retry_request_memory" not in commands
        assert commands["request_disk"] == ("977 KB" if grows_disk or not retry else "1954 KB")
        assert commands.get("retry_request_disk") == ("1954 KB" if grows_disk else None)
    assert theirs.scripts["POST"][0] == str(dag.folder / "post.sh")


@pytest.mark.parametrize(
    ("ad", "removed"),
    [
        ({"JobStatus": 1}, False),  # has not run yet
        ({"JobStatus": 1, "MemoryUsage": 803, "MemoryProvisioned": 640, "RequestMemory": 540}, True),
        ({"JobStatus": 2, "MemoryUsage": 803, "MemoryProvisioned": 640, "RequestMemory": 540}, False),
        ({"JobStatus": 1, "MemoryUsage": 600, "MemoryProvisioned": 640, "RequestMemory": 540}, False),
        ({"JobStatus": 1, "DiskUsage": 300, "DiskProvisioned": 200, "RequestDisk": 150}, True),
        ({"JobStatus": 1, "DiskUsage": 300, "DiskProvisioned": 200, "RequestDisk": 400}, False),  # HTCondor raised it
        ({"JobStatus": 5, "HoldReasonCode": 1, "HoldReasonSubCode": 0}, False),  # a user may release it
        ({"JobStatus": 5, "HoldReasonCode": 34, "HoldReasonSubCode": 102}, True),
        ({"JobStatus": 5, "HoldReasonCode": 21, "HoldReasonSubCode": 104}, True),
        ({"JobStatus": 5, "HoldReasonCode": 21, "HoldReasonSubCode": 0}, False),
    ],
)
def test_a_job_for_which_waiting_is_in_vain_is_removed(dag: Dag, ad: dict[str, object], removed: bool) -> None:
    """Evicted for exceeding its allocation and requesting no more, it would be evicted forever."""
    policy = commands_of(read_dag(dag.path).nodes["a"])["periodic_remove"]
    assert evaluated(policy, {"RequestMemory": 540, "RequestDisk": 100, **ad}) is removed


@pytest.mark.parametrize(
    ("version", "grows"),
    [
        ("9.0.20", False),
        ("24.12.21", False),
        ("25.0.11", False),
        ("25.8.2", False),
        ("25.10.1", True),
        ("26.0.1", True),
    ],
)
def test_disk_grows_by_itself_where_htcondor_knows_the_command_for_it(version: str, grows: bool) -> None:
    """It is in the history of versions under 25.10.1."""
    numbers = tuple(map(int, version.split(".")))
    assert HTCondor.grows_disk((numbers[0], numbers[1], numbers[2])) is grows


def test_what_may_be_tried_again_has_a_post_script_that_knows_when_it_is_in_vain(tmp_path: Path) -> None:
    workflow = Workflow.build("w", [Task("a", "true")])
    for retries in (0, 2):
        dag, _ = made(tmp_path / str(retries), workflow, more_memory=(), retries=retries)
        node = read_dag(dag.path).nodes["a"]
        assert node.retries.most == retries
        assert ("POST" in node.scripts) == (retries > 0)


def test_what_the_user_adds_stands_in_every_description(tmp_path: Path) -> None:
    workflow = Workflow.build("w", [Task("a", "true", "one"), Task("b", "true", "two")])
    dag, nodes = made(tmp_path, workflow, commands=["accounting_group = physics", '+ProjectName = "x"'])
    for node in nodes:
        description = htcondor2.Submit((dag.folder / f"{node.order.task.category}.sub").read_text())
        assert description["accounting_group"] == "physics"
        assert description["MY.ProjectName"] == '"x"'


def test_jobs_find_programs_as_we_do_where_files_are_shared_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", '/opt/it\'s "here":/usr/bin:$x')
    workflow = Workflow.build("w", [Task("a", "true")])
    for transfers in (False, True):
        dag, _ = made(tmp_path / str(transfers), workflow, transfers=transfers)
        found = environment(commands_of(read_dag(dag.path).nodes["a"])["environment"])
        assert found.get("PATH") == (None if transfers else '/opt/it\'s "here":/usr/bin:$x')


def test_a_folder_that_htcondor_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not support the name of this folder"):
        made(tmp_path / "a b", Workflow.build("w", [Task("a", "true")]))


@pytest.mark.parametrize("name", ["/tmp/x", "../x", "a;b", "a=b"])
def test_a_file_that_cannot_travel_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    workflow = Workflow.build("w", [Task("a", "true", outputs=(name,))])
    with pytest.raises(InputError, match="cannot be transferred"):
        made(tmp_path, workflow, transfers=True)


def test_an_input_above_the_tasks_folder_cannot_travel(tmp_path: Path) -> None:
    workflow = Workflow.build("w", [Task("a", "cat ../x", inputs=("../x",))])
    with pytest.raises(InputError, match="cannot be transferred"):
        made(tmp_path, workflow, transfers=True)


def test_files_travel_with_the_folder_that_they_are_in_since_htcondor_remaps_no_folders(tmp_path: Path) -> None:
    workflow = Workflow.build("w", [Task("a", "true", inputs=("in/x", "/opt/y"), directory="deep/sub")])
    dag, _ = made(tmp_path, workflow, transfers=True)
    commands = commands_of(read_dag(dag.path).nodes["a"])
    assert commands["initialdir"] == str(tmp_path / "deep")
    assert commands["transfer_input_files"] == f"{dag.folder}/monitor.pyz, sub/in/x,/opt/y"
    assert commands["transfer_output_files"] == "tonnage-summary.json, sub"
    assert words(commands["arguments"])[2] == "sub"


# The script that runs a task on a machine of the pool


def run_task(dag: Dag, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(dag.folder / "task.sh"), str(dag.folder / "monitor.pyz"), *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def dag(tmp_path: Path) -> Dag:
    return made(tmp_path, Workflow.build("w", [Task("a", "true")]))[0]


def test_a_machine_without_a_fitting_python_runs_tasks_all_the_same(dag: Dag, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sed", "tail", "mkdir", "dirname", "mv", "find", "rm", "cat"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    here = tmp_path / "scratch"
    here.mkdir()
    ended = run_task(dag, here, "summary", "w", "echo a > 'o 1'", "o 1", PATH=str(tools))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (here / "w" / "o 1").read_text() == "a\n"
    assert (here / "summary").read_text() == "", "nobody measured"


def test_the_monitor_stops_what_takes_more_than_the_machine_gave(dag: Dag, tmp_path: Path) -> None:
    ad = tmp_path / "machine.ad"
    ad.write_text("Cpus = 3\nMemory = 132\nTotalMemory = 64000\n")
    takes = f"python3 -c 'held = bytearray(300 * 10**6); import time; time.sleep({HANGS})'"
    command = f"echo $TONNAGE_MEMORY $TONNAGE_CORES; {takes}"
    ended = run_task(dag, tmp_path, "summary", str(tmp_path / "p"), command, _CONDOR_MACHINE_AD=str(ad))
    assert ended.returncode == 124
    assert ended.stdout == f"{100 * MIB} 3\n"
    assert '"limits_exceeded"' in (tmp_path / "summary").read_text()


def test_only_what_a_failure_wrote_itself_is_put_aside(dag: Dag, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("from before")
    command = "sleep 0.1; mkdir d; echo > d/new; exit 5"
    ended = run_task(dag, tmp_path, "summary", str(tmp_path / "p"), command, "old", "d/new")
    assert ended.returncode == 5
    assert (tmp_path / "old").exists()
    assert not (tmp_path / "d" / "new").exists()
    assert (tmp_path / "p" / "d" / "new").exists()
    assert not (tmp_path / "p.begun").exists()
