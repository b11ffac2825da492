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


def test_the_same_bag_without_an_ending_is_recognised(tmp_path: Path) -> None:
    workflow = load(tmp_path, "./simulate 1\n./simulate 2\n", "bag")
    assert workflow.source is not None
    assert workflow.source.format == "text"


@pytest.mark.parametrize("text", ["# only a comment\n", "#category:\nx\n"])
def test_a_bag_without_a_task_or_category_name_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        load(tmp_path, text)
