"""What people see and paste: amounts in the units of their tool, and only what is worth changing."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tonnage
from tests.command_line import Call, CommandLine, Said
from tonnage.cli.tables import shortened
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.size import Plan, Sized, collect, size
from tonnage.size.export import EXPORTERS, exported, worth_changing
from tonnage.size.tools import TOOLS

MIB, GIB = 2**20, 2**30
PREFIX = "NFCORE_RNASEQ:RNASEQ"
PROCESSES = {  # name: asked, used, in MiB; seconds
    f"{PREFIX}:ALIGN_STAR:STAR_ALIGN": (36 * 1024, 21 * 1024, 7200),
    f"{PREFIX}:ALIGN_STAR:BAM_SORT_SAMTOOLS:BAM_STATS_SAMTOOLS:SAMTOOLS_STATS": (1024, 9, 60),
    f"{PREFIX}:FILTER_BAM_BAMTOOLS:BAM_SORT_SAMTOOLS:BAM_STATS_SAMTOOLS:SAMTOOLS_STATS": (1024, 9, 60),
    f"{PREFIX}:MARK_DUPLICATES_PICARD:BAM_STATS_SAMTOOLS:SAMTOOLS_STATS": (1024, 9, 60),
    f"{PREFIX}:QUANT:SALMON_TX2GENE": (6 * 1024, 7 * 1024, 300),
}


@pytest.fixture
def call(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.txt").write_text(trace())
    return partial(command_line, "size")


def trace() -> str:
    header = ["task_id", "hash", "name", "status", "exit", "realtime", "memory", "peak_rss", "cpus", "%cpu", "start"]
    lines = ["\t".join(header)]
    for process, (asked, used, seconds) in PROCESSES.items():
        for sample in range(20):
            number = len(lines)
            cells = [number, f"aa/{number:06}", f"{process} (s{sample})", "COMPLETED", 0, seconds * 1000, asked * MIB]
            lines.append("\t".join(map(str, [*cells, used * MIB, 4, "380%", 1_700_000_000_000])))
    return "\n".join(lines) + "\n"


SACCT = """\
JobIDRaw|JobID|JobName|User|State|ExitCode|Submit|Start|End|ElapsedRaw|AllocCPUS|ReqCPUS|ReqMem|AllocTRES|MaxRSS
1|1|sort|ada|COMPLETED|0:0|2026-11-15T21:00:00|2026-11-15T21:00:00|2026-11-15T22:00:00|3600|1|1|8G|cpu=1,mem=8G|
1.batch|1.batch|batch||COMPLETED|0:0|2026-11-15T21:00:00|2026-11-15T21:00:00|2026-11-15T22:00:00|3600|1||||3145728K
"""


def allocations(said: Said) -> dict[str, dict[str, Any]]:
    return {one["category"]: one for one in said.facts["allocations"] if one["resource"] == "memory"}


def test_amounts_are_in_the_units_of_the_tool_that_the_logs_come_from(call: Call) -> None:
    said = call("trace.txt", "--strategy", "max-seen", "--resource", "memory").stdout
    star = next(line for line in said.splitlines() if "STAR_ALIGN" in line)
    assert "36 GB" in star and "21 GB" in star
    assert "1 GB is 2^30 bytes here, as in Nextflow." in said
    found = allocations(call("trace.txt", "--strategy", "max-seen", "--json"))
    assert {int(one["ladder"][0]) for one in found.values()} == {21 * GIB, 256 * MIB, 7 * GIB}


def test_a_slurm_dump_is_in_the_units_of_slurm(call: Call) -> None:
    Path("jobs.txt").write_text(SACCT)
    said = call("jobs.txt", "--strategy", "max-seen", "--resource", "memory").stdout
    assert re.search(r"sort +1 +8 GB +3 GB +3 GB +5\.0 ", said)
    assert "as in Slurm" in said
    assert "--mem=3G\n" in call("jobs.txt", "--strategy", "max-seen", "--format", "sbatch").stdout


def test_logs_of_several_tools_are_in_the_usual_units(call: Call) -> None:
    Path("jobs.txt").write_text(SACCT)
    said = call("jobs.txt", "trace.txt", "--strategy", "max-seen", "--resource", "memory").stdout
    assert "38.7 GB" in said
    assert "2^30" not in said


def test_what_another_tool_would_get_is_printed_as_json(call: Call) -> None:
    words = ("trace.txt", "--strategy", "max-seen", "--resource", "memory", "--machine", "memory=64GB")
    own, other = allocations(call(*words, "--json")), allocations(call(*words, "--json", "--format", "snakemake"))
    name = f"{PREFIX}:MARK_DUPLICATES_PICARD:BAM_STATS_SAMTOOLS:SAMTOOLS_STATS"
    assert (own[name]["ladder"][0], other[name]["ladder"][0]) == (256 * MIB, 170e6)


def test_settings_hold_what_is_worth_changing_and_say_why(call: Call) -> None:
    said = call("trace.txt", "--strategy", "max-seen", "--format", "nextflow")
    assert re.findall("withName: '(.*)'", said.stdout) == [f"{PREFIX}:ALIGN_STAR:STAR_ALIGN"]
    comment = "// memory: asked 36 GB, used 21 GB at most; saves 600.0 GB*h; no retries in 20 jobs"
    assert comment in said.stdout
    assert "memory = { [21.GB, 36.GB][" in said.stdout
    assert "left out as not worth changing: 14 of 15 sizes; --all writes them" in said.stderr
    everything = call("trace.txt", "--strategy", "max-seen", "--format", "nextflow", "--all")
    assert set(re.findall("withName: '(.*)'", everything.stdout)) == set(PROCESSES)
    assert "left out" not in everything.stderr
    assert "memory: asked 6 GB, used 7 GB at most; adds 1.7 GB*h" in everything.stdout


def test_where_no_requests_are_known_everything_is_written(call: Call) -> None:
    Path("t.csv").write_text("category,memory,wall_time\nsmall,1MB,1\nlarge,9GB,9999\n")
    said = call("t.csv", "--format", "sbatch")
    assert re.findall("^# category (.*)", said.stdout, re.MULTILINE) == ["small", "large"]
    assert "--time=" in said.stdout
    assert "memory: used 8583 MB at most; no retries in 1 job" in said.stdout
    assert "saves" not in said.stdout  # each gets its largest peak
    assert "not worth" not in said.stderr


def test_jobs_that_ran_out_are_worth_changing(call: Call) -> None:
    header = "category,memory,wall_time,requested_memory,outcome,exhausted\n"
    Path("t.csv").write_text(header + "a,1GB,99999,9GB,done,\n" * 9 + "b,1GB,1,1GB,exhausted,memory\n")
    said = call("t.csv", "--format", "sbatch", "--resource", "memory").stdout
    assert re.findall("^# category (.*)", said, re.MULTILINE) == ["a", "b"]
    assert "asked 954 MB, used 954 MB at most; adds less than 0.1 GB*h; 1 ran out; no retries in 1 job" in said


def test_what_needs_more_is_never_called_a_saving(call: Call) -> None:
    said = call("trace.txt", "--strategy", "max-seen", "--resource", "memory").stdout
    total = "saves in total: 600.8 GB*h, compared with the current requests; adds 1.7 GB*h elsewhere"
    assert total in said
    assert re.search(r"TX2GENE +20 +6 GB +7 GB +7 GB +adds 1\.7 ", said)
    tx2gene = allocations(call("trace.txt", "--strategy", "max-seen", "--json"))[f"{PREFIX}:QUANT:SALMON_TX2GENE"]
    assert (tx2gene["saved"], tx2gene["added"]) == (0, pytest.approx(GIB * 20 * 300 / 3600e9))


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_and_no_two_rows_look_the_same(
    call: Call, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = call("trace.txt", "--resource", "memory").stdout.splitlines()
    table = lines[1 : 2 + len(PROCESSES)]
    assert max(map(len, table)) <= columns
    assert " ".join(table[0].split()).startswith("category jobs asked used give saves GB*h")
    names = {re.split(r" {2,}", line)[0] for line in table[1:]}
    assert len(names) == len(PROCESSES)
    assert any(name.endswith("STAR_ALIGN") for name in names)
    assert ("retried" in table[0]) == (columns == 120)


def test_the_memory_comes_first_and_what_stays_as_requested_is_only_counted(call: Call) -> None:
    said = call("trace.txt").stdout
    assert re.findall(r"^(memory|cores|wall_time):", said, re.MULTILINE) == ["memory", "cores", "wall_time"]
    assert f"cores: {len(PROCESSES)} categories stay as requested" in said
    everything = call("trace.txt", "--all").stdout
    assert "stay as requested" not in everything
    assert everything.count("STAR_ALIGN ") == 3


def test_all_rows_can_be_printed(call: Call) -> None:
    rows = "".join(f"c{number},{number}MB,10\n" for number in range(1, 60))
    Path("t.csv").write_text(f"category,memory,wall_time\n{rows}")
    assert "and 19 more; use --all to print all" in call("t.csv", "--resource", "memory").stdout
    said = call("t.csv", "--resource", "memory", "--all").stdout
    assert "more; use" not in said
    assert len(re.findall(r"^c\d+ ", said, re.MULTILINE)) == 59


def test_retries_get_clearly_more(call: Call) -> None:
    write_jobs("jobs.csv", range(8000, 16000, 100))
    for machine in ("memory=17GB", "memory=64GB", "memory=200GB"):
        for form in ("json", "nextflow", "snakemake"):
            (one,) = allocations(call("jobs.csv", "--machine", machine, "--json", "--format", form)).values()
            assert all(high >= 1.25 * low for low, high in pairwise(one["ladder"])) or len(one["ladder"]) == 2


def write_jobs(name: str, peaks: Iterable[int]) -> None:
    Path(name).write_text("category,memory,wall_time\n" + "".join(f"a,{peak}MB,60\n" for peak in peaks))


def test_cores_do_not_climb(call: Call) -> None:
    found = call("trace.txt", "--resource", "cores", "--json").facts["allocations"]
    assert {tuple(one["ladder"]) for one in found} == {(4,)}
    machine = call("trace.txt", "--resource", "cores", "--machine", "cores=9", "--json").facts["allocations"]
    assert all(len(one["ladder"]) == 1 for one in machine)


@pytest.mark.parametrize("strategy", ["auto", "max-seen", "declared", "whole-machine"])
def test_a_bucket_wins_over_the_rounding(call: Call, strategy: str) -> None:
    words = ("--machine", "memory=100GiB", "--declare", "memory=3333MiB", "--bucket", "48MiB", "--no-fair-share")
    found = allocations(call("trace.txt", "--strategy", strategy, *words, "--json"))
    rungs = [rung for one in found.values() for rung in one["ladder"][:-1]]
    assert all(rung % (48 * MIB) == 0 for rung in rungs)
    assert any(rung % (100 * MIB) for rung in rungs) or not rungs


def test_impossible_minima_and_headrooms_are_refused(call: Call) -> None:
    assert "memory cannot be 0" in call("trace.txt", "--minimum", "memory=0", status=2).stderr
    assert "is not a fraction" in call("trace.txt", "--headroom", "-1%", status=2).stderr
    assert "from 0% to 100%, not 1000%" in call("trace.txt", "--headroom", "10", status=2).stderr
    with pytest.raises(tonnage.InputError, match="from 0% to 100%"):
        tonnage.recommend("trace.txt", headroom=-1)


def test_python_programs_get_the_same(call: Call) -> None:
    found = tonnage.recommend("trace.txt", strategy="max-seen", minimum={"memory": "1GiB"}, headroom=0.1)
    words = ("trace.txt", "--strategy", "max-seen", "--minimum", "memory=1GiB", "--headroom", "10%")
    assert [one.facts() for one in found] == call(*words, "--json").facts["allocations"]
    assert "36 GB" in str(found)
    for tool in EXPORTERS:
        assert found.settings(tool) == call(*words, "--format", tool).stdout
        assert found.settings(tool, everything=True) == call(*words, "--format", tool, "--all").stdout


# Every tool, and any jobs.


def history(*peaks: float, requested: float | None = None, outcome: Outcome = Outcome.DONE) -> Iterator[Attempt]:
    for peak in peaks:
        yield Attempt(
            category="a",
            outcome=outcome,
            exhausted=None if outcome is Outcome.DONE else Resource.MEMORY,
            requested=Amounts.of(memory=requested),
            used=Amounts.of(memory=peak, wall_time=600),
        )


def memory_of(attempts: Iterator[Attempt], plan: Plan) -> Sized:
    (found,) = (one for one in size(collect(attempts).histories(), plan) if one.decision.resource == "memory")
    return found


@pytest.mark.parametrize(
    ("tool", "least"),
    [(name, 170e6 if name == "snakemake" else 256.0 * MIB) for name in TOOLS],
)
@pytest.mark.parametrize("strategy", ["auto", "ladder", "max-seen", "min-waste", "k-means", "percentile"])
def test_every_tool_has_its_minimum_and_its_headroom(tool: str, least: float, strategy: str) -> None:
    plan = Plan(strategy=strategy, tool=TOOLS[tool])
    assert memory_of(history(*[9e6] * 5), plan).decision.amount == least
    raised = Plan(strategy=strategy, tool=TOOLS[tool], minimum={Resource.MEMORY: 500.0 * MIB})
    given = memory_of(history(*[9e6] * 5), raised).decision.amount
    assert 500 * MIB <= given < 500 * MIB + TOOLS[tool].megabyte
    generous = Plan(strategy=strategy, tool=TOOLS[tool], headroom=0.5)
    assert memory_of(history(*[8e9] * 50), generous).decision.amount >= 12e9


def test_snakemakes_own_process_is_added() -> None:
    one = memory_of(history(8e9, 8e9, requested=20e9), Plan(strategy="max-seen", tool=TOOLS["snakemake"]))
    assert (one.decision.amount, one.used) == (8.2e9, 8e9)
    assert one.decision.expected_retries == 0
    smaller = memory_of(history(7.8e9, 7.8e9, 8e9), Plan(strategy="percentile", share=0.5, tool=TOOLS["snakemake"]))
    assert smaller.decision.ladder[:2] == (8e9, 8.2e9)
    assert smaller.decision.expected_retries == pytest.approx(1 / 3)  # 8 GB and 150 MB do not fit into 8 GB


@given(
    jobs=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 10**12), st.integers(1, 10**12), st.integers(0, 10**6)),
        min_size=1,
        max_size=20,
    ),
    known=st.booleans(),
    tool=st.sampled_from([*TOOLS, None]),
    strategy=st.sampled_from(["auto", "max-seen", "min-waste", "declared"]),
)
def test_savings_are_never_negative_and_small_changes_are_left_out(
    jobs: list[tuple[str, int, int, int]], known: bool, tool: str | None, strategy: str
) -> None:
    attempts = [
        Attempt(
            category=category,
            requested=Amounts.of(memory=asked) if known else Amounts(),
            used=Amounts.of(memory=used, wall_time=seconds),
        )
        for category, used, asked, seconds in jobs
    ]
    declared = {Resource.MEMORY: 4e9}
    plan = Plan(strategy=strategy, declared=declared, tool=TOOLS[tool] if tool else None)
    found = size(collect(attempts).histories(), plan)
    assert all(one.saved >= 0 and one.added >= 0 and not (one.saved and one.added) for one in found)
    chosen = worth_changing(found)
    if known:
        memory = [one for one in found if one.decision.resource == "memory"]
        total = sum(one.saved for one in memory)
        assert sum(one.saved for one in memory if one not in chosen) <= 0.01 * total * len(memory)
    for name in EXPORTERS:
        assert "saves -" not in exported(name, found)
    if not known:
        assert chosen == found


@given(names=st.lists(st.text("abAB:./_é", max_size=60), max_size=12), room=st.integers(16, 40))
def test_shortened_names_stay_different_and_fit(names: list[str], room: int) -> None:
    short = shortened(names, room)
    assert len(set(short)) == len(set(names))
    assert all(len(one) <= room for one in short)
    assert len(short) == len(names)
    if all(len(one) <= room for one in names):
        assert short == names


def test_names_lose_what_they_have_in_common_and_then_their_middle() -> None:
    assert shortened(list(PROCESSES), 34) == [
        "…ALIGN_STAR:STAR_ALIGN",
        "…ALIGN_STAR…AMTOOLS:SAMTOOLS_STATS",
        "…FILTER_BAM…AMTOOLS:SAMTOOLS_STATS",
        "…MARK_DUPLI…AMTOOLS:SAMTOOLS_STATS",
        "…QUANT:SALMON_TX2GENE",
    ]
