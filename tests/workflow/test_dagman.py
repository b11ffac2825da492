"""DAGMan files: every command of HTCondor 25, splices, submit descriptions, and bytes that stay."""

import shlex
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given

from tests.strategies import workflows
from tonnage.errors import CycleError, InputError
from tonnage.files import Document
from tonnage.jobs import Amounts
from tonnage.workflow import Workflow, read
from tonnage.workflow.dagman import render
from tonnage.workflow.dagman.reader import read as read_dagman


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))


def load(folder: Path, top: str, **others: str) -> Workflow:
    write_files(folder, {"top.dag": top, **others})
    return read(folder / "top.dag")


def arcs(workflow: Workflow) -> set[str]:
    names = [task.name for task in workflow.tasks]
    graph = workflow.graph
    return {f"{names[a]}>{names[b]}" for a, b in zip(graph.edge_parents(), graph.child, strict=True)}


def test_keywords_in_any_letters_comments_and_continuations(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        # a comment
        // another
        job A a.sub
        Job B a.sub DIR sub NOOP
          JOB C a.sub DONE
        priority C 7
        parent A \\
          # skipped inside of a continuation

          Child B C
        Retry A 3 UNLESS-EXIT 2
        ABORT-DAG-ON A 3 RETURN 1
        abort_dag_on B 3
        script defer 4 20 pre A ./pre.sh $JOB
        SCRIPT DEBUG log ALL POST B ./post.sh
        CATEGORY A big
        MAXJOBS big 2
        PRE_SKIP A 1
        TOLERANCE A 10% FAIL-FAST
        DONE A
        SAVE_POINT_FILE A here.save
        CONFIG dag.config
        DOT dag.dot UPDATE
        NODE_STATUS_FILE status 30 ALWAYS-UPDATE
        JOBSTATE_LOG log
        SET_JOB_ATTR Foo = "bar"
        ENV SET A=1;B=2
        WEAK PARENT B CHILD C
        """,
    )
    assert [task.name for task in workflow.tasks] == ["A", "B", "C"]
    assert arcs(workflow) == {"A>B", "A>C", "B>C"}
    assert workflow.tasks[1].directory == "sub"
    assert workflow.tasks[1].command == "true"
    assert workflow.tasks[2].priority == 7


def test_a_submit_file_gives_command_requests_and_files(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        JOB a align.sub
        VARS All_Nodes threads="4" mem="1"
        VARS a sample="s1" mem="2"
        JOB b align.sub
        """,
        **{
            "align.sub": """\
            executable = bin/align
            arguments = -t $(threads) $(sample:none) $(JOB).$(Process) \\
                --all
            request_cpus = $(threads)
            request_memory = $(mem) GB
            request_disk = 500
            transfer_input_files = $(sample).fq, ref.fa
            transfer_output_files = $(sample).bam
            allowed_execute_duration = 3600
            queue
            executable = /never/read
            """
        },
    )
    first, second = workflow.tasks
    assert first.command == "bin/align -t 4 s1 a.0 --all"
    assert first.request == Amounts.of(cores=4, memory=2 * 2**30, disk=500 * 1024, wall_time=3600)
    assert first.inputs == ("s1.fq", "ref.fa")
    assert first.outputs == ("s1.bam",)
    assert second.command == "bin/align -t 4 none b.0 --all"
    assert second.request.memory == 2**30
    assert workflow.categories == {"align": 2}


def test_a_priority_that_dagman_refuses_is_a_warning(tmp_path: Path) -> None:
    text = "PRIORITY F 1\nJOB A {\n}\nFINAL F {\n}\nSERVICE S {\n}\nPRIORITY S 2\nPRIORITY A 2\nPROVISIONER P {\n}\n"
    workflow = load(tmp_path, f"{text}PRIORITY ALL_NODES 2\n")
    assert workflow.source is not None
    assert workflow.source.warnings == (
        'the FINAL node "F" has a PRIORITY, which DAGMan rejects',
        'the SERVICE node "S" has a PRIORITY, which DAGMan rejects',
    )


def test_names_in_quotes_and_tabs_stand_around_a_description(tmp_path: Path) -> None:
    text = 'JOB "A B" {\n executable = /bin/a\n}\tDIR\td\nJOB\tC\t{\nexecutable = /bin/c\n\t}\t\nJOB D @=X\n@X\tNOOP\n'
    workflow = load(tmp_path, f"{text}JOB 'E F' @=X\n@X\nJOB G \"{{\"\n")
    assert [(task.name, task.command) for task in workflow.tasks[:3]] == [
        ("A B", "/bin/a"),
        ("C", "/bin/c"),
        ("D", "true"),
    ]
    assert workflow.tasks[0].directory == "d"
    assert [task.name for task in workflow.tasks[3:]] == ["E F", "G"]
    assert workflow.tasks[4].category == "{"


def test_of_lines_for_a_node_and_for_all_the_last_counts(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        JOB A s.sub
        JOB B s.sub
        FINAL F s.sub
        VARS A who="A" other='single quotes'
        VARS ALL_NODES who="all"
        VARS B who=B
        PRIORITY A 9
        PRIORITY all_nodes 5
        PRIORITY B 7
        """,
        **{"s.sub": "executable = /bin/e\narguments = $(who) $(other)\n"},
    )
    assert [task.command for task in workflow.tasks] == ["/bin/e all single quotes", "/bin/e B"]
    assert [task.priority for task in workflow.tasks] == [5, 7]
    assert workflow.special[0].task.command == "/bin/e"
    assert workflow.special[0].task.priority is None


def test_variables_come_before_the_description_or_after_it(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        JOB A s.sub
        VARS A x="dag" y="dag"
        VARS A APPEND y="after" request_memory="2GB"
        VARS A prepend executable="/never"
        """,
        **{"s.sub": "x = sub\ny = sub\nexecutable = /bin/e\nrequest_memory = 1\narguments = $(x) $(y) $(z:z)\n"},
    )
    assert workflow.tasks[0].command == "/bin/e sub after z"
    assert workflow.tasks[0].request.memory == 2 * 2**30


def test_a_named_description_serves_the_splices_too(tmp_path: Path) -> None:
    inner = {"i.dag": "JOB a work\n"}
    workflow = load(tmp_path, "SUBMIT-DESCRIPTION work {\nexecutable = /bin/e\n}\nSPLICE S i.dag\n", **inner)
    assert workflow.tasks[0].command == "/bin/e"
    assert workflow.categories == {"work": 1}


def test_the_folder_of_a_job_is_its_initialdir(tmp_path: Path) -> None:
    workflow = load(tmp_path, "JOB a s.sub DIR d\n", **{"d/s.sub": "executable = run.sh\ninitialdir = in\n"})
    assert (workflow.tasks[0].directory, workflow.tasks[0].command) == ("d/in", "./run.sh")


def test_a_node_that_is_done_is_a_task_with_a_warning(tmp_path: Path) -> None:
    workflow = load(tmp_path, "JOB a {\n}\nJOB b {\n} DONE\nDONE a\n")
    assert workflow.source is not None
    assert workflow.source.warnings == ("a node is marked as DONE; it is treated like any other task (2 nodes)",)


def test_inline_and_named_descriptions(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        JOB blast_1 {
            executable = /bin/blast
            arguments = "'two words' 'it''s' \"\"quoted\"\""
        } DIR d
        SUBMIT-DESCRIPTION sum @=END
            executable = /bin/sum
            request_memory = ifThenElse(MemoryUsage =!= undefined, 2, 1)
        @END
        JOB s sum
        JOB t @=X
            executable = /bin/t
        @X
        """,
    )
    quoted = shlex.join(["/bin/blast", "two words", "it's", '"quoted"'])
    assert [task.command for task in workflow.tasks] == [quoted, "/bin/sum", "/bin/t"]
    assert [task.category for task in workflow.tasks] == ["blast", "sum", "t"]
    assert workflow.tasks[0].directory == "d"
    assert workflow.tasks[1].request.memory is None


def test_splices_are_inserted_with_their_prefix_folder_and_ends(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        """\
        JOB A a.sub
        SPLICE S inner.dag DIR lower
        JOB Z a.sub
        PARENT A CHILD S
        PARENT S CHILD Z
        """,
        **{
            "lower/inner.dag": "JOB x x.sub\nJOB y x.sub\nSPLICE T deep.dag DIR more\nPARENT x CHILD T\n",
            "lower/more/deep.dag": "JOB p x.sub DIR q\nJOB r x.sub\nPARENT p CHILD r\nPRIORITY r 3\n",
            "lower/x.sub": "executable = /bin/x\n",
        },
    )
    assert [task.name for task in workflow.tasks] == ["A", "S+x", "S+y", "S+T+p", "S+T+r", "Z"]
    assert arcs(workflow) == {"A>S+x", "A>S+y", "S+x>S+T+p", "S+T+p>S+T+r", "S+y>Z", "S+T+r>Z"}
    assert [task.directory for task in workflow.tasks] == [None, "lower", "lower", "lower/more/q", "lower/more", None]
    assert workflow.tasks[1].command == "/bin/x"
    assert workflow.tasks[4].priority == 3


def test_a_file_may_be_spliced_twice_and_splices_depend_on_each_other(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        "SPLICE S i.dag\nSPLICE T i.dag\nPARENT S CHILD T\n",
        **{"i.dag": "JOB a {\n}\nJOB b {\n}\nPARENT a CHILD b\n"},
    )
    assert arcs(workflow) == {"S+a>S+b", "S+b>T+a", "T+a>T+b"}


def test_connect_joins_pins_with_the_same_number(tmp_path: Path) -> None:
    inner = "JOB a {\n}\nJOB b {\n}\nPIN_IN a 1\nPIN_IN b 2\nPIN_OUT a 2\nPIN_OUT b 1\nPIN_OUT b 2\n"
    workflow = load(tmp_path, "SPLICE S i.dag\nSPLICE T i.dag\nCONNECT S T\n", **{"i.dag": inner})
    assert arcs(workflow) == {"S+b>T+a", "S+a>T+b", "S+b>T+b"}


def test_included_files_share_the_names_and_the_folder(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        "INCLUDE parts/nodes.inc\nPARENT A CHILD B\n",
        **{
            "parts/nodes.inc": "JOB A s.sub\nJOB B s.sub\nINCLUDE parts/vars.inc\n",
            "parts/vars.inc": 'VARS A x="1"\n',
            "s.sub": "executable = /bin/e\narguments = $(x)\n",
        },
    )
    assert workflow.tasks[0].command == "/bin/e 1"
    assert arcs(workflow) == {"A>B"}


def test_special_nodes_stand_beside_the_dag(tmp_path: Path) -> None:
    workflow = load(tmp_path, "JOB A {\n}\nFINAL F {\n}\nPROVISIONER P {\n}\nSERVICE S {\n}\n")
    assert [task.name for task in workflow.tasks] == ["A"]
    assert [(one.kind, one.task.name) for one in workflow.special] == [
        ("final", "F"),
        ("provisioner", "P"),
        ("service", "S"),
    ]


def test_a_missing_submit_or_subdag_file_is_a_warning(tmp_path: Path) -> None:
    far = "x" * 5000
    workflow = load(
        tmp_path, f"JOB A absent.sub\nJOB B absent.sub\nSUBDAG EXTERNAL C absent.dag\nREJECT\nJOB D {far}\n"
    )
    assert len(workflow) == 4
    assert workflow.source is not None
    text = "\n".join(workflow.source.warnings)
    assert 'submit file "absent.sub" is missing' in text
    assert "(2 nodes)" in text
    assert 'SUBDAG file "absent.dag" is missing' in text
    assert "REJECT" in text


def test_what_only_a_pool_knows_and_several_jobs_in_a_node_are_warnings(tmp_path: Path) -> None:
    workflow = load(tmp_path, "JOB A a.sub\n", **{"a.sub": "executable = x\nrequest_memory = lots\nqueue 25\n"})
    assert workflow.source is not None
    assert "request_memory = lots" in workflow.source.warnings[0]
    assert "queue 25" in workflow.source.warnings[1]
    assert workflow.tasks[0].request.memory is None


def test_thousands_of_missing_files_are_not_thousands_of_warnings(tmp_path: Path) -> None:
    workflow = load(tmp_path, "".join(f"JOB A{n} absent{n}.sub\n" for n in range(1000)))
    assert workflow.source is not None
    assert len(workflow.source.warnings) < 30
    assert "980 more" in workflow.source.warnings[-1]


def test_submit_files_with_the_same_name_in_two_folders_are_two_categories(tmp_path: Path) -> None:
    workflow = load(tmp_path, "JOB a run.sub DIR align\nJOB b run.sub DIR merge\nJOB c run.sub DIR align\n")
    assert workflow.categories == {"align/run": 2, "merge/run": 1}
    shared = load(tmp_path, "JOB a ../run.sub DIR align\nJOB b ../run.sub DIR merge\n")
    assert shared.categories == {"run": 2}
    turned = load(tmp_path, "JOB b run.sub DIR merge\nJOB c run.sub DIR align\nJOB a run.sub DIR align\n")
    assert turned.checksum == workflow.checksum


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("JOB A a.sub\nJOBB B b.sub\n", 2, 'unknown command "JOBB"'),
        ("JOB A a.sub\n\nJOB A b.sub\n", 3, '"A" is defined twice (first in line 1)'),
        ("JOB A a.sub\nPARENT A CHILD a\n", 2, '"a" is not defined'),
        ("JOB A a.sub\nPARENT A CHILD A\n", 2, "depends on itself"),
        ("JOB A a.sub\nPARENT CHILD A\n", 2, "expected PARENT"),
        ("JOB A a.sub\nPARENT A\n", 2, "expected PARENT"),
        ("# nothing\n", None, "contains no nodes"),
        ("JOB A\n", 1, "expected JOB name"),
        ("JOB A a.sub DRI x\n", 1, '"DRI" is not one of'),
        ("JOB A a.sub DIR\n", 1, "DIR needs"),
        ("JOB A+B a.sub\n", 1, "cannot be the name"),
        ('JOB "" a.sub\n', 1, "cannot be the name"),
        ("JOB A a.sub\nPRIORITY A " + "9" * 5000, 2, "is not a priority"),
        ("SPLICE A " + "x" * 5000, 1, "does not exist"),
        ("INCLUDE " + "x" * 5000, 1, "does not exist"),
        ("JOB child a.sub\n", 1, "cannot be the name"),
        ("JOB A {\n executable = x\n", 1, "not closed"),
        ("JOB A a.sub\nPARENT A \\\n# nothing\n", 3, "in the middle"),
        ("JOB A a.sub\nPRIORITY A high\n", 2, '"high" is not a priority'),
        ("JOB A a.sub\nPRIORITY B 1\n", 2, '"B" is not defined'),
        ("JOB A a.sub\nRETRY X 1\n", 2, '"X" is not defined'),
        ("JOB A a.sub\nSCRIPT PRE B x\n", 2, '"B" is not defined'),
        ("JOB A a.sub\nSCRIPT A x y\n", 2, "expected SCRIPT"),
        ("JOB A a.sub\nVARS A x= 1 = 2\n", 2, "expected VARS"),
        ("JOB A a.sub\nVARS A\n", 2, "expected VARS"),
        ('JOB A a.sub\nVARS A queue="x"\n', 2, "expected VARS"),
        ("JOB A a.sub\nPRIORITY A 5 x\n", 2, '"5 x" is not a priority'),
        ("SPLICE S x.dag\nPRIORITY S 5\n", 2, "does not work on a splice"),
        ("SPLICE S x.dag\nVARS S+a x=1\n", 2, '"S+a" is not defined'),
        ("NODE A a.sub\n", 1, "unknown command"),
        ("SPLICE S absent.dag\n", 1, 'SPLICE names "absent.dag", which does not exist'),
        ("SPLICE S top.dag\n", 1, "spliced into itself"),
        ("INCLUDE absent.inc\n", 1, 'INCLUDE names "absent.inc", which does not exist'),
        ("INCLUDE top.dag\n", 1, "includes itself"),
        ("JOB A a.sub\nJOB B a.sub\nCONNECT A B\n", 3, "the names of two splices"),
        ("JOB A a.sub\nPIN_IN A x\n", 2, "number of a pin"),
        ("SUBDAG INTERNAL A a.dag\n", 1, "SUBDAG EXTERNAL"),
        ("SUBMIT-DESCRIPTION x\nJOB A x\n", 1, "expected SUBMIT-DESCRIPTION"),
        ("JOB A a.sub\nFINAL F f.sub\nPARENT A CHILD F\n", 3, "cannot have parents or children"),
        ('JOB A {\n}\nVARS A tonnage="{}x"\n', 1, "is damaged"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = tmp_path / "top.dag"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_dagman(Document.open(path))
    assert (caught.value.path, caught.value.line) == (path, line)
    assert message in caught.value.message


def test_a_misspelt_name_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, "JOB align-7 a.sub\nJOB B a.sub\nPARENT B CHILD align_7\n")
    assert caught.value.hint == 'did you mean "align-7"?'
    with pytest.raises(InputError) as caught:
        load(tmp_path, "JOB A a.sub\nJOB B a.sub\nPARENT A CHIDL B\n")
    assert caught.value.hint == "is CHILD misspelt?"


def test_a_cycle_through_splices_is_named(tmp_path: Path) -> None:
    with pytest.raises(CycleError, match=r"S\+a"):
        load(tmp_path, "SPLICE S i.dag\nJOB B {\n}\nPARENT S CHILD B\nPARENT B CHILD S\n", **{"i.dag": "JOB a {\n}\n"})


def test_splices_may_be_nested_far_deeper_than_python_recurses(tmp_path: Path) -> None:
    depth = 1500
    for number in range(depth):
        (tmp_path / f"{number}.dag").write_text(f"SPLICE s {number + 1}.dag\nJOB j {{\n}}\nPARENT j CHILD s\n")
    (tmp_path / f"{depth}.dag").write_text("JOB last {\n}\n")
    workflow = read(tmp_path / "0.dag")
    assert len(workflow) == depth + 1
    assert len(workflow.graph.widths) == depth + 1


def test_a_bomb_of_splices_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.workflow.dagman.reader._MOST_TASKS", 20_000)
    for number in range(30):
        (tmp_path / f"{number}.dag").write_text(f"SPLICE a {number + 1}.dag\nSPLICE b {number + 1}.dag\n")
    (tmp_path / "30.dag").write_text("".join(f"JOB j{n} {{\n}}\n" for n in range(1000)))
    with pytest.raises(InputError, match="more than"):
        read(tmp_path / "0.dag")


@pytest.mark.parametrize("statement", ["SPLICE a", "INCLUDE"])
def test_a_bomb_of_empty_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    monkeypatch.setattr("tonnage.workflow.dagman.reader._MOST_SPLICES", 200)
    monkeypatch.setattr("tonnage.workflow.dagman.parts._MOST_INCLUDES", 200)
    for number in range(28):
        again = f"{statement.replace('a', 'b')} {number + 1}.dag"
        (tmp_path / f"{number}.dag").write_text(f"{statement} {number + 1}.dag\n{again}\n")
    (tmp_path / "28.dag").write_text("# nothing\n")
    with pytest.raises(InputError, match="more than"):
        read(tmp_path / "0.dag", "dagman")


@pytest.mark.parametrize("variables", ['x="$(x)$(x)"', " ".join(f'x{n}="$(x{n + 1})$(x{n + 1})"' for n in range(40))])
def test_macros_that_grow_without_end_are_refused(tmp_path: Path, variables: str) -> None:
    with pytest.raises(InputError, match="macros grow"):
        load(tmp_path, f"JOB A {{\nexecutable = /bin/e\narguments = $(x)$(x0)\n}}\nVARS A {variables}\n")


def test_names_cannot_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.workflow.dagman.reader._MOST_LETTERS", 10_000)
    nodes = "".join(f"JOB n{n} {{\n}}\n" for n in range(100))
    with pytest.raises(InputError, match="more than 10,000 characters"):
        load(tmp_path, f"SPLICE {'x' * 1000} i.dag\n", **{"i.dag": nodes})


def test_one_line_cannot_stand_for_any_number_of_dependencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.workflow.dagman.reader._MOST_EDGES", 1000)
    nodes = "".join(f"JOB n{n} {{\n}}\n" for n in range(100))
    names = [f"n{n}" for n in range(100)]
    assert load(tmp_path, nodes + f"PARENT n0 CHILD {' '.join(names[1:])}\n").graph.edges == 99
    with pytest.raises(InputError, match="more than 1,000 dependencies"):
        load(tmp_path, nodes + f"PARENT {' '.join(names[:50])} CHILD {' '.join(names[50:])}\n")


@given(workflows())
def test_a_written_workflow_is_read_back_whole(tmp_path_factory: pytest.TempPathFactory, workflow: Workflow) -> None:
    path = tmp_path_factory.mktemp("round") / "made.dag"
    path.write_text(render(workflow))
    again = read(path)
    assert again.tasks == workflow.tasks
    assert again.graph == workflow.graph
    assert again.special == workflow.special
    assert again.checksum == workflow.checksum
    assert again.source is not None
    assert again.source.warnings == ()


def test_a_file_name_that_htcondor_cannot_list_is_refused() -> None:
    from tonnage.workflow import Task

    with pytest.raises(InputError, match="file name"):
        render(Workflow.build("w", [Task("a", inputs=("x,y",))]))
    with pytest.raises(InputError, match="line break"):
        render(Workflow.build("w", [Task("a", directory="x\ny")]))
