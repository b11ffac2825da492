"""``tonnage pack`` as its users call it."""

from pathlib import Path

import pytest

from tests.command_line import Call, CommandLine, Said
from tests.pack.swf_logs import NODES, busy_jobs, busy_log, swf
from tonnage.pack import PACKERS
from tonnage.workflow import write
from tonnage.workflow.families import FAMILIES

ROOT = Path(__file__).parents[2]
TASKS = len(FAMILIES["epigenomics"].generate(60))


@pytest.fixture
def run(command_line: CommandLine, tmp_path: Path) -> Call:
    write(FAMILIES["epigenomics"].generate(60), tmp_path / "w.json")
    busy_log(tmp_path)

    def called(*words: str, status: int = 0, log: str = "busy.swf") -> Said:
        return command_line("pack", *words, "--queue", log, status=status)

    return called


def test_facts_of_the_plan_and_of_its_outcome(run: Call) -> None:
    facts = run("w.json", "--json").facts
    assert (facts["schema"], facts["strategy"]) == (1, "glume")
    assert facts["queue"]["nodes"] == NODES
    assert facts["reason"]
    assert facts["estimated_makespan_seconds"] > 0
    assert sum(job["tasks"] for job in facts["jobs"] if not job["cancelled"] and not job["expired"]) == TASKS
    assert max(job["ended_seconds"] for job in facts["jobs"]) == facts["makespan_seconds"]
    for job in facts["jobs"]:
        first, last = job["levels"]
        assert first <= last
        assert 1 <= job["nodes"] <= NODES
        assert job["started_seconds"] == job["submitted_seconds"] + job["wait_seconds"]
        assert job["ended_seconds"] <= job["started_seconds"] + job["requested_seconds"]
        assert job["estimated_wait_seconds"] >= 0


def test_all_strategies_side_by_side_say_what_each_says_alone(run: Call) -> None:
    facts = run("w.json", "--strategy", "all", "--at", "3d", "--json").facts
    assert tuple(one["strategy"] for one in facts["results"]) == tuple(PACKERS)
    assert facts["at_seconds"] == 3 * 86_400
    alone = run("w.json", "--strategy", "zhang", "--at", "3d", "--json").facts
    assert next(one for one in facts["results"] if one["strategy"] == "zhang").items() <= alone.items()
    table = run("w.json", "--strategy", "all", "--at", "3d").stdout
    assert all(name in table for name in tuple(PACKERS))


@pytest.mark.parametrize("strategy", tuple(PACKERS))
def test_a_table_and_a_chart_for_people(run: Call, strategy: str) -> None:
    said = run("w.json", "--strategy", strategy, "--requests", "real").stdout
    assert f"{strategy} first submits" in said
    assert "in the middle of the log" in said
    assert "█ running" in said
    assert max(map(len, said.splitlines())) <= 160
    chart = said.split("█ running")[1].splitlines()[1:]
    assert all(len(line) <= 100 and "█" in line for line in chart if line.strip() and not line.startswith("("))


def test_a_cap_on_jobs_in_the_system_is_kept(run: Call) -> None:
    jobs = run("w.json", "--strategy", "per-task", "--max-submitted", "3", "--json").facts["jobs"]
    for moment in {job["submitted_seconds"] for job in jobs}:
        assert sum(job["submitted_seconds"] <= moment < job["ended_seconds"] for job in jobs) <= 3


def test_a_cap_on_running_jobs_takes_the_place_of_the_usual_one(run: Call) -> None:
    words = ("w.json", "--strategy", "per-task", "--max-running", "2", "--json")
    jobs = run(*words).facts["jobs"]
    for moment in {job["started_seconds"] for job in jobs}:
        assert sum(job["started_seconds"] <= moment < job["ended_seconds"] for job in jobs) <= 2
    most = max(
        sum(job["submitted_seconds"] <= moment < job["ended_seconds"] for job in jobs)
        for moment in {job["submitted_seconds"] for job in jobs}
    )
    few = run(*words, "--max-submitted", "2").facts["jobs"]
    assert most > 2
    assert len(few) == len(jobs) == TASKS


def test_a_date_is_a_moment_where_the_log_has_dates(run: Call, tmp_path: Path) -> None:
    dated = run("w.json", "--at", "2001-09-12T00:00:00+00:00", "--json").facts
    assert dated["at_seconds"] == 1_000_252_800 - 1_000_000_000 - 5_000
    (tmp_path / "undated.swf").write_text(swf(busy_jobs(), start=None))
    refused = run("w.json", "--at", "2001-09-12", log="undated.swf", status=2).stderr
    assert "UnixStartTime" in refused
    assert "UTC" not in run("w.json", log="undated.swf").stdout


def test_other_kinds_of_queues_and_orders(run: Call) -> None:
    for words in (
        ("--policy", "easy"),
        ("--contiguous",),
        ("--order", "rank"),
        ("--order", "shortest"),
        ("--fudge", "1"),
        ("--nodes", "64"),
    ):
        assert run("w.json", *words, "--json").facts["makespan_seconds"] > 0


def test_what_is_left_out_of_a_log_is_said(run: Call, tmp_path: Path) -> None:
    jobs = busy_jobs()
    (tmp_path / "odd.swf").write_text(swf([*jobs[1:], jobs[0], (400_000, NODES + 1, 10, 10), (400_000, 1, 0, 0)]))
    said = run("w.json", log="odd.swf").stdout
    assert "left out: 1 line, wider than the machine" in said
    assert "left out: 1 line, no time" in said
    assert "1 line out of order" in said
    facts = run("w.json", "--json", log="odd.swf").facts
    assert facts["queue"]["left_out"] == {"no time": 1, "wider than the machine": 1}


def test_a_workflow_without_run_times_is_refused_by_name(run: Call, tmp_path: Path) -> None:
    (tmp_path / "bare.dag").write_text("JOB a a.sub\nJOB b b.sub\nPARENT a CHILD b\n")
    refused = run("bare.dag", status=2).stderr
    assert refused.startswith("tonnage: bare.dag: ")
    assert "run times" in refused


@pytest.mark.parametrize(
    "words",
    [
        ("w.json", "--strategy", "magic"),
        ("w.json", "--at", "400d"),
        ("w.json", "--at", "1999-01-01"),
        ("w.json", "--at", "2001-99-99"),
        ("w.json", "--at", "yesterday"),
        ("w.json", "--max-submitted", "0"),
        ("w.json", "--fudge", "0.5"),
        ("w.json", "--fudge", "nan"),
        ("w.json", "--nodes", "0"),
        ("w.json", "--node", ""),
        ("w.json", "--node", "disk=5GB"),
        ("w.json", "--node", "cores=4,disk=5GB"),
        ("absent.dag",),
    ],
)
def test_a_wrong_call_is_refused(run: Call, words: tuple[str, ...]) -> None:
    assert run(*words, status=2).stderr.startswith("tonnage: ")


@pytest.mark.parametrize("text", ["", "hello\n", "; MaxProcs: 4\n", "1 2 3\n"])
def test_what_is_no_log_is_refused(run: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.swf").write_text(text)
    assert run("w.json", log="odd.swf", status=2).stderr.startswith("tonnage: ")
    run("w.json", log="absent.swf", status=2)


def test_a_log_without_a_job_that_can_be_used_is_named_and_says_why(run: Call, tmp_path: Path) -> None:
    (tmp_path / "wide.swf").write_text(swf([(0, NODES + 1, 10, 10), (5, NODES + 1, 10, 10)]))
    said = "tonnage: wide.swf: has no usable job (2 lines: wider than the machine)\n"
    assert run("w.json", log="wide.swf", status=2).stderr == said
    (tmp_path / "bare.swf").write_text(swf([]))
    assert run("w.json", log="bare.swf", status=2).stderr == "tonnage: bare.swf: has no usable job\n"


@pytest.mark.parametrize("start", [10**18, 4 * 10**11])
def test_a_date_that_no_calendar_has_is_not_printed(run: Call, tmp_path: Path, start: int) -> None:
    (tmp_path / "odd.swf").write_text(swf(busy_jobs(), start=start))
    assert "UTC" not in run("w.json", log="odd.swf").stdout


def test_numbers_beyond_all_measure_do_no_harm(run: Call, tmp_path: Path) -> None:
    run("w.json", "--max-running", "9" * 30, "--max-submitted", "9" * 30)
    (tmp_path / "huge.swf").write_text(swf(busy_jobs(), nodes=10**18))
    assert "at most 10,000,000 are supported" in run("w.json", "--contiguous", log="huge.swf", status=2).stderr


def test_the_documentation_shows_what_is_printed(run: Call, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "pack.md").read_text()
    write(FAMILIES["epigenomics"].generate(120), tmp_path / "epigenomics.json")
    log = str(ROOT / "examples" / "queue.swf")
    words = next(line for line in page.splitlines() if line.startswith("$ tonnage pack")).split("queue.swf ")[1]
    said = run("epigenomics.json", *words.split(), log=log).stdout
    printed = page.split("```\n\n    ")[1].split("\n\nBelow")[0].replace("\n    ", "\n")
    assert printed in said
    facts = run("epigenomics.json", *words.split(), "--json", log=log).facts
    for name in ("makespan_seconds", "estimated_makespan_seconds", "node_hours_idle", "at_seconds"):
        assert f'"{name}": {facts[name]}' in page


def test_a_real_workflow_on_a_real_queue(run: Call, data: Path) -> None:
    workflow = data / "workflows" / "glume" / "GENOME_50_1800000.dax"
    log = data / "queues" / "kth-sp2.swf.gz"
    facts = run(str(workflow), "--at", "20d", "--strategy", "all", "--json", log=str(log)).facts
    assert facts["queue"]["jobs"] == 28_475
    least = min(one["makespan_seconds"] for one in facts["results"])
    assert least >= 17 * 3600
