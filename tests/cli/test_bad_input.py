"""Bad input of every kind: a clear message, exit status 2, bounded memory, never a traceback."""

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.command_line import Said

BOMB_XML = '<?xml version="1.0"?><!DOCTYPE adag [<!ENTITY a0 "aaaaaaaaaa">' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)
)
BOMB_YAML = "pegasus: 5.0\na0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
DEEP = 100_000

BAD: dict[str, bytes] = {
    "empty.dag": b"",
    "blank.txt": b" \n\n",
    "truncated.dax": b'<adag><job id="a" name="x"',
    "truncated.json": b'{"workflow": {"specification": {"tasks": [{"name": "a"',
    "truncated.yml": b"pegasus: 5.0\njobs:\n- {id: a, name",
    "truncated.jx": b'{"rules": [{"command": "x',
    "truncated.dag": b"JOB A {\n executable = x\n",
    "truncated.mf": b"out : in\n",
    "truncated.dag.gz": gzip.compress(b"JOB A a.sub\n" * 1000, mtime=0)[:40],
    "latin.dag": b"JOB caf\xe9 a.sub\n",
    "utf16.dag": "JOB A a.sub\n".encode("utf-16"),
    "binary": bytes(range(256)) * 100,
    "elf.dag": b"\x7fELF\x02\x01\x01\0",
    "include.dag": b"INCLUDE absent.dag\n",
    "splice.dag": b"SPLICE S absent.dag\n",
    "unknown.dag": b"JOB A a.sub\nJUMP A\n",
    "duplicate.dag": b"JOB A a.sub\nJOB A a.sub\n",
    "self.dag": b"JOB A a.sub\nPARENT A CHILD A\n",
    "self.mf": b"a : a\n\ttouch a\n",
    "cycle.mf": b"a : b\n\ttouch a\n\nb : a\n\ttouch b\n",
    "twice.mf": b"a : \n\ttouch a\n\na : \n\ttouch a\n",
    "deep.json": b'{"workflow": ' + b"[" * DEEP,
    "deep-closed.json": b'{"workflow": {"specification": ' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "deep.jx": b'{"rules": ' + b"[" * DEEP,
    "deep-parentheses.jx": b'{"rules": ' + b"(" * DEEP,
    "deep-minus.jx": b'{"rules": [{"command": ' + b"-" * DEEP + b"1}]}",
    "deep-sum.jx": b'{"rules": [{"command": ' + b"1+" * DEEP + b'1, "outputs": []}]}',
    "deep.yml": b"pegasus: 5.0\njobs: " + b"[" * DEEP,
    "deep-maps.yml": b"pegasus: 5.0\njobs: " + b"{a: " * DEEP,
    "deep.dax": b"<adag>" + b"<job>" * DEEP,
    "bomb.dax": (BOMB_XML + ']><adag><job id="&a11;" name="x"/></adag>').encode(),
    "outside.dax": b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><adag><job id="&x;"/></adag>',
    "bomb.yml": (BOMB_YAML + "jobs: *a11\n").encode(),
    "range.jx": b'{"rules": [{"command": "x", "outputs": ["o" + i for i in range(1000000000000)]}]}',
    "grow.jx": b'{"rules": [i for i in range(100000) for j in range(100000)]}',
    "long.dag": b'JOB A a.sub\nVARS A x="' + b"y" * (2**24 + 1) + b'"\n',
    "long.txt": b"echo " + b"y" * (2**24 + 1),
    "list.json": b"[1, 2, 3]",
    "number.json": b"3",
    "other.json": b'{"a": 1}',
    "other.xml": b"<html/>",
    "other.yml": b"a: b\n",
}


_SHOW = """
import os, resource, sys
import tonnage.workflow
from tonnage.cli import main

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        path = line.rstrip()
        for number, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{path}.{ending}", os.O_WRONLY | os.O_CREAT), number)
        # A gigabyte more than there is now: whoever builds what a bomb stands for does not get far.
        with open("/proc/self/statm") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        sys.exit(main(["show", path, "--json"]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def show() -> Iterator[Callable[[Path], Said]]:
    """Show files, each in a process with little memory: the child of one that has loaded everything."""
    with subprocess.Popen([sys.executable, "-c", _SHOW], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        given, told = process.stdin, process.stdout

        def called(path: Path) -> Said:
            given.write(f"{path}\n")
            given.flush()
            status = int(told.readline())
            return Said(status, Path(f"{path}.out").read_text(), Path(f"{path}.err").read_text())

        yield called


# What reaches the limit of nested loops takes longest to do so; tests/workflow/test_jx.py has it in small.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name == "grow.jx")) for name in BAD])
def test_bad_input_gets_a_clear_error(show: Callable[[Path], Said], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(BAD[name])
    result = show(path)
    assert result.status == 2, result.stderr[-500:]
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    first = result.stderr.splitlines()[0]
    assert first.startswith(f"tonnage: {path}"), first
    assert len(first) < 400
