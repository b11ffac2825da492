"""Damaged files of every format: read or refused, never anything else.

`make soak` does the same a thousand times longer.
"""

import os
import random
from pathlib import Path

import pytest

from tests.workflow.test_formats import SAMPLES
from tonnage.errors import TonnageError
from tonnage.files import Document
from tonnage.units import Bytes
from tonnage.workflow import READERS, WRITERS, Task, Workflow, read, write
from tonnage.workflow.formats import recognise

ROUNDS = int(os.environ.get("TONNAGE_SOAK", "1")) * 150

# Words that mean something somewhere; a mutation that uses them gets further than random letters.
TOKENS = [
    *'{}[]()<>"\'\\:,;=+-*/%$#@&|!~ \t\n\r',
    "JOB", "PARENT", "CHILD", "SPLICE", "VARS", "ALL_NODES", "INCLUDE", "CONNECT", "PIN_IN", "SUBMIT-DESCRIPTION x {",
    "$(", "$(x:", "@=", "<job", "</job>", "<adag>", "&amp;", "<![CDATA[", "<!--", "]]>", "*a", "&a ", "!!int", "? ",
    '"rules"', '"workflow"', '"tasks"', '"parents"', "null", "true", "1e999", "-1", "99999999999999999999", "NaN",
    "for x in", "range(", "if ", "and", "not ", "template(", "export", ".MAKEFLOW", "LOCAL", "CATEGORY=", "->",
    "\\ud800", "9" * 5000, "x" * 300, "@=x", "\x01", '""', "\\u0000", "''",
    "\ud7ff", "é", "\0", "\x85", "\u2028", "\ufeff", "- ", "}",
]  # fmt: skip


def seeds() -> dict[str, list[str]]:
    """Return whole files to start from: the samples, and a workflow in every format that is written."""
    tasks = [
        Task("a", "echo 'x' > a.out", "first", outputs=("a.out",)),
        Task("b", "sort a.out\nwc", "second", inputs=("a.out",), priority=3, input_bytes=Bytes(10)),
        Task("c d", None, "third kind", directory="sub"),
    ]
    workflow = Workflow.build("seed", tasks, ([0, 0, 1], [1, 2, 2]))
    found = {name: [text] for name, text in SAMPLES.items()}
    for name, writer in WRITERS.items():
        if name in found:
            found[name].append(writer.render(workflow))
    return found


def mutated(text: str, source: random.Random) -> str:
    """Cut, copy, swap and insert a few times."""
    for _ in range(source.randint(1, 4)):
        begin = source.randint(0, len(text))
        end = min(len(text), begin + source.choice([0, 1, 3, 10, 50, 500]))
        what = source.randrange(4)
        if what == 0:
            text = text[:begin] + text[end:]
        elif what == 1:
            text = text[:end] + text[begin:end] * source.choice([1, 2, 20]) + text[end:]
        elif what == 2:
            text = text[:begin] + source.choice(TOKENS) + text[end:]
        else:
            other = source.randint(0, len(text))
            text = text[:begin] + text[other : other + 20] + text[begin:]
    return text


def check_round_trips(workflow: Workflow, path: Path) -> None:
    """Write in every format that can hold the workflow, and read it back."""
    assert workflow.checksum
    for name in WRITERS.keys() & READERS.keys():
        try:
            write(workflow, path, name)
        except TonnageError as error:
            assert "cannot" in str(error)
            continue
        again = read(path, name)
        assert (again.tasks, again.graph) == (workflow.tasks, workflow.graph), name


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    texts = seeds()[name]
    for number in range(ROUNDS):
        source = random.Random(f"{name} {number}")
        text = mutated(source.choice(texts), source)
        document = Document(tmp_path / "file", text.encode("utf-8", "replace"))
        try:
            for reader in {name, recognise(document)}:
                check_round_trips(READERS[reader].read(document), tmp_path / "again")
        except TonnageError as error:
            assert error.exit_status == 2
        except Exception as error:
            error.add_note(f"seed {name} {number}, text {text!r}")
            raise
