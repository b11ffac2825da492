"""The batch scripts for sbatch."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.batch.scheduler import Request
from tonnage.batch.slurm import Slurm, SlurmOptions
from tonnage.errors import InputError

FOLDER = Path("/scratch/run 1")
TASK = Request(
    name="tonnage-7.a_1",
    words=("python3", "-m", "tonnage", "it's"),
    folder=FOLDER,
    output=FOLDER / "out" / "100%j.txt",
    cores=3,
    memory=1.5e9,
    disk=1.0,
    seconds=61,
    elements=4,
)


def text(request: Request, options: SlurmOptions | None = None) -> str:
    return Slurm(options or SlurmOptions()).script(request)


def test_a_script_says_all_that_is_asked_for() -> None:
    options = SlurmOptions(partition="main", account="lab", qos="high", extra=("--constraint=a&b", "--nice"))
    assert text(TASK, options) == (
        "#!/bin/sh\n"
        "#SBATCH --job-name=tonnage-7.a_1\n"
        "#SBATCH --partition=main\n"
        "#SBATCH --account=lab\n"
        "#SBATCH --qos=high\n"
        '#SBATCH "--chdir=/scratch/run 1"\n'
        '#SBATCH "--output=/scratch/run 1/out/100%%j.txt.%a"\n'
        "#SBATCH --open-mode=append\n"
        "#SBATCH --no-requeue\n"
        "#SBATCH --export=ALL\n"
        "#SBATCH --nodes=1\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --cpus-per-task=3\n"
        "#SBATCH --mem=1431M\n"
        "#SBATCH --tmp=1M\n"
        "#SBATCH --time=2\n"
        "#SBATCH --array=0-3\n"
        '#SBATCH "--constraint=a&b"\n'
        "#SBATCH --nice\n"
        "exec python3 -m tonnage 'it'\"'\"'s'\n"
    )


def test_nodes_to_avoid_stand_beside_those_that_the_user_excludes() -> None:
    """The last option of a name would count alone."""
    lines = text(replace(TASK, avoided=("n3", "n5")), SlurmOptions(extra=("--exclude=n[7-8]", "--nice"))).splitlines()
    assert [line for line in lines if "--exclude" in line] == ['#SBATCH "--exclude=n3,n5,n[7-8]"']
    assert "#SBATCH --nice" in lines


def test_whole_nodes_come_with_all_they_have() -> None:
    request = Request(name="p", words=("x",), folder=FOLDER, output=FOLDER / "o", nodes=4, whole_nodes=True, seconds=0)
    lines = text(request).splitlines()
    for option in ("--nodes=4", "--exclusive", "--mem=0", "--no-kill", "--ntasks-per-node=1", "--time=1"):
        assert f"#SBATCH {option}" in lines
    assert not any("cpus-per-task" in line or "--array" in line for line in lines)


def test_what_is_not_said_is_left_to_the_cluster() -> None:
    request = Request(name="p", words=("x",), folder=FOLDER, output=FOLDER / "o")
    assert not any(word in text(request) for word in ("--mem", "--time", "--tmp", "--partition"))


def test_nothing_asked_for_becomes_nothing_at_all() -> None:
    """To sbatch, 0 means all memory, and no time limit."""
    request = Request(name="p", words=("x",), folder=FOLDER, output=FOLDER / "o", memory=0, seconds=0, disk=0)
    assert "--mem=1M\n" in text(request)
    assert "--time=1\n" in text(request)


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "ü", "a,b", "a|b"])
def test_a_name_that_could_not_be_found_again_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="not a valid name for a batch job"):
        text(Request(name=name, words=("x",), folder=FOLDER, output=FOLDER / "o"))


@pytest.mark.parametrize("file", ["a\nb", "a\\b", "a\rb"])
def test_paths_that_sbatch_cannot_take_are_refused(file: str) -> None:
    with pytest.raises(InputError, match=r"line break|backslash"):
        text(Request(name="a", words=("x",), folder=FOLDER, output=FOLDER / file))


@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), min_size=1, max_size=4))
def test_words_arrive_as_they_are(words: list[str]) -> None:
    script = text(Request(name="a", words=tuple(words), folder=FOLDER, output=FOLDER / "o"))
    assert shlex.split(script.partition("\nexec ")[2]) == words


@pytest.mark.parametrize(
    "option",
    [
        *("--array=1-9", "--arr=1", "--mem=4G", "--output=x", "--parsable", "--wrap=true", "--wait", "--clusters=all"),
        *("--job-name=x", "--exclusive", "--test-only", "--nodes=2", "--time=5", "--tim=5", "--chdir=/", "--requeue"),
    ],
)
def test_options_that_a_run_relies_on_cannot_be_given(option: str) -> None:
    with pytest.raises(InputError, match="tonnage sets --"):
        SlurmOptions(extra=(option,))


@pytest.mark.parametrize("option", ["--partition=main", "--account=lab", "--qos=high"])
def test_options_that_have_a_place_of_their_own(option: str) -> None:
    with pytest.raises(InputError, match="tonnage's own option"):
        SlurmOptions(extra=(option,))


@pytest.mark.parametrize("option", ["gpu", "-p main", "-n4", "--", "", "; rm -rf /"])
def test_what_is_no_long_option_is_refused(option: str) -> None:
    with pytest.raises(InputError, match="is not an sbatch option"):
        SlurmOptions(extra=(option,))


@pytest.mark.parametrize(
    "option", ["--gres=gpu:1", "--constraint=[a|b]", "--mail-type=END", "--nodelist=n1", "--mem-bind=no"]
)
def test_other_options_are_taken(option: str) -> None:
    assert SlurmOptions(extra=(option,)).extra == (option,)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a\n#SBATCH --wrap=x", 'a"b'])
def test_names_of_partitions_are_looked_at(name: str) -> None:
    with pytest.raises(InputError, match="is not a valid Slurm partition"):
        SlurmOptions(partition=name)
