"""``tonnage size`` as its users call it."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Call, CommandLine, Said

KEYS = {
    "category",
    "resource",
    "strategy",
    "samples",
    "ladder",
    "expected_waste",
    "expected_retries",
    "reason",
    "largest",
    "used",
    "requested",
    "left_out",
    "ran_out",
    "saved",
    "added",
    "saved_unit",
    "saved_against",
    "warnings",
    "notes",
}
GB = 1e9


@pytest.fixture
def size(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call ``tonnage size`` in the folder that `table` writes to."""
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "size")


@pytest.fixture
def archive(command_line: CommandLine) -> Call:
    return partial(command_line, "archive", "import")


def allocations(said: Said) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said.facts["allocations"]
    return found


def table(name: str, header: str, rows: Iterable[Iterable[object]]) -> str:
    Path(name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return name


@pytest.fixture
def jobs(size: Call) -> str:
    """A table of two categories: memory in MB, times in seconds."""
    rows = [("align", 3000 + 100 * number, 100 + number, 8000, 0) for number in range(20)]
    rows += [("sort", 500, 10, 8000, 0), ("sort", 700, 20, 8000, 0), ("sort", 7900, 20, 8000, 1)]
    return table("jobs.csv", "category,memory,wall_time,requested_memory,exit_status", rows)


def test_json_has_the_keys_that_scripts_rely_on(size: Call, jobs: str) -> None:
    found = allocations(size(jobs, "--json"))
    assert [(one["resource"], one["category"]) for one in found[:2]] == [("memory", "align"), ("memory", "sort")]
    assert {(one["resource"], one["category"]) for one in found[2:]} == {("wall_time", "align"), ("wall_time", "sort")}
    assert all(set(one) == KEYS for one in found)
    memory = found[0]
    assert (memory["strategy"], memory["samples"], memory["left_out"]) == ("auto", 20, 0)
    assert 3 * GB <= memory["ladder"][0] < memory["ladder"][-1]
    assert 0 < memory["expected_waste"] < 0.5
    assert 0 <= memory["expected_retries"] < 1
    assert memory["reason"].startswith("auto of 20 jobs: ")
    assert (memory["saved_unit"], memory["saved_against"]) == ("GB*h", "requested")
    assert found[2]["saved"] is None
    assert allocations(size(jobs, "--format", "json")) == found


def test_what_is_expected_and_saved_is_what_jobs_would_have_paid(size: Call, jobs: str) -> None:
    (align, sort) = allocations(size(jobs, "--strategy", "max-seen", "--resource", "memory", "--json"))
    assert align["ladder"] == [4.9 * GB, 8 * GB], "what they requested is known to fit somewhere; twice as much is not"
    seconds = sum(100 + number for number in range(20))
    used = sum((3 + number / 10) * (100 + number) for number in range(20))
    assert align["expected_waste"] == pytest.approx(1 - used / (4.9 * seconds))
    assert align["expected_retries"] == 0
    assert align["saved"] == pytest.approx((8 - 4.9) * seconds / 3600)
    assert sort["ladder"] == [0.7 * GB, 1.4 * GB]
    assert sort["saved"] == pytest.approx((8 - 0.7) * 30 / 3600)


def test_without_requests_savings_compare_with_the_largest_peak(size: Call) -> None:
    source = table("t.csv", "category,memory,wall_time", [("a", 100, 3600)] * 9 + [("a", 1000, 3600)])
    (one,) = allocations(size(source, "--strategy", "min-waste", "--resource", "memory", "--json"))
    assert one["ladder"] == [1e8, 1e9, 2e9]
    assert one["saved_against"] == "max-seen"
    assert one["saved"] == pytest.approx(10 * 1 - (9 * 0.1 + 0.1 + 1))
    assert one["expected_retries"] == pytest.approx(0.1)


def test_a_table_for_people(size: Call, jobs: str) -> None:
    said = size(jobs, "--strategy", "max-seen").stdout
    memory, times = said.split("\n\n")
    title, header, align, _, total = memory.splitlines()
    assert title == "memory:"
    words = "category jobs asked used give saves GB*h wasted retried then"
    assert " ".join(header.split()) == words
    assert " ".join(align.split()) == "align 20 8 GB 4.9 GB 4.9 GB 1.9 18.8% 0.0% 8 GB"
    assert total == "saves in total: 1.9 GB*h, compared with the current requests"
    assert times.splitlines()[1].split() == ["category", "jobs", "asked", "used", "give", "then"]


def test_a_reason_is_given_on_demand(size: Call, jobs: str) -> None:
    assert "max-seen of" not in size(jobs, "--strategy", "max-seen").stdout
    said = size(jobs, "--strategy", "max-seen", "--explain").stdout
    reason = "max-seen of 20 jobs: 100% stay within 4.9 GB, the largest needed 4.9 GB; 19% wasted (max-seen: 19%)"
    assert f"align, memory: {reason}" in said
    assert "  left out, not finished or not measured: 1" in said
    assert "  few jobs to learn from: 2" in said


def test_jobs_that_did_not_finish_are_left_out_and_counted(size: Call, jobs: str) -> None:
    sort = allocations(size(jobs, "--strategy", "max-seen", "--resource", "memory", "--json"))[1]
    assert (sort["samples"], sort["left_out"], sort["ladder"][0]) == (2, 1, 0.7 * GB)
    assert "left out, not finished or not measured: 1" in sort["notes"]


def test_all_jobs_as_one(size: Call, jobs: str) -> None:
    (one,) = allocations(size(jobs, "--by", "none", "--resource", "memory", "--json"))
    assert (one["category"], one["samples"]) == ("all", 22)


def test_any_field_can_be_what_a_category_is(size: Call) -> None:
    rows = [("a", 100 * number, 10, f"p{number % 2}") for number in range(1, 21)]
    source = table("t.csv", "category,memory,wall_time,project", rows)
    found = allocations(size(source, "--by", "project", "--resource", "memory", "--strategy", "max-seen", "--json"))
    assert {one["category"]: one["ladder"][0] for one in found} == {"p0": 2e9, "p1": 1.9e9}
    assert 'no job has a field "colour"' in size(source, "--by", "colour", status=2).stderr


def test_a_machine_that_is_too_small_is_an_error(size: Call, jobs: str) -> None:
    said = size(jobs, "--machine", "memory=4GB", status=2)
    assert said.stdout == ""
    assert 'category "align"' in said.stderr
    assert "4.9 GB of memory" in said.stderr
    assert "the largest machine has only 4 GB" in said.stderr


@pytest.mark.parametrize("strategy", ["min-waste", "max-seen", "max-throughput", "whole-machine"])
def test_an_objective_needs_a_strategy_that_can_serve_it(size: Call, jobs: str, strategy: str) -> None:
    said = size(jobs, "--objective", "throughput", "--strategy", strategy, status=2)
    assert f"--objective cannot be used with the strategy {strategy}" in said.stderr
    assert "auto and ladder" in said.stderr


def test_an_objective_changes_what_is_chosen(size: Call) -> None:
    rows = [("a", peak, 10) for peak in [100] * 3 + [4000] * 87 + [10000] * 10]
    source = table("t.csv", "category,memory,wall_time", rows)
    words = (source, "--strategy", "ladder", "--resource", "memory", "--json")
    (waste,), (throughput,) = (allocations(size(*words, "--objective", name)) for name in ("waste", "throughput"))
    assert allocations(size(*words)) == [waste]
    assert waste["ladder"][:3] == [1e8, 4e9, 1e10]
    assert throughput["ladder"][:2] == [4e9, 1e10]


@pytest.mark.parametrize(("peak", "share"), [(30, 32), (40, 64), (32, 32), (64, 64), (21, 21), (19, 21), (16, 16)])
def test_a_job_gets_its_fair_share_of_the_machine(size: Call, peak: int, share: float) -> None:
    source = table("t.csv", "category,memory,wall_time", [("a", 1000 * peak, 100)] * 12)
    words = (source, "--machine", "memory=64GB", "--strategy", "max-seen", "--resource", "memory", "--json")
    (one,) = allocations(size(*words))
    assert one["ladder"][0] == share * GB
    assert one["ladder"][-1] == 64 * GB
    (plain,) = allocations(size(*words, "--no-fair-share"))
    assert plain["ladder"][0] == peak * GB


def test_ladders_rise_and_end_at_the_machine(size: Call, jobs: str) -> None:
    found = allocations(size(jobs, "--machine", "memory=64GiB,wall_time=1d", "--json"))
    for one in found:
        assert one["ladder"] == sorted(set(one["ladder"]))
        assert one["ladder"][-1] == (64 * 2**30 if one["resource"] == "memory" else 86400)


@pytest.mark.parametrize("strategy", ["auto", "ladder", "min-waste", "percentile", "regression", "doubling"])
@pytest.mark.parametrize("machine", ["cores=16", "cores=12", "cores=1000"])
def test_cores_are_whole(size: Call, strategy: str, machine: str) -> None:
    rows = [("a", cores / 4, 100, 1000 + cores) for cores in range(1, 30)]
    source = table("t.csv", "category,cores,wall_time,input_bytes", rows)
    (one,) = allocations(size(source, "--strategy", strategy, "--resource", "cores", "--machine", machine, "--json"))
    assert all(rung == int(rung) >= 1 for rung in one["ladder"])


def test_use_that_follows_the_request_is_said_and_not_shrunk(size: Call) -> None:
    requests = [4000, 8000, 16000, 8000, 8000, 4000, 32000, 8000, 16000, 8000, 8000]
    source = table("t.csv", "category,memory,wall_time,requested_memory", [("java", r * 0.8, 60, r) for r in requests])
    (one,) = allocations(size(source, "--resource", "memory", "--json"))
    assert one["strategy"] == "requested"
    assert one["ladder"][:2] == [8 * GB, 32 * GB]
    assert "use follows the request" in one["warnings"][0]
    assert "java, memory: use follows the request" in size(source, "--resource", "memory").stdout
    declared = size(source, "--resource", "memory", "--strategy", "declared", "--declare", "memory=9GB", "--json")
    assert allocations(declared)[0]["ladder"][0] == 9 * GB


@pytest.mark.parametrize(
    ("requests", "share"),
    [([8000] * 12, 0.8), ([4000, 8000, 16000, 32000] * 3, None)],
    ids=["requests are all alike", "use is the same whatever is requested"],
)
def test_use_is_not_said_to_follow_where_nobody_can_tell(size: Call, requests: list[int], share: float | None) -> None:
    rows = [("a", r * share if share else 3000, 60, r) for r in requests]
    source = table("t.csv", "category,memory,wall_time,requested_memory", rows)
    (one,) = allocations(size(source, "--resource", "memory", "--json"))
    assert one["strategy"] == "auto"
    assert not one["warnings"]


@pytest.mark.parametrize("strategy", ["auto", "min-waste", "max-throughput", "ladder"])
def test_a_wall_time_is_a_guarantee(size: Call, strategy: str) -> None:
    rows = [("a", 100, seconds) for seconds in range(100, 200)]
    source = table("t.csv", "category,memory,wall_time", rows)
    (one,) = allocations(size(source, "--strategy", strategy, "--resource", "wall_time", "--json"))
    assert one["strategy"] == "guarantee"
    assert one["ladder"] == [600]  # people write down no less, and no odd seconds
    assert one["expected_retries"] == 0
    (named,) = allocations(size(source, "--strategy", "percentile", "--resource", "wall_time", "--json"))
    assert (named["strategy"], named["ladder"][0]) == ("percentile", 600)


def test_queues_are_compared(size: Call) -> None:
    source = table("t.csv", "category,memory,wall_time", [("a", 100, 3600)] * 9 + [("a", 100, 36000)])
    facts = size(source, "--queues", "long=20h,short=2h", "--json").facts
    assert [(one["category"], one["queue"], one["seconds"], one["fits"], one["pays"]) for one in facts["queues"]] == [
        ("a", "short", 7200, 0.9, True),
        ("a", "long", 72000, 1, False),
    ]
    assert facts["queues"][0]["throughput"] == pytest.approx(91 / 21 * 19 / 10)
    assert "queues" not in size(source, "--json").facts
    assert "best" in size(source, "--queues", "long=20h", "--queues", "short=2h").stdout


def test_every_kind_of_source_gives_the_same_answer(size: Call, archive: Call, jobs: str, tmp_path: Path) -> None:
    archive(jobs, "--archive", "jobs.db")
    (tmp_path / "folder").mkdir()
    shutil.copy(jobs, "folder")
    expected = allocations(size(jobs, "--json"))
    for source in ("folder", "jobs.db", f"sqlite:///{tmp_path}/jobs.db"):
        assert allocations(size(source, "--json")) == expected
    assert allocations(size("jobs.db", "--by", "none", "--json")) == allocations(size(jobs, "--by", "none", "--json"))
    few = ("--where", "memory>4GB", "--json")
    assert allocations(size("jobs.db", *few)) == allocations(size(jobs, *few)) != expected
    assert allocations(size("-", "--json", stdin=Path(jobs).read_text())) == expected


def test_fields_that_were_given_at_the_import_are_categories_too(size: Call, archive: Call, jobs: str) -> None:
    archive(jobs, "--archive", "jobs.db", "--field", "project=atlas")
    (one,) = allocations(size("jobs.db", "--by", "project", "--resource", "memory", "--json"))
    assert (one["category"], one["samples"]) == ("atlas", 22)


@pytest.fixture
def mixed(size: Call) -> str:
    rows = [("a", 300, 100, "rss" if number % 2 else "pss", 0) for number in range(12)]
    rows += [("b", 300, 100, "rss", 0)] * 11 + [("b", 100, 100, "pss", 1)]
    return table("mixed.csv", "category,memory,wall_time,memory_method,exit_status", rows)


def test_memory_that_was_measured_in_different_ways_is_said(size: Call, archive: Call, mixed: str) -> None:
    archive(mixed, "--archive", "mixed.db")
    for source in (mixed, "mixed.db"):
        one = next(one for one in allocations(size(source, "--json")) if one["category"] == "a")
        assert one["warnings"] == ["memory was measured in different ways: pss (6), rss (6)"]


def test_how_memory_of_jobs_was_measured_that_are_left_out_does_not_matter(size: Call, mixed: str) -> None:
    one = next(one for one in allocations(size(mixed, "--json")) if one["category"] == "b")
    assert one["warnings"] == []


def test_inputs_that_tell_more_are_said(size: Call) -> None:
    rows = [("a", 100 + 10 * number, 60, number * 10**6) for number in range(1, 40)]
    source = table("t.csv", "category,memory,wall_time,input_bytes", rows)
    (one,) = allocations(size(source, "--resource", "memory", "--json"))
    assert any("they predict more" in note and "linear" in note for note in one["notes"])


def test_amounts_can_be_rounded_up(size: Call, jobs: str) -> None:
    for strategy in ("min-waste", "auto"):
        words = ("--strategy", strategy, "--bucket", "500MB", "--resource", "memory", "--json")
        for one in allocations(size(jobs, *words)):
            assert all(rung % 5e8 == 0 for rung in one["ladder"][:-1])


def test_what_is_not_known_of_any_job_is_an_error(size: Call) -> None:
    source = table("t.csv", "category,memory,wall_time,exit_status", [("a", "NA", 5, 0), ("a", 5, 5, 1)])
    said = size(source, "--resource", "memory", status=2).stderr
    assert "1 of 2 jobs finished, but none has measurements of memory" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--machine", "memory=0"], "memory cannot be 0"),
        (["--machine", "memory=lots"], "not an amount of bytes"),
        (["--machine", "gold=3"], '"gold" is not a resource'),
        (["--machine", "memory"], "has no amount"),
        (["--strategy", "doubling"], "needs to know how much"),
        (["--strategy", "declared"], "needs declared amounts"),
        (["--strategy", "magic"], "magic"),
        (["--strategy", "percentile", "--percentile", "1.5"], "share of the jobs"),
        (["--strategy", "quantized", "--buckets", "0"], "buckets"),
        (["--queues", "short=0"], "cannot be 0"),
        (["--queues", "short=soon"], "not a time"),
        (["--format", "yaml"], "yaml"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_with_it(size: Call, jobs: str, words: list[str], said: str) -> None:
    assert said in size(jobs, *words, status=2).stderr


@pytest.mark.parametrize("verb", ["size", "replay size"])
def test_help_answers_without_loading_what_sizing_needs(verb: str) -> None:
    code = (
        f"import sys; from tonnage.cli import main; main({[*verb.split(), '--help']!r}); "
        "print(sorted({'numpy', 'numba', 'sqlalchemy', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "Example: tonnage" in done.stdout


# Found while these tests were written.


def test_jobs_that_use_no_disk_are_sized_for_throughput(size: Call) -> None:
    source = table("t.csv", "category,memory,disk,wall_time", [("a", 5, 0, 10)] * 5)
    size(source, "--objective", "throughput")


@pytest.mark.parametrize("requests", [[20, 30, 40, 60, 80, 100] * 2, [70, 80, 90, 100, 120] * 2])
def test_no_job_gets_more_than_the_machine_has_whatever_was_requested(size: Call, requests: list[int]) -> None:
    rows = [("a", 500 * r, 100, 1000 * r) for r in requests]
    source = table("t.csv", "category,memory,wall_time,requested_memory", rows)
    (one,) = allocations(size(source, "--machine", "memory=64GB", "--resource", "memory", "--json"))
    assert one["ladder"][-1] <= 64 * GB


def test_no_job_gets_more_cores_than_the_machine_has(size: Call) -> None:
    source = table("t.csv", "category,cores,wall_time", [("a", cores, 100) for cores in (1, 1, 2, 1, 2)])
    (one,) = allocations(size(source, "--machine", "cores=2.5", "--resource", "cores", "--json"))
    assert one["ladder"][-1] <= 2.5


@pytest.mark.parametrize("half_life", ["0.0001", "-1", "nan"])
def test_an_impossible_half_life_is_an_error(size: Call, jobs: str, half_life: str) -> None:
    assert "half-life" in size(jobs, "--strategy", "min-waste", "--half-life", half_life, status=2).stderr


@pytest.mark.parametrize("strategy", ["min-waste", "max-throughput"])
def test_jobs_without_run_times_are_not_all_retried(size: Call, strategy: str) -> None:
    source = table("t.csv", "category,memory,wall_time", [("a", 500, 0), *[("a", 900, 0)] * 18, ("a", 1000, 0)])
    (one,) = allocations(size(source, "--strategy", strategy, "--resource", "memory", "--json"))
    assert one["expected_retries"] < 0.5


EXHAUSTED = "category,task,memory,wall_time,requested_memory,outcome,exhausted"


def test_jobs_that_ran_out_count_as_needing_twice_what_they_had(size: Call) -> None:
    rows = [("a", f"t{n}", 3000 + 10 * n, 100, 4000, "done", "") for n in range(50)]
    rows += [("a", f"u{n}", 3990, 100, 4000, "exhausted", "memory") for n in range(30)]
    source = table("t.csv", EXHAUSTED, rows)
    (one,) = allocations(size(source, "--strategy", "max-seen", "--resource", "memory", "--json"))
    assert (one["samples"], one["left_out"], one["ladder"][0]) == (80, 0, 8 * GB)
    assert one["warnings"] == ["30 jobs ran out of memory: assumed to need twice what they had"]
    assert "a, memory: 30 jobs ran out of memory" in size(source, "--resource", "memory").stdout
    (small,) = allocations(size(source, "--strategy", "max-seen", "--machine", "memory=6GB", "--json"))[:1]
    assert small["ladder"] == [6 * GB]  # nobody can get more


def test_a_job_that_ran_out_and_then_finished_counts_once(size: Call, archive: Call) -> None:
    rows = [("a", "t", 3990, 100, 4000, "exhausted", "memory"), ("a", "t", 4500, 100, 8000, "done", "")]
    source = table("t.csv", EXHAUSTED, rows)
    archive(source, "--archive", "a.db")
    for one in (source, "a.db"):
        (found,) = allocations(size(one, "--strategy", "max-seen", "--resource", "memory", "--json"))
        assert (found["samples"], found["ladder"][0], found["warnings"]) == (1, 4.5 * GB, [])


def test_cores_are_averaged_where_nobody_measured_the_peak(size: Call) -> None:
    source = table("t.csv", "category,cpu_time,wall_time", [("a", 250 + n, 100) for n in range(12)])
    (one,) = allocations(size(source, "--resource", "cores", "--json"))
    assert one["ladder"][0] == 3
    assert any("average" in note for note in one["notes"])


def test_auto_writes_down_few_rungs_that_are_well_apart(size: Call) -> None:
    rows = [("a", 100 * 1.3**number, 100) for number in range(24) for _ in range(24 - number)]
    source = table("t.csv", "category,memory,wall_time", rows)
    (one,) = allocations(size(source, "--resource", "memory", "--machine", "memory=256GB", "--json"))
    ladder = one["ladder"]
    assert 2 <= len(ladder) <= 4
    assert all(high >= 1.25 * low for low, high in pairwise(ladder[:-1]))
    assert ladder[-1] == 256 * GB


def test_an_attempt_that_costs_more_is_avoided(size: Call) -> None:
    rows = [("a", 1000, 100)] * 60 + [("a", 3000, 100)] * 40
    source = table("t.csv", "category,memory,wall_time", rows)
    cheap, dear = (
        allocations(size(source, "--strategy", "ladder", "--attempt-cost", part, "--resource", "memory", "--json"))[0]
        for part in ("0%", "100%")
    )
    assert (cheap["expected_retries"], dear["expected_retries"]) == (0.4, 0)
    assert "is not a fraction" in size(source, "--attempt-cost", "much", status=2).stderr


def test_the_newest_jobs_count_most_whatever_their_order_in_the_log(size: Call, archive: Call) -> None:
    rows = [("a", 9000 if n < 50 else 1000, 100, 1_700_000_000 + n) for n in range(100)]
    words = ("--half-life", "5", "--strategy", "max-seen", "--resource", "memory", "--json")
    forward = table("f.csv", "category,memory,wall_time,ended", rows)
    backward = table("b.csv", "category,memory,wall_time,ended", rows[::-1])
    archive(backward, "--archive", "a.db")
    assert [allocations(size(one, *words))[0]["ladder"][0] for one in (forward, backward, "a.db")] == [GB] * 3


def test_a_little_less_is_given_where_one_more_job_fits_then(size: Call) -> None:
    source = table("t.csv", "category,memory,wall_time", [("a", 12_900, 100)] * 20)
    words = ("--strategy", "max-seen", "--resource", "memory", "--machine", "memory=64GB", "--json")
    assert allocations(size(source, *words))[0]["ladder"][:2] == [12.8 * GB, 26 * GB]


def test_no_queue_pays_in_which_nothing_ends(size: Call) -> None:
    source = table("t.csv", "category,memory,wall_time", [("a", 100, 3600)] * 5)
    facts = size(source, "--queues", "short=10m,long=30m", "--json").facts
    assert not any(one["pays"] for one in facts["queues"])


def test_what_is_expected_is_expected_of_the_jobs_that_count(size: Call) -> None:
    rows = [("a", 9000 if n < 50 else 1000, 100, 1_700_000_000 + n) for n in range(100)]
    source = table("t.csv", "category,memory,wall_time,ended", rows)
    (one,) = allocations(size(source, "--half-life", "5", "--strategy", "max-seen", "--resource", "memory", "--json"))
    assert one["expected_retries"] < 0.01


def test_thousands_of_categories_are_sized(size: Call) -> None:
    source = table("t.csv", "category,memory,wall_time", [(f"c{n}", 100 + n, 10) for n in range(3000)])
    words = ("--strategy", "max-seen", "--resource", "memory", "--machine", "memory=64GB", "--json")
    assert len(allocations(size(source, *words))) == 3000


def test_jobs_can_be_grouped_by_where_they_come_from(size: Call, jobs: str) -> None:
    other = table("other.csv", "category,memory,wall_time", [("a", 100, 10)] * 3)
    found = allocations(size(jobs, other, "--by", "source", "--resource", "memory", "--strategy", "max-seen", "--json"))
    assert {(one["category"], one["samples"]) for one in found} == {("jobs", 22), ("other", 3)}


def test_a_log_without_jobs_is_an_error_that_says_so(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("category,memory,wall_time\n")
    assert "no jobs that ran" in command_line("size", "none.csv", status=2).stderr
    (tmp_path / "one.csv").write_text("category,memory,wall_time\na,1GB,1s\n")
    assert "no jobs that ran" in command_line("size", "one.csv", "--where", "memory>2GB", status=2).stderr
