"""Commands as text."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.workflow.shell import executable, one_line, several_lines, without_number


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("./bin/bwa mem a", "bwa"),
        ("LC_ALL=C X=1 sort -u", "sort"),
        ("(cd x && ls)", "cd"),
        ("", None),
        ("A=1", None),
        ("A='x y' B=\"z\" ./p", "p"),
    ],
)
def test_executable(command: str, program: str | None) -> None:
    assert executable(command) == program


@pytest.mark.parametrize(
    ("name", "stem"),
    [("align_ID0000012", "align"), ("align-7", "align"), ("align7", "align"), ("align", "align"), ("12", "12")],
)
def test_names_without_their_number(name: str, stem: str) -> None:
    assert without_number(name) == stem


@given(st.text(st.sampled_from("ab '\"\\$0n\n\r\t%é#"), max_size=40))
def test_several_lines_travel_in_one_and_come_back(command: str) -> None:
    packed = one_line(command)
    assert "\n" not in packed
    assert "\r" not in packed
    assert several_lines(packed) == command
    assert several_lines(one_line(packed)) == packed


@pytest.mark.parametrize("script", ["echo a\necho 'b  c' \"$HOME\" \\\\ é\n", "cat <<E\n it's %s $((1+2))\nE"])
def test_a_packed_script_does_the_same(script: str) -> None:
    results = [
        subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True).stdout
        for text in (script, one_line(script))
    ]
    assert results[0] == results[1] != b""
