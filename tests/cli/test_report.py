"""``tonnage report`` as its users call it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import CommandLine, Said
from tests.deadlines import HANGS
from tests.report.journals import GB, Try, many, write_run
from tests.report.runs import made_place, run_it
from tests.run.cli_runs import Place
from tests.waiting import until
from tonnage.jobs import Outcome, Resource

LOG = "task,category,started,ended,memory,requested_memory,outcome\n" + "".join(
    f"t{number},{'ab'[number % 2]},2026-01-01T00:{number:02}:00Z,2026-01-01T01:00:00Z,{number + 1}GB,32GB,done\n"
    for number in range(20)
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "w").mkdir()
    return Place(tmp_path / "w")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, dict[str, object]]:
    place = made_place(tmp_path_factory.mktemp("run"))
    return place, run_it(place)


@pytest.fixture
def run(ran: tuple[Place, dict[str, object]]) -> Place:
    return ran[0]


def report(place: Place, *arguments: object, folder: Path | None = None, status: int = 0) -> Said:
    call = CommandLine(folder or place.folder, place.environment)
    return call("report", *arguments, status=status)


def page(place: Place, name: str = "report.html") -> str:
    return (place.folder / name).read_text()


def text_of(page: str) -> str:
    """Return what stands on the page, without scripts, tags and entities."""
    plain = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    for one, other in (("&#39;", "'"), ("&#34;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        plain = plain.replace(one, other)
    return " ".join(plain.split())


def test_the_last_run_becomes_a_page_beside_it(run: Place) -> None:
    said = report(run)
    assert "report.html: " in said.stdout
    found = text_of(page(run))
    assert "5 of 5 tasks done" in found
    for heading in ("Summary", "What to change", "Over time", "Categories", "Retries", "Workflow", "Peaks", "Tasks"):
        assert heading in found
    for name in ("Critical path", "The workflow", "Most wasteful, by GB*h of memory", "Slowest, by run time"):
        assert name in found


def test_the_end_of_a_run_says_how_to_draw_it(tmp_path: Path) -> None:
    place = Place(tmp_path / "w")
    place.write("w.makeflow", "out:\n\techo > out\n")
    said = place.call("run", "w.makeflow", "--quiet")
    id = place.runs()[0].id
    assert f"tonnage report {id} shows what ran when" in said.stdout
    report(place, id, "-o", "by-id.html")
    outside = place.call("run", "w/w.makeflow", "--new", "--quiet", cwd=tmp_path)
    told = re.search(r"tonnage report (\S+) shows what ran when", outside.stdout)
    assert told is not None
    report(place, told[1], "-o", "elsewhere.html", folder=tmp_path)


def test_every_decision_stands_in_the_report_with_the_reason_that_the_journal_has(run: Place) -> None:
    report(run, "last")
    found = text_of(page(run))
    best: dict[tuple[str, Resource], tuple[int, str]] = {}
    for row in run.rows():
        for one in row.decisions:
            before = best.get((row.category, one.resource))
            if before is None or one.samples >= before[0]:
                best[row.category, one.resource] = one.samples, one.reason
    assert {resource for _, resource in best} >= {Resource.MEMORY, Resource.CORES}
    for (_, resource), (_, reason) in best.items():
        if resource in (Resource.MEMORY, Resource.CORES, Resource.DISK):
            assert f"Why: {reason}." in found


def test_the_facts_are_those_that_the_run_printed(ran: tuple[Place, dict[str, object]]) -> None:
    place, printed = ran
    facts = report(place, "--json").facts
    assert facts["schema"] == 1
    for name in ("tasks", "done", "attempts"):
        assert facts[name] == printed[name]
    assert facts["makespan_seconds"] == pytest.approx(printed["makespan_seconds"])
    for name in ("waste_fraction", "given", "used", "whole_machine", "max_seen"):
        assert facts[name] == pytest.approx(printed[name])


def test_the_critical_path_is_what_the_tasks_of_the_longest_chain_took(run: Place) -> None:
    facts = report(run, "--json", "-o", "path.html").facts
    took: dict[str, float] = {}
    for row in run.rows():
        took[row.task] = took.get(row.task, 0.0) + ((row.ended or 0.0) - row.started)
    join = took.pop("whole")
    # Times since 1970 are known to a quarter of a microsecond, and several are added up.
    assert facts["critical_path_seconds"] == pytest.approx(max(took.values()) + join, abs=1e-5)


def test_any_log_becomes_a_page(place: Place) -> None:
    place.write("jobs.csv", LOG)
    said = report(place, "jobs.csv", "--machine", "memory=64GB", "--json")
    # by hand: task n ran 60 - n minutes, used n + 1 GB and was given 32
    seconds = [60 * (60 - number) for number in range(20)]
    used = [(number + 1) * GB * took for number, took in enumerate(seconds)]
    assert said.facts["used"] == pytest.approx({"cores": 0, "memory": sum(used), "disk": 0})
    assert said.facts["waste_fraction"]["memory"] == pytest.approx(1 - sum(used) / (32 * GB * sum(seconds)))
    assert said.facts["whole_machine"]["memory"] == pytest.approx(64 * GB * sum(seconds))
    assert "jobs.csv" in text_of(page(place))
    assert str(place.folder) not in page(place)  # where it was made is nobody's business


def test_what_a_recommendation_saves_is_reckoned_with_the_time_that_jobs_took(place: Place) -> None:
    place.write("jobs.csv", LOG)
    facts = report(place, "jobs.csv", "--strategy", "max-seen", "--by", "none", "--json").facts
    memory = next(one for one in facts["allocations"] if one["resource"] == "memory")
    seconds = sum(60 * (60 - number) for number in range(20))
    assert memory["before"] == pytest.approx(32 * GB * seconds)
    assert memory["after"] == pytest.approx(memory["ladder"][0] * seconds)


def test_an_archive_becomes_a_page(place: Place) -> None:
    place.write("jobs.csv", LOG)
    CommandLine(place.folder, place.environment)("archive", "import", "jobs.csv")
    said = report(place, place.archive, "--where", "memory>10GB", "--json")
    assert said.facts["attempts"] == 10


@pytest.mark.parametrize("name", ["traces/nextflow_chipseq.csv", "sizing/bwa.csv", "logs/sacct/OOM.json"])
def test_real_logs_of_other_tools_become_pages(place: Place, data: Path, name: str) -> None:
    report(place, data / name, "--json")
    assert "nan" not in text_of(page(place)).lower().split()


def test_what_is_not_known_is_not_waste(place: Place, data: Path) -> None:
    said = report(place, data / "queues" / "kth-sp2.swf.gz", "--json")
    assert said.facts["waste_fraction"] == {"cores": None, "memory": None, "disk": None}
    assert "100%" not in text_of(page(place)).split("Allocated and used")[1].split("Over time")[0]
    assert "Most wasteful" not in page(place)
    assert "nan" not in text_of(page(place)).lower().split()


def test_a_run_without_an_attempt_is_a_clear_error(place: Place) -> None:
    write_run(place.folder, [("a", "align")], [])
    said = report(place, status=2)
    assert said.stdout == ""
    assert "there are no attempts to report on" in said.stderr
    assert not (place.folder / "report.html").exists()


def test_a_run_under_way_can_be_drawn(place: Place) -> None:
    place.write("w.makeflow", "out:\n\tuntil [ -e go ]; do sleep 0.05; done; echo > out\nfirst:\n\techo > first\n")
    with place.begin("run", "w.makeflow", "--quiet") as going:
        try:
            wanted = {"out": ["running"], "first": ["done"]}
            until(lambda: place.runs() and place.outcomes() == wanted)
            said = report(place, "--json")
            assert said.facts["outcomes"] == {"done": 1, "running": 1}
            assert "the run is under way" in text_of(page(place))
        finally:
            (place.folder / "go").touch()
        going.communicate(timeout=HANGS)


def test_tasks_that_were_given_up_stand_there_with_the_reason(place: Place) -> None:
    place.write("w.makeflow", "part:\n\techo > part\nwhole: part\n\techo it broke >&2; exit 3\n")
    assert place.call("run", "w.makeflow", "--quiet").status == 1
    report(place)
    found = text_of(page(place))
    assert "1 of 2 tasks done" in found
    assert "the run is not finished" in found
    assert "Failed tasks" in found
    assert "whole exit status 3 $ echo it broke >&2; exit 3 it broke log: " in found
    assert report(place, "--json").facts["failed"][0]["printed_last"] == ["it broke"]


def test_retries_stand_there_with_what_was_given_and_why(place: Place) -> None:
    tries = [
        Try(0, 1, 0, 10, given=GB, used=2 * GB, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY),
        Try(0, 2, 10, 30, given=3 * GB, used=2 * GB),
        Try(1, 1, 0, 5, outcome=Outcome.FAILED),
    ]
    write_run(place.folder, [("hungry", "align"), ("bad", "merge")], tries)
    report(place)
    found = text_of(page(place))
    assert "align memory exhausted 1" in found
    assert "1 GB (1×)" in found
    assert "1 GB: memory exhausted → 3 GB: done" in found
    assert "merge failed 1" in found


def test_attempts_that_nobody_executes_any_more_are_lost(place: Place) -> None:
    write_run(place.folder, [("a", "align"), ("b", "align")], [Try(0), Try(1, ended=None)])
    assert report(place, "--json").facts["outcomes"] == {"done": 1, "lost": 1}


@pytest.mark.parametrize(
    "rows",
    [
        "task,category,memory,wall_time\nonly,a,1GB,10s\n",
        "task,category,wall_time\nonly,a,10s\n",
        "task,category,memory\nonly,a,1GB\nother,a,2GB\n",
        "task,started,ended,memory\nonly,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,0\n",
        "category,outcome,wall_time\na,failed,3\n",
    ],
    ids=["one job", "no memory", "no times", "nothing at all", "only failures"],
)
def test_a_log_with_little_in_it_becomes_a_page(place: Place, rows: str) -> None:
    place.write("few.csv", rows)
    report(place, "few.csv")
    assert " nan" not in text_of(page(place)).lower()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing-here"], '"nothing-here" is neither a run nor a source'),
        ([], 'no run "last" found here'),
        (["empty.csv"], ""),
        (["jobs.csv", "--strategy", "wrong"], "wrong"),
        (["jobs.csv", "--machine", "memory=much"], "much"),
        (["jobs.csv", "--by", "colour"], 'no job has a field "colour"'),
        (["jobs.csv", "--where", "memory>1PB"], "there are no attempts to report on"),
        (["jobs.csv", "-o", "missing/report.html"], "missing"),
        (["jobs.csv", "-o", "."], "directory"),
    ],
)
def test_bad_input_is_told_in_a_line_with_status_2_and_nothing_is_written(
    place: Place, arguments: list[str], told: str
) -> None:
    place.write("jobs.csv", LOG)
    place.write("empty.csv", "")
    before = sorted(place.folder.iterdir())
    assert told in report(place, *arguments, status=2).stderr
    assert sorted(place.folder.iterdir()) == before


def test_a_page_that_cannot_be_finished_leaves_the_old_one(place: Place) -> None:
    place.write("jobs.csv", LOG)
    place.write("report.html", "the old one")
    # No file may become longer than this, so that writing fails in the middle.
    words = ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", *place.words("report", "jobs.csv")]
    ended = subprocess.run(words, cwd=place.folder, env=place.environment, capture_output=True, check=False)
    assert ended.returncode != 0
    assert page(place) == "the old one"
    assert {path.name for path in place.folder.iterdir()} == {"jobs.csv", "report.html"}


def test_what_a_page_holds_of_many_attempts_is_bounded_and_said(place: Place) -> None:
    sizes = []
    for attempts in (3_500, 7_000):
        many(place.folder / str(attempts), attempts)
        said = report(place, "--json", folder=place.folder / str(attempts))
        assert said.facts["attempts"] == attempts
        sizes.append(int(said.facts["bytes"]))
        found = text_of((place.folder / str(attempts) / "report.html").read_text())
        assert f"The 2,000 of {attempts:,} attempts that wasted the most memory." in found
        assert f"3,000 of {attempts:,} attempts, chosen at random." in found
    assert sizes[1] < 1.02 * sizes[0]


def test_options_of_sources_have_no_meaning_with_a_run(run: Place) -> None:
    said = report(run, "last", "--where", "memory>1GB", status=2)
    assert "do not apply to a run" in said.stderr


def test_help_loads_nothing_that_takes_long() -> None:
    code = (
        "import sys; from tonnage.cli import main; main(['report', '--help']); "
        "print([name for name in ('numpy', 'jinja2', 'sqlalchemy') if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == "[]", ended.stderr
    assert "--strategy" in ended.stdout


def test_facts_are_json_also_where_nothing_is_known(place: Place) -> None:
    place.write("few.csv", "task,wall_time\nonly,10\n")
    said: Said = report(place, "few.csv", "--json")
    json.loads(said.stdout, parse_constant=pytest.fail)
    assert said.facts["makespan_seconds"] is None
