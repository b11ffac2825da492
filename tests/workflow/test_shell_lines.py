"""Which lines of shell can run by themselves; what bash says is the oracle for everything unclosed."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tonnage.workflow.formats.text import why_not_alone

WHOLE = [
    "echo a",
    "cd x && ./run",
    "A=1 ./run",
    "A=1 && ./run",
    "export A=1; ./run $A",
    "module load gcc && make",
    "for i in 1 2; do echo $i; done",
    "for ((i=0; i<3; i++)); do echo $i; done",
    "while read x; do echo $x; done < file",
    "if [ -f x ]; then source x; ./run; fi",
    "case $1 in a) echo x;; (b|c) echo $(echo y);; esac",
    "time for i in a; do x; done",
    "f() { echo $1; }; f a",
    "function f { echo $1; }; f a",
    "(cd x && ls)",
    "{ cd x; ls; }",
    "cat <<< hello",
    "echo $((1<<2)) $((2 * (3 + 1)))",
    "diff <(sort a) <(sort b)",
    "[[ $x =~ ^(a|b)$ ]] && echo yes",
    "awk '{print $1}' x > y 2>&1",
    """echo "$(echo ")")" ${x:-'}'}""",
    r"echo $'it\'s' \" it\'s",
    "echo it # it's a comment",
    "echo a#it if then done { }",
    "find . -name '*.x' -exec rm {} \\;",
    "echo a \\\n  b",
    "dd if=x of=y",
    "./run &",
    "exit 1",
    "[ -f x ] || exit 1",
    "conda run -n x ./run",
    "conda activate x && ./run",
    "echo {1..3}",
    ": > empty",
    "rsync host:a b",
]

UNCLOSED = [
    "for i in 1 2; do",
    "do echo $i",
    "done",
    "if [ -f x ]; then",
    "then echo",
    "else echo x",
    "fi",
    "case $1 in",
    "a) echo x;;",
    "esac",
    "f() {",
    "}",
    "(cd x",
    ")",
    "echo it's",
    'echo "a',
    "echo `date",
    "echo $(date",
    "echo ${x",
    "echo $'a",
    "cat <<EOF",
    "cat <<-'END' > x",
    "foo |",
    "foo &&",
    "&& foo",
    "| foo",
]

ONLY_FOR_OTHERS = [
    "cd scratch",
    "cd scratch;",
    "export A=1",
    "set -euo pipefail",
    "source env.sh",
    ". env.sh",
    "A=1",
    "A=$(ls | wc -l)",
    "files=(a b c)",
    "A=1 B='x y'",
    "module load gcc",
    "unset X; cd y && set -e",
    "umask 077 > /dev/null",
    "wait",
    "cd scratch || exit 1",
    'cd "$(dirname "$0")" || { false; exit 1; }',
    "[ -n x ] && export A=1",
    "ml gcc",
    "conda activate x",
    "conda activate x > /dev/null",
]


@pytest.mark.parametrize("line", WHOLE)
def test_a_whole_command_runs_by_itself(line: str) -> None:
    assert why_not_alone(line) is None


LABELS = ["out.bam: in.bam", "clean:", "name: build"]


@pytest.mark.parametrize("line", [*UNCLOSED, *ONLY_FOR_OTHERS, *LABELS])
def test_a_line_that_needs_its_neighbours_does_not(line: str) -> None:
    assert why_not_alone(line)


def test_the_lines_of_this_test_are_what_bash_takes_them_for(tool: ToolFinder) -> None:
    bash = tool("bash", "bash")
    for line in [*WHOLE, *ONLY_FOR_OTHERS]:
        assert is_whole(bash, line), line
    for line in UNCLOSED:
        assert not is_whole(bash, line), line


PARTS = ["echo a", "'b", '"c', "$(", ")", "{", "}", ";", "&&", "|", "if", "then", "fi", "for x in y", "while a", "do",
         "done", "`d", "(", "$((1<<2))", "<<E", "<<<f", "# g", "\\'", "case h in", "i)", ";;", "esac", "!", "k=l",
         "${m", "> n"]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map(" ".join))
def test_what_bash_accepts_is_accepted_whatever_it_is_made_of(line: str) -> None:
    """To refuse a line that works is as wrong as to run one that does not; what bash refuses may pass: it fails."""
    why = why_not_alone(line)
    if why is not None and "only affects the shell" not in why:
        assert not is_whole("bash", line), (line, why)


def is_whole(bash: str, line: str) -> bool:
    checked = subprocess.run([bash, "-n", "-c", line], capture_output=True, text=True, check=False)
    return checked.returncode == 0 and "here-document" not in checked.stderr
