"""Which format a log is in."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import grows_linearly
from tests.logs.damage import damaged
from tonnage.cli.source_options import source_options
from tonnage.errors import InputError
from tonnage.jobs import Attempt
from tonnage.logs.formats import READERS, reader_of, recognise
from tonnage.logs.log import Hints, Log, Skipped
from tonnage.logs.sources import open_source

_SACCT = [
    "JobID|JobName|State|ExitCode|Submit|Start|End|ElapsedRaw|MaxRSS|NTasks",
    "13|align|COMPLETED|0:0|2026-11-15T21:25:30|2026-11-15T21:25:34|2026-11-15T21:25:37|3||",
    "13.batch|batch|COMPLETED|0:0|2026-11-15T21:25:34|2026-11-15T21:25:34|2026-11-15T21:25:37|3|82000K|1",
]
_SLURM_JOB = {
    "job_id": 13,
    "name": "align",
    "state": {"current": "COMPLETED", "reason": "None"},
    "time": {"submission": 1794777930, "start": 1794777934, "end": 1794777937, "elapsed": 3},
    "allocation_nodes": 1,
    "steps": [],
}
_CONDOR_JOB = {
    "ClusterId": 371,
    "ProcId": 2,
    "GlobalJobId": "ap1.example.org#371.2#1704449472",
    "JobStatus": 4,
    "QDate": 1704449472,
    "JobCurrentStartDate": 1704449600,
    "CompletionDate": 1704453200,
    "RemoteWallClockTime": 3600.0,
    "ResidentSetSize": 125000,
    "ExitBySignal": False,
    "ExitCode": 0,
}
_LITERALS = {key: json.dumps(value) for key, value in _CONDOR_JOB.items()}
_EVENTS = """000 (371.000.000) 2024-01-05 10:00:00 Job submitted from host: <192.0.2.1:9618>
...
001 (371.000.000) 2024-01-05 10:01:00 Job executing on host: <192.0.2.9:40123>
...
005 (371.000.000) 2024-01-05 11:01:00 Job terminated.
\t(1) Normal termination (return value 0)
\t\tUsr 0 00:59:00, Sys 0 00:00:10  -  Run Remote Usage
\tPartitionable Resources :    Usage  Request Allocated
\t   Cpus                 :     0.98        1         1
\t   Memory (MB)          :      512     1024      1024
...
"""
_SUMMARY = {"category": "align", "wall_time": [12.5, "s"], "memory": [512, "MB"], "cores": [1.5, "cores"]}
_BENCHMARK = {"s": 62.51, "h:m:s": "0:01:02", "max_rss": 120.5, "mean_load": 187.2, "cpu_time": 117.02}
_TASK = {"name": "t1", "id": "t1", "parents": [], "children": [], "inputFiles": [], "outputFiles": []}
_INSTANCE = {
    "name": "blast",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {"tasks": [_TASK], "files": []},
        "execution": {
            "makespanInSeconds": 5,
            "executedAt": "2024-01-01T00:00:00Z",
            "tasks": [{"id": "t1", "runtimeInSeconds": 2.5}],
        },
    },
}
_DAX = '<?xml version="1.0"?>\n<adag name="montage">\n<job id="ID1" name="mProject" runtime="13.5"/>\n</adag>\n'
_PEGASUS = 'pegasus: "5.0"\nname: w\njobs:\n- {type: job, name: a, id: ID1, runtime: "60", arguments: [], uses: []}\n'

# Each format in all of its forms; every sample holds one job that ran.
SAMPLES = {
    "sacct-json": [
        json.dumps({"meta": {"plugin": {"type": "openapi/dbv0.0.38"}}, "jobs": [_SLURM_JOB]}, indent=1),
        json.dumps({"jobs": [_SLURM_JOB], "meta": {"plugin": {"type": "openapi/slurmdbd"}}}),
        json.dumps({"jobs": [_SLURM_JOB]}),
    ],
    "workflow": [json.dumps(_INSTANCE, indent=2), json.dumps(_INSTANCE), _DAX, _PEGASUS],
    "summary": [json.dumps(_SUMMARY), json.dumps(_SUMMARY, indent=2), json.dumps([_SUMMARY])],
    "htcondor": [
        json.dumps([_CONDOR_JOB], indent=1),
        f"{json.dumps(_CONDOR_JOB)}\n",
        "".join(f"{name} = {value}\n" for name, value in _LITERALS.items()),
    ],
    "htcondor-log": [_EVENTS],
    "swf": [
        "; Version: 2.2\n; UnixStartTime: 0\n15 600 30 3477 4 3000 2048 8 7200 4096 1 12 3 7 2 1 -1 -1\n",
        " 15  600 30 3477 4 3000 2048 8 7200 4096 1 12 3 7 2 1 -1 -1\n",
    ],
    "nextflow": [
        "task_id\thash\tname\tstatus\texit\tsubmit\trealtime\tpeak_rss\n"
        "4\t84/6c7dd3\tALIGN (s1)\tCOMPLETED\t0\t2023-01-23 16:08:23.249\t1m 2s\t152.8 MB\n",
        "task_id,hash,native_id,name,status,exit,cpus,memory,time,realtime,peak_rss,start\n"
        "4,84/6c7dd3,98,ALIGN (s1),COMPLETED,0,2,1073741824,14400000,62000,2813952,1674490105000\n",
    ],
    "snakemake": [
        "".join("\t".join(map(str, cells)) + "\n" for cells in (_BENCHMARK, _BENCHMARK.values())),
        f"{json.dumps(_BENCHMARK | {'rule_name': 'align'})}\n",
    ],
    "phung": [
        "taskid -- core -- memory -- virtual_memory -- disk -- time -- average_cores -- tag\n"
        "28 -- 2 -- 6202 -- 358792 -- 5 -- 256.5 -- 1.5 -- 1\n"
    ],
    "sacct": ["\n".join([*_SACCT, ""]), "\n".join([*_SACCT, ""]).replace("|", "^|^")],
    "csv": [
        "category,cores,memory,disk,cpu_time,wall_time\nalign,2,277,670,1.5,3\n",
        "task;memory (KiB)\na;5\n",
        "name\tmemory\twall_time\tstatus\na\t5\t1\tgood\n",
        "JobID,State,memory\n1,x,5\n",
    ],
}  # fmt: skip
CASES = [pytest.param(name, text, id=f"{name}-{n}") for name, texts in SAMPLES.items() for n, text in enumerate(texts)]


def entries(text: str, name: str) -> list[object]:
    return list(READERS[name].read(Log.of(text, "x.log"), Hints()))


def test_there_are_samples_of_every_format() -> None:
    assert list(SAMPLES) == list(READERS)


def test_every_format_can_be_named_on_the_command_line() -> None:
    @click.command()
    @source_options
    def verb(reading: object) -> None:
        pass

    (option,) = (param for param in verb.params if "--from" in param.opts)
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(READERS)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_log_is_recognised_as_what_it_is(name: str, text: str) -> None:
    assert recognise(Log.of(text)) == name
    assert recognise(Log.of(f"\ufeff{text}")) == name
    assert recognise(Log.of(text.replace("\n", "\r\n"))) == name
    assert reader_of(Log.of(text)) == (name, READERS[name].read)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_no_reader_before_its_own_takes_a_log_for_its_own(name: str, text: str) -> None:
    order = list(READERS)
    takers = [other for other in order if READERS[other].recognises(text)]
    assert takers[0] == name
    assert set(takers[1:]) <= {"csv"}  # many a log is a table, too


@pytest.mark.parametrize(("name", "text"), CASES)
def test_what_is_recognised_is_read(name: str, text: str) -> None:
    found = entries(text, name)
    assert sum(isinstance(entry, Attempt) for entry in found) == 1
    assert not any(isinstance(entry, Skipped) for entry in found)


@pytest.mark.parametrize(("name", "text"), CASES)
@pytest.mark.parametrize("other", READERS)
def test_a_reader_that_is_given_another_log_refuses_it_or_skips_its_rows(name: str, text: str, other: str) -> None:
    try:
        found = entries(text, other)
    except InputError as error:
        assert error.report().startswith("x.log")
        return
    assert found, "nothing at all was said about it"


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "hello\n", "{}", "[]", "[1, 2]", '{"jobs": []}', '{"a": 1}\n{"a": 2}\n', "a,b\n1,2\n", "1 2 3\n",
        "<html></html>", "# a comment\n", "JOB a a.sub\nPARENT a CHILD b\n", "a: b\n\tcommand\n", "time,value\n",
        "memory\n5\n", "#!/bin/sh\nexit\n", "000 nothing", ";\n;\n", "JobID|User\n", "task_id,name\n",
    ],
)  # fmt: skip
def test_what_is_no_log_is_not_recognised(text: str) -> None:
    taken = [name for name, format in READERS.items() if format.recognises(text)]
    assert taken == []
    with pytest.raises(InputError, match="is not in a known job log format" if text.strip() else "is empty"):
        reader_of(Log.of(text))


@given(st.text(max_size=60) | st.text(st.sampled_from('{}[]",:;|=\n\t -0123.abs"<>'), max_size=60))
def test_any_text_is_looked_at_without_trouble(text: str) -> None:
    for format in READERS.values():
        assert format.recognises(text) in (True, False)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_damaged_logs_are_looked_at_without_trouble(name: str, text: str) -> None:
    for number, letters in enumerate(damaged(text)):
        if number % 8 == 0:  # each reader has a test of its own
            assert recognise(Log.of(letters)) in (None, *READERS)


@pytest.mark.parametrize("letter", list('{[ \n"<,|=x1('))
@pytest.mark.parametrize("size", [10_000, pytest.param(2**17, marks=pytest.mark.long)])
def test_looking_at_a_long_text_takes_as_long_as_it_is(letter: str, size: int) -> None:
    def look(letters: int) -> None:
        for text in (letter * letters, f'{{"memory": [{letter * letters}', f"memory,cores{letter * letters}"):
            for format in READERS.values():
                format.recognises(text)

    assert grows_linearly(look, size)


def read_whole(path: Path) -> tuple[str, Counter[str]]:
    """Return a file's format, how many attempts it holds, and how many rows were skipped for which reason."""
    (source,) = open_source(str(path), Hints())
    counts = Counter[str]()
    for entry in source.entries:
        if isinstance(entry, Attempt | Skipped):
            counts[entry.reason if isinstance(entry, Skipped) else "jobs"] += 1
    return source.format, counts


@pytest.mark.parametrize(
    ("name", "format", "jobs"),
    [
        ("sizing/cms_simulation.csv", "csv", 30_630),
        ("sizing/bwa.csv", "csv", 7_754),
        ("sizing/phung_colmena.txt", "phung", 228),
        ("sizing/phung_coffea.txt", "phung", 1_884),
        ("sizing/phung_lobsterCMSanalysis.txt", "phung", 1_950),
        ("sizing/phung_bimodal_small_std.txt", "phung", 2_000),
        ("sizing/phung_exponential_small.txt", "phung", 2_000),
        ("sizing/phung_normal_small.txt", "phung", 2_000),
        ("sizing/phung_trimodal.txt", "phung", 2_000),
        ("sizing/phung_uniform_large.txt", "phung", 2_000),
        ("queues/kth-sp2.swf.gz", "swf", 28_476),
        pytest.param("queues/sdsc-sp2.swf.gz", "swf", 54_006, marks=pytest.mark.long),
        ("queues/hpc2n-part.swf.gz", "swf", 3_170),
    ],
)
def test_real_logs_are_read_whole(name: str, format: str, jobs: int, data: Path) -> None:
    assert read_whole(data / name) == (format, {"jobs": jobs})


def test_real_nextflow_traces_are_read_whole(data: Path) -> None:
    paths = sorted((data / "traces").glob("nextflow_*.csv"))
    assert len(paths) == 3
    for path in paths:
        rows = sum(1 for line in path.read_text().splitlines()[1:] if line)
        assert read_whole(path) == ("nextflow", {"jobs": rows})


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.long)])
def test_real_workflows_are_read_whole(data: Path, step: int) -> None:
    paths = sorted((data / "workflows" / "wfcommons").glob("*.json"))
    assert len(paths) == 13
    for path in paths[::step]:
        tasks = json.loads(path.read_text())["workflow"]["execution"]["tasks"]
        assert read_whole(path) == ("workflow", {"jobs": len(tasks)})


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.long)])
def test_real_dax_files_are_read_whole(data: Path, step: int) -> None:
    paths = sorted((data / "workflows" / "glume").glob("*.dax"))
    assert len(paths) == 33
    for path in paths[::step]:
        tasks = len(re.findall(r"<job\b[^>]*\bruntime=", path.read_text()))
        assert read_whole(path) == ("workflow", {"jobs": tasks})


def test_a_folder_of_real_logs_is_sorted_into_its_formats(data: Path) -> None:
    found = {source.format: list(source.entries) for source in open_source(str(data / "logs" / "sacct"), Hints())}
    assert list(found) == ["sacct", "sacct-json", "other"]
    for format in ("sacct", "sacct-json"):
        reasons = Counter(entry.reason for entry in found[format] if isinstance(entry, Skipped))
        assert sum(isinstance(entry, Attempt) for entry in found[format]) == 20
        assert set(reasons) == {"it never started", "it has not finished"}
    others = [Path(entry.found).name for entry in found["other"] if isinstance(entry, Skipped)]
    assert others == ["README.md", "ids.txt", "slurm.conf.txt"]


def test_no_real_workflow_without_run_times_is_taken_for_a_log(data: Path) -> None:
    paths = [path for folder in ("dagman", "workflows/makeflow") for path in (data / folder).rglob("*")]
    assert [path for path in paths if path.is_file() and recognise(Log.open(path))] == []


def test_compressed_logs_are_recognised_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for name, texts in SAMPLES.items():
        path.write_bytes(gzip.compress(texts[0].encode()))
        assert recognise(Log.open(path)) == name
