"""Finished work stays finished: a workflow that runs again does what is missing or changed, and nothing else."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import waiting
from tests.run.cli_runs import Place, kill
from tonnage.jobs import Outcome
from tonnage.run.done_store import DoneStore
from tonnage.run.file_states import FilesOnDisk, named_files
from tonnage.run.up_to_date import FileState, Record, command_digest, inputs_of, outputs_of, stale_tasks
from tonnage.workflow import Task, Workflow
from tonnage.workflow.model import file_edges


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


def rule(outputs: str, inputs: str, command: str) -> str:
    return f"{outputs}: {inputs}\n\t{command}\n"


CHAIN = rule("a", "raw", "cp raw a") + rule("b", "a", "cp a b") + rule("c", "a", "sh script a > c")


@pytest.fixture
def chain(place: Place) -> Place:
    """A workflow that has run: b and c are made from a, and that from raw; the command of c names a script."""
    place.write("raw", "1")
    place.write("script", "cat $1")
    place.write("w.mf", CHAIN)
    assert place.call("run", "w.mf").status == 0
    return place


def run(place: Place, *options: str, name: str = "w.mf") -> set[str]:
    """Run a workflow; return the tasks that ran, after checking that nothing is left to do."""
    before = {one.id for one in place.runs()}
    said = place.call("run", name, *options)
    assert said.status == 0, said
    ran = {task for one in place.runs() if one.id not in before for task in place.outcomes(one)}
    assert ("nothing to do" in said.stdout) == (not ran)
    return ran


def planned(place: Place, *options: str) -> dict[str, str]:
    """Return what a dry run would do, and why."""
    found = json.loads(place.call("run", "w.mf", "--dry-run", "--json", *options).stdout)
    return {one["task"]: one["reason"] for one in found.get("to_do", [])}


def test_nothing_is_to_do_after_a_run_and_that_is_said_with_its_name(chain: Place) -> None:
    said = chain.call("run", "w.mf")
    assert (said.status, said.stderr) == (0, "")
    assert said.stdout.startswith(f"nothing to do: 3 of 3 tasks are up to date (run {chain.runs()[0].id}, ")
    assert len(chain.runs()) == 1
    facts = json.loads(chain.call("run", "w.mf", "--json").stdout)
    assert (facts["tasks"], facts["done"], facts["attempts"], facts["up_to_date"]) == (3, 3, 0, 3)
    assert (chain.folder / ".tonnage" / "done.db").stat().st_mode & 0o077 == 0


def test_a_deleted_output_is_made_again_and_one_that_nothing_needs_is_not(chain: Place) -> None:
    (chain.folder / "b").unlink()
    assert planned(chain) == {"b": "the output b is missing"}
    said = chain.call("run", "w.mf")
    assert "2 of 3 tasks up to date" in said.stderr
    assert "3 of 3 tasks done (2 already up to date)" in said.stdout
    assert chain.outcomes() == {"b": ["done"]}
    (chain.folder / "a").unlink()
    assert run(chain) == set()
    (chain.folder / "c").unlink()
    assert planned(chain)["a"] == 'the output a is missing, and "c" needs it'
    assert run(chain) == {"a", "b", "c"}


def test_a_changed_command_runs_with_what_depends_on_it(chain: Place) -> None:
    chain.write("w.mf", CHAIN.replace("cp a b", "cp a b && true"))
    assert planned(chain) == {"b": "the command has changed"}
    assert run(chain) == {"b"}
    chain.write("w.mf", CHAIN.replace("cp raw a", "cat raw raw > a"))
    assert run(chain) == {"a", "b", "c"}
    assert (chain.folder / "b").read_text() == "11"


def test_only_content_counts_where_the_time_of_an_input_has_changed(chain: Place) -> None:
    os.utime(chain.folder / "raw")
    os.utime(chain.folder / "a")  # which other tasks have read
    assert run(chain) == set()
    chain.write("raw", "2")
    assert planned(chain)["a"] == "the input raw has changed"
    assert run(chain) == {"a", "b", "c"}


def test_a_line_that_reads_what_another_writes_meanwhile_is_warned_about_and_runs_again(place: Place) -> None:
    until = "do sleep 0.05; done"
    writes = f"echo 1 > n.out && until [ -e read ]; {until}; echo 2 >> n.out && touch written"
    reads = f"until [ -e n.out ]; {until}; cat n.out > c.out; touch read; until [ -e written ]; {until}"
    place.write("w.txt", f"{writes}\n{reads}\n")
    first = place.call("run", "w.txt", "--machine", "cores=4,memory=1GB")
    assert first.status == 0, first
    assert "1 line reads a file that another line writes" in first.stderr
    assert '"n.out" of "line 2: ' in first.stderr
    assert (place.folder / "c.out").read_text() == "1\n"
    assert place.call("run", "w.txt", "--machine", "cores=4,memory=1GB").status == 0
    assert (place.folder / "c.out").read_text() == "1\n2\n"
    assert "nothing to do" in place.call("run", "w.txt").stdout


def test_a_line_can_be_named_to_run_again(place: Place) -> None:
    place.write("w.txt", "echo a\necho b\n")
    assert place.call("run", "w.txt").status == 0
    for name in ("2", "line 2"):
        assert place.call("run", "w.txt", "--rerun", name).status == 0
        assert [row.line for row in place.rows()] == [2]
    assert "an earlier run has what it printed" in place.call("logs", "1").stderr


def test_a_script_that_a_command_names_is_an_input_and_what_it_writes_is_none(chain: Place) -> None:
    chain.write("script", "cat $1; echo more")
    assert planned(chain) == {"c": "the input script has changed"}
    assert run(chain) == {"c"}
    chain.write("l.txt", "sh script a > log\nsh append log2\n")
    chain.write("append", "echo x >> $1")
    for options in ((), ("--new",)):
        assert len(run(chain, *options, name="l.txt")) == 2
        assert run(chain, name="l.txt") == set()


def test_an_output_that_somebody_changed_is_written_again(chain: Place) -> None:
    chain.write("b", "mine")
    assert planned(chain) == {"b": "the output b was changed after it was written"}
    assert run(chain) == {"b"}
    assert (chain.folder / "b").read_text() == "1"


def test_only_the_line_that_was_appended_to_a_list_runs(place: Place) -> None:
    place.write("l.txt", "true 1\ntrue 2\n")
    assert len(run(place, name="l.txt")) == 2
    place.write("l.txt", "true 0\ntrue 1\ntrue 2\n")
    assert len(run(place, name="l.txt")) == 1
    assert run(place, name="l.txt") == set()
    assert len(run(place, "--new", name="l.txt")) == 3


def test_an_input_that_changes_while_a_task_runs_makes_it_stale(place: Place) -> None:
    place.write("raw", "1")
    place.write("w.mf", rule("a", "raw", "cp raw a; echo 2 > raw"))
    assert place.call("run", "w.mf").status == 0
    assert planned(place) == {"a": "the input raw changed while it ran"}


def test_a_folder_counts_by_its_entries(place: Place) -> None:
    for name in ("raw/1", "raw/2"):
        place.write(name, name)
    place.write("w.mf", rule("made", "raw", "mkdir -p made; cat raw/* > made/all"))
    assert run(place) == {"made"}
    assert run(place) == set()
    place.write("raw/3", "3")
    assert run(place) == {"made"}
    (place.folder / "made" / "all").unlink()
    assert run(place) == {"made"}


def test_a_folder_counts_by_all_that_is_in_it_except_for_what_tasks_write_there(place: Place) -> None:
    place.write("raw/deep/1", "1")
    (place.folder / "raw/link").symlink_to("nowhere")
    text = rule("out", "", "mkdir -p out out/deep") + rule("out/deep/a", "raw out", "ls -R raw > out/deep/a")
    place.write("w.mf", text + rule("out/b", "out", "touch out/b"))
    assert run(place) == {"out", "out/deep/a", "out/b"}
    assert run(place) == set()
    assert run(place, "--rerun", "out", "out/b") == {"out", "out/b"}
    assert run(place) == set()
    place.write("raw/deep/1", "2")
    assert run(place) == {"out/deep/a"}
    place.write("out/more", "by hand")
    assert run(place) == {"out", "out/deep/a", "out/b"}


def test_a_program_that_changes_while_it_runs_makes_the_task_stale_but_not_a_file_that_it_writes(place: Place) -> None:
    place.write("edited", "echo true > edited")
    place.write("log", "")
    place.write("w.mf", rule("a", "", "touch a; sh edited log") + rule("b", "", "touch b; sh append log"))
    place.write("append", "echo x >> $1")
    assert place.call("run", "w.mf").status == 0
    assert planned(place) == {"a": "the input edited changed while it ran"}
    assert run(place) == {"a"}


def test_a_link_to_nothing_that_a_task_made_is_missed_when_it_is_gone(place: Place) -> None:
    place.write("w.mf", rule("a", "", "ln -s nowhere a"))
    assert run(place) == {"a"}
    (place.folder / "a").unlink()
    assert planned(place) == {"a": "the output a is missing"}


def test_tasks_that_write_the_same_file_are_said(place: Place) -> None:
    place.write("s.sub", "executable = /bin/touch\narguments = out\ntransfer_output_files = out\nqueue\n")
    place.write("w.dag", "JOB A s.sub\nJOB B s.sub\nPARENT A CHILD B\n")
    said = place.call("run", "w.dag", "--dry-run")
    assert (
        '1 file written by more than one task, which will run every time (first: "out", by "A" and "B")' in said.stderr
    )


def test_a_clock_that_was_set_back_makes_nothing_run_twice(chain: Place) -> None:
    with closing(sqlite3.connect(chain.folder / ".tonnage" / "done.db", isolation_level=None)) as done:
        done.execute("UPDATE done SET ended = ended + 1e6")
    chain.write("w.mf", CHAIN.replace("cp a b", "cp a b && true"))
    assert run(chain) == {"b"}
    assert run(chain) == set()


def test_a_part_can_be_run_again_or_alone(chain: Place) -> None:
    assert run(chain, "--rerun", "a") == {"a", "b", "c"}
    assert run(chain, "--rerun", "b", "--rerun", "c") == {"b", "c"}
    assert run(chain, "--rerun", "script") == {"c"}, "it is the category of c"
    wrong = chain.call("run", "w.mf", "--rerun", "bb")
    assert (wrong.status, 'no task and no category called "bb"' in wrong.stderr) == (2, True)
    chain.write("raw", "2")
    assert run(chain, "b") == {"a", "b"}
    assert (chain.folder / "c").read_text() == "1"
    assert planned(chain) == {"c": "the input a has changed"}
    assert run(chain, str(chain.folder / "c")) == {"c"}
    wrong = chain.call("run", "w.mf", "d")
    assert (wrong.status, "no task of the workflow writes d" in wrong.stderr) == (2, True)


def test_an_output_is_named_from_the_current_folder_or_as_in_the_workflow(place: Place, tmp_path: Path) -> None:
    place.write("w.mf", rule("sub/made", "", "touch sub/made"))
    (place.folder / "sub").mkdir()
    (tmp_path / "link").symlink_to(place.folder)
    from_below = ("../w.mf", ["made", "./made", "../sub/made", "sub/made", str(tmp_path / "link/sub/made")])
    through_link = (str(tmp_path / "link" / "w.mf"), ["made", "../sub/made"])
    assert run(place, "sub/made") == {"sub/made"}
    for name, outputs in (from_below, through_link):
        for output in outputs:
            said = place.call("run", name, output, cwd=place.folder / "sub")
            assert said.stdout.startswith("nothing to do"), (name, output, said)
    again = place.call("run", "../w.mf", "--new", cwd=place.folder / "sub")
    assert (again.status, ".." in str(place.runs()[0].path)) == (0, False)
    with closing(sqlite3.connect(place.archive)) as archive:
        assert {path for (path,) in archive.execute("SELECT path FROM sources")} == {
            str(one.path) for one in place.runs()
        }


def test_existing_outputs_are_taken_as_done_without_running_anything(place: Place) -> None:
    place.write("w.mf", CHAIN)
    for name in ("raw", "script", "b"):
        place.write(name, "by hand")
    said = place.call("run", "w.mf", "--touch")
    assert "1 of 3 tasks are up to date now; nothing was run" in said.stdout
    place.write("c", "by hand")  # a is missing, but then nothing needs it
    assert "3 of 3 tasks are up to date now" in place.call("run", "w.mf", "--touch").stdout
    said = place.call("run", "w.mf")
    assert "nothing to do: 3 of 3 tasks are up to date (taken as done with --touch" in said.stdout
    assert (place.runs(), (place.folder / "b").read_text()) == ([], "by hand")


def test_a_run_that_is_to_do_everything_does_so_although_it_was_interrupted(chain: Place) -> None:
    chain.write("w.mf", CHAIN + rule("d", "", "test -e good && touch d"))
    assert chain.call("run", "w.mf", "--new").status == 1
    with_failure = chain.runs()[0]
    assert set(chain.outcomes()) == {"a", "b", "c", "d"}
    chain.write("good", "")
    assert chain.call("run", "w.mf").status == 0
    assert chain.runs()[0] == with_failure
    assert chain.outcomes()["d"] == ["failed", "done"]


def test_what_was_asked_for_and_is_not_done_yet_is_still_done(place: Place) -> None:
    waits = "touch started; until [ -e go ]; do sleep 0.02; done; touch a"
    text = rule("a", "", waits) + rule("b", "", "touch b") + rule("c", "", "test -e good && touch c")

    def killed(*options: str) -> None:
        (place.folder / "started").unlink(missing_ok=True)
        (place.folder / "go").unlink(missing_ok=True)
        with place.begin("run", "w.mf", "-j", "1", *options) as engine:
            waiting.until((place.folder / "started").exists)
            kill(engine.pid)

    place.write("w.mf", text)
    place.write("go", "")
    assert place.call("run", "w.mf").status == 1
    killed("--rerun", "a")
    assert planned(place) == {"a": "named by --rerun", "c": "not done yet"}
    place.write("good", "")
    place.write("go", "")
    assert place.call("run", "w.mf").status == 0
    assert run(place) == set()
    killed("--new")
    assert place.call("run", "w.mf", "b").status == 0
    assert planned(place).keys() == {"a", "c"}
    place.write("go", "")
    assert place.call("run", "w.mf").status == 0
    assert run(place) == set()


HALF = "printf half > out; until [ -e go ]; do sleep 0.02; done; printf whole > out"


@pytest.mark.parametrize("finished_before", [False, True])
def test_a_half_written_output_is_never_done(place: Place, finished_before: bool) -> None:
    place.write("raw", "1")
    place.write("w.mf", rule("out", "raw", HALF) + rule("copy", "out", "cp out copy"))
    out = place.folder / "out"
    if finished_before:
        place.write("go", "")
        assert place.call("run", "w.mf").status == 0
        (place.folder / "go").unlink()
    with place.begin("run", "w.mf", "--new") as engine:
        waiting.until(lambda: out.exists() and out.read_text() == "half")
        kill(engine.pid)
    assert set(planned(place)) == {"out", "copy"}
    place.write("go", "")
    assert place.call("run", "w.mf").status == 0
    assert (place.folder / "copy").read_text() == "whole"
    assert "nothing to do" in place.call("run", "w.mf").stdout


def test_what_was_done_before_the_engine_was_killed_stays_done(place: Place) -> None:
    lines = [f"touch done.{number}" for number in range(40)]
    place.write("l.txt", "\n".join([*lines, "until [ -e go ]; do sleep 0.02; done"]) + "\n")
    with place.begin("run", "l.txt") as engine:
        waiting.until(lambda: len(list(place.folder.glob("done.*"))) == len(lines))
        kill(engine.pid)
    place.write("go", "")
    assert place.call("run", "l.txt").status == 0
    assert [ends.count("done") for ends in place.outcomes().values()] == [1] * 41
    assert "nothing to do: 41 of 41" in place.call("run", "l.txt").stdout


FIRST = rule("a", "", "echo 1 > a") + rule("b", "raw", "sh script > b") + rule("c", "a", "cp a c")
CHANGES = {
    "a": ("the output a was changed after it was written", {"a", "c"}),
    "b": ("the output b is missing", {"b"}),
    "script": ("the input script changed while it ran", {"b"}),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_what_changes_after_the_engine_was_killed_is_not_taken_for_what_was_done(place: Place, changed: str) -> None:
    place.write("raw", "1")
    place.write("script", "cat raw")
    place.write("w.mf", FIRST + rule("last", "", "until [ -e go ]; do sleep 0.02; done; touch last"))
    with place.begin("run", "w.mf") as engine:
        waiting.until(lambda: all((place.folder / name).exists() for name in ("a", "b", "c")))
        waiting.until(lambda: [row.outcome for row in place.rows()].count(Outcome.DONE) == 3)
        kill(engine.pid)
    (place.folder / ".tonnage" / "done.db").unlink(missing_ok=True)  # as if it had been killed a moment earlier
    path = place.folder / changed
    path.unlink() if changed == "b" else path.write_text("echo other")
    reason, again = CHANGES[changed]
    wanted = {"last": "not done yet", next(iter(again)) if len(again) == 1 else "a": reason}
    assert wanted.items() <= planned(place).items()
    before = {task: ends.count("done") for task, ends in place.outcomes().items()}
    place.write("go", "")
    assert place.call("run", "w.mf").status == 0
    ran = {task for task, ends in place.outcomes().items() if ends.count("done") > before[task]}
    assert ran == again | {"last"}
    assert (place.folder / "b").read_text() == ("other\n" if changed == "script" else "1")


def test_a_damaged_record_is_said_and_a_new_run_needs_none(chain: Place) -> None:
    chain.write(".tonnage/done.db", "no database at all " * 100)
    said = chain.call("run", "w.mf")
    assert (said.status, "the record of finished tasks cannot be read" in said.stderr) == (1, True)
    assert run(chain, "--new") == {"a", "b", "c"}


# What make does, where both mean the same


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("seed", range(1))
def test_make_does_the_same(place: Place, seed: int) -> None:
    random = Random(seed)
    names = [f"t{number}" for number in range(8)]
    rules = []
    for number, name in enumerate(names):
        inputs = random.sample(names[:number], min(number, random.randint(0, 2))) or [f"raw{random.randint(0, 2)}"]
        rules.append((name, " ".join(inputs)))
    read_by_others = {name for _, inputs in rules for name in inputs.split()}
    results = [name for name in names if name not in read_by_others]
    makefile = "all: " + " ".join(results) + "\n"
    makefile += "".join(rule(name, inputs, f"cat {inputs} > {name}; echo {name} >> ran") for name, inputs in rules)
    both = [Place(place.folder / folder) for folder in ("ours", "theirs")]
    for one in both:
        for number in range(3):
            one.write(f"raw{number}", str(number))
    both[0].write("w.mf", "".join(rule(name, inputs, f"cat {inputs} > {name}") for name, inputs in rules))
    both[1].write("Makefile", makefile)

    def made() -> set[str]:
        both[1].write("ran", "")
        subprocess.run(["make", "--silent", "all"], cwd=both[1].folder, check=True)
        return set((both[1].folder / "ran").read_text().split())

    assert run(both[0]) == made() == set(names)
    for step in range(3):
        edited = [f"raw{number}" for number in range(3) if random.random() < 0.4]
        deleted = [name for name in results if random.random() < 0.4]
        for one in both:
            for name in edited:
                one.write(name, f"{name} of step {step}")
                waiting.until(lambda one=one, name=name: _is_newest(one, name))  # type: ignore[misc]
            for name in deleted:
                (one.folder / name).unlink(missing_ok=True)
        assert run(both[0]) == made()


def _is_newest(place: Place, name: str) -> bool:
    """Whether a file is newer than all that tasks wrote, as clocks of file systems tell it; else let it be."""
    newest = max(path.stat().st_mtime_ns for path in place.folder.glob("t*"))
    (place.folder / name).touch()
    return (place.folder / name).stat().st_mtime_ns > newest


# Any workflow, any edits: the decision alone, against one that compares contents


class Model:
    """Files in memory, tasks that compute their outputs from what they read, and what is recorded about them."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.clock = 0
        self.files: dict[str, tuple[str, int]] = {}
        self.records: list[Record | None] = [None] * len(workflow)
        self.contents: list[dict[str, str] | None] = [None] * len(workflow)
        """What each task has read and written when it ran last."""

    def write(self, place: str, text: str) -> None:
        self.clock += 1
        self.files[place] = text, self.clock

    def look(self, place: str) -> FileState | None:
        found = self.files.get(place)
        return None if found is None else FileState(len(found[0]), found[1])

    def content(self, place: str, state: FileState) -> str | None:
        assert self.look(place) == state
        return self.files[place][0]

    def run(self, number: int) -> None:
        task = self.workflow.tasks[number]
        read = {place: self.files[place][0] for place in inputs_of(task)}
        states = {place: FileState(len(text), self.files[place][1], text) for place, text in read.items()}
        for place in outputs_of(task):
            self.write(place, f"{task.command}({','.join(read.values())})"[:200])
        outputs = {place: self.look(place) for place in outputs_of(task)}
        self.records[number] = Record(command_digest(task), states, {}, outputs, None, "run", 0.0)
        self.contents[number] = {**read, **{place: self.files[place][0] for place in outputs}, "": task.command or ""}


def oracle(model: Model) -> set[int]:
    """Return what must run, by comparing contents and by repeating all rules until nothing changes."""
    tasks = model.workflow.tasks
    read = {place for task in tasks for place in inputs_of(task)}
    writer = {place: number for number, task in enumerate(tasks) for place in outputs_of(task)}
    written = {
        place: contents[place]
        for number, contents in enumerate(model.contents)
        if contents
        for place in outputs_of(tasks[number])
    }
    now = {**written, **{place: text for place, (text, _) in model.files.items()}}
    stale: set[int] = set()
    while True:
        needed = {place for number in stale for place in inputs_of(tasks[number])} | (writer.keys() - read)
        more = set()
        for number, task in enumerate(tasks):
            before = model.contents[number]
            if (
                before is None
                or before[""] != task.command
                or any(now.get(place) != before[place] for place in (*inputs_of(task), *outputs_of(task)))
                or any(place in needed and place not in model.files for place in outputs_of(task))
                or any(parent in stale for parent in model.workflow.graph.parents_of(number).tolist())
            ):
                more.add(number)
        if more == stale:
            return stale
        stale = more


@given(st.data())
def test_any_edits_of_any_workflow_run_what_they_must_and_nothing_else(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 7))
    tasks = []
    for number in range(size):
        known = [f"t{other}" for other in range(number)] + ["x", "y"]
        inputs = data.draw(st.lists(st.sampled_from(known), unique=True, max_size=3))
        tasks.append(Task(f"task{number}", f"c{number}", inputs=tuple(inputs), outputs=(f"t{number}",)))
    model = Model(Workflow.build("w", tasks, file_edges(tasks)))
    for place in ("x", "y"):
        model.write(place, place)
    for step in range(data.draw(st.integers(1, 4))):
        stale = stale_tasks(model.workflow, model.records, model)
        assert stale.keys() == oracle(model)
        if data.draw(st.booleans()):  # a killed run does only the first of them
            stale = dict(sorted(stale.items())[: data.draw(st.integers(0, len(stale)))])
        for number in sorted(stale):
            model.run(number)
        for place in data.draw(st.lists(st.sampled_from(["x", "y", *(f"t{one}" for one in range(size))]), max_size=3)):
            edit(data, model, place, step)
    for number in sorted(stale_tasks(model.workflow, model.records, model)):
        model.run(number)
    assert not stale_tasks(model.workflow, model.records, model)


def edit(data: st.DataObject, model: Model, place: str, step: int) -> None:
    """Delete or change a file, or write it again as it is, or change the command of its task."""
    how = data.draw(st.sampled_from(["delete", "change", "touch", "command"]))
    outside, known = place in ("x", "y"), model.files.get(place)
    if how == "delete" and not outside:
        model.files.pop(place, None)
    elif how == "change" and (outside or known):
        model.write(place, f"edited {step}")
    elif how == "touch" and outside and known:
        model.write(place, known[0])
    elif how == "command" and not outside:
        number = int(place[1:])
        tasks = list(model.workflow.tasks)
        tasks[number] = Task(tasks[number].name, f"e{step}", inputs=tasks[number].inputs, outputs=tasks[number].outputs)
        model.workflow = Workflow.build("w", tasks, file_edges(tasks))


# The store, and the files that commands name


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    odd = Task("odd \udcff name", "true", outputs=("sub/\udcff", "b"))
    none = Task("none", "true")
    store = DoneStore(tmp_path, "w.mf")
    assert store.records([odd, none]) == [None, None]
    states = {"x": FileState(3, 2**62, "abc"), "y": None}
    new, old = (
        Record("c", states, {"s": FileState(1, 2)}, {}, changed, "r", ended)
        for changed, ended in (("x", 2.0), (None, 1.0))
    )
    store.put([(odd, old), (none, old)])
    store.put([(odd, new)])
    store.close()
    assert DoneStore(tmp_path, "w.mf").records([odd, none]) == [new, old]
    assert DoneStore(tmp_path, "other.mf").records([odd, none]) == [new, None]


def test_the_files_that_a_command_names_are_found_below_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    for name in ("a.py", "sub/b.sh", "c.conf", "in", "out", "../d.py", ".tonnage/e"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    disk = FilesOnDisk(str(folder))

    def named(command: str, **fields: str) -> list[str]:
        task = Task("t", command, inputs=("in",), outputs=("sub/../made",), directory=fields.get("directory"))
        return named_files(task, disk, str(folder))

    assert named("python3 a.py --config=c.conf <in >out 2>>a.log") == ["a.py", "c.conf"]
    assert named("sh -c 'sub/b.sh && ./a.py'") == ["sub/b.sh", "a.py"]
    assert named(f"{folder}/a.py {tmp_path}/d.py ../d.py .tonnage/e sub nothing") == ["a.py"]
    assert named("sh b.sh", directory="sub") == ["sub/b.sh"]


def test_the_files_that_a_command_names_are_found_however_it_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "w"
    names = ["my script.sh", "sub/b.sh", "sub/my dir/c.sh", "x=1,y=2.conf"]
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "link").symlink_to("w")
    monkeypatch.setenv("HOME", str(tmp_path))
    disk = FilesOnDisk(str(folder))
    commands = {
        "sh 'my script.sh'": 0,
        'sh "my script.sh" > log': 0,
        r"sh my\ script.sh": 0,
        "cd sub && sh b.sh": 1,
        "sh -c 'cd sub; ./b.sh'": 1,
        "(cd sub && cd 'my dir' && sh c.sh)": 2,
        "sh $PWD/sub/b.sh": 1,
        'sh "${PWD}/sub/b.sh"': 1,
        "sh $(pwd)/sub/b.sh": 1,
        "sh ~/w/sub/b.sh": 1,
        f"sh {tmp_path}/link/sub/b.sh": 1,
        "tool x=1,y=2.conf": 3,
    }
    for command, wanted in commands.items():
        assert named_files(Task("t", command), disk, str(folder)) == [names[wanted]], command
