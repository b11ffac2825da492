"""Settings in files: what beats what, what is said about it, and what a stranger's file cannot do."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.command_line import CommandLine, verbs
from tonnage.archive import url
from tonnage.cli import _CONFIGURED as CONFIGURED
from tonnage.config import SETTINGS

USER = "settings/tonnage/tonnage.toml"


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    (tmp_path / "project" / "inside").mkdir(parents=True)
    (tmp_path / "settings" / "tonnage").mkdir(parents=True)
    variables = {"XDG_CONFIG_HOME": str(tmp_path / "settings"), "XDG_DATA_HOME": str(tmp_path / "data")}
    return CommandLine(tmp_path / "project" / "inside", variables)


def write(command_line: CommandLine, name: str, text: str) -> Path:
    path = command_line.folder.parent.parent / name
    path.write_text(text)
    return path


def settings(command_line: CommandLine) -> dict[str, object]:
    found = json.loads(command_line("config", "--json").stdout)["settings"]
    return {name: one and (one["value"], Path(one["from"]).parent.name or one["from"]) for name, one in found.items()}


def test_without_files_nothing_is_set(command_line: CommandLine) -> None:
    assert set(settings(command_line).values()) == {None}
    assert "no tonnage.toml here or above" in command_line("config").stdout


def test_the_environment_beats_the_project_which_beats_the_user(command_line: CommandLine) -> None:
    write(command_line, USER, 'machine = "cores=1"\nstrategy = "max-seen"\naccount = "mine"\narchive = "mine.db"\n')
    write(command_line, "project/tonnage.toml", 'machine = { cores = 2, memory = "1GB" }\nstrategy = "ladder"\n')
    command_line.variables["TONNAGE_STRATEGY"] = "doubling"
    assert settings(command_line) == {
        "machine": ("cores=2,memory=1GB", "project"),
        "strategy": ("doubling", "TONNAGE_STRATEGY"),
        "minimum": None,
        "headroom": None,
        "override-requests": None,
        "archive": ("mine.db", "tonnage"),
        "partition": None,
        "account": ("mine", "tonnage"),
    }


def test_settings_are_defaults_of_options_and_options_beat_them(command_line: CommandLine) -> None:
    write(command_line, "project/tonnage.toml", 'machine = "cores=2,memory=1GB"\nstrategy = "whole-machine"\n')
    (command_line.folder / "w.txt").write_text("true\n")
    said = command_line("run", "w.txt", "--dry-run")
    assert "cores: 2:" in said.stdout
    assert "memory: 1 GB: whole-machine" in said.stdout
    said = command_line("run", "w.txt", "--dry-run", "--machine", "cores=3,memory=1GB", "--size", "doubling")
    assert "doubling" in said.stdout
    assert "then 3" in said.stdout


def test_every_setting_is_applied() -> None:
    commands = dict(verbs())
    for setting, among in CONFIGURED.items():
        for verb in among:
            assert setting.replace("-", "_") in {one.name for one in commands[verb].params}, (setting, verb)
    read = re.findall(r'lookup\("([\w-]+)"\)', (Path(url.__file__)).read_text())
    assert set(CONFIGURED) | set(read) == set(SETTINGS)


def test_the_minimum_and_the_headroom_of_recommendations_are_settings(command_line: CommandLine) -> None:
    write(command_line, "project/tonnage.toml", 'minimum = { memory = "2GB", cores = 2 }\nheadroom = "50%"\n')
    (command_line.folder / "t.csv").write_text("category,memory,cores,wall_time\na,1GB,1,60\nb,4GB,1,60\n")
    words = ("size", "t.csv", "--strategy", "max-seen", "--json")

    def sizes(*more: str) -> dict[tuple[str, str], float]:
        found = command_line(*words, *more).facts["allocations"]
        return {(one["category"], one["resource"]): one["ladder"][0] for one in found}

    assert sizes("--resource", "memory") == {("a", "memory"): 2e9, ("b", "memory"): 6e9}
    assert sizes("--resource", "cores") == {("a", "cores"): 2, ("b", "cores"): 2}
    given = sizes("--resource", "memory", "--minimum", "memory=3GB", "--headroom", "0%")
    assert given == {("a", "memory"): 3e9, ("b", "memory"): 4e9}


def test_what_is_for_clusters_does_not_disturb_runs_on_this_machine(command_line: CommandLine) -> None:
    write(command_line, "project/tonnage.toml", 'partition = "short"\naccount = "physics"\n')
    (command_line.folder / "w.txt").write_text("true\n")
    assert command_line("run", "w.txt", "--dry-run").status == 0
    said = command_line("run", "w.txt", "--dry-run", "--partition", "short", status=2)
    assert "--partition is for Slurm" in said.stderr


def test_the_archive_of_a_project_counts_only_where_the_user_trusts_it(command_line: CommandLine) -> None:
    write(command_line, "project/tonnage.toml", 'archive = "http://127.0.0.1:9"\n')
    said = command_line("config")
    assert "archive" in said.stderr and "tonnage config trust" in said.stderr
    assert settings(command_line)["archive"] is None
    assert command_line("config", "trust", "..").status == 0
    assert settings(command_line)["archive"] == ("http://127.0.0.1:9", "project")
    assert command_line("config").stderr == ""
    trusted = command_line.folder.parent.parent / "settings" / "tonnage" / "trusted"
    assert trusted.stat().st_mode & 0o777 == 0o600
    command_line("config", "trust", "--revoke", "..")
    assert settings(command_line)["archive"] is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_does_not_count_until_its_folder_is_trusted(command_line: CommandLine) -> None:
    path = write(command_line, "project/tonnage.toml", 'strategy = "ladder"\n')
    os.chown(path, 12345, 12345)
    assert settings(command_line)["strategy"] is None
    assert "belongs to another user" in command_line("config").stdout
    command_line("config", "trust", "..")
    assert settings(command_line)["strategy"] == ("ladder", "project")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("token = 'x'", '"token" is not a setting'),
        ("machine = 5", "machine: expected a string"),
        ("machine = 'apples=3'", '"apples" is not a resource'),
        ("machine = ", "is not TOML"),
        ("strategy = ''", "strategy: expected a string"),
        ("minimum = 'memory=much'", "not an amount of bytes"),
        ("headroom = 'some'", '"some" is not a fraction'),
        ("a" * 70_000, "is larger than 64 KiB"),
    ],
)
def test_a_file_that_makes_no_sense_is_an_error_that_names_it(
    command_line: CommandLine, text: str, problem: str
) -> None:
    path = write(command_line, "project/tonnage.toml", text)
    said = command_line("config", status=2)
    assert f"{path}: " in said.stderr
    assert problem in said.stderr
    assert command_line("size", "--help").status == 0


def test_a_password_is_not_shown(command_line: CommandLine) -> None:
    write(command_line, USER, 'archive = "postgresql://me:secret@db.example.org/jobs"\n')
    assert "secret" not in command_line("config").stdout + command_line("config", "--json").stdout
