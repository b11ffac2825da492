"""The output of condor_history: JSON, JSON lines and the long form."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.damage import Said, said, said_of, survives
from tests.logs.packages import package
from tonnage.errors import InputError
from tonnage.jobs import Outcome, Resource
from tonnage.logs import htcondor_history
from tonnage.logs.classads import read_ads
from tonnage.logs.log import Hints, Log, UnusableError

KIB, MIB = 2**10, 2**20
JOB: dict[str, object] = {
    "ClusterId": 371,
    "ProcId": 2,
    "GlobalJobId": "ap1.example.org#371.2#1704449472",
    "JobStatus": 4,
    "Owner": "ada",
    "User": "ada@example.org",
    "Cmd": "/home/ada/bin/align",
    "Arguments": "--in 'a b.fa' -t 4",
    "QDate": 1704449472,
    "JobStartDate": 1704449500,
    "JobCurrentStartDate": 1704449600,
    "CompletionDate": 1704453200,
    "EnteredCurrentStatus": 1704453201,
    "NumJobStarts": 2,
    "RemoteWallClockTime": 4321.0,
    "CommittedTime": 3600,
    "RemoteUserCpu": 3000.0,
    "RemoteSysCpu": 21.5,
    "CpusUsage": 0.84,
    "RequestCpus": 1,
    "RequestMemory": 2048,
    "RequestDisk": 1048576,
    "CpusProvisioned": 1,
    "MemoryProvisioned": 2176,
    "DiskProvisioned": 1050000,
    "MemoryUsage": "/Expr(((ResidentSetSize + 1023) / 1024))/",
    "ResidentSetSize": 1250000,
    "ResidentSetSize_RAW": 1000004,
    "DiskUsage": 20000,
    "DiskUsage_RAW": 19321,
    "ExitBySignal": False,
    "ExitCode": 0,
    "LastRemoteHost": "slot1_7@glidein_12_34@node7.example.org",
    "DAGNodeName": "align_3",
    "DAGManJobId": 370,
    "JobBatchName": "exome.dag+370",
    "Requirements": '/Expr((TARGET.Arch == "X86_64"))/',
    "TransferInput": "a b.fa, ref.idx",
    "TransferInputSizeMB": 12,
}


def jobs(*changes: dict[str, object]) -> str:
    """Return what `condor_history -json` prints for the job above with each of these changes."""
    return json.dumps([{**JOB, **change} for change in changes], indent=2)


def long_form(ad: dict[str, object]) -> str:
    return "".join(f"{name} = {literal(value)}\n" for name, value in sorted(ad.items()))


def literal(value: object) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, str) and value.startswith("/Expr("):
        return value.removeprefix("/Expr(").removesuffix(")/")
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    return json.dumps(value)


def one(**change: object) -> Said:
    return said(htcondor_history, jobs(change))


def without(*names: str) -> dict[str, object]:
    return dict.fromkeys(names)


def test_a_job_is_read() -> None:
    attempt = one().only
    assert attempt.native_id == "htcondor:ap1.example.org#371.2#1704449472"
    assert (attempt.run, attempt.workflow, attempt.task) == ("370@ap1.example.org", "exome.dag", "align_3")
    assert (attempt.category, attempt.executable, attempt.user) == ("align", "align", "ada")
    assert attempt.command == "/home/ada/bin/align --in 'a b.fa' -t 4"
    assert (attempt.host, attempt.number, attempt.exit_status) == ("node7.example.org", 2, 0)
    assert (attempt.submitted, attempt.started, attempt.ended) == (1704449472, 1704449600, 1704453200)
    assert attempt.outcome is Outcome.DONE
    assert (attempt.requested.cores, attempt.requested.memory, attempt.requested.disk) == (1.0, 2048 * MIB, 2**30)
    assert (attempt.allocated.cores, attempt.allocated.memory, attempt.allocated.disk) == (
        1.0,
        2176 * MIB,
        1050000 * KIB,
    )
    assert (attempt.used.memory, attempt.used.disk) == (1000004 * KIB, 19321 * KIB)
    assert (attempt.used.wall_time, attempt.used.cpu_time) == (3600.0, 3021.5)
    assert attempt.memory_method == "rss"
    assert attempt.raw["NumJobStarts"] == 2
    assert attempt.raw["RemoteWallClockTime"] == 4321.0
    assert "Requirements" not in attempt.raw
    assert (attempt.inputs, attempt.input_bytes) == (("a b.fa", "ref.idx"), 12 * MIB)
    assert json.loads(attempt.row) == JOB


def test_the_three_forms_say_the_same() -> None:
    second = {**JOB, "ProcId": 3, "ExitCode": 1, "Note": 'say "hi"', "Nothing": None, "Really": True}
    ads: list[dict[str, object]] = [JOB, second]
    as_json = said(htcondor_history, json.dumps(ads, indent=1))
    as_lines = said(htcondor_history, "".join(json.dumps(ad) + "\n" for ad in ads))
    as_text = said(htcondor_history, "\n".join(long_form(ad) for ad in ads))
    assert len(as_json.attempts) == 2
    assert as_json == as_lines == as_text


def test_the_history_file_of_the_schedd_has_a_banner_behind_each_job() -> None:
    banner = '*** Offset = 0 ClusterId = 371 ProcId = 2 Owner = "ada" CompletionDate = 1704453200\n'
    assert len(said(htcondor_history, (long_form(JOB) + banner) * 3).attempts) == 3


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ({}, 3600),
        ({"LastRemoteWallClockTime": 3500.0}, 3500),
        ({"CommittedTime": 0}, 3600),
        ({"CommittedTime": 0, "JobCurrentStartDate": None}, None),
        ({"CommittedTime": 0, "CompletionDate": 0}, None),
        ({"CommittedTime": 0, "CompletionDate": 0, "NumJobStarts": 1}, 4321),
        ({"CommittedTime": 0, "CompletionDate": 0, "NumJobStarts": None}, 4321),
    ],
)
def test_the_wall_time_is_that_of_the_last_run_or_unknown(change: dict[str, object], seconds: float | None) -> None:
    assert one(**change).only.used.wall_time == seconds


@pytest.mark.parametrize(
    ("change", "memory"),
    [
        (without("ResidentSetSize_RAW"), 1250000 * KIB),
        ({**without("ResidentSetSize_RAW"), "MemoryUsage": 977}, 977 * MIB),
        ({**without("ResidentSetSize_RAW"), "MemoryUsage": "((ResidentSetSize + 1023) / 1024)"}, 1250000 * KIB),
        ({**without("ResidentSetSize_RAW", "ResidentSetSize"), "MemoryUsage": 977}, 977 * MIB),
        (without("ResidentSetSize_RAW", "ResidentSetSize"), None),
        ({"ResidentSetSize_RAW": 0, "ResidentSetSize": 0, "MemoryUsage": 0}, None),
    ],
)
def test_memory_is_the_exact_resident_set_then_what_the_pool_says(
    change: dict[str, object], memory: int | None
) -> None:
    attempt = one(**change).only
    assert attempt.used.memory == memory
    assert attempt.memory_method == ("rss" if memory else None)


def test_what_is_undefined_an_error_or_an_expression_is_unknown() -> None:
    text = long_form({**JOB, "RequestCpus": None})
    text = text.replace("RequestMemory = 2048", "RequestMemory = ifThenElse(NumJobStarts > 1, 4096, 2048)")
    text = text.replace("RequestDisk = 1048576", "RequestDisk = error").replace("CpusUsage = 0.84", "CpusUsage = 1 / 0")
    attempt = said(htcondor_history, text).only
    assert list(attempt.requested.known()) == []
    assert "CpusUsage" not in attempt.raw


@pytest.mark.parametrize(
    ("change", "outcome", "exit_status", "signal"),
    [
        ({"ExitCode": 3}, Outcome.FAILED, 3, None),
        ({"ExitCode": 85, "JobSuccessExitCode": 85}, Outcome.DONE, 85, None),
        ({"ExitBySignal": True, "ExitSignal": 11}, Outcome.FAILED, None, 11),
        # The signal of an earlier run stays in the ad.
        ({"ExitBySignal": False, "ExitSignal": 9}, Outcome.DONE, 0, None),
        (without("ExitCode", "ExitBySignal"), None, None, None),
        ({"JobStatus": 3, "RemoveReason": "via condor_rm (by user ada)"}, Outcome.CANCELLED, None, None),
    ],
)
def test_how_a_job_ended(
    change: dict[str, object], outcome: Outcome | None, exit_status: int | None, signal: int | None
) -> None:
    attempt = one(**change).only
    assert (attempt.outcome, attempt.exit_status, attempt.signal) == (outcome, exit_status, signal)
    assert attempt.exhausted is None


HELD = {"JobStatus": 5, "CompletionDate": 0, "HoldReasonCode": 34, "HoldReasonSubCode": 102}
REMOVED = {"JobStatus": 3, "CompletionDate": 0}
LAST_HELD = {"LastHoldReasonCode": 34, "LastHoldReasonSubCode": 102}
POLICY = "The job attribute PeriodicRemove expression 'MemoryUsage > RequestMemory' evaluated to TRUE"


@pytest.mark.parametrize(
    ("change", "exhausted"),
    [
        (HELD, Resource.MEMORY),
        ({**HELD, "HoldReasonSubCode": 104}, Resource.DISK),
        ({**HELD, "HoldReasonSubCode": 0}, Resource.MEMORY),
        ({**HELD, "HoldReasonCode": 21}, Resource.MEMORY),
        ({**HELD, "HoldReasonCode": 47, "HoldReasonSubCode": 0}, Resource.WALL_TIME),
        ({**REMOVED, **LAST_HELD}, Resource.MEMORY),
        ({**REMOVED, **LAST_HELD, "LastJobStatus": 5}, Resource.MEMORY),
        ({**REMOVED, "RemoveReason": POLICY, "ResidentSetSize_RAW": 2100000}, Resource.MEMORY),
        ({**REMOVED, "RemoveReason": "disk usage exceeded", "DiskUsage_RAW": 2000000}, Resource.DISK),
    ],
)
def test_a_job_that_needed_more_than_it_had_is_exhausted(change: dict[str, object], exhausted: Resource) -> None:
    attempt = one(**change).only
    assert (attempt.outcome, attempt.exhausted) == (Outcome.EXHAUSTED, exhausted)
    assert attempt.lower_bounds == (exhausted,)
    assert attempt.ended == 1704453201
    # It may be released and run again: its end must not be taken for this one.
    assert attempt.native_id == "htcondor:ap1.example.org#371.2#1704449472:2"


@pytest.mark.parametrize(
    "change",
    [
        {**REMOVED, **LAST_HELD, "LastJobStatus": 2},
        {**REMOVED, "RemoveReason": POLICY},
        {**REMOVED, "HoldReasonCode": 21, "HoldReasonSubCode": 7},
    ],
)
def test_a_removed_job_whose_last_run_had_enough_is_cancelled(change: dict[str, object]) -> None:
    assert one(**change).only.outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("change", "reason", "found"),
    [
        ({"JobStatus": 1}, "it has not finished", "idle"),
        ({"JobStatus": 2}, "it has not finished", "running"),
        ({"JobStatus": 5, "HoldReasonCode": 1}, "it has not finished", "held"),
        ({"JobStatus": 9}, "it has not finished", "9"),
        ({"JobStatus": None}, "it has no JobStatus", ""),
        (
            {**REMOVED, "NumJobStarts": 0, "JobCurrentStartDate": None, "JobStartDate": None},
            "it was removed before it started",
            "",
        ),
        ({"RequestMemory": -5}, "RequestMemory is negative or not plausible", "-5"),
        ({"RequestMemory": 2**60}, "RequestMemory is negative or not plausible", str(float(2**80))),
    ],
)
def test_a_job_that_cannot_be_used_is_skipped_with_its_reason(
    change: dict[str, object], reason: str, found: str
) -> None:
    said_of_two = said(htcondor_history, jobs(change, {}))
    assert len(said_of_two.attempts) == 1
    (skipped,) = said_of_two.skipped
    assert (skipped.line, skipped.reason, skipped.found) == (2, reason, found)


def test_names_of_attributes_are_the_same_in_small_letters() -> None:
    text = json.dumps([{name.lower(): value for name, value in JOB.items()}])
    attempt = said(htcondor_history, text).only
    assert (attempt.used.memory, attempt.task) == (1000004 * KIB, "align_3")


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ({"Arguments": "a 'b c' '' d''e 'it''s'"}, "/home/ada/bin/align a 'b c' '' de 'it'\"'\"'s'"),
        ({"Arguments": None, "Args": "a  'b"}, "/home/ada/bin/align a ''\"'\"'b'"),
        ({"Arguments": None}, "/home/ada/bin/align"),
        ({"Cmd": None}, None),
    ],
)
def test_the_command_stands_as_a_shell_takes_it(change: dict[str, object], command: str | None) -> None:
    assert one(**change).only.command == command


def test_a_category_of_the_user_wins_over_the_executable() -> None:
    assert one(Category="alignment").only.category == "alignment"


def test_what_is_missing_is_unknown() -> None:
    attempt = said(htcondor_history, '[{"JobStatus": 4}]').only
    assert (attempt.native_id, attempt.run, attempt.task, attempt.outcome, attempt.started) == (None,) * 5
    assert [*attempt.requested.known(), *attempt.allocated.known(), *attempt.used.known()] == []
    assert attempt.raw == {}
    assert one(GlobalJobId=None).only.run == "370"


def test_a_damaged_line_does_not_spoil_the_others() -> None:
    good = json.dumps(JOB)
    found = said(htcondor_history, f"{good}\n{good[:-20]}\n\n[1]\n{good}\n")
    assert len(found.attempts) == 2
    assert [(entry.line, entry.reason) for entry in found.skipped] == [
        (2, "is not JSON"),
        (4, "is not an object with a job's attributes"),
    ]


def test_a_damaged_job_of_the_long_form_does_not_spoil_the_others() -> None:
    good = long_form(JOB)
    found = said(htcondor_history, f'{good}\n{good}what is this\n\n{good}Note = "without end\n\n{good}')
    assert len(found.attempts) == 2
    assert [entry.reason for entry in found.skipped] == [
        "a line is not of the form Name = value",
        "a string is not terminated",
    ]
    assert found.skipped[0].line == len(JOB) + 2


def test_a_string_may_hold_line_breaks() -> None:
    attempt = said(htcondor_history, long_form({**JOB, "HoldReason": 'first\nJobStatus = 1 "x"\nlast'})).only
    assert attempt.raw["HoldReason"] == 'first\nJobStatus = 1 "x"\nlast'


def test_only_what_condor_history_prints_is_recognised() -> None:
    assert htcondor_history.recognises(jobs({}))
    assert htcondor_history.recognises(json.dumps(JOB))
    assert htcondor_history.recognises(long_form(JOB))
    for text in ("", "[]", "{}", '{"jobs": []}', "JobStatus = 4\n", "a,b\n1,2\n", "000 (1.000.000) 01/05 10:11:12 Job"):
        assert not htcondor_history.recognises(text)


@pytest.mark.parametrize("text", ["", "hello", "{}", '{"jobs": [{"state": 1}]}', "<?xml version='1.0'?><classads/>"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="condor_history"):
        said(htcondor_history, text)


def test_no_jobs_are_no_error() -> None:
    assert said(htcondor_history, "[\n]\n") == Said([], [], [])


def _can_be_told_apart(text: str) -> bool:
    """Whether a string with line breaks cannot be taken for the end of an ad or a string, as HTCondor itself does."""
    first, *others = text.split("\n")
    return not others or not (
        first.endswith('"') or text.endswith("\\") or any(not line.strip() for line in (first, *others))
    )


_strings = st.text(st.sampled_from("ab \"\\'=é\t\n/;[{("), max_size=12).filter(_can_be_told_apart)
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.integers(-(2**40), 2**40).map(lambda eighths: eighths / 8),
    _strings,
)
_ads = st.lists(st.dictionaries(st.sampled_from(["A", "Bc", "D_e", "F1"]), _values, min_size=1), min_size=1, max_size=4)


@given(_ads)
def test_classads_are_read_as_htcondor_prints_them(ads: list[dict[str, object]]) -> None:
    printed = [package("classad2", "htcondor").ClassAd(ad) for ad in ads]
    from_json = list(read_ads(Log.of(f"[{','.join(ad.printJson() for ad in printed)}]")))
    from_text = list(read_ads(Log.of("\n".join(ad.printOld().strip("\n") + "\n" for ad in printed))))
    for form in (from_json, from_text):
        assert [_attributes(ad) for _, ad in form] == ads


def _attributes(ad: object) -> dict[str, object]:
    assert not isinstance(ad, UnusableError), (ad.reason, ad.found)
    return dict(ad.attributes)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [r'"a\"', r'"a\\"', r'"a\\"b"', r'"a\"b\"', '"a"  ', "1e3", ".5", "-1.5E+00", "010", "TRUE", "Undefined", '"\\t"'],
)
def test_literals_mean_what_htcondor_says_they_mean(text: str) -> None:
    classad2 = package("classad2", "htcondor")
    ((_, ad),) = read_ads(Log.of(f"T = {text}\n"))
    truth = classad2.parseOne(f"T = {text}\n").get("T")
    if text == "010":  # no number to HTCondor, and nothing that it writes
        return
    assert _attributes(ad)["T"] == (None if truth == classad2.Value.Undefined else truth)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "ProcId": st.integers(0, 9999),
                "RequestMemory": st.none() | st.integers(1, 10**6),
                "ResidentSetSize_RAW": st.none() | st.integers(1, 10**9),
                "DiskUsage_RAW": st.none() | st.integers(0, 10**9),
                "CommittedTime": st.integers(1, 10**6),
                "RemoteUserCpu": st.none() | st.floats(0, 1e6),
                "ExitCode": st.integers(0, 255),
                "DAGNodeName": st.none() | st.text(st.sampled_from("ab\"\\é'"), min_size=1),
            }
        ),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
)
def test_what_was_printed_is_read_back(changes: list[dict[str, object]], as_text: bool) -> None:
    ads = [{**JOB, **change, "RemoteSysCpu": None} for change in changes]
    found = said(htcondor_history, "\n".join(map(long_form, ads)) if as_text else json.dumps(ads))
    assert found.skipped == []
    for ad, attempt in zip(ads, found.attempts, strict=True):
        assert attempt.requested.memory == times(ad["RequestMemory"], MIB)
        assert attempt.used.memory == (times(ad["ResidentSetSize_RAW"], KIB) or 1250000 * KIB)
        assert attempt.used.disk == (
            times(ad["DiskUsage_RAW"], KIB) if ad["DiskUsage_RAW"] is not None else 20000 * KIB
        )
        assert attempt.used.wall_time == ad["CommittedTime"]
        assert attempt.used.cpu_time == ad["RemoteUserCpu"]
        assert attempt.exit_status == ad["ExitCode"]
        assert attempt.task == ad["DAGNodeName"]


def times(value: object, unit: int) -> int | None:
    assert value is None or isinstance(value, int)
    return None if value is None else value * unit


@pytest.mark.parametrize("form", ["json", "lines", "text"])
def test_damage_never_stops_the_reader(form: str) -> None:
    ads: list[dict[str, object]] = [JOB, {**JOB, **HELD}, {**JOB, **REMOVED, "RemoveReason": POLICY}]
    text = {
        "json": json.dumps(ads, indent=1),
        "lines": "".join(json.dumps(ad) + "\n" for ad in ads),
        "text": "\n".join(map(long_form, ads)),
    }[form]
    for letters, found in survives(htcondor_history, text, "history"):
        first = letters.lstrip().split("\n", 1)[0].rstrip()
        if form == "lines" and first.startswith("{") and first.endswith("}"):
            lines = sum(1 for line in letters.split("\n") if line.strip())
            assert len(found.attempts) + len(found.skipped) == lines


def test_memory_does_not_grow_with_the_log() -> None:
    ad = (long_form(JOB) + "\n").encode()
    log = Log((ad * 50 for _ in range(20)), Path("history"))
    tracemalloc.start()
    count = sum(1 for _ in htcondor_history.read(log, Hints()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1000
    assert peak < 600_000 < 1000 * len(ad)


def test_the_line_is_where_the_job_begins() -> None:
    text = long_form(JOB) + "\n\n" + long_form({**JOB, "JobStatus": 2})
    (skipped,) = said_of(htcondor_history, Log.of(text)).skipped
    assert text.split("\n")[(skipped.line or 0) - 1].startswith("Arguments")
