"""``tonnage archive`` as its users call it."""

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Call, CommandLine, Said
from tonnage.cli.tables import print_table

TABLE = """category,user,memory,wall_time,exit_status,requested_memory
align,ada,3000,100,0,8000
align,ada,5000,200,0,8000
align,bob,4500,150,137,4500
sort,bob,800,20,0,8000
sort,bob,NA,20,0,8000
sort,bob,lots,20,0,8000
"""


@pytest.fixture
def run(command_line: CommandLine) -> Call:
    """Call ``tonnage archive`` with an archive of the test's own."""
    return partial(command_line, "archive")


@pytest.fixture
def filled(run: Call, tmp_path: Path) -> Call:
    (tmp_path / "jobs.csv").write_text(TABLE)
    run("import", "jobs.csv", "--field", "project=atlas")
    return run


def facts(done: Said) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["schema"] == 1
    return found


def test_an_import_says_what_it_did(run: Call, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    said = run("import", "jobs.csv").stdout
    assert "6 rows read, 5 stored, 0 already there, 1 skipped" in said
    assert 'skipped 1: memory is not a number (line 7 "lots")' in said
    assert "known: memory 80%, wall_time 100%" in said
    assert "assumed: memory, requested_memory in MB" in said
    assert "5 jobs" in said


def test_an_import_in_json_has_the_same_facts(run: Call, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    (source,) = facts(run("import", "jobs.csv", "--json"))["sources"]
    counts = {name: source[name] for name in ("read", "stored", "duplicates", "skipped")}
    assert counts == {"read": 6, "stored": 5, "duplicates": 0, "skipped": 1}
    assert (source["source"], source["format"]) == ("jobs.csv", "csv")
    assert source["reasons"] == {"memory is not a number": 1}
    (again,) = facts(run("import", "jobs.csv", "--json"))["sources"]
    assert (again["stored"], again["duplicates"]) == (0, 5)


def test_a_strict_import_ends_at_the_first_bad_row(run: Call, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    done = run("import", "jobs.csv", "--strict", status=2)
    assert "jobs.csv:7: memory is not a number: lots" in done.stderr


def test_standard_input_is_a_source(run: Call) -> None:
    assert "5 stored" in run("import", "-", stdin=TABLE).stdout


def test_columns_and_units_of_others(run: Call) -> None:
    options = [
        "--columns",
        "memory=peak,wall_time=took",
        "--units",
        "memory=KiB,wall_time=min",
        "--where",
        "memory>1MB",
    ]
    run("import", "-", *options, stdin="peak;took\n2048;2\n1;1\n")
    (job,) = facts(run("query", "--json"))["attempts"]
    assert (job["memory"], job["wall_time"]) == (2 * 2**20, 120)


def test_a_folder_of_mixed_logs(run: Call, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "benchmarks" / "align").mkdir(parents=True)
    (folder / "jobs.csv").write_text(TABLE)
    header = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
    row = "12.5\t0:00:12\t100.5\t200\t90\t95.25\t0\t0\t99.0\t12.1\n"
    (folder / "benchmarks" / "align" / "one.tsv").write_text(header + row)
    (folder / "README").write_text("about these logs\n")
    sources = facts(run("import", "logs", "--json"))["sources"]
    assert {one["format"]: one["stored"] for one in sources} == {"csv": 5, "snakemake": 1, "other": 0}
    (job,) = facts(run("query", "--where", "wall_time=12.5s", "--json"))["attempts"]
    assert (job["category"], job["memory"], job["memory_method"]) == ("align", round(95.25 * 2**20), "pss")


def test_another_archive_is_a_source(filled: Call, tmp_path: Path) -> None:
    said = filled("import", f"sqlite:///{tmp_path}/archive.db", "--archive", str(tmp_path / "copy.db")).stdout
    assert "5 stored" in said
    copied = facts(filled("query", "--archive", str(tmp_path / "copy.db"), "--json"))["attempts"]
    assert copied == facts(filled("query", "--json"))["attempts"]


def test_a_wrong_file_says_what_was_expected(run: Call, tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("Shall I compare thee\nto a summer's day?\n")
    said = run("import", "poem.txt", status=2).stderr
    assert "poem.txt: is not in a known job log format" in said
    assert "nextflow" in said


def test_a_query_finds_sorts_and_limits(filled: Call) -> None:
    found = facts(filled("query", "--category", "align", "--sort", "memory", "--limit", "2", "--json"))
    assert [job["memory"] for job in found["attempts"]] == [5 * 10**9, 4500 * 10**6]
    assert found["more"] is True
    assert [job["user"] for job in facts(filled("query", "--exit", "137", "--json"))["attempts"]] == ["bob"]
    assert len(facts(filled("query", "--field", "project=atlas", "--json"))["attempts"]) == 5
    assert facts(filled("query", "--field", "project=other", "--json"))["attempts"] == []
    assert len(facts(filled("query", "--where", "memory>1GB", "--where", "wall_time<2m", "--json"))["attempts"]) == 1


def test_a_query_is_a_table_for_people(filled: Call) -> None:
    said = filled("query", "--sort", "memory", "--limit", "2").stdout
    assert said.splitlines()[0].split() == ["category", "user", "outcome", "memory", "asked", "time"]
    assert said.splitlines()[1].split() == ["align", "ada", "done", "5", "GB", "8", "GB", "3m20s"]
    assert "--limit 0 shows all" in said
    assert "no matching jobs" in filled("query", "--user", "nobody").stdout


def test_a_query_prints_csv(filled: Call) -> None:
    rows = list(csv.DictReader(io.StringIO(filled("query", "--csv", "--limit", "3").stdout)))
    assert [row["memory (B)"] for row in rows] == ["3000000000", "5000000000", "4500000000"]


def test_stats_rank_what_is_wasted(filled: Call) -> None:
    categories = facts(filled("stats", "--json"))["categories"]
    assert [(one["category"], one["jobs"]) for one in categories] == [("align", 3), ("sort", 2)]
    memory = categories[0]["resources"]["memory"]
    assert (memory["count"], memory["p50"], memory["max"]) == (3, 4.5e9, 5e9)
    # (8 - 3) GB for 100 s, (8 - 5) GB for 200 s, and all of 4.5 GB for 150 s of the one that failed
    assert categories[0]["waste"]["gbh"] == pytest.approx((5 * 100 + 3 * 200 + 4.5 * 150) / 3600)
    said = filled("stats").stdout
    assert "wasted GB*h" in said
    assert said.splitlines()[1].startswith("align")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_export_names_its_format_by_its_ending(filled: Call, tmp_path: Path, ending: str) -> None:
    assert "5 jobs" in filled("export", "-o", f"out.{ending}").stderr
    assert (tmp_path / f"out.{ending}").stat().st_size > 100
    assert "unknown file name extension" in filled("export", "-o", "out.xyz", status=2).stderr


def test_forget_says_first_and_acts_when_told(filled: Call) -> None:
    assert "3 jobs would be removed" in filled("forget", "--keep", "1").stdout
    assert facts(filled("forget", "--keep", "1", "--yes", "--json")) == {
        "schema": 1,
        "jobs": 3,
        "removed": True,
        "left": 2,
    }
    assert "select jobs with" in filled("forget", "--yes", status=2).stderr


@pytest.mark.parametrize("when", ["", "  ", "2024", "1700000000", "-", "soon"])
def test_what_could_mean_two_things_never_removes_anything(filled: Call, when: str) -> None:
    assert "neither a date" in filled("forget", "--older-than", when, "--yes", status=2).stderr
    assert "neither a date" in filled("query", "--since", when, status=2).stderr
    assert "5 jobs" in filled("check").stdout


def test_a_source_can_be_forgotten_and_read_again(filled: Call) -> None:
    assert "5 jobs removed, 0 left" in filled("forget", "--source", "jobs", "--yes").stdout
    filled("import", "jobs.csv", "--units", "memory=GB")
    assert facts(filled("query", "--sort", "memory", "--limit", "1", "--json"))["attempts"][0]["memory"] == 5000 * 10**9


def test_rows_of_jobs_that_did_not_run_are_no_trouble_for_a_strict_import(run: Call) -> None:
    header, row = "task_id\thash\tname\tstatus\tsubmit\n", "1\ta/b\tx\tCACHED\t-\n2\tc/d\ty\tCOMPLETED\t1700000000000\n"
    assert "1 stored, 0 already there, 1 skipped" in run("import", "-", "--strict", stdin=header + row).stdout


def test_units_of_a_log_that_has_its_own_are_refused(run: Call) -> None:
    header, row = "task_id\thash\tname\tstatus\tsubmit\n", "2\tc/d\ty\tCOMPLETED\t1700000000000\n"
    assert "--units" in run("import", "-", "--units", "memory=GB", stdin=header + row, status=2).stderr


def test_a_wrong_name_makes_no_archive(run: Call, tmp_path: Path) -> None:
    run("import", "absent.csv", status=2)
    assert not (tmp_path / "archive.db").exists()


def test_what_was_stored_before_an_error_is_told(filled: Call, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("category,memory\nx,1\n")
    (source,) = facts(filled("import", "more.csv", "absent.csv", "--json", status=2))["sources"]
    assert source["stored"] == 1


def test_a_rule_that_comes_later_takes_no_other_rules_place(run: Call, tmp_path: Path) -> None:
    text = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\n1\t0:00:01\t5\t5\t5\t5\t0\t0\t0\n"
    for rule in ("zeta", "alpha"):
        (tmp_path / "benchmarks" / rule).mkdir(parents=True)
        (tmp_path / "benchmarks" / rule / "1.tsv").write_text(text)
        run("import", "benchmarks")
    found = facts(run("query", "--json"))["attempts"]
    assert sorted(job["category"] for job in found) == ["alpha", "zeta"]


def test_a_field_may_hold_a_comma(run: Call) -> None:
    run(
        "import",
        "-",
        "--field",
        "note=a,b=c",
        stdin="memory\n1\n".replace("memory", "memory,category").replace("1", "1,x"),
    )
    assert len(facts(run("query", "--field", "note=a,b=c", "--json"))["attempts"]) == 1


def test_csv_has_no_limit_unless_it_is_given(run: Call) -> None:
    run("import", "-", stdin="category,memory\n" + "a,1\n" * 70)
    assert len(run("query", "--csv").stdout.splitlines()) == 71
    assert len(run("query", "--csv", "--limit", "3").stdout.splitlines()) == 4


def test_jobs_that_ran_out_are_counted_apart_and_found(run: Call) -> None:
    table = "category,memory,requested_memory,wall_time,outcome,exhausted\n"
    table += "oom,1,100,10,exhausted,memory\noom,80,100,10,done,\noom,70,100,9,exhausted,wall_time\n"
    run("import", "-", stdin=table)
    (one,) = facts(run("stats", "--json"))["categories"]
    assert one["exhausted"] == {"memory": 1, "wall_time": 1}
    assert (one["resources"]["memory"]["count"], one["resources"]["memory"]["p50"]) == (2, 75e6)
    assert one["waste"]["jobs"] == 3
    assert "ran out" in run("stats").stdout
    (job,) = facts(run("query", "--exhausted", "memory", "--json"))["attempts"]
    assert job["memory"] == 10**6


def test_names_may_be_patterns(filled: Call) -> None:
    assert len(facts(filled("query", "--category", "*lig?", "--json"))["attempts"]) == 3
    assert len(facts(filled("query", "--category", "ALIGN*", "--json"))["attempts"]) == 0
    assert len(facts(filled("query", "--user", "b*", "--json"))["attempts"]) == 3


def test_stats_by_something_else(filled: Call) -> None:
    by_user = facts(filled("stats", "--by", "user", "--json"))["categories"]
    assert {one["category"]: one["jobs"] for one in by_user} == {"ada": 2, "bob": 3}
    assert filled("stats", "--by", "source").stdout.splitlines()[1].startswith("jobs")


def test_a_category_can_be_given(run: Call) -> None:
    run("import", "-", "--category", "bwa", stdin="task,memory\na,1\n")
    assert facts(run("query", "--json"))["attempts"][0]["category"] == "bwa"


def test_a_source_without_any_good_row_is_a_failure(run: Call) -> None:
    done = run("import", "-", stdin="task,memory\na,lots\nb,32G\n", status=1)
    assert "no row could be used" in done.stderr
    assert "32G" in done.stdout


def test_an_exit_status_tells_the_outcome(filled: Call) -> None:
    assert len(facts(filled("query", "--outcome", "done", "--json"))["attempts"]) == 4
    assert [job["exit_status"] for job in facts(filled("query", "--outcome", "failed", "--json"))["attempts"]] == [137]


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
def test_numbers_are_never_cut_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str], columns: int) -> None:
    from rich import console

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console.Console, "is_terminal", True)
        patch.setenv("COLUMNS", str(columns))
        rows = [[f"{'A_LONG:PREFIX:' * 5}STEP{n}", f"{n}00 GB", "1,234,567", "x" * 25, "12h30m"] for n in range(3)]
        print_table(["category", "memory", "jobs", "note", "time"], rows, right=["memory"], give_way=["note"])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert all(f"{n}00 GB" in line and "1,234,567" in line and "12h30m" in line for n, line in enumerate(lines[1:]))
    assert all(f"STEP{n}" in line for n, line in enumerate(lines[1:]))


def test_alone_it_prints_its_help(run: Call) -> None:
    said = run(status=2).stderr
    assert said.startswith("Usage: tonnage archive")
    assert "see tonnage" not in said


def test_check_and_migrate(filled: Call) -> None:
    assert "5 jobs, no problems" in filled("check").stdout
    assert facts(filled("check", "--json"))["problems"] == []
    assert "already has version" in filled("migrate").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["query", "--where", "memry>4GB"], "did you mean memory?"),
        (["query", "--where", "memory>4"], "not an amount of bytes"),
        (["query", "--where", "memory"], "not a condition"),
        (["query", "--since", "yesterday"], "neither a date"),
        (["query", "--field", "novalue"], "NAME=VALUE"),
        (["query", "--sort", "colour"], "not a column"),
        (["query", "--csv", "--json"], "cannot be combined"),
        (["import", "absent.csv"], "no such file"),
        (["import", "jobs.csv", "--timezone", "Mars/Olympus"], "not a time zone"),
        (["import", "jobs.csv", "--columns", "memory=nothing"], 'no column "nothing"'),
        (["import", "jobs.csv", "--units", "memory=stone"], "stone"),
        (["import", "jobs.csv", "--archive", "mysql://host/db"], "not a kind of archive"),
        (["stats", "--archive", "absent.db"], "there is no archive"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_with_it(filled: Call, words: list[str], said: str) -> None:
    assert said in filled(*words, status=2).stderr
