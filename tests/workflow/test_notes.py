"""Notes beside a task give it back, and only notes do."""

import pytest
from hypothesis import given

from tests.strategies import tasks
from tonnage.workflow import Task
from tonnage.workflow.formats.notes import note, restored


@given(tasks("a", files=True), tasks("a", files=True))
def test_a_note_makes_any_task_of_any_other(wanted: Task, plain: Task) -> None:
    text = note(wanted, plain)
    assert (text is None) == (wanted == plain)
    assert (restored(plain, text) if text else plain) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"colour": 1}',
     '{"name": null}', '{"name": 3}', '{"inputs": "x"}', '{"inputs": [1]}',
     '{"priority": "x"}',
     '{"request": 3}', '{"request": {"sails": 1}}', '{"request": {"memory": "1"}}', '{"request": {"memory": -1}}',
     '{"expected": {"cores": true}}', '{"input_bytes": 1.5}'],
)  # fmt: skip
def test_what_is_no_note_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        restored(Task("a"), text)
