"""What users get who mistype, or ask for help as they would elsewhere."""

import pytest

from tests.command_line import CommandLine, verbs
from tonnage.errors import InputError
from tonnage.option_values import amounts


@pytest.mark.parametrize("name", [name for name, _ in verbs()])
def test_help_of_a_verb_is_what_its_option_shows(command_line: CommandLine, name: str) -> None:
    words = name.split()
    assert command_line("help", *words).stdout == command_line(*words, "--help").stdout


def test_help_alone_lists_the_verbs(command_line: CommandLine) -> None:
    assert command_line("help").stdout == command_line("--help").stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sise"], ['tonnage has no verb "sise"', "did you mean size?"]),
        (["archive", "imprt"], ['tonnage archive has no verb "imprt"', "did you mean import?"]),
        (["help", "replay", "pak"], ['tonnage replay has no verb "pak"', "did you mean pack?"]),
        (["xyzzy"], ['tonnage has no verb "xyzzy"', "see tonnage --help"]),
    ],
)
def test_a_mistyped_verb_gets_a_suggestion(command_line: CommandLine, words: list[str], expected: list[str]) -> None:
    said = command_line(*words, status=2).stderr
    assert all(text in said for text in expected), said


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("8GB", "did you mean memory=8GB?"),
        ("8", "did you mean cores=8?"),
        ("mem=8GB", "did you mean memory?"),
        ("core=8", "did you mean cores?"),
        ("big", "example: cores=16,memory=64GB"),
        ("memory", "example: cores=16,memory=64GB"),
        ("memory=64G", "write 64GB (powers of 1000) or 64GiB"),
    ],
)
def test_an_amount_that_is_wrong_gets_a_suggestion(given: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        amounts([given], "--machine")
    assert hint in str(caught.value.hint)
