"""Classic Makeflow: what it means, how it is written, and what the real tool says to both."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tests.deadlines import HANGS
from tests.growth import grows_linearly
from tests.strategies import examples
from tests.workflow.real_makeflow import any_workflow, as_the_real_tool_sees, dependencies
from tonnage.errors import CycleError, InputError
from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.workflow import SpecialTask, Task, Workflow, read
from tonnage.workflow.formats import makeflow as classic
from tonnage.workflow.formats import makeflow_json


def load(text: str) -> Workflow:
    return classic.read(Document(Path("demo.mf"), text.encode()))


def edges(workflow: Workflow) -> set[tuple[str, str]]:
    names = [task.name for task in workflow.tasks]
    pairs = zip(workflow.graph.edge_parents().tolist(), workflow.graph.child.tolist(), strict=True)
    return {(names[parent], names[child]) for parent, child in pairs}


def warnings(workflow: Workflow) -> tuple[str, ...]:
    assert workflow.source is not None
    return workflow.source.warnings


def test_a_rule_is_a_task_that_waits_for_the_writers_of_what_it_reads() -> None:
    workflow = load("mid other: in prog\n\t./prog in > mid\n\nout: mid ./other\n    LOCAL cat mid   other > out\n")
    first, second = workflow.tasks
    assert first == Task("mid", "./prog in > mid", "prog", ("in", "prog"), ("mid", "other"))
    assert second == Task("out", "cat mid other > out", "cat", ("mid", "./other"), ("out",))
    assert edges(workflow) == {("mid", "out")}
    assert workflow.name == "demo"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cmd   a\t b  ", "cmd a b"),
        ("cmd 'a  $(A)' \"b  $(A)\"", "cmd 'a  $(A)' \"b  one\""),
        ("cmd $(A)x ${A}y $A/z $A.b", "cmd onex oney one/z one.b"),
        ("cmd $(B)", 'cmd "two  words"'),
        (r"cmd \$HOME \#1 \\ \' a\ \ b", r"cmd $HOME #1 \ ' a  b"),
        ("cmd a # comment $(", "cmd a"),
        ("cmd 'a#b' \"#\"", "cmd 'a#b' \"#\""),
        (r'cmd "a\nb\tc\"d"', 'cmd "a\nb\tc"d"'),
        (r"cmd 'a\nb'", "cmd 'anb'"),
        ("cmd a\\\n   b \\\n\tc", "cmd a b c"),
        ("LOCAL LOCAL cmd", "cmd"),
        ("LOCALE=C cmd", "LOCALE=C cmd"),
        ("cmd $(F)", "cmd a b c"),
        ("cmd > $(NOWHERE)/x", "cmd > ${NOWHERE}/x"),
        ("X=1 cmd a:b=c @d", "X=1 cmd a:b=c @d"),
        (r"\@X=1", "@X=1"),
        ("cmd $(E)", "cmd 'x $(A)'"),
        ("cmd $(L)", "cmd ! one"),
    ],
)
def test_commands_are_read_as_the_real_tool_reads_them(
    tool: ToolFinder, tmp_path: Path, written: str, meant: str
) -> None:
    text = f"A=one\nB=\"two  words\"\nF = a\nF += b\nF+=c\nE='x $(A)'\nL=! $(A)\nout: in\n\t{written}\n"
    assert load(text).tasks[0].command == meant
    if "NOWHERE" not in written:
        found = as_the_real_tool_sees(tool, tmp_path, text)[0]["command"]
        assert isinstance(found, str)
        # A line that is continued leaves a blank more there, and a comment leaves the blank before it.
        assert re.sub(" +", " ", found).strip() == re.sub(" +", " ", meant)


@pytest.mark.parametrize(
    ("head", "targets", "sources"),
    [
        ("a b->c : d->e f", ["a", "b"], ["d", "f"]),
        ("a:", ["a"], []),
        (": a", [], ["a"]),
        (r"""a\ b: 'c d' "e:f" g\:h i\#j k\$l m\->n""", ["a b"], ["c d", "e:f", "g:h", "i#j", "k$l", "m->n"]),
        ("$(A) x$(A): $(B) # comment", ["one", "xone"], ["two words"]),
        ("a=b: c", None, None),
        ("a\\=b: c=d", ["a=b"], ["c=d"]),
        ("export x: .SIZE", ["export", "x"], [".SIZE"]),
        ("a \\\n  b: c \\\n  d", ["a", "b"], ["c", "d"]),
    ],
)
def test_heads_of_rules(head: str, targets: list[str] | None, sources: list[str] | None) -> None:
    text = f'A=one\nB="two words"\n{head}\n\tcmd\n'
    if targets is None or sources is None:
        with pytest.raises(InputError, match="a command without a rule"):
            load(text)
        return
    task = load(text).tasks[0]
    assert (list(task.outputs), list(task.inputs)) == (targets, sources)


def test_resources_belong_to_categories_and_a_rule_may_have_its_own() -> None:
    text = """
CORES=2
a: in
	cmd
CATEGORY="big one"
MEMORY=100
.MAKEFLOW DISK 200
b: in
	cmd $(CORES) $(MEMORY)
MEMORY=300
c: in
@CORES=8
@MEMORY="400"
@BATCH_OPTIONS=-q long
	@WALL_TIME=60
	cmd $(BATCH_OPTIONS) $(CORES)
.MAKEFLOW CATEGORY default
d: in
	cmd
"""
    a, b, c, d = load(text).tasks
    assert (a.category, a.request) == ("cmd", Amounts.of(cores=2))
    # The last setting of a category holds for all its rules; a variable has the value of its line.
    assert (b.category, b.command) == ("big one", "cmd 2 100")
    assert b.request == Amounts.of(cores=2, memory=300 * 2**20, disk=200 * 2**20)
    assert (c.category, c.command) == ("big one", "cmd -q long 8")
    assert c.request == Amounts.of(cores=8, memory=400 * 2**20, disk=200 * 2**20, wall_time=60)
    assert (d.category, d.request) == ("default", Amounts.of(cores=2))


def test_exported_variables_travel_with_the_command() -> None:
    text = 'export A=1 2\nB="x y"\nexport B C\nexport PATH=/opt/bin:${PATH}\na:\n\tcmd\n'
    task = load(text).tasks[0]
    assert task.command == "export A='1 2' B='x y' PATH=\"/opt/bin:${PATH}\"; cmd"
    assert task.category == "cmd"


def test_sizes_of_files_add_up_where_all_are_known() -> None:
    text = ".SIZE a 100\n.SIZE b 2K\n.SIZE c 3MB\nx: a b\n\tcmd\ny: a z\n\tcmd\nw: c\n\tcmd\nv:\n\tcmd\n"
    assert [task.input_bytes for task in load(text).tasks] == [2148, None, 3 * 2**20, None]


def test_what_is_left_to_others_is_a_warning() -> None:
    workflow = load("CORES=many\na: $(X)/in\n\tcmd $(X) $(X) $HOME\nb: in\n\tMAKEFLOW inner.mf sub\n")
    assert [task.command for task in workflow.tasks] == ["cmd ${X} ${X} ${HOME}", None]
    assert [warning.split(":")[0] for warning in warnings(workflow)] == ["line 2", "line 3", "line 5", "line 5"]


def test_tasks_without_outputs_are_named_after_their_command() -> None:
    workflow = load(": in\n\techo a\n: in\n\techo a\n: in\n\techo b\n")
    first, second, third = (task.name for task in workflow.tasks)
    assert first.startswith("echo-")
    assert second == f"{first}-2"
    assert third.startswith("echo-")
    assert third not in (first, second)
    taken = load(f": in\n\techo a\n{first}:\n\ttrue\n")
    assert [task.name for task in taken.tasks] == [f"{first}-2", first]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: b\n", 1, "the rule has no command"),
        ("a: b\nc: d\n\tx\n", 1, "the rule has no command"),
        ("a: b\n\tLOCAL\n", 2, "the rule has no command"),
        ("a: b\n\tx\n\ty\n", 3, "a command without a rule"),
        ("\tx\n", 1, "a command without a rule"),
        ("a: b\n\techo 'x\n", 2, "a ' is not closed"),
        ('a: b\n\techo "x\n', 2, 'a " is not closed'),
        ("a: b\n\techo $$\n", 2, "is not a variable"),
        ("a: b\n\techo $(date +%s)\n", 2, "is not a variable"),
        ("a: b\n\techo x \\\n", 2, "ends after a backslash"),
        ("a b\n\tx\n", 1, "not a Makeflow statement"),
        ("a-b=1\n", 1, "letters, digits and _"),
        ("export\n", 1, "not a Makeflow statement"),
        (".MAKEFLOW CORES many\n", 1, "expected a number"),
        (".MAKEFLOW GPUS 1\n", 1, "not a Makeflow directive"),
        (".OTHER 1\n", 1, "not a Makeflow directive"),
        (".SIZE a x\n", 1, "the size"),
        ('"": b\n\tx\n', 1, "empty"),
        ("a: b\n\tx\n\n./a: c\n\tx\n", 4, "already written by the rule in line 1"),
        ("x: b\n\tx\na: b ./a\n\tx\n", 3, "waits for itself"),
        ("X=1\n", None, "contains no rules"),
        ('# tonnage: {"name": 3}\na: b\n\tx\n', 2, "note"),
        ('# tonnage: {"request": {"wishes": 3}}\na: b\n\tx\n', 2, "note"),
        ('# tonnage: {"name": }\na: b\n\tx\n', 2, "note"),
    ],
)
def test_errors_name_the_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(text)
    assert message in caught.value.message
    assert caught.value.line == line


@pytest.mark.parametrize("most", [2**20, pytest.param(2**28, marks=pytest.mark.long)])
def test_variables_cannot_grow_without_end(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(classic, "_MOST_INSERTED", most)
    monkeypatch.setattr("tonnage.workflow.formats.makeflow_rules._MOST_EXPORTED", most)
    with pytest.raises(InputError, match="expand to more than"):
        load("A=x\n" + "A=$(A)$(A)\n" * 100 + "a:\n\tcmd\n")
    with pytest.raises(InputError, match="exports more"):
        load("export A=" + "x" * (most // 26) + "\n" + "".join(f"a{n}:\n\tcmd\n" for n in range(28)))


@given(st.text(st.sampled_from("ab:=\t\n \\$(){}'\"#@.+-> ") | st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_a_workflow_or_an_error(text: str) -> None:
    for whole in (text, f"a: b\n\t{text}\n", f"A={text}\nb: $(A)\n\t$(A)\n", f"# tonnage: {text}\na:\n\tb\n"):
        try:
            assert len(load(whole)) > 0
        except InputError:
            continue


def test_rules_in_a_circle_are_refused() -> None:
    with pytest.raises(CycleError):
        load("a: b\n\tx\nb: a\n\tx\n")


@pytest.mark.parametrize(
    "text",
    [
        "a: b\n\tcmd\n",
        "# comment\n\nX=1\nexport Y\n.MAKEFLOW CORES 1\n\na: b\n\n\tcmd\n",
        "a: b\n@X=1\n\tcmd\n",
    ],
)
def test_it_is_recognised(text: str) -> None:
    assert classic.recognises(text)


@pytest.mark.parametrize(
    "text",
    [
        "echo a: b\necho c\n",
        "X=1\nY=2\n",
        "cmd a\n\tb\n",
        "JOB a a.sub\n",
        "",
        '{"rules": [\n\t1]}',
        "a:\nb:\n",
        "a:\n  - b\n",
    ],
)
def test_other_texts_are_not_recognised(text: str) -> None:
    assert not classic.recognises(text)


@given(any_workflow())
def test_a_written_workflow_is_read_back_whole(workflow: Workflow) -> None:
    assume(not any("\n" in name for task in workflow.tasks for name in task.inputs + task.outputs))
    text = classic.render(workflow)
    again = load(text)
    assert again.tasks == workflow.tasks
    assert again.graph == workflow.graph
    assert again.checksum == workflow.checksum
    assert warnings(again) == ()
    assert classic.recognises(text)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be written as Makeflow: the file name"):
        classic.render(Workflow.build("w", [Task("a", "x", outputs=("a\nb",))]))
    with pytest.raises(InputError, match="special nodes"):
        classic.render(Workflow.build("w", [Task("a", "x")], special=[SpecialTask("final", Task("z", "x"))]))


def test_a_command_that_somebody_edits_in_a_written_file_is_believed() -> None:
    tasks = [Task("a", "echo a", directory="sub"), Task("b", "echo b")]
    text = classic.render(Workflow.build("w", tasks, ([0], [1])))
    edited = load(text.replace("echo a", "echo new").replace("echo b", "echo other"))
    assert [task.command for task in edited.tasks] == ["echo new", "echo other"]
    assert edges(edited) == {("a", "b")}
    rewritten = load(text.replace("\t( cd", "\tnice ( cd"))
    assert rewritten.tasks[0].command == "nice ( cd sub && ( echo a ) ) && touch .tonnage-done-0"


def test_real_files(data: Path) -> None:
    folder = data / "workflows" / "makeflow"
    found = {name: read(folder / name) for name in ("benchmark.mf", "blast.mf")}
    assert {name: (len(one), one.graph.edges) for name, one in found.items()} == {
        "benchmark.mf": (100, 0),
        "blast.mf": (23, 60),
    }
    assert all(warnings(one) == () for one in found.values())
    assert found["blast.mf"].graph == read(folder / "blast.jx").graph


@pytest.mark.parametrize("rules", [1_000, pytest.param(12_500, marks=pytest.mark.long)])
def test_reading_takes_as_long_as_there_are_rules(rules: int) -> None:
    def read_rules(number: int) -> None:
        rules = (f"out.{n}: in prog out.{n // 2}\n\t./prog $(A) -n {n} > out.{n}\n" for n in range(1, number + 1))
        text = "A=1\n" + "".join(rules).replace("out.1: in prog out.0\n", "out.1: in prog\n")
        assert len(load(text)) == number

    assert grows_linearly(read_rules, rules)


@settings(examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(workflow=any_workflow(), form=st.sampled_from(["classic", "--json", "--jx"]))
def test_the_real_tool_sees_the_same_rules_and_dependencies(
    tool: ToolFinder, tmp_path: Path, workflow: Workflow, form: str
) -> None:
    try:
        text = classic.render(workflow) if form == "classic" else makeflow_json.render(workflow)
    except InputError:
        return
    assume(text.isascii())  # what it prints of other characters is not what it read
    rules = as_the_real_tool_sees(tool, tmp_path, text, *(() if form == "classic" else (form,)))
    assert len(rules) == len(workflow)
    assert dependencies(rules) == set(
        zip(workflow.graph.edge_parents().tolist(), workflow.graph.child.tolist(), strict=True)
    )


@pytest.mark.parametrize("form", ["classic", "--json"])
def test_the_real_tool_runs_what_is_written(tool: ToolFinder, tmp_path: Path, form: str) -> None:
    tool("mpirun", "openmpi-bin")  # Debian's makeflow does not start without it
    program = tool("makeflow", "coop-computing-tools")
    tasks = [
        Task("first", "X='a  b'; echo \"$X\" $((1+1)) '#' \\$ >> log; exit 0 # done"),
        Task("second", "cat >> log <<END\nhere $(echo it) is\nEND"),
        Task("third", "echo third >> ../log", directory="sub"),
        Task("fourth", None),
        Task("fifth", "cat 'an input:$' >> log; touch 'an output'", inputs=("an input:$",), outputs=("an output",)),
        Task("sixth", "echo last >> log", inputs=("./an output",), request=Amounts.of(cores=1, memory=2**20 + 1)),
    ]
    chain = np.arange(len(tasks))
    workflow = Workflow.build("made", tasks, (chain[:-1], chain[1:]))
    (tmp_path / "sub").mkdir()
    (tmp_path / "an input:$").write_text("input\n")
    (tmp_path / "made").write_text(classic.render(workflow) if form == "classic" else makeflow_json.render(workflow))
    options = () if form == "classic" else (form,)
    command = [program, "-T", "local", "--retry-count=0", *options, "made"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS)
    log = (tmp_path / "log").read_text()
    assert log == "a  b 2 # $\nhere it is\nthird\ninput\nlast\n", ran.stdout + ran.stderr
    assert "nothing left to do" in ran.stdout
