"""Snakemake benchmarks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import said, survives
from tonnage.errors import InputError
from tonnage.jobs import Outcome
from tonnage.logs import snakemake
from tonnage.logs.log import Hints

MIB = 2**20
PLAIN = ["s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out", "mean_load", "cpu_time"]
MORE = ["jobid", "rule_name", "wildcards", "params", "threads", "cpu_usage", "resources", "input_size_mb"]
EXTENDED = [*PLAIN, *MORE]
ROW = {
    "s": "62.51", "h:m:s": "0:01:02", "max_rss": "120.50", "max_vms": "900.00", "max_uss": "90.25", "max_pss": "100.25",
    "io_in": "12.00", "io_out": "3.50", "mean_load": "187.20", "cpu_time": "117.02",
}  # fmt: skip
WIDE = ROW | {
    "jobid": "7", "rule_name": "align", "wildcards": "{'sample': 'A', 'lane': '1'}", "params": "{'extra': '-x\\ty'}",
    "threads": "4", "cpu_usage": "11702.0",
    "resources": "{'_cores': 4, 'mem_mb': 1000, 'mem_mib': 954, 'disk_mb': 2000, 'tmpdir': '/tmp', 'runtime': 90}",
    "input_size_mb": "{'a.fq': 1.5, 'b.fq': 0.25}",
}  # fmt: skip


def table(*rows: dict[str, str]) -> str:
    header = EXTENDED if "jobid" in rows[0] else [name for name in PLAIN if name in rows[0]]
    return "\n".join("\t".join(cells) for cells in (header, *([row[name] for name in header] for row in rows))) + "\n"


def test_a_benchmark_is_read() -> None:
    attempt = said(snakemake, table(ROW), "benchmarks/align/sample1.tsv").only
    assert (attempt.category, attempt.task, attempt.native_id) == ("align", "sample1", None)
    assert (attempt.used.wall_time, attempt.used.cpu_time) == (62.51, 117.02)
    assert (attempt.used.memory, attempt.memory_method) == (round(100.25 * MIB), "pss")
    assert attempt.outcome is Outcome.DONE
    assert (attempt.submitted, attempt.started, attempt.ended) == (None, None, None)
    assert attempt.raw == {
        "max_vms": "900.00", "max_uss": "90.25", "io_in": "12.00", "io_out": "3.50", "mean_load": "187.20",
    }  # fmt: skip
    assert json.loads(attempt.row) == {**ROW, "category": "align", "task": "sample1"}


def test_an_extended_benchmark_names_the_rule_and_what_it_asked_for() -> None:
    attempt = said(snakemake, table(WIDE), "x/y.tsv").only
    assert (attempt.category, attempt.task) == ("align", "align lane=1 sample=A")
    assert attempt.allocated.cores == 4.0
    assert (attempt.requested.memory, attempt.requested.disk) == (10**9, 2 * 10**9)
    assert attempt.requested.wall_time == 90 * 60.0
    assert attempt.input_bytes == round(1.75 * MIB)
    assert attempt.inputs == ("a.fq", "b.fq")
    assert attempt.raw["jobid"] == "7"


def test_the_jsonl_form_says_the_same() -> None:
    record = {name: float(value) if name not in ("h:m:s",) else value for name, value in ROW.items()} | {
        "jobid": 7, "rule_name": "align", "wildcards": {"sample": "A", "lane": "1"}, "params": {"extra": "-x"},
        "threads": 4, "cpu_usage": 11702.0, "resources": {"mem_mb": 1000, "disk_mb": 2000, "runtime": 90},
        "input_size_mb": {"a.fq": 1.5, "b.fq": 0.25},
    }  # fmt: skip
    text = json.dumps(record, sort_keys=True) + "\n"
    assert snakemake.recognises(text)
    found = said(snakemake, text * 2, "x/y.jsonl")
    wide = said(snakemake, table(WIDE), "x/y.tsv").only
    assert len(found.attempts) == 2
    for attempt in found.attempts:
        for name in ("category", "task", "used", "requested", "allocated", "input_bytes", "inputs", "memory_method"):
            assert getattr(attempt, name) == getattr(wide, name)
        assert json.loads(attempt.row).items() >= record.items()


def test_repeats_are_attempts_of_their_own() -> None:
    found = said(snakemake, table(ROW, ROW, ROW | {"s": "50.00"}))
    assert [attempt.used.wall_time for attempt in found.attempts] == [62.51, 62.51, 50]


@pytest.mark.parametrize("unknown", ["NA", "-", "0.00"])
def test_what_was_not_measured_is_unknown(unknown: str) -> None:
    attempt = said(snakemake, table(ROW | dict.fromkeys(PLAIN[2:], unknown))).only
    assert list(attempt.used.known()) == [("wall_time", 62.51)]
    assert attempt.memory_method is None
    assert unknown == "0.00" or attempt.raw == {}


def test_a_cpu_time_of_0_beside_unknown_memory_was_not_measured() -> None:
    attempt = said(snakemake, table(ROW | dict.fromkeys(PLAIN[2:8], "-") | {"mean_load": "0.00", "cpu_time": "0"})).only
    assert attempt.used.cpu_time is None


def test_resident_memory_is_taken_where_there_is_no_share() -> None:
    attempt = said(snakemake, table(ROW | {"max_pss": "-"})).only
    assert (attempt.used.memory, attempt.memory_method) == (round(120.5 * MIB), "rss")


def test_old_benchmarks_without_cpu_time_have_the_load_in_percent_of_a_core() -> None:
    old = {name: value for name, value in ROW.items() if name != "cpu_time"}
    assert said(snakemake, table(old)).only.used.cpu_time == pytest.approx(1.872 * 62.51)


def test_the_first_benchmarks_had_times_only() -> None:
    attempt = said(snakemake, "s\th:m:s\n12.5\t0:00:12\n").only
    assert list(attempt.used.known()) == [("wall_time", 12.5)]


@pytest.mark.parametrize(
    ("path", "category", "task"),
    [
        ("benchmarks/align/sample1.tsv", "align", "sample1"),
        ("results/benchmarks/qc/align/sample1.tsv", "align", "sample1"),
        ("benchmarks/align.sample1.tsv", "align", "align.sample1"),
        ("benchmarks/align_sample1.tsv", "align_sample1", "align_sample1"),
        ("Benchmark/align-1.txt", "align-1", "align-1"),
        ("logs/align.tsv", "align", "align"),
        ("bench/align.tsv", "align", "align"),
        ("align.tsv", "align", "align"),
        ("/align.benchmark.tsv", "align", "align.benchmark"),
    ],
)
def test_without_a_column_for_it_the_rule_follows_from_the_path(path: str, category: str, task: str) -> None:
    attempt = said(snakemake, table(ROW), path).only
    assert (attempt.category, attempt.task) == (category, task)


@pytest.mark.parametrize(
    ("resources", "memory"),
    [
        ("{'mem_mib': 100}", 100 * MIB),
        ("{'mem_mb': '<TBD>', 'mem_mib': '<TBD>'}", None),
        ("{'mem_mb': 1000.5}", 1000500000),
        ("{'mem_mb': None}", None),
        ("{'mem_mb': -3}", None),
        ("{'mem_mb': 1e300}", None),
        ("-", None),
        ("{'mem_mb': __import__('os').getpid()}", None),
        ("-" * 60000, None),
        ("{" * 60000, None),
        ("{'mem_mb': 5, 'x': '" + "y" * 70000 + "'}", None),
        ("{{}: 1}", None),
        ("[1, 2]", None),
    ],
)
def test_resources_are_parsed_and_never_evaluated(resources: str, memory: int | None) -> None:
    assert said(snakemake, table(WIDE | {"resources": resources})).only.requested.memory == memory


@pytest.mark.parametrize(
    ("sizes", "total"),
    [("1.5", round(1.5 * MIB)), ("{}", None), ("-", None), ("{'a': 1, 'b': 'NA'}", None), ("{'a': 'x'}", None)],
)
def test_an_input_of_unknown_size_makes_the_sum_unknown(sizes: str, total: int | None) -> None:
    assert said(snakemake, table(WIDE | {"input_size_mb": sizes})).only.input_bytes == total


def test_a_rule_without_wildcards_is_the_task_itself() -> None:
    assert said(snakemake, table(WIDE | {"wildcards": "{}"})).only.task == "align"


def test_rows_that_cannot_be_used_are_skipped() -> None:
    text = table(ROW, ROW | {"s": "NA"}, ROW | {"max_pss": "much"}) + "12.5\t0:00:12\n\n" + table(ROW).split("\n")[1]
    found = said(snakemake, text)
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason, entry.found) for entry in found.skipped] == [
        (3, "its run time is unknown", ""),
        (4, "max_pss is not a number", "much"),
        (5, "expected 10 columns", "2 columns"),
    ]


def test_lines_that_are_no_objects_are_skipped() -> None:
    good = '{"s": 1.5, "h:m:s": "0:00:01"}\n'
    found = said(snakemake, f'{good}{{"s": 1.\n[1]\n{good}{{"s": null}}\n{"[" * 5000}\n')
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason) for entry in found.skipped] == [
        (2, "it is not a JSON object"),
        (3, "it is not a JSON object"),
        (5, "its run time is unknown"),
        (6, "it is not a JSON object"),
    ]


def test_the_label_is_the_run() -> None:
    assert said(snakemake, table(ROW), hints=Hints(label="monday")).only.run == "monday"


@pytest.mark.parametrize("text", ["", "x\ty\n", "h:m:s\ts\n", "s,h:m:s\n", "[1]", '{"a": 1}', "{}", '{"s": 1.'])
def test_other_files_are_refused(text: str) -> None:
    assert not snakemake.recognises(text)
    with pytest.raises(InputError, match="is not a Snakemake benchmark"):
        said(snakemake, text)


def test_only_objects_of_a_benchmark_are_recognised() -> None:
    assert not snakemake.recognises('{"a": 1}')
    assert not snakemake.recognises("{" * 100)
    assert snakemake.recognises(table(ROW))


def printed(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


amount = st.none() | st.floats(0, 1e6).map(lambda value: round(value, 2))


@given(
    st.lists(
        st.tuples(st.floats(0.01, 1e6), amount, amount, amount, st.integers(1, 64), st.text(max_size=5)), max_size=6
    )
)
def test_what_was_written_is_read_back(
    jobs: list[tuple[float, float | None, float | None, float | None, int, str]],
) -> None:
    """As Snakemake prints them: None as -, numbers with two digits, what is structured as Python shows it."""
    rows = [
        WIDE
        | {"max_rss": printed(rss), "max_pss": printed(pss), "cpu_time": printed(cpu), "s": printed(seconds)}
        | {"threads": str(threads), "wildcards": str({"sample": sample})}
        for seconds, rss, pss, cpu, threads, sample in jobs
    ]
    found = said(snakemake, table(*rows) if rows else "\t".join(EXTENDED))
    assert found.skipped == []
    for attempt, (seconds, rss, pss, cpu, threads, sample) in zip(found.attempts, jobs, strict=True):
        memory = pss or rss or None
        assert attempt.used.wall_time == pytest.approx(seconds, abs=0.006)
        assert attempt.used.memory == (None if memory is None else round(memory * MIB))
        assert attempt.used.cpu_time == (None if memory is None else cpu)
        assert attempt.allocated.cores == float(threads)
        assert attempt.task is not None
        assert sample.strip() in attempt.task or sample.strip().lower() in ("-", "na", "n/a", "nan", "none", "null")


@pytest.mark.parametrize("text", [table(WIDE, WIDE, WIDE), table(ROW, ROW)])
def test_damage_never_crashes_it_and_every_line_is_accounted_for(text: str) -> None:
    for letters, found in survives(snakemake, text):
        rows = [row for row in letters.split("\n")[1:] if row.strip()]
        assert len(found.attempts) + len(found.skipped) == len(rows)


def test_damage_never_crashes_the_jsonl_form() -> None:
    text = json.dumps(WIDE | {"resources": {"mem_mb": 5}, "wildcards": {"a": "b"}}) + "\n"
    for letters, found in survives(snakemake, text * 3):
        rows = [row for row in letters.removeprefix("\ufeff").split("\n") if row.strip()]
        assert len(found.attempts) + len(found.skipped) == len(rows)
