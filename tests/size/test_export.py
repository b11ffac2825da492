"""What `tonnage size --format` writes, as the tools that it is for read it."""

import argparse
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conftest import ToolFinder
from tests.deadlines import HANGS
from tonnage.jobs import Amounts, Attempt, Decision, Resource
from tonnage.size import Plan, collect, size
from tonnage.size.export import EXPORTERS, Sizes, exported
from tonnage.size.tools import TOOLS

htcondor2 = pytest.importorskip("htcondor2", reason="the package htcondor is not installed")

MIB = 2**20
UNITS = {
    "snakemake": {Resource.CORES: 1, Resource.MEMORY: 10**6, Resource.DISK: 10**6, Resource.WALL_TIME: 60},
    "nextflow": {Resource.CORES: 1, Resource.MEMORY: MIB, Resource.DISK: MIB, Resource.WALL_TIME: 60},
    "dagman": {Resource.CORES: 1, Resource.MEMORY: MIB, Resource.DISK: MIB},
    "makeflow": {Resource.CORES: 1, Resource.MEMORY: MIB, Resource.DISK: MIB},
    "sbatch": {Resource.CORES: 1, Resource.MEMORY: MIB, Resource.DISK: MIB, Resource.WALL_TIME: 60},
}
Ladders = dict[Resource, tuple[int, ...]]


def sized(category: str, comment: str = "asked for too much", **ladders: tuple[float, ...]) -> Sizes:
    decided = {Resource(name): Decision(Resource(name), rungs, "max-seen", 3, "") for name, rungs in ladders.items()}
    return Sizes(category, decided, dict.fromkeys(decided, comment))


ALIGN = sized(
    "align",
    cores=(4.0,),
    memory=(3200.0 * MIB, 8000.0 * MIB, 62.0 * 1024 * MIB),
    disk=(100.0 * MIB, 200.0 * MIB),
    wall_time=(4800.0, 86400.0),
)


# How each text is read back: the ladders by category, in the units of the tool.


def snakemake_ladders(text: str) -> dict[str, Ladders]:
    profile = yaml.safe_load(text)
    found: dict[str, Ladders] = {}
    for rule, value in profile.get("set-threads", {}).items():
        found.setdefault(rule, {})[Resource.CORES] = evaluated(value)
    names = {"mem_mb": Resource.MEMORY, "disk_mb": Resource.DISK, "runtime": Resource.WALL_TIME}
    for rule, resources in profile.get("set-resources", {}).items():
        found.setdefault(rule, {}).update({names[name]: evaluated(value) for name, value in resources.items()})
    assert profile["retries"] == max([len(rungs) for each in found.values() for rungs in each.values()] or [1]) - 1
    return found


def evaluated(value: int | str) -> tuple[int, ...]:
    """What attempts get, one after the other, until they get no more."""
    if isinstance(value, int):
        return (value,)
    code = compile(value, "profile", "eval")
    amounts = [eval(code, {"__builtins__": {"min": min}, "attempt": attempt}) for attempt in range(1, 12)]
    assert amounts[-1] == amounts[-2]
    return tuple(dict.fromkeys(amounts))


# Comments, strings, numbers with a unit, names and signs; what is none of these is an error.
GROOVY = re.compile(
    r"(//[^\n\r\u2028\u2029]*)|('(?:[^'\\\n\r]|\\\\|\\')*')|(\d+)(?:\.([MG]B|m)\b)?|([A-Za-z.]+)|([^\w\s'\\$])|\s+"
)


def groovy_tokens(text: str) -> Iterator[str]:
    assert not re.search(r"(?<!\\)(?:\\\\)*\\u", text), "Groovy would replace it, even in a comment"
    position = 0
    while position < len(text):
        found = GROOVY.match(text, position)
        assert found, text[position : position + 40]
        position = found.end()
        if not found.group(1) and not found.group().isspace():
            yield found.group()


SETTINGS = {"cpus": Resource.CORES, "memory": Resource.MEMORY, "disk": Resource.DISK, "time": Resource.WALL_TIME}
SUFFIXES = {"cpus": "", "memory": ".MB", "disk": ".MB", "time": ".m"}
RETRY = "{ task . exitStatus in ( ( 130 .. 145 ) + 104 ) ? 'retry' : 'finish' }".replace(" ", "")


def nextflow_ladders(text: str) -> dict[str, Ladders]:
    """Parse `process { withName: 'regular expression' { setting = value ... } ... }` and nothing else."""
    tokens = list(groovy_tokens(text))
    assert tokens[:2] == ["process", "{"]
    assert tokens[-1] == "}"
    found: dict[str, Ladders] = {}
    rest = tokens[2:-1]
    while rest:
        assert (rest[0], rest[1], rest[3]) == ("withName", ":", "{"), rest
        end = closing(rest, 3)
        found[matched_name(rest[2])] = nextflow_settings(rest[4:end])
        rest = rest[end + 1 :]
    return found


def closing(tokens: list[str], start: int) -> int:
    depth = 0
    for place in range(start, len(tokens)):
        depth += {"{": 1, "}": -1}.get(tokens[place], 0)
        if depth == 0:
            return place
    raise AssertionError("a brace is never closed")


def matched_name(literal: str) -> str:
    """The one name that a pattern matches, which is made of plain signs and of numbers for all others."""
    pattern = literal[1:-1].replace("\\\\", "\\")
    assert re.fullmatch(r"(?:[A-Za-z0-9_:]|\\x\{[0-9a-f]+\})+", pattern), pattern
    return re.sub(r"\\x\{([0-9a-f]+)\}", lambda number: chr(int(number.group(1), 16)), pattern)


def nextflow_settings(tokens: list[str]) -> Ladders:
    values: dict[str, str] = {}
    while tokens:
        assert tokens[1] == "="
        end = closing(tokens, 2) if tokens[2] == "{" else 2
        values[tokens[0]] = "".join(tokens[2 : end + 1])
        tokens = tokens[end + 1 :]
    retries = int(values.pop("maxRetries", 0))
    assert values.pop("errorStrategy", None) == (RETRY if retries else None)
    ladders = {SETTINGS[name]: closure_amounts(value, SUFFIXES[name]) for name, value in values.items()}
    assert retries == max([len(rungs) for rungs in ladders.values()] or [1]) - 1
    return ladders


def closure_amounts(value: str, suffix: str) -> tuple[int, ...]:
    assert re.fullmatch(r"(?:\d+\S*?)|\{\[.*\]\[Math\.min\(task\.attempt,\d+\)-1\]\}", value), value
    value = re.sub(r"\b(\d+)\.GB\b", lambda found: f"{1024 * int(found[1])}.MB", value)
    plain = re.sub(rf"\b(\d+){re.escape(suffix)}(?=[,\]]|$)", r"\1", value)
    return (
        evaluated(int(plain))
        if plain.isdigit()
        else evaluated(plain[1:-1].replace("Math.min", "min").replace("task.attempt", "attempt"))
    )


def dagman_ladders(text: str) -> list[Ladders]:
    """What HTCondor reads in each section, which the category heads as a comment."""
    return [submit_ladders(f"# category {section}") for section in text.split("\n# category ")[1:]]


def submit_ladders(section: str) -> Ladders:
    seen = dict(htcondor2.Submit(section))
    found: Ladders = {}
    if "request_cpus" in seen:
        found[Resource.CORES] = (int(seen.pop("request_cpus")),)
    for resource in (Resource.MEMORY, Resource.DISK):
        values = [seen.pop(f"request_{resource}", ""), *seen.pop(f"retry_request_{resource}", "").split(", ")]
        rungs = tuple(htcondor_megabytes(value) for value in values if value)
        if rungs:
            found[resource] = rungs
    assert not seen
    return found


def htcondor_megabytes(text: str) -> int:
    found = re.fullmatch(r"(\d+) ([MG])B", text)
    assert found, text
    return int(found[1]) * (1024 if found[2] == "G" else 1)


def makeflow_categories(tool: ToolFinder, folder: Path, text: str) -> dict[str, dict[str, int]]:
    """The categories that the real tool finds, with their sizes."""
    path = folder / "sizes.makeflow"
    path.write_text(text)
    program = tool("makeflow_viz", "coop-computing-tools")
    ran = subprocess.run([program, "-D", "json", path], capture_output=True, text=True, check=False)
    assert "{" in ran.stdout, (ran.stderr, text)
    top = json.loads(ran.stdout[ran.stdout.index("{") :].replace("\\'", "'"), strict=False)
    assert top["rules"] == []
    found: dict[str, Any] = top["categories"]
    found.pop("default")
    return {name: {key: size for key, size in each.items() if key != "environment"} for name, each in found.items()}


def sbatch_ladders(text: str) -> list[Ladders]:
    """What sbatch is told in each section: its one line of options and the retries in comments."""
    found = []
    for section in text.split("\n# category ")[1:]:
        lines = section.split("\n")[1:]
        options = [line for line in lines if line and not line.startswith("#")]
        assert len(options) <= 1
        retries = [line.split(": ", 1)[1] for line in lines if re.match(r"# retry \d+: ", line)]
        attempts = [sbatch_options(line) for line in [*options, *retries]]
        resources = attempts[0] if attempts else {}
        found.append({name: tuple(dict.fromkeys(attempt[name] for attempt in attempts)) for name in resources})
    return found


def sbatch_options(line: str) -> dict[Resource, int]:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--cpus-per-task", dest="cores", type=int)
    parser.add_argument("--mem", dest="memory", type=slurm_megabytes)
    parser.add_argument("--tmp", dest="disk", type=slurm_megabytes)
    parser.add_argument("--time", dest="wall_time", type=slurm_minutes)
    told = vars(parser.parse_args(shlex.split(line)))
    return {Resource(name): value for name, value in told.items() if value is not None}


def slurm_megabytes(text: str) -> int:
    assert re.fullmatch(r"[1-9]\d*[MG]", text), text
    return int(text[:-1]) * (1024 if text.endswith("G") else 1)


def slurm_minutes(text: str) -> int:
    found = re.fullmatch(r"(\d+)-([01]\d|2[0-3]):([0-5]\d):00", text)
    assert found, text
    days, hours, minutes = map(int, found.groups())
    return (days * 24 + hours) * 60 + minutes


# What the texts are made from.

# Whatever ends a comment, a string or a line somewhere, or begins an expression.
_BREAKERS = [
    *("*/", "//", "\\", "\\u000a", "\\u0027", "'", "'''", '"', '"""', "$x", "${x}", "$(x)", "`x`", "}", "{", "#"),
    *("\n", "\r", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\0", "\t", " ", "\ud800", "\u202e", "\ufeff"),
    *("request_memory = 1", "queue", "CORES=9", "retries: 9", "- x", ": ", "__use_yte__: true", "?x", "!", ".*", "é"),
    *("cpus = 99", "#SBATCH --mem=0", "\\\n", "%{x}", "&a", "*a", "|", ">", "---", "...", "tonnage: {}", "@CORES=1"),
]
hostile = st.lists(st.sampled_from(_BREAKERS) | st.text(max_size=5), max_size=8).map("".join)
_RULES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(["yes", "null", "true", "été"])
_PROCESSES = st.sampled_from(["ALIGN", "NFCORE_CHIPSEQ:CHIPSEQ:BWA"])
categories = hostile | _RULES | _PROCESSES

_AMOUNTS = {
    Resource.CORES: st.floats(0, 512),
    Resource.MEMORY: st.floats(0, 2.0**45) | st.integers(0, 2**45).map(float),
    Resource.DISK: st.floats(0, 2.0**50) | st.integers(1, 2**20).map(lambda number: float(number * MIB)),
    Resource.WALL_TIME: st.floats(0, 1e7) | st.integers(0, 10**5).map(lambda number: number * 60.0),
    Resource.CPU_TIME: st.floats(0, 1e7),
}


@st.composite
def any_sizes(draw: st.DrawFn) -> Sizes:
    decided = {}
    for resource in draw(st.sets(st.sampled_from(sorted(_AMOUNTS)))):
        ladder = draw(st.lists(_AMOUNTS[resource], min_size=1, max_size=5, unique=True).map(sorted).map(tuple))
        decided[resource] = Decision(resource, ladder, "max-seen", 3, "")
    return Sizes(draw(categories), decided, {resource: draw(hostile) for resource in decided})


many_sizes = st.lists(any_sizes(), max_size=4, unique_by=lambda sizes: sizes.category)


def expect(
    sizes: Sizes, found: Ladders, units: dict[Resource, int], first_only: tuple[Resource, ...] = (Resource.CORES,)
) -> None:
    """Each rung is what was decided, rounded up to a whole unit, and more than the rung before; cores do not grow."""
    assert set(found) == set(sizes.decisions) & set(units)
    for resource, rungs in found.items():
        wanted = sizes.decisions[resource].ladder[: 1 if resource in first_only else None]
        exact = {max(1, math.ceil(Fraction(amount) / units[resource])) for amount in wanted}
        assert list(rungs) == sorted(exact)
        assert all(any(rung * units[resource] >= amount for rung in rungs) for amount in wanted)


def is_whole(text: str) -> bool:
    return text.endswith("\n") and "`tonnage size`" in text.split("\n", 1)[0]


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_file_says_who_wrote_it_and_why(name: str) -> None:
    text = EXPORTERS[name]([ALIGN])
    assert is_whole(text)
    assert "align" in text
    assert "memory: asked for too much" in text
    assert ("2^30" in text) == (name != "snakemake")
    assert is_whole(EXPORTERS[name]([]))


def test_a_ladder_starts_at_the_rung_that_was_decided() -> None:
    decision = Decision(Resource.MEMORY, (1.0 * MIB, 2.0 * MIB, 4.0 * MIB), "max-seen", 3, "", rung=1)
    assert Sizes("a", {Resource.MEMORY: decision}).rungs(Resource.MEMORY, MIB) == (2, 4)


# Snakemake


@given(many_sizes)
def test_snakemake_profiles_hold_every_rung_and_nothing_foreign(sizes: list[Sizes]) -> None:
    text = EXPORTERS["snakemake"](sizes)
    found = snakemake_ladders(text)
    assert set(yaml.safe_load(text)) <= {"retries", "set-threads", "set-resources"}
    rules = {each.category: each for each in sizes if each.category.isidentifier()}
    assert set(found) <= set(rules)
    for name, each in rules.items():
        expect(each, found.get(name, {}), UNITS["snakemake"])
    assert text.count("left out") >= len(sizes) - len(rules)


def snakemake(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "snakemake", "--profile", str(folder), "--cores", "2", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS)


def test_the_real_snakemake_gives_a_rule_that_failed_its_next_rung(tmp_path: Path) -> None:
    sizes = [
        sized("align", memory=(3.2e9, 6.4e10), disk=(5e6,), wall_time=(4800.0, 9600.0, 9700.0), cores=(1.0, 2.0)),
        sized("yes", "'\n${x} \\", memory=(1.0,)),
        sized("not a rule", memory=(1.0,)),
        sized("of_another_workflow", memory=(1.0, 2e6, 3e6)),
    ]
    (tmp_path / "config.yaml").write_text(EXPORTERS["snakemake"](sizes))
    command = "echo {resources.mem_mb} {resources.disk_mb} {resources.runtime} {threads} >> seen"
    fails_once = "test $(wc -l < seen) -ge 2; touch done"
    (tmp_path / "Snakefile").write_text(f"rule align:\n    output: 'done'\n    shell: '{command}; {fails_once}'\n")
    ran = snakemake(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "seen").read_text().splitlines() == ["3200 5 80 1", "64000 5 160 1"]


# Nextflow


@given(many_sizes)
def test_nextflow_settings_hold_every_rung_and_nothing_foreign(sizes: list[Sizes]) -> None:
    found = nextflow_ladders(EXPORTERS["nextflow"](sizes))
    assert set(found) == {each.category for each in sizes if each.category}
    for each in sizes:
        if each.category:
            expect(each, found[each.category], UNITS["nextflow"])


def test_nextflow_reads_a_ladder_as_the_manual_writes_it() -> None:
    lines = [line.strip() for line in EXPORTERS["nextflow"]([ALIGN]).splitlines()]
    assert "withName: 'align' {" in lines
    assert "memory = { [3200.MB, 8000.MB, 62.GB][Math.min(task.attempt, 3) - 1] }" in lines
    assert "time = { [80.m, 1440.m][Math.min(task.attempt, 2) - 1] }" in lines
    assert "errorStrategy = { task.exitStatus in ((130..145) + 104) ? 'retry' : 'finish' }" in lines
    assert "maxRetries = 2" in lines


def test_nextflow_tries_only_what_has_more_rungs_again() -> None:
    text = EXPORTERS["nextflow"]([sized("ALIGN", memory=(5.0 * MIB,))])
    assert "memory = 5.MB" in text
    assert "Retries" not in text
    assert "errorStrategy" not in text


def test_nextflow_finds_fully_qualified_names() -> None:
    name = "NFCORE_CHIPSEQ:CHIPSEQ:BWA"
    assert f"withName: '{name}' {{" in EXPORTERS["nextflow"]([sized(name, cores=(1.0,))])
    # Java's matches() is Python's fullmatch, and x{2e} is x2e.
    pattern = EXPORTERS["nextflow"]([sized("a.b!", cores=(1.0,))]).split("'")[1]
    assert pattern == r"a\\x{2e}b\\x{21}"


# HTCondor


@given(many_sizes)
def test_htcondor_reads_every_rung_and_nothing_foreign(sizes: list[Sizes]) -> None:
    found = dagman_ladders(EXPORTERS["dagman"](sizes))
    assert len(found) == len(sizes)
    for each, ladders in zip(sizes, found, strict=True):
        expect(each, ladders, UNITS["dagman"])


def test_htcondor_retries_with_the_rest_of_the_ladder() -> None:
    seen = dict(htcondor2.Submit(EXPORTERS["dagman"]([ALIGN])))
    assert seen == {
        "request_cpus": "4",
        "request_memory": "3200 MB",
        "retry_request_memory": "8000 MB, 62 GB",
        "request_disk": "100 MB",
        "retry_request_disk": "200 MB",
    }


# Makeflow


@given(many_sizes)
def test_makeflow_categories_hold_the_first_rung_and_nothing_foreign(sizes: list[Sizes]) -> None:
    text = EXPORTERS["makeflow"](sizes)
    lines = [line for line in re.split(r"[\n\r]", text) if line and not line.startswith("#")]
    assert lines[-1] == "CATEGORY=default"
    blocks = [block.split("\n") for block in "\n".join(lines[:-1]).split("CATEGORY=")[1:]]
    assume(not any("CATEGORY=" in each.category for each in sizes))
    written = [each for each in sizes if each.category.isprintable() and each.category.strip() == each.category != ""]
    assert len(blocks) == len(written)
    names = {"CORES": Resource.CORES, "MEMORY": Resource.MEMORY, "DISK": Resource.DISK}
    for each, (_, *settings) in zip(written, blocks, strict=True):
        pairs = [line.split("=") for line in settings if line]
        expect(each, {names[name]: (int(size),) for name, size in pairs}, UNITS["makeflow"], tuple(names.values()))


def test_the_real_makeflow_reads_the_first_rung_of_each_category(tool: ToolFinder, tmp_path: Path) -> None:
    odd = [
        "a b",
        "a  b",
        "#a",
        "a # b",
        '"a"',
        "'",
        '"',
        "$x",
        "$(x)",
        "\\",
        "a\\",
        "a:b=c",
        "@x",
        "-",
        "export",
        "a->b",
    ]
    sizes = [ALIGN, *(sized(name, f"{name}\nCORES=9 \\", memory=(float(MIB * n),)) for n, name in enumerate(odd, 1))]
    sizes += [sized(name, memory=(1.0,)) for name in ("two\nlines", "", " ", "a\0b")]
    text = EXPORTERS["makeflow"](sizes)
    assert makeflow_categories(tool, tmp_path, text) == {
        "align": {"cores": 4, "memory": 3200, "disk": 100},
        **{name: {"memory": n} for n, name in enumerate(odd, 1)},
    }
    assert text.count("left out") == 4


def test_the_real_makeflow_runs_a_workflow_below_its_categories(tool: ToolFinder, tmp_path: Path) -> None:
    sizes = [sized("small", cores=(1.0,), memory=(5e6, 9e6), disk=(5e6,))]
    rules = "CATEGORY=small\nout:\n\techo $CORES $MEMORY $DISK > out\n".replace("$", "\\$")
    (tmp_path / "w.makeflow").write_text(EXPORTERS["makeflow"](sizes) + rules)
    command = [tool("makeflow", "coop-computing-tools"), "-T", "local", "w.makeflow"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "out").read_text().split() == ["1", "5", "5"]


# Slurm


@given(many_sizes)
def test_sbatch_options_hold_every_rung_and_nothing_foreign(sizes: list[Sizes]) -> None:
    found = sbatch_ladders(EXPORTERS["sbatch"](sizes))
    assert len(found) == len(sizes)
    for each, ladders in zip(sizes, found, strict=True):
        expect(each, ladders, UNITS["sbatch"])


def test_sbatch_is_told_one_line_and_its_retries_are_comments() -> None:
    lines = EXPORTERS["sbatch"]([ALIGN]).splitlines()
    assert lines[-3:] == [
        "--cpus-per-task=4 --mem=3200M --time=0-01:20:00 --tmp=100M",
        "# retry 1: --cpus-per-task=4 --mem=8000M --time=1-00:00:00 --tmp=200M",
        "# retry 2: --cpus-per-task=4 --mem=62G --time=1-00:00:00 --tmp=200M",
    ]


def test_nothing_is_asked_of_slurm_as_zero() -> None:
    assert "--mem=1M" in EXPORTERS["sbatch"]([sized("a", memory=(0.0,))])


# What all comments have in common


@given(many_sizes)
@pytest.mark.parametrize("name", EXPORTERS)
def test_foreign_text_never_leaves_its_line(name: str, sizes: list[Sizes]) -> None:
    text = EXPORTERS[name](sizes)
    text.encode()  # a lone surrogate could not be written
    assert text.splitlines() == text.split("\n")[:-1]
    assert all(line.isprintable() for line in text.splitlines())
    comments = [line for line in text.splitlines() if line.lstrip().startswith(("#", "//"))]
    assert not any("\\" in line for line in comments)
    # Tonnage's own reader of Makeflow takes such a line for a note about the next rule.
    assert not any(line.startswith("# tonnage: ") for line in comments)


# What `tonnage size` writes is what it prints as JSON.


def names_and_ladders(tool: str, text: str) -> dict[str, Ladders]:
    """Read a file of any tool back, as ladders in its units by category."""
    if tool == "snakemake":
        return snakemake_ladders(text)
    if tool == "nextflow":
        return nextflow_ladders(text)
    names = re.findall(r"^# category (.*)$", text, re.MULTILINE)
    if tool == "makeflow":
        blocks = [re.split(r"\nCATEGORY=default", block)[0] for block in text.split("# category ")[1:]]
        found = [makeflow_ladders(block) for block in blocks]
    else:
        found = dagman_ladders(text) if tool == "dagman" else sbatch_ladders(text)
    return dict(zip(names, found, strict=True))


def makeflow_ladders(block: str) -> Ladders:
    found: Ladders = {}
    for name, resource in (("CORES", Resource.CORES), ("MEMORY", Resource.MEMORY), ("DISK", Resource.DISK)):
        rungs = re.findall(rf"\b{name}=(\d+)", block)
        if rungs:
            found[resource] = tuple(map(int, rungs))
    return found


JOBS = st.lists(
    st.tuples(
        st.sampled_from(["align", "sort", "merge"]),
        st.integers(1, 300_000),  # MB
        st.integers(1, 100_000),  # MB of disk
        st.integers(1, 64),
        st.integers(1, 200_000),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("tool", EXPORTERS)
@given(jobs=JOBS, machine=st.sampled_from([None, 301e9, 512 * 2.0**30, 300_001_000_001.0]), extra=st.data())
def test_what_is_written_is_what_json_says(
    tool: str, jobs: list[tuple[str, int, int, int, int]], machine: float | None, extra: st.DataObject
) -> None:
    attempts = [
        Attempt(
            category=category, used=Amounts.of(memory=memory * 1e6, disk=disk * 1e6, cores=cores, wall_time=seconds)
        )
        for category, memory, disk, cores, seconds in jobs
    ]
    plan = Plan(
        strategy=extra.draw(st.sampled_from(["auto", "max-seen", "min-waste", "quantized"])),
        machine={Resource.MEMORY: machine} if machine else {},
        tool=TOOLS[tool],
        headroom=extra.draw(st.sampled_from([0.0, 0.1])),
        unit=extra.draw(st.sampled_from([0.0, 5e7])),
    )
    found = size(collect(attempts).histories(), plan)
    said: dict[str, Ladders] = {}
    for facts in [one.facts() for one in found]:
        resource = Resource(str(facts["resource"]))
        if resource in UNITS[tool]:
            units = [Fraction(rung) / UNITS[tool][resource] for rung in facts["ladder"]]  # type: ignore[attr-defined]
            assert all(unit.denominator == 1 for unit in units), (resource, units)
            said.setdefault(str(facts["category"]), {})[resource] = tuple(map(int, units))
            if machine and resource is Resource.MEMORY:
                assert units[-1] * UNITS[tool][resource] <= machine
    assert names_and_ladders(tool, exported(tool, found)) == said
