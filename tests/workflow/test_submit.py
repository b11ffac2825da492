"""Submit descriptions mean what HTCondor's own parser says they mean."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.workflow.dagman import submit

htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")

_NAMES = ["alpha", "beta", "gamma", "executable", "arguments"]
_values = st.lists(
    st.sampled_from(["x", "two words", "$(alpha)", "$(beta)", "$(none)", "$(gamma:dflt)", "1", ".", "'q'"]),
    max_size=4,
).map("".join)


@given(st.dictionaries(st.sampled_from(_NAMES), _values, min_size=1))
def test_macros_are_expanded_as_condor_submit_expands_them(settings: dict[str, str]) -> None:
    # HTCondor does not end where macros name each other in a circle: let each name only what comes after it.
    for place, name in enumerate(_NAMES):
        if name in settings:
            for earlier in _NAMES[: place + 1]:
                settings[name] = settings[name].replace(f"$({earlier})", "").replace(f"$({earlier}:dflt)", "")
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    truth = htcondor2.Submit(text)
    ours = submit.parse(text)
    for name in settings:
        try:
            expected = truth.expand(name).strip()
        except KeyError:  # HTCondor drops a setting without a value
            expected = ""
        assert submit.expand(ours[name], ours).strip() == expected


# `$$(x)` is filled in when a job is matched; no quoting keeps HTCondor from it.
_MATCHED_LATER = re.compile(r"\$\$\w*\(")


@given(
    st.text(st.sampled_from("ab '\"$()\\é{}#"), min_size=1, max_size=20).filter(
        lambda text: text == text.strip() and not _MATCHED_LATER.search(text)
    )
)
def test_a_command_survives_the_quoting_of_arguments(command: str) -> None:
    text = "executable = /bin/sh\narguments = \"-c '$(command)'\"\n"
    variable = submit.quoted_argument(command)
    assert submit.command(submit.parse(text), {"command": variable}) == command
    truth = htcondor2.Submit(text)
    truth["command"] = variable
    escaped = command.replace("'", "''").replace('"', '""')
    assert truth.expand("arguments") == f"\"-c '{escaped}'\""


def test_macros_in_a_circle_end() -> None:
    assert isinstance(submit.expand("$(a)", {"a": "$(b)", "b": "$(a)"}), str)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a b", "/bin/x a b"),
        ('"a ""b"" c"', "/bin/x a '\"b\"' c"),
        ("\"'a b' '' c''d\"", "/bin/x 'a b' '' cd"),
        ("\"'it''s' \x01\"", "/bin/x 'it'\"'\"'s' '\x01'"),
        ('say \\"hi\\"', "/bin/x say '\"hi\"'"),
    ],
)
def test_arguments_in_the_old_and_the_new_syntax(value: str, words: str) -> None:
    assert submit.command(submit.parse(f"executable = /bin/x\narguments = {value}\n"), {}) == words


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("arguments = -x\narguments = $(arguments) -y", "-x -y"),
        ("# note \\\narguments = a", "a"),
        ("arguments = $(arguments:z) b", "z b"),
        ("arguments = a\\\n   b", "ab"),
        ("arguments = a \\\n   b", "a b"),
        ("x = 1\nx = $(x)2\nx = $(X)3\narguments = $(x)", "123"),
    ],
)
def test_settings_that_name_themselves_comments_and_continuations(text: str, arguments: str) -> None:
    assert htcondor2.Submit(f"executable = /bin/e\n{text}\n").expand("arguments") == arguments
    ours = submit.parse(f"executable = /bin/e\n{text}\n")
    assert submit.expand(ours["arguments"], ours) == arguments


def test_a_setting_of_several_lines() -> None:
    text = "a @=end\n  one\nb = 2\n@end\nb = 1\n"
    assert submit.parse(text) == {"a": "one\nb = 2", "b": "1"}
    assert htcondor2.Submit(text).expand("a") == "one\nb = 2"


@pytest.mark.parametrize("text", ["arguments = $ENV(HOME)", "arguments = $Fn(x)", "arguments = $INT(n)"])
def test_what_only_condor_submit_evaluates_makes_the_command_unknown(text: str) -> None:
    ours = submit.parse(f"executable = /bin/e\n{text}\n")
    assert submit.command(ours, ours) is None
    assert "only be evaluated by condor_submit" in next(submit.oddities(ours, ours, submit.amounts(ours, ours)))


def test_a_condition_is_a_warning() -> None:
    ours = submit.parse("if defined x\nexecutable = a\nelse\nexecutable = b\nendif\n")
    assert '"if defined x" is not evaluated' in next(submit.oddities(ours, ours, submit.amounts(ours, ours)))


def test_a_shell_line_is_the_command() -> None:
    assert submit.command(submit.parse("shell = cat a | sort > b\n"), {}) == "cat a | sort > b"
    assert submit.command(submit.parse("universe = vanilla\n"), {}) is None


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("2048", 2048 * 2**20),
        ("2 GB", 2**31),
        ("512K", 512 * 2**10),
        ("1.5 g", 3 * 2**29),
        ("TotalMemory", None),
        ("9" * 400, None),
        ("", None),
    ],
)
def test_requested_memory(text: str, memory: int | None) -> None:
    assert submit.amounts({"request_memory": text}, {}).memory == memory
