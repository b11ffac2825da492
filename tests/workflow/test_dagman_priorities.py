"""Priorities in DAGMan files: the wanted ones are read back, every other byte stays, and nothing is half-written."""

import gzip
import os
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.atomic import AtomicFile
from tonnage.errors import CycleError, InputError, TonnageError
from tonnage.files import Document
from tonnage.workflow import Workflow, read
from tonnage.workflow.dagman import submit
from tonnage.workflow.dagman.parts import parts
from tonnage.workflow.dagman.priorities import Edit, NewFile, copy, in_place, save
from tonnage.workflow.dagman.statements import WORD, Statement, quoted, unquoted

SUBDAG = "a SUBDAG's priority is added to those of the nodes inside it, which can then overtake other nodes"


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "top.dag"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def ranks(workflow: Workflow, first: int = 1000) -> dict[str, int]:
    """Different priorities for all tasks."""
    return {task.name: first + number for number, task in enumerate(workflow.tasks)}


def stated(path: Path) -> dict[str, int | None]:
    return {task.name: task.priority for task in read(path, "dagman").tasks}


def variables(path: Path) -> dict[str, str]:
    """What `$(JOBPRIORITY)` is for the nodes of a DAG without splices."""
    found = parts(Document.open(path), path.parent)
    values: dict[str, str] = {}
    for name in found.names:
        pairs = sorted([*found.variables.get(name, []), *found.variables.get("ALL_NODES", [])])
        pairs.sort(key=lambda pair: pair.appended)
        own = [pair.value for pair in pairs if pair.name == "jobpriority"]
        if own:
            values[name] = own[-1]
    return values


def rank_in_place(top: Path, wanted: dict[str, int], *, legacy: bool = False) -> Edit:
    edit = in_place(top, wanted, legacy=legacy)
    save(edit)
    assert in_place(top, wanted, legacy=legacy).files == ()
    return edit


def test_an_old_number_is_replaced_and_a_missing_line_added(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "# x\nJOB A a\npriority  A   -3  \nJOB B b\nFINAL F f\nSERVICE S s"})
    edit = rank_in_place(top, {"B": 2, "A": 1})
    assert top.read_text() == "# x\nJOB A a\npriority  A   1  \nJOB B b\nFINAL F f\nSERVICE S s\nPRIORITY B 2\n"
    assert edit == Edit((NewFile(top, top.read_bytes()),), ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PRIORITY A 5\r\nJOB A a\r\n", "PRIORITY A 7\r\nJOB A a\r\n"),
        ("JOB A a\r\nJOB B b", "JOB A a\r\nJOB B b\r\nPRIORITY A 7\r\n"),
        ("\ufeffPRIORITY A 5\nJOB A a", "\ufeffPRIORITY A 7\nJOB A a"),
        ("JOB A a\nPRIORITY A +7\n", "JOB A a\nPRIORITY A +7\n"),
        ('JOB A a\nPRIORITY A "5"\n', "JOB A a\nPRIORITY A 7\n"),
        ("JOB A a\nPRIORITY\tA\t\x0b5\x0c\n", "JOB A a\nPRIORITY\tA\t\x0b7\x0c\n"),
        (
            "JOB A a\nPRIORITY \\\n# 5\n\n A \\\n 5 \nRETRY A 5\n",
            "JOB A a\nPRIORITY \\\n# 5\n\n A \\\n 7 \nRETRY A 5\n",
        ),
        ("JOB A a\nPRIORITY A 5\nPRIORITY A 6\n", "JOB A a\nPRIORITY A 7\nPRIORITY A 7\n"),
        (
            "JOB A a\nPRIORITY A 5\nPRIORITY all_nodes 6\n",
            "JOB A a\nPRIORITY A 7\nPRIORITY all_nodes 6\nPRIORITY A 7\n",
        ),
        ("JOB A a\nPRIORITY ALL_NODES 6\nPRIORITY A 5\n", "JOB A a\nPRIORITY ALL_NODES 6\nPRIORITY A 7\n"),
        ("JOB 5 a\nJOB A a\nPRIORITY 5 5\n", "JOB 5 a\nJOB A a\nPRIORITY 5 5\nPRIORITY A 7\n"),
        ("JOB A a\n# last \\", "JOB A a\n# last \\\n\nPRIORITY A 7\n"),
        ("\\\nPRIORITY A 5\nJOB A a\n", "\\\nPRIORITY A 7\nJOB A a\n"),
    ],
)
def test_only_the_number_changes(tmp_path: Path, old: str, new: str) -> None:
    top = write_files(tmp_path, {"top.dag": old})
    rank_in_place(top, {"A": 7})
    assert top.read_bytes() == new.encode()
    assert stated(top)["A"] == 7


@pytest.mark.parametrize(
    "name", ["two words", "it's", 'say "x"', "back\\slash", "a\\", "é", "{", "#1", "//2", "@=x", "'"]
)
@pytest.mark.parametrize("legacy", [False, True])
def test_odd_names_are_written_so_that_they_are_read_back(tmp_path: Path, name: str, legacy: bool) -> None:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    top = write_files(tmp_path, {"top.dag": f'JOB "{escaped}" a.sub\n', "a.sub": "queue\n"})
    rank_in_place(top, {name: 7}, legacy=legacy)
    assert (variables(top) if legacy else stated(top)) == {name: "7" if legacy else 7}


@given(st.text(st.sampled_from("ab \t\"'\\\x85{@=#/"), min_size=1))
def test_a_quoted_word_is_read_back(word: str) -> None:
    assert Statement("JOB", f"{quoted(word)} x", 1, 1).words == [word, "x"]
    assert [unquoted(one) for one in WORD.findall(quoted(word))] == [word]


def test_a_line_in_an_included_file_is_changed_there_and_a_missing_one_added_to_the_dag(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {
            "top.dag": "INCLUDE nodes.inc\nPRIORITY B 1\nINCLUDE late.inc\n",
            "nodes.inc": "JOB A a\nJOB B a\nJOB C a\nPRIORITY A 1\n",
            "late.inc": "PRIORITY ALL_NODES 3\nINCLUDE more.inc\nINCLUDE more.inc\n",
            "more.inc": "PRIORITY C 1\n",
        },
    )
    wanted = {"A": 7, "B": 8, "C": 9}
    edit = rank_in_place(top, wanted)
    assert [file.path.name for file in edit.files] == ["nodes.inc", "more.inc", "top.dag"]
    assert (tmp_path / "nodes.inc").read_text().endswith("PRIORITY A 7\n")
    assert (tmp_path / "more.inc").read_text() == "PRIORITY C 9\n"
    expected = "INCLUDE nodes.inc\nPRIORITY B 8\nINCLUDE late.inc\nPRIORITY A 7\nPRIORITY B 8\n"
    assert top.read_text() == expected
    assert stated(top) == wanted


def test_priorities_inside_a_splice_go_into_its_own_file(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {"top.dag": "JOB A a\nSPLICE S i.dag DIR d\n", "d/i.dag": "JOB x a\nSPLICE T j.dag\n", "d/j.dag": "JOB y a\n"},
    )
    wanted = {"A": 3, "S+x": 2, "S+T+y": 1}
    edit = rank_in_place(top, wanted)
    assert [file.path for file in edit.files] == [tmp_path / "d/j.dag", tmp_path / "d/i.dag", top]
    assert (tmp_path / "d/j.dag").read_text() == "JOB y a\nPRIORITY y 1\n"
    assert stated(top) == wanted


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "files",
    [
        {"top.dag": "SPLICE S i.dag\nSPLICE T i.dag\n", "i.dag": "JOB x a\n"},
        {"top.dag": "SPLICE S i.dag\nSPLICE T ./link.dag\n", "i.dag": "JOB x a\n"},
        {"top.dag": "SPLICE S i.dag\nINCLUDE i.dag\n", "i.dag": "JOB x a\n"},
        {
            "top.dag": "SPLICE S i.dag\nSPLICE T j.dag\n",
            "i.dag": "JOB x a\nINCLUDE p.inc\n",
            "j.dag": "JOB x a\nINCLUDE p.inc\n",
            "p.inc": 'PRIORITY x 1000\nVARS x JOBPRIORITY="1000"\n',
        },
    ],
    ids=["spliced twice", "through a link", "spliced and included", "included by two"],
)
def test_a_file_with_two_needs_is_refused_in_place_and_copied_for_each(
    tmp_path: Path, files: dict[str, str | bytes], legacy: bool
) -> None:
    top = write_files(tmp_path, files)
    (tmp_path / "link.dag").symlink_to("i.dag")
    before = contents(tmp_path)
    wanted = ranks(read(top))
    with pytest.raises(InputError, match="is used more than once") as caught:
        in_place(top, wanted, legacy=legacy)
    assert "--output" in (caught.value.hint or "")
    assert contents(tmp_path) == before
    save(copy(top, tmp_path / "out.dag", wanted, legacy=legacy))
    assert {name: data for name, data in contents(tmp_path).items() if name in before} == before
    assert [task.name for task in read(tmp_path / "out.dag").tasks] == list(wanted)
    assert in_place(tmp_path / "out.dag", wanted, legacy=legacy).files == ()
    if not legacy:
        assert stated(tmp_path / "out.dag") == wanted


def test_a_file_that_is_spliced_twice_with_the_same_needs_is_changed_in_place(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S i.dag\nSPLICE T i.dag\n", "i.dag": "JOB x a\n"})
    rank_in_place(top, {"S+x": 4, "T+x": 4})
    assert stated(top) == {"S+x": 4, "T+x": 4}


NESTED: dict[str, str | bytes] = {
    "w/top.dag": (
        'JOB A a.sub\nSPLICE S "i.dag" DIR low\nSPLICE T \\\n # here\n i.dag DIR low\nSPLICE E empty.dag\n'
        "INCLUDE parts/x.inc\nINCLUDE parts/none.inc\nPARENT A CHILD S\nPARENT S CHILD T B\nFINAL F b.sub\n"
        "SERVICE V b.sub\nJOB N named\nSUBMIT-DESCRIPTION named {\n executable = /bin/true\n}\n"
    ),
    "w/low/i.dag": (
        "JOB x x.sub\nJOB y x.sub DIR sub\nPRIORITY x 3\nSPLICE D d.dag DIR more\nINCLUDE v.inc\nPARENT x CHILD D y\n"
    ),
    "w/low/v.inc": "PRIORITY y 3\nINCLUDE w.inc\n",
    "w/low/w.inc": "# nothing\n",
    "w/low/more/d.dag": "JOB p named\r\nJOB q x.sub",
    "w/empty.dag": "INCLUDE parts/none.inc\n",
    "w/parts/none.inc": "# nothing\n",
    "w/parts/x.inc": "JOB B b.sub\nPRIORITY ALL_NODES 2\n",
    "w/a.sub": "executable = /bin/true\nqueue\n",
    "w/b.sub": "executable = /bin/false",
    "w/low/x.sub": "executable = /bin/true\n",
    "w/low/sub/x.sub": "executable = /bin/true\n",
}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("output", ["w/out.dag", "w/other name.dag.gz", "o/out.dag", "w/low/out.dag"])
def test_a_copy_is_the_same_workflow_wherever_it_lies(
    tmp_path: Path, output: str, legacy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, NESTED)
    (tmp_path / "o").mkdir()
    before = contents(tmp_path)
    old = read(tmp_path / "w/top.dag")
    wanted = ranks(old)
    monkeypatch.chdir(tmp_path)
    edit = copy(Path("w/top.dag"), Path(output), wanted, legacy=legacy)
    assert contents(tmp_path) == before
    save(edit)
    assert {name: data for name, data in contents(tmp_path).items() if name in before} == before
    new = read(Path(output))
    assert [task.name for task in new.tasks] == [task.name for task in old.tasks]
    assert new.graph == old.graph
    if not legacy:
        assert [task.category for task in new.tasks] == [task.category for task in old.tasks]
        assert stated(Path(output)) == wanted
    else:
        groups = {(a.category, b.category) for a, b in zip(old.tasks, new.tasks, strict=True)}
        assert len(groups) == len(old.categories) == len(new.categories)
        assert [one.task.category for one in new.special] == ["b", "b"]
    elsewhere = not output.startswith("w/o")
    assert any(str(tmp_path / "w") in warning for warning in edit.warnings) == elsewhere
    assert in_place(Path(output), wanted, legacy=legacy).files == ()
    assert save(copy(Path("w/top.dag"), Path(output), wanted, legacy=legacy)) == [file.path for file in edit.files]
    monkeypatch.chdir("/")
    assert read(tmp_path / output).graph == old.graph


def test_copies_tell_by_their_names_what_they_are(tmp_path: Path) -> None:
    write_files(tmp_path, NESTED)
    top = tmp_path / "w/top.dag"
    edit = copy(top, tmp_path / "w/out.dag", ranks(read(top)))
    names = [str(file.path.relative_to(tmp_path / "w")) for file in edit.files]
    assert names[0] == "out.files/README.tonnage"
    assert set(names[1:-1]) == {
        "out.files/S+D.dag",
        "out.files/S+v.inc",
        "out.files/S.dag",
        "out.files/T+D.dag",
        "out.files/T+v.inc",
        "out.files/T.dag",
    }
    assert names[-1] == "out.dag"
    assert f"SPLICE S {tmp_path}/w/out.files/S.dag DIR low\n" in edit.files[-1].data.decode()
    assert "INCLUDE parts/x.inc\n" in edit.files[-1].data.decode()


def test_a_word_that_spans_two_lines_is_replaced_too(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": 'SPLICE S "my \\\n  file.dag" \\\n DIR .\n', "my file.dag": "JOB x a\n"})
    save(copy(top, tmp_path / "out.dag", {"S+x": 7}))
    assert (tmp_path / "out.dag").read_text() == "SPLICE S  \\\n  out.files/S.dag \\\n DIR .\n"
    assert stated(tmp_path / "out.dag") == {"S+x": 7}


def test_splices_with_long_or_odd_names_have_copies_too(tmp_path: Path) -> None:
    names = ["x" * 300, "y" + "x" * 299, "a/b", "a_b", "A", "README", "submit", '"b c"', "é" * 200]
    splices = "".join(f"SPLICE {name} i.dag\n" for name in names)
    top = write_files(tmp_path, {"top.dag": splices, "i.dag": "SPLICE S j.dag\n", "j.dag": "JOB n a\n"})
    wanted = ranks(read(top))
    save(copy(top, tmp_path / "out.dag", wanted))
    assert stated(tmp_path / "out.dag") == wanted


def test_a_copy_replaces_nothing_of_the_workflow_and_nothing_of_others(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "top.dag": "SPLICE S i.dag\nJOB A a.sub\nSUBDAG EXTERNAL B b.dag\nINCLUDE x.inc\n",
        "i.dag": "JOB x a\n",
        "x.inc": "# nothing\n",
        "a.sub": "queue\n",
        "b.dag": "JOB x a\n",
    }
    top = write_files(tmp_path, files)
    (tmp_path / "same.dag").symlink_to("top.dag")
    wanted = ranks(read(top))
    for name in ("top.dag", "same.dag"):
        with pytest.raises(InputError, match="is the input workflow itself") as caught:
            copy(top, tmp_path / name, wanted)
        assert "--in-place" in (caught.value.hint or "")
    for name in ("i.dag", "a.sub", "b.dag", "x.inc"):
        with pytest.raises(InputError, match="belongs to the workflow"):
            copy(top, tmp_path / name, wanted)
    save(copy(top, tmp_path / "out.dag", wanted))
    with pytest.raises(InputError, match="belongs to the workflow"):
        copy(tmp_path / "out.dag", tmp_path / "out.dag.gz", ranks(read(top), 1))
    (tmp_path / "new.files").mkdir()
    with pytest.raises(InputError, match="already exists"):
        copy(top, tmp_path / "new.dag", wanted)
    os.mkfifo(tmp_path / "pipe")
    for stream in (Path("/dev/stdout"), tmp_path / "pipe"):
        with pytest.raises(InputError, match="must be a file"):
            copy(top, stream, wanted)
    flat = write_files(tmp_path / "flat", {"top.dag": "JOB A {\n}\n"})
    assert copy(flat, Path("/dev/stdout"), {"A": 1}).files[0].data == b"JOB A {\n}\nPRIORITY A 1\n"


def test_what_is_no_priority_of_the_workflow_is_refused(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "JOB A a\nFINAL F a\nSPLICE S i.dag\n", "i.dag": "JOB x a\n"})
    for name in ("F", "S", "B", "S+y", "T+x"):
        with pytest.raises(InputError, match="is not a JOB or SUBDAG node"):
            in_place(top, {"A": 1, name: 1})
    in_place(top, {"A": 2**31 - 1})
    with pytest.raises(InputError, match="32 bits"):
        in_place(top, {"A": 2**31})


def test_errors_of_the_reader_come_through(tmp_path: Path) -> None:
    for text in (
        "SPLICE S absent.dag\n",
        "INCLUDE absent.inc\n",
        "SPLICE S top.dag\n",
        "INCLUDE top.dag\n",
        "JOBB A\n",
    ):
        top = write_files(tmp_path, {"top.dag": f"JOB A a\n{text}"})
        with pytest.raises(InputError) as caught:
            in_place(top, {"A": 1})
        assert (caught.value.path, caught.value.line) == (top, 2)


def test_submit_files_with_a_priority_of_their_own_and_subdags_are_warnings(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {
            "top.dag": (
                "JOB A a.sub\nJOB B a.sub\nJOB C c.sub\nSUBDAG EXTERNAL D d.dag\nSUBDAG EXTERNAL E d.dag\n"
                "JOB I {\n priority = 5\n}\nSUBMIT-DESCRIPTION n {\n priority = 5\n}\nJOB N n\nJOB M missing.sub\n"
                "JOB P p.sub\nJOB Q q.sub\nJOB R r.sub\nJOB S s.sub\n"
            ),
            "a.sub": "Priority = 4\nqueue\n",
            "c.sub": "executable = /bin/true\nqueue\npriority = 5\n",
            "p.sub": "prio = 5\nqueue\n",
            "q.sub": "+JobPrio = 5\nqueue\n",
            "r.sub": "MY.JobPrio = 5\nqueue\n",
            "s.sub": "jobprio = 5\nqueue\n",
        },
    )
    names = [task.name for task in read(top).tasks]
    assert in_place(top, dict.fromkeys(names, 1)).warnings == (
        f"{tmp_path}/a.sub: sets a priority, which overrides the ranking",
        SUBDAG,
        f"{tmp_path}/p.sub: sets a priority, which overrides the ranking",
        f"{tmp_path}/q.sub: sets a priority, which overrides the ranking",
        f"{tmp_path}/r.sub: sets a priority, which overrides the ranking",
        f"{tmp_path}/s.sub: sets JobPrio, which contradicts the ranking",
    )


def test_warnings_about_thousands_of_files_are_few(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {f"{number}.sub": "priority = 1\n" for number in range(100)}
    top = write_files(tmp_path, {"top.dag": "".join(f"JOB n{n} {n}.sub\n" for n in range(100)), **files})
    assert len(in_place(top, ranks(read(top))).warnings) < 30


# --- the paper's form -------------------------------------------------------------------------------------------------


def test_the_papers_example(tmp_path: Path) -> None:
    lines = "".join(f"Job {name} {name}.submit\n" for name in "abcde") + "Parent a Child b\nParent c Child d e\n"
    jobs: dict[str, str | bytes] = {f"{name}.submit": "Executable = foo\nLog = foo.log\nQueue\n" for name in "abcde"}
    top = write_files(tmp_path, {"top.dag": lines, **jobs})
    rank_in_place(top, {"c": 5, "a": 4, "b": 3, "d": 2, "e": 1}, legacy=True)
    assert top.read_text() == lines + "".join(f'VARS {name} JOBPRIORITY="{5 - n}"\n' for n, name in enumerate("cabde"))
    changed = "Executable = foo\nLog = foo.log\npriority = $(JOBPRIORITY:0)\nQueue\n"
    assert all((tmp_path / name).read_text() == changed for name in jobs)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('VARS A x="1" jobPriority="5" y="2"', 'VARS A x="1" jobPriority="7" y="2"'),
        ("VARS A JOBPRIORITY = '5'", 'VARS A JOBPRIORITY = "7"'),
        ("VARS A JOBPRIORITY=5", 'VARS A JOBPRIORITY="7"'),
        ('VARS A JOBPRIORITY=""', 'VARS A JOBPRIORITY="7"'),
        ('VARS A JOBPRIORITY="7"', 'VARS A JOBPRIORITY="7"'),
        ('VARS A \\\n  x="1"\\\n  JOBPRIORITY="5" \\\n  y="2"', 'VARS A \\\n  x="1"\\\n  JOBPRIORITY="7" \\\n  y="2"'),
        ('VARS A x="JOBPRIORITY=5"', 'VARS A x="JOBPRIORITY=5"\nVARS A JOBPRIORITY="7"'),
        ('VARS A JOBPRIORITY="5 \\\n 6"', 'VARS A JOBPRIORITY= \\\n "7"'),
        ('VARS all_nodes JOBPRIORITY="5"', 'VARS all_nodes JOBPRIORITY="5"\nVARS A JOBPRIORITY="7"'),
        (
            'VARS A JOBPRIORITY="5"\nVARS ALL_NODES APPEND JOBPRIORITY="6"',
            'VARS A JOBPRIORITY="7"\nVARS ALL_NODES APPEND JOBPRIORITY="6"\nVARS A APPEND JOBPRIORITY="7"',
        ),
        (
            'VARS A APPEND JOBPRIORITY="5"\nVARS ALL_NODES JOBPRIORITY="6"',
            'VARS A APPEND JOBPRIORITY="7"\nVARS ALL_NODES JOBPRIORITY="6"',
        ),
        # A PRIORITY that is stated already must not contradict the variable.
        ("PRIORITY A 3", 'PRIORITY A 7\nVARS A JOBPRIORITY="7"'),
        ("PRIORITY ALL_NODES 3", 'PRIORITY ALL_NODES 3\nPRIORITY A 7\nVARS A JOBPRIORITY="7"'),
    ],
)
def test_an_old_variable_is_replaced_where_it_stands(tmp_path: Path, old: str, new: str) -> None:
    top = write_files(tmp_path, {"top.dag": f"JOB A a\n{old}\n"})
    rank_in_place(top, {"A": 7}, legacy=True)
    assert top.read_text() == f"JOB A a\n{new}\n"
    assert variables(top) == {"A": "7"}


LINE = submit.PRIORITY_LINE


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        ("executable = x\nqueue\n", f"executable = x\n{LINE}\nqueue\n", False),
        ("executable = x\r\n  Queue 3\r\n", f"executable = x\r\n{LINE}\r\n  Queue 3\r\n", False),
        ("executable = x", f"executable = x\n{LINE}\n", False),
        ("", f"{LINE}\n", False),
        ("priority = 3\nqueue\nqueue\n", f"priority = 3\n{LINE}\nqueue\nqueue\n", True),
        (f"prio = 3\n{LINE}\nqueue\n", f"prio = 3\n{LINE}\nqueue\n", False),
        ("Priority=$(jobpriority)\nqueue\n", "Priority=$(jobpriority)\nqueue\n", False),
        (f"executable = x\nqueue\n{LINE}\n", f"executable = x\n{LINE}\nqueue\n{LINE}\n", False),
        ("arguments = a \\\nqueue\nqueue\n", f"arguments = a \\\nqueue\n{LINE}\nqueue\n", False),
        ("a @=end\nqueue\n@end\nqueue\n", f"a @=end\nqueue\n@end\n{LINE}\nqueue\n", False),
        ("# queue\narguments = a \\", f"# queue\narguments = a \\\n\n{LINE}\n", False),
        ("if defined X\n a = 1\nendif\nqueue\n", f"if defined X\n a = 1\nendif\n{LINE}\nqueue\n", False),
        ("if defined X\n prio = 1\nendif\nqueue\n", f"if defined X\n prio = 1\nendif\n{LINE}\nqueue\n", True),
        (
            f"if defined X\n {LINE}\nendif\nqueue\n",
            f"if defined X\n {LINE}\nendif\n{LINE}\nqueue\n",
            False,
        ),
        (
            "priority = 3\nIF defined X\n queue 2\nelse\n queue 3\nEndif\n",
            f"priority = 3\n{LINE}\nIF defined X\n queue 2\nelse\n queue 3\nEndif\n",
            True,
        ),
        (
            "if true\nelse\n if defined X\n a = 1\n endif\n if defined X\n  queue\n endif\nendif\nqueue\n",
            f"{LINE}\nif true\nelse\n if defined X\n a = 1\n endif\n if defined X\n  queue\n endif\nendif\nqueue\n",
            False,
        ),
    ],
)
def test_a_submit_file_takes_the_variable_before_its_queue(tmp_path: Path, old: str, new: str, warned: bool) -> None:
    top = write_files(tmp_path, {"top.dag": "JOB A s/a.sub\nJOB B s/a.sub\n", "s/a.sub": old})
    edit = rank_in_place(top, {"A": 1, "B": 2}, legacy=True)
    assert (tmp_path / "s/a.sub").read_bytes() == new.encode()
    assert (edit.warnings != ()) == warned
    htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")
    truth = htcondor2.Submit(new)
    if LINE in new:
        assert truth.expand("priority") == "0"
    truth["JOBPRIORITY"] = "17"
    assert truth.expand("priority") == "17"


@pytest.mark.parametrize("macro", ["", "X = 1\n"])
def test_both_branches_around_a_queue_take_the_variable(tmp_path: Path, macro: str) -> None:
    text = f"{macro}if defined X\n if defined Y\n  a = 1\n endif\n queue 2\nelse\n queue 3\nendif\n"
    top = write_files(tmp_path, {"top.dag": "JOB A a.sub\n", "a.sub": text})
    assert rank_in_place(top, {"A": 1}, legacy=True).warnings == ()
    htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")
    truth = htcondor2.Submit((tmp_path / "a.sub").read_text())
    assert truth["priority"] == "$(JOBPRIORITY:0)"
    assert truth.getQArgs() == ("2" if macro else "3")


@pytest.mark.parametrize(
    "line", ["+JobPrio = 5\nqueue", "my.jobprio=5\nqueue", "if true\n priority = 5\n queue\nendif"]
)
def test_a_priority_that_wins_over_the_papers_form_is_a_warning(tmp_path: Path, line: str) -> None:
    top = write_files(tmp_path, {"top.dag": f"JOB A a.sub\nJOB B {{\n{line}\n}}\n", "a.sub": f"{line}\n"})
    assert rank_in_place(top, {"A": 1, "B": 2}, legacy=True).warnings == (
        f"{tmp_path}/a.sub: sets a priority, which overrides the ranking",
        'the description of "B" sets a priority, which overrides the ranking',
    )


def test_a_submit_file_that_other_kinds_of_nodes_use_too_is_a_warning(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {
            "top.dag": "JOB A a.sub\nFINAL F a.sub\nSERVICE S s.sub\nJOB B b.sub\nSERVICE T b.sub\n",
            "a.sub": "queue\n",
            "s.sub": "queue\n",
            "b.sub": f"{LINE}\nqueue\n",
        },
    )
    said = (f'{tmp_path}/a.sub: the FINAL node "F" also uses it, and gets priority 0',)
    assert copy(top, tmp_path / "out.dag", {"A": 1, "B": 2}, legacy=True).warnings == said
    assert in_place(top, {"A": 1}).warnings == ()
    assert rank_in_place(top, {"A": 1, "B": 2}, legacy=True).warnings == said


def test_descriptions_in_the_dag_take_the_variable_where_a_job_uses_them(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {
            "top.dag": (
                "JOB A {\n}\r\nJOB B @=X\n executable = x\n queue\n@X NOOP\n"
                "SUBMIT-DESCRIPTION one {\n priority = 2\n}\n"
                "SUBMIT-DESCRIPTION two {\n\n}\nSUBMIT-DESCRIPTION one {\n}\nFINAL F {\n}\nFINAL G two\n"
                "SPLICE S i.dag\nSUBDAG EXTERNAL D d.dag\nJOB M missing.sub\n"
            ),
            "i.dag": "JOB x one\nJOB y two\nSUBMIT-DESCRIPTION two {\n}\n",
        },
    )
    wanted = ranks(read(top))
    edit = rank_in_place(top, wanted, legacy=True)
    assert top.read_bytes().decode() == (
        f"JOB A {{\n{LINE}\n}}\r\nJOB B @=X\n executable = x\n{LINE}\n queue\n@X NOOP\n"
        f"SUBMIT-DESCRIPTION one {{\n priority = 2\n{LINE}\n}}\nSUBMIT-DESCRIPTION two {{\n\n}}\n"
        "SUBMIT-DESCRIPTION one {\n}\nFINAL F {\n}\nFINAL G two\nSPLICE S i.dag\n"
        'SUBDAG EXTERNAL D d.dag\nJOB M missing.sub\nPRIORITY D 1004\nVARS A JOBPRIORITY="1000"\n'
        'VARS B JOBPRIORITY="1001"\nVARS M JOBPRIORITY="1005"\n'
    )
    assert f"two {{\n{LINE}\n}}\n" in (tmp_path / "i.dag").read_text()
    assert edit.warnings == (
        SUBDAG,
        f"{tmp_path}/missing.sub: cannot be read, so its jobs get no priority",
        'the description of "one" sets a priority, which the ranking overrides',
    )


def test_a_copy_has_its_own_submit_files_under_their_old_names(tmp_path: Path) -> None:
    top = write_files(
        tmp_path,
        {
            "top.dag": (
                "JOB A one/run.sub\nJOB B run.cmd DIR two\nJOB C one/run.cmd\nFINAL F one/run.sub\nJOB D d.sub\n"
            ),
            "one/run.sub": "queue\n",
            "two/run.cmd": "queue\n",
            "one/run.cmd": f"{LINE}\nqueue\n",
            "d.sub": "queue\n",
        },
    )
    old = read(top)
    edit = copy(top, tmp_path / "out.dag", ranks(old), legacy=True)
    save(edit)
    text = (tmp_path / "out.dag").read_text()
    assert "JOB A out.files/submit/run.sub\n" in text
    assert f"JOB B {tmp_path}/out.files/submit/two/run.cmd DIR two\n" in text
    assert "FINAL F out.files/submit/run.sub\nJOB D out.files/submit/d.sub\n" in text
    new = read(tmp_path / "out.dag")
    assert old.categories == {"one/run": 2, "two/run": 1, "d": 1}
    assert sorted(new.categories.values()) == [1, 1, 2]
    assert new.categories["d"] == 1


# --- saving -----------------------------------------------------------------------------------------------------------


def test_links_stay_links_permissions_stay_and_gzip_stays_gzip(tmp_path: Path) -> None:
    real = tmp_path / "real.dag.gz"
    real.write_bytes(gzip.compress(b"JOB A a\n"))
    real.chmod(0o640)
    link = tmp_path / "top.dag"
    link.symlink_to("real.dag.gz")
    written = save(in_place(link, {"A": 1}), backup=True)
    assert written == [tmp_path / "top.dag.bak", link]
    assert link.is_symlink()
    assert gzip.decompress(real.read_bytes()) == b"JOB A a\nPRIORITY A 1\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert gzip.decompress((tmp_path / "top.dag.bak").read_bytes()) == b"JOB A a\n"


def _no_links(*_: object) -> None:
    raise PermissionError("this disk has none")


def test_a_backup_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = write_files(tmp_path, {"top.dag": "JOB A a\n", "top.dag.bak": "mine"})
    assert save(in_place(top, {"A": 1}), backup=True) == [tmp_path / "top.dag.bak1", top]
    assert (tmp_path / "top.dag.bak").read_text() == "mine"
    assert (tmp_path / "top.dag.bak1").read_text() == "JOB A a\n"

    monkeypatch.setattr(os, "link", _no_links)
    save(in_place(top, {"A": 2}), backup=True)
    assert (tmp_path / "top.dag.bak2").read_text() == "JOB A a\nPRIORITY A 1\n"
    assert save(in_place(top, {"A": 2}), backup=True) == []


def test_a_write_protected_file_stays_and_so_do_all_others(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S i.dag\nJOB A a\n", "i.dag": "JOB x a\n"})
    top.chmod(0o444)
    before = contents(tmp_path)
    edit = in_place(top, ranks(read(top)))
    with pytest.raises(InputError, match="write-protected") as caught:
        save(edit, backup=True)
    assert caught.value.path == top
    assert contents(tmp_path) == before


@pytest.mark.parametrize("method", ["write", "complete", "commit"])
@pytest.mark.parametrize("which", [1, 2, 3])
def test_where_one_file_cannot_be_written_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, which: int
) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S i.dag\nJOB A a\n", "i.dag": "JOB x a\n"})
    before = contents(tmp_path)
    edit = copy(top, tmp_path / "out.dag", ranks(read(top)))
    calls: list[str] = []
    real = getattr(AtomicFile, method)

    def failing(self: AtomicFile, *values: bytes) -> None:
        calls.append(method)
        if len(calls) == which:
            raise TonnageError("no space left on device")
        real(self, *values)

    monkeypatch.setattr(AtomicFile, method, failing)
    with pytest.raises(TonnageError, match="no space"):
        save(edit, backup=True)
    assert contents(tmp_path) == before
    assert not (tmp_path / "out.files").exists()


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("which", [1, 2, 3])
@pytest.mark.parametrize("failure", [PermissionError(1, "Operation not permitted"), KeyboardInterrupt()])
def test_renames_are_undone_where_a_later_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int, links: bool, failure: BaseException
) -> None:
    files: dict[str, str | bytes] = {
        "top.dag": "SPLICE S i.dag\nSPLICE T j.dag\nJOB A a\n",
        "i.dag": "JOB x a\n",
        "j.dag": "JOB y a\n",
    }
    top = write_files(tmp_path, files)
    (tmp_path / "i.dag").chmod(0o640)
    before = contents(tmp_path)
    numbers = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    edit = in_place(top, ranks(read(top)))
    real, calls = os.rename, []

    def failing(old: str, new: str) -> None:
        calls.append(new)
        if len(calls) == which:
            raise failure
        real(old, new)

    monkeypatch.setattr(os, "rename", failing)
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    with pytest.raises((InputError, KeyboardInterrupt)):
        save(edit, backup=True)
    assert contents(tmp_path) == before
    assert (tmp_path / "i.dag").stat().st_mode & 0o777 == 0o640
    if links:
        assert {path.name: path.stat().st_ino for path in tmp_path.iterdir()} == numbers
    monkeypatch.undo()
    save(edit)
    assert sorted(contents(tmp_path)) == sorted(before)


def test_a_file_that_cannot_be_put_back_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S i.dag\nJOB A a\n", "i.dag": "JOB x a\n"})
    edit = in_place(top, ranks(read(top)))
    real, calls = os.rename, []

    def failing(old: str, new: str) -> None:
        calls.append(new)
        if len(calls) > 1:
            raise PermissionError(1, "Operation not permitted")
        real(old, new)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(TonnageError, match=r"could not be restored.*\.tonnage-") as caught:
        save(edit)
    kept = tmp_path / next(name for name in contents(tmp_path) if ".tonnage-" in name)
    assert kept.name in str(caught.value)
    assert kept.read_text() == "JOB x a\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
def test_a_file_of_somebody_else_in_a_sticky_folder_leaves_all_as_they_were(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S d/i.dag\nSPLICE T j.dag\n", "d/i.dag": "JOB x a\n"})
    write_files(tmp_path, {"j.dag": "JOB y a\n"})
    for folder in (tmp_path, *tmp_path.parents[:2], tmp_path / "d"):
        folder.chmod(0o755 if folder in tmp_path.parents else 0o777)
    (tmp_path / "d").chmod(0o1777)
    for file in (top, tmp_path / "j.dag", tmp_path / "d/i.dag"):
        file.chmod(0o666)
        os.chown(file, 1234, 1234)
    os.chown(tmp_path / "d/i.dag", 4321, 4321)
    before = contents(tmp_path)
    edit = in_place(top, ranks(read(top)))
    child = os.fork()
    if child == 0:
        os.setgid(1234)
        os.setuid(1234)
        try:
            save(edit, backup=True)
        except InputError:
            os._exit(3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S i.dag\nJOB A a\n", "i.dag": "JOB x a\n"})
    for file in contents(tmp_path):
        os.chown(tmp_path / file, 1234, 4321)
        (tmp_path / file).chmod(0o640)
    save(in_place(top, ranks(read(top))))
    for file in contents(tmp_path):
        status = (tmp_path / file).stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 4321, 0o640)


def test_an_owner_that_cannot_be_kept_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = write_files(tmp_path, {"top.dag": "JOB A a\n"})
    monkeypatch.setattr(os, "chown", _no_links)
    save(in_place(top, {"A": 1}))
    assert stated(top) == {"A": 1}


def test_the_folder_that_is_missing_is_that_of_a_links_target(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "JOB A a\n"})
    (tmp_path / "out.dag").symlink_to("gone/x.dag")
    with pytest.raises(InputError, match=f"there is no folder {tmp_path}/gone"):
        save(copy(top, tmp_path / "out.dag", {"A": 1}))


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    top = write_files(tmp_path, {"top.dag": "SPLICE S i.dag\n", "i.dag": "JOB x a\n"})
    with pytest.raises(InputError, match="there is no folder"):
        save(copy(top, tmp_path / "absent/out.dag", {"S+x": 1}))
    assert not (tmp_path / "absent").exists()


def test_more_files_than_a_process_may_open_are_written(tmp_path: Path) -> None:
    import resource

    splices = "".join(f"SPLICE S{number} i.dag\n" for number in range(200))
    top = write_files(tmp_path, {"top.dag": splices, "i.dag": "JOB x a\n"})
    wanted = ranks(read(top))
    edit = copy(top, tmp_path / "out.dag", wanted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        save(edit)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert stated(tmp_path / "out.dag") == wanted


# --- any file ---------------------------------------------------------------------------------------------------------

_BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])
_CONTINUED = st.sampled_from([" ", "\t", " \\\n  ", "\\\n# no 5\n\n\t"])


@st.composite
def dag_texts(draw: st.DrawFn, splices: tuple[str, ...] = ()) -> str:
    """A DAG of nodes A to D in odd letters and spacing, with old priorities and variables here and there."""
    nodes = draw(st.lists(st.sampled_from("ABCD"), unique=True, min_size=1))
    lines = [
        draw(st.sampled_from([f"JOB {n} s.sub", f"job  {n} {{\n queue\n}}", f"SUBDAG EXTERNAL {n} d.dag"]))
        for n in nodes
    ]
    whom = st.sampled_from([*nodes, *nodes, "ALL_NODES"])
    number = st.one_of(st.integers(-9, 99).map(str), st.just('"5"'), st.just("+5"), st.just("007"))
    for _ in range(draw(st.integers(0, 4))):
        blank, other, node, value = draw(_CONTINUED), draw(_CONTINUED), draw(whom), draw(number)
        kind = draw(st.integers(0, 3))
        word = draw(st.sampled_from(["", "", "APPEND ", "prepend "]))
        lines.append(
            [
                f"Priority{blank}{node}{other}{value}",
                f'VARS {node}{blank}{word}x="1"{other}JobPriority="{value.strip(chr(34))}" y="a 5"',
                f"# PRIORITY {node} 5 \\",
                "",
            ][kind]
        )
    lines += [f"SPLICE{draw(_CONTINUED)}S{place} {name}" for place, name in enumerate(splices)]
    if len(nodes) > 1:
        lines.append(f"PARENT {nodes[0]} CHILD {' '.join(nodes[1:])}")
    lines = draw(st.permutations(lines))
    text = "".join(f"{draw(st.sampled_from(['', ' ', chr(9)]))}{line}\n" for line in lines)
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    return f"\ufeff{text}" if draw(st.booleans()) else text


def assert_other_lines_stay(old: bytes, new: bytes) -> None:
    """Lines may be added at the end or before one that closes or queues; of others only numbers may change."""
    added = [line for line in new.split(b"\n") if line.strip() != LINE.encode()]
    before = old.removesuffix(b"\n").split(b"\n")
    for first, second in zip_longest(before, added):
        if first is None:
            assert not second.strip() or second.startswith((b"PRIORITY ", b"VARS "))
        else:
            # A last line without an end gets one, so that more can follow.
            numbers = b'0123456789+-"\r'
            assert first.translate(None, numbers) == second.translate(None, numbers)


@given(st.data(), st.booleans())
def test_any_dag_gets_exactly_its_priorities(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, legacy: bool
) -> None:
    folder = tmp_path_factory.mktemp("dag")
    inner = data.draw(dag_texts())
    middle = data.draw(dag_texts(("inner.dag",)))
    splices = tuple(data.draw(st.lists(st.sampled_from(["inner.dag", "middle.dag"]), max_size=2)))
    top = write_files(
        folder,
        {"top.dag": data.draw(dag_texts(splices)), "inner.dag": inner, "middle.dag": middle, "s.sub": "queue\n"},
    )
    old = read(top, "dagman")
    numbers = data.draw(st.permutations(range(1, len(old) + 1)))
    wanted = {task.name: number for task, number in zip(old.tasks, numbers, strict=True)}
    before = contents(folder)
    try:
        edit = in_place(top, wanted, legacy=legacy)
    except InputError as error:
        assert "more than once" in error.message  # a splice stands twice
        edit = copy(top, folder / "out.dag", wanted, legacy=legacy)
        top = folder / "out.dag"
    save(edit)
    new = read(top, "dagman")
    assert [task.name for task in new.tasks] == [task.name for task in old.tasks]
    assert [task.category for task in new.tasks] == [task.category for task in old.tasks]
    assert new.graph == old.graph
    if not legacy:
        assert stated(top) == wanted
    else:
        own = {name: number for name, number in wanted.items() if "+" not in name and not _is_subdag(top, name)}
        assert {name: value for name, value in variables(top).items() if name in own} == {
            name: str(number) for name, number in own.items()
        }
    assert in_place(top, wanted, legacy=legacy).files == ()
    if top.name == "top.dag":
        for name, was in before.items():
            assert_other_lines_stay(was, (folder / name).read_bytes())
    else:
        assert {name: now for name, now in contents(folder).items() if name in before} == before


def _is_subdag(path: Path, name: str) -> bool:
    return getattr(parts(Document.open(path), path.parent).names[name], "kind", "") == "SUBDAG"


def _real_dags() -> list[str]:
    folder = Path(os.environ.get("TONNAGE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "dagman"
    return sorted(path.name for path in folder.glob("*.dag")) or ["job_dagman_cycle-A.dag"]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", _real_dags())
def test_real_files_keep_every_other_byte(data: Path, tmp_path: Path, name: str, legacy: bool) -> None:
    path = data / "dagman" / name
    if name == "job_dagman_cycle-A.dag":
        with pytest.raises(CycleError, match="in a cycle"):
            read(path)
        return
    old = read(path)
    wanted = ranks(old)
    save(copy(path, tmp_path / "out.dag", wanted, legacy=legacy))
    new = read(tmp_path / "out.dag")
    assert [(task.name, task.category) for task in new.tasks] == [(task.name, task.category) for task in old.tasks]
    assert new.graph == old.graph
    assert in_place(tmp_path / "out.dag", wanted, legacy=legacy).files == ()
    if legacy:
        _check_submit_files(tmp_path / "out.files" / "submit")
        return
    assert stated(tmp_path / "out.dag") == wanted
    was, now = path.read_bytes().split(b"\n"), (tmp_path / "out.dag").read_bytes().split(b"\n")
    kept = [line for line in was if not line.lower().startswith((b"priority", b"splice"))]
    assert [line for line in now if not line.lower().startswith((b"priority", b"splice"))] == kept


def _check_submit_files(folder: Path) -> None:
    htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")
    for path in folder.rglob("*"):
        truth = htcondor2.Submit(path.read_text())
        assert truth["priority"] == "$(JOBPRIORITY:0)"
        truth["JOBPRIORITY"] = "17"
        assert truth.expand("priority") == "17"
