"""A bag of tasks: one command per line."""

from pathlib import Path

import pytest

from tonnage.errors import InputError
from tonnage.workflow import Workflow, read


def load(folder: Path, text: str, name: str = "tasks.txt") -> Workflow:
    path = folder / name
    path.write_text(text)
    return read(path)


def test_commands_categories_and_comments(tmp_path: Path) -> None:
    workflow = load(
        tmp_path, "# a comment\nsort a > b\n\n# category: align\nbwa mem x\n  bwa mem y\n#Category : merge\ncat b\n"
    )
    assert [task.command for task in workflow.tasks] == ["sort a > b", "bwa mem x", "bwa mem y", "cat b"]
    assert workflow.categories == {"align": 2, "merge": 1, "sort": 1}
    assert workflow.graph.edges == 0


def test_a_backslash_continues_a_line_as_in_a_shell(tmp_path: Path) -> None:
    workflow = load(tmp_path, "echo a \\\n  b\necho 'ends in' \\\\\necho c \\\n")
    assert [task.command for task in workflow.tasks] == ["echo a \\\n  b", "echo 'ends in' \\\\", "echo c \\"]


def test_names_stay_when_other_lines_come_and_go(tmp_path: Path) -> None:
    before = load(tmp_path, "echo a\necho b\necho a\n")
    after = load(tmp_path, "echo new\necho a\necho a\n")
    names = [task.name for task in before.tasks]
    assert len(set(names)) == 3
    assert [task.name for task in after.tasks][1:] == [names[0], names[2]]


@pytest.mark.parametrize("name", ["a.txt", "a.list", "a.cmds", "a.tasks", "a.txt.gz"])
def test_its_ending_says_that_a_file_is_a_list_of_commands(tmp_path: Path, name: str) -> None:
    assert len(load(tmp_path, "./simulate 1\n./simulate 2\n", name)) == 2


def test_so_does_a_category_or_the_user(tmp_path: Path) -> None:
    assert len(load(tmp_path, "# category: simulate\n./simulate 1\n", "bag")) == 1
    (tmp_path / "bag").write_text("./simulate 1\n")
    assert len(read(tmp_path / "bag", "text")) == 1


@pytest.mark.parametrize(
    ("name", "text", "looks_like"),
    [
        ("bag", "./simulate 1\n./simulate 2\n", "no workflow format"),
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n", "no workflow format"),
        ("clean.sh", "cd scratch\nrm -f *.dat\n", "a shell script"),
        ("clean.sh", "# Category: maintenance\nrm -f *.dat\n", "a shell script"),
        ("clean", "rm -f *.dat\n# category: clean\nrm -f *.out\n", "no workflow format"),
        ("clean", "#!/bin/sh\nrm -f *.dat\n", "a shell script"),
        ("clean.txt", "#!/usr/bin/env bash\n# category: clean\nrm -f *.dat\n", "a shell script"),
        ("analyse.py", "import os\n", "a script"),
        ("analyse.txt", "#!/usr/bin/python3\nimport os\n", "a script"),
        ("tools.py", "class Tools:\n\trm -f *.dat\n", "a script"),
        ("analyse", "try:\n    touch = None\nexcept ImportError:\n    touch = 1\n", "no workflow format"),
        ("README.md", "# Cleaning up\n\nRun:\n\n\trm -f *.dat\n", "a text document"),
        ("README", "Run:\n\n\trm -f *.dat\n", "a text document"),
        ("notes", "Run:\n\n    rm -f *.dat\n", "no workflow format"),
        ("ci.yml", "clean:\n  rm -f *.dat\n", "is not a Pegasus workflow"),
        ("Makefile", "all: prog\n\techo done\n\nclean:\n\trm -f *.dat\n", "a Makefile"),
        ("rules.mk", "clean:\n\trm -f *.dat\n", "a Makefile"),
        ("job.txt", "# category: x\n#SBATCH --mem=1G\n./run\n", "a Slurm batch script"),
        ("job.txt", "#PBS -l nodes=1\n./run\n", "a PBS batch script"),
        ("job.txt", "#BSUB -n 1\n./run\n", "an LSF batch script"),
        ("Snakefile", "rule all:\n    input: 'a'\n", "a Snakemake workflow"),
        ("main.nf", "process A {\n}\n", "a Nextflow workflow"),
        ("flow", "cwlVersion: v1.2\nclass: Workflow\n", "a CWL workflow"),
        ("flow.wdl", "version 1.0\nworkflow x {\n}\n", "a WDL workflow"),
        ("jobs.csv", "a,b\n1,2\n", "a table of jobs"),
        ("trace.txt", "task_id\thash\tname\tstatus\texit\n1\tab/cd\tx\tCOMPLETED\t0\n", "a Nextflow trace"),
        ("jobs.txt", "JobIDRaw|JobID|State\n12|12|COMPLETED\n", "the output of Slurm's sacct"),
    ],
)
def test_what_no_format_recognises_is_refused_with_what_it_looks_like(
    tmp_path: Path, name: str, text: str, looks_like: str
) -> None:
    with pytest.raises(InputError, match=looks_like) as caught:
        load(tmp_path, text, name)
    assert caught.value.hint or name == "ci.yml"


def test_a_script_is_refused_even_where_the_user_calls_it_a_list(tmp_path: Path) -> None:
    (tmp_path / "clean.sh").write_text("#!/bin/bash\nrm -f *.dat\n")
    with pytest.raises(InputError, match="is a script for /bin/bash"):
        read(tmp_path / "clean.sh", "text")


@pytest.mark.parametrize("before", ["\n\n", "  ", "# category: clean\n", "echo a\n"])
def test_a_shebang_is_refused_wherever_it_stands(tmp_path: Path, before: str) -> None:
    with pytest.raises(InputError, match="is a script for /bin/bash"):
        load(tmp_path, f"{before}#!/bin/bash\nrm -f *.dat\n")


def test_a_shell_script_without_a_shebang_can_be_a_list_if_the_user_says_so(tmp_path: Path) -> None:
    (tmp_path / "bag.sh").write_text("./simulate 1\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "bag.sh")
    assert "--from text" in (caught.value.hint or "")
    assert len(read(tmp_path / "bag.sh", "text")) == 1


@pytest.mark.parametrize(
    "line",
    ["cd scratch", "export A=1", "for i in 1 2; do", "echo 'open", "cat <<EOF", "#SBATCH -n 1", "#PBS -V", "clean:"],
)
def test_a_line_that_needs_its_neighbours_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.txt").write_text(f"echo a\n\n{line}\nrm -f *.dat\n")
    with pytest.raises(InputError, match=r"a\.txt:3") as caught:
        read(tmp_path / "a.txt", "text")
    assert caught.value.hint


@pytest.mark.parametrize("text", ["# only a comment\n", "#category:\nx\n"])
def test_a_bag_without_a_task_or_category_name_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        load(tmp_path, text)
