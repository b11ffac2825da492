"""``tonnage replay size``: small replays reckoned by hand, and the tables of three papers."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Call, CommandLine

KEYS = {
    "source",
    "strategy",
    "by",
    "resource",
    "jobs",
    "allocations",
    "waste_unit",
    "waste_fraction",
    "waste_gbh",
    "throughput",
    "oracle_share",
    "retries_fraction",
    "failures",
    "wrr",
    "ate",
    "decision_seconds",
}
SPREAD = {"waste_fraction", "waste_gbh", "throughput", "retries_fraction", "failures", "wrr", "ate"}
MB = 1e6

Results = list[dict[str, Any]]
Replay = Callable[..., Results]


@pytest.fixture
def run(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call ``tonnage replay size`` in the folder that `table` writes to."""
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "replay", "size")


@pytest.fixture
def replay(run: Call) -> Replay:
    def called(*words: object) -> Results:
        results: Results = run(*words, "--json").facts["results"]
        return results

    return called


def table(rows: Iterable[Iterable[object]], header: str = "category,memory,wall_time", name: str = "jobs.csv") -> str:
    Path(name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return name


SMALL = [("a", 100, 10), ("a", 300, 10), ("a", 200, 20), ("b", 400, 10), ("b", 400, 30)]
"""In MB and seconds: 1 + 3 + 4 + 4 + 12 GB*s are used."""


def test_a_replay_has_the_keys_that_scripts_rely_on(replay: Replay) -> None:
    results = replay(table(SMALL), "--strategies", "max-seen,auto", "--resource", "memory")
    assert [one["strategy"] for one in results] == ["max-seen", "auto"]
    for one in results:
        assert set(one) == KEYS | {f"{name}_sd" for name in SPREAD}
        assert (one["source"], one["by"], one["resource"], one["jobs"]) == ("jobs.csv", "category", "memory", 5)
        assert set(one["allocations"]) == {"a", "b"}


def test_all_known_beforehand_reckoned_by_hand(replay: Replay) -> None:
    (one,) = replay(table(SMALL), "--protocol", "tovar", "--bucket", "1MB", "--strategies", "max-seen")
    # a: 300 MB for 40 s, b: 400 MB for 40 s
    assert one["allocations"] == {"a": 300 * MB, "b": 400 * MB}
    assert one["waste_gbh"] == pytest.approx((28 - 24) / 3600)
    assert one["waste_fraction"] == pytest.approx(4 / 28)
    assert one["wrr"] == pytest.approx(1 - 4 / (0.4 * 80 - 24))
    assert one["ate"] == pytest.approx((1 / 3 + 1 + 2 / 3 + 1 + 1) / 5)
    assert (one["retries_fraction"], one["failures"]) == (0, 0)
    # a: 3 jobs, 4/3 of them beside each other, in 40 s; b: 2 jobs in 40 s; all with 400 MB: 5 jobs in 80 s.
    assert one["throughput"] == pytest.approx((3 * (4 / 40) + 2 * (2 / 40)) / 5 / (5 / 80))


def test_a_retry_gets_the_largest_peak_of_all_reckoned_by_hand(replay: Replay) -> None:
    rows = [("a", 100, 10)] * 8 + [("a", 200, 10)] + [("b", 1000, 10)]
    (one,) = replay(table(rows), "--protocol", "tovar", "--bucket", "1MB", "--strategies", "min-waste")
    # In a: 100 first costs 9 * 1 + 10 GB*s, 200 first 9 * 2.
    assert one["allocations"] == {"a": 200 * MB, "b": 1000 * MB}
    rows = [("a", 100, 10)] * 28 + [("a", 200, 10)] + [("b", 1000, 10)]
    (one,) = replay(table(rows), "--protocol", "tovar", "--bucket", "1MB", "--strategies", "min-waste")
    assert one["allocations"] == {"a": 100 * MB, "b": 1000 * MB}
    assert (one["failures"], one["retries_fraction"]) == (1, pytest.approx(1 / 30))
    assert one["waste_gbh"] == pytest.approx((28 + 1 + 10 + 10 - (28 + 2 + 10)) / 3600)


def test_jobs_without_run_time_are_dropped_where_the_paper_does(replay: Replay) -> None:
    rows = [*SMALL, ("a", 900, 0)]
    assert replay(table(rows), "--protocol", "tovar", "--strategies", "max-seen")[0]["jobs"] == 5


def test_learning_job_by_job_reckoned_by_hand(replay: Replay) -> None:
    header = "category,memory,wall_time,cores,disk"
    rows = [("a", memory, 10, 1, 10) for memory in (100, 200, 150, 400, 100)]
    words = ("--protocol", "phung", "--cold-start", 1, "--machine", "memory=1GB", "--strategies", "max-seen")
    (one,) = replay(table(rows, header), *words)
    # The last job is dropped. 1000; then 100 and 1000; then 200; then 200 and 1000.
    given = [1000, 1100, 200, 1200]
    assert one["jobs"] == 4
    assert one["failures"] == 2
    assert one["waste_gbh"] == pytest.approx((sum(given) - 850) / 100 / 3600)
    assert one["ate"] == pytest.approx((100 / 1000 + 200 / 1100 + 150 / 200 + 400 / 1200) / 4)
    assert one["allocations"] == {"a": 400 * MB}


def test_whole_machines_again_after_each_surprise_reckoned_by_hand(replay: Replay) -> None:
    rows = [("a", memory, 10) for memory in (100, 100, 100, 200, 100, 100, 100, 400)]
    words = ("--protocol", "tovar-online", "--converge", 2, "--bucket", "1MB", "--strategies", "max-seen")
    (one,) = replay(table(rows), *words)
    # Two on 400; 100; 100 is too little: 400; two on 400; 200; 200 is too little: 400.
    given = [400, 400, 100, 500, 400, 400, 200, 600]
    assert one["waste_gbh"] == pytest.approx((sum(given) - 1200) / 100 / 3600)
    assert one["failures"] == 2


def test_growing_only_what_is_exhausted_never_costs_more(replay: Replay) -> None:
    header = "category,memory,wall_time,cores,disk"
    peaks = [(100 + 37 * number % 400, 1 + number % 5, 50 + 61 * number % 300) for number in range(60)]
    source = table((("a", memory, 10, cores, disk) for memory, cores, disk in peaks), header)
    words = (source, "--protocol", "phung", "--resource", "memory", "--resource", "cores", "--resource", "disk")
    everything, exhausted = (
        replay(*words, "--strategies", "max-seen", "--grow", grow) for grow in ("all", "exhausted")
    )
    for all_grow, one_grows in zip(everything, exhausted, strict=True):
        assert all_grow["resource"] == one_grows["resource"]
        assert one_grows["waste_gbh"] <= all_grow["waste_gbh"]
    assert sum(one["waste_gbh"] for one in exhausted) < sum(one["waste_gbh"] for one in everything)


def test_sizey_is_the_mean_over_its_seeds(replay: Replay) -> None:
    rows = [("a", 100 + 37 * number % 400, 10 + number % 7) for number in range(60)]
    rows += [("few", 100, 10)] * 33 + [("untimed", 100, 10)] * 40 + [("untimed", 100, 0)]
    words = (table(rows), "--protocol", "sizey", "--strategies", "ladder")
    singles = [replay(*words, "--seed", seed)[0] for seed in (1, 2)]
    (both,) = replay(*words, "--seed", 1, "--seed", 2)
    assert set(both["allocations"]) >= {"a"}
    assert both["jobs"] == 42  # 30 % are known beforehand; too few jobs, or one without a run time: left out
    assert both["waste_gbh"] == pytest.approx(sum(one["waste_gbh"] for one in singles) / 2)
    assert both["waste_gbh_sd"] == pytest.approx(abs(singles[0]["waste_gbh"] - singles[1]["waste_gbh"]) / 2)
    assert singles[0]["waste_gbh_sd"] == 0
    assert replay(*words, "--seed", 1)[0]["waste_gbh"] == singles[0]["waste_gbh"]


def test_every_strategy_can_be_replayed_and_no_job_is_lost(replay: Replay) -> None:
    header = "category,memory,wall_time,cores,disk,input_bytes"
    rows = [("ab"[n % 2], 100 + 37 * n % 400, 10 + n % 7, 1 + n % 3, 50, 1000 * n) for n in range(1, 80)]
    for protocol in ("tovar", "tovar-online", "phung", "sizey"):
        for one in replay(table(rows, header), "--protocol", protocol):
            assert 0 <= one["waste_fraction"] < 1
            assert 0 < one["ate"] <= 1
            assert one["throughput"] > 0
            assert one["decision_seconds"] >= 0


def test_a_table_for_people_has_the_least_waste_first(run: Call) -> None:
    said = run(table(SMALL), "--protocol", "tovar", "--strategies", "whole-machine,max-seen,doubling").stdout
    title, header, *rows = said.strip().splitlines()
    assert title == "jobs.csv: memory, 5 jobs by category"
    assert header.split()[:4] == ["strategy", "wasted", "GB*h", "throughput"]
    assert rows[0].split()[0] == "max-seen"
    assert len(rows) == 3


def test_a_wrong_call_says_what_is_wrong_with_it(run: Call) -> None:
    def refused(*words: str) -> str:
        return run(*words, status=2).stderr

    source = table(SMALL)
    assert '"magic" is unknown' in refused(source, "--strategies", "max-seen,magic")
    assert "unknown for all of them: memory" in refused(table([("a", "NA", 10)], name="none.csv"))
    assert "unknown for all of them: cores, disk" in refused(source, "--protocol", "phung")
    assert "at least 34 measured jobs" in refused(source, "--protocol", "sizey")
    assert "--percentile: a share" in refused(source, "--percentile", "nan")
    assert "used 400 MB of memory, but the machine has 350 MB" in refused(
        source, "--protocol", "tovar", "--machine", "memory=350MB", "--strategies", "max-seen"
    )
    assert "no such file" in refused("absent.csv")


# Found while these tests were written.


@pytest.mark.parametrize("protocol", ["tovar", "tovar-online"])
def test_jobs_that_used_nothing_can_be_replayed(replay: Replay, protocol: str) -> None:
    assert replay(table([("a", 0, 10)] * 15), "--protocol", protocol, "--strategies", "max-seen")


def test_jobs_that_took_no_time_can_be_replayed(replay: Replay) -> None:
    source = table([("a", 5, 0, 1, 5)] * 15, "category,memory,wall_time,cores,disk")
    assert replay(source, "--protocol", "phung", "--strategies", "max-seen")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_some_jobs_that_used_nothing_can_be_bucketed(replay: Replay) -> None:
    source = table([("a", 0, 10, 1, 0)] * 15 + [("a", 5, 10, 1, 0)] * 2, "category,memory,wall_time,cores,disk")
    assert replay(source, "--protocol", "phung", "--strategies", "quantized,k-means")


def test_what_does_not_learn_does_not_wait_until_enough_is_known(replay: Replay) -> None:
    words = ("--protocol", "tovar-online", "--strategies", "doubling")
    (one,) = replay(table([("a", 100, 10)] * 10 + [("a", 800, 10)]), *words)
    assert one["waste_fraction"] < 0.5


# Tovar et al., Figures 10 to 12 (memory unless said otherwise). Allocations in MB, the others in % and as factors.

TOVAR: dict[str, dict[str, dict[str, tuple[dict[str, int], float, float, float]]]] = {
    "cms_simulation": {
        "category": {
            "max-seen": ({"ttW_mAODv2": 2000, "merge": 900, "ttZ_mAODv2": 2000}, 14.0767, 1.0933, 0),
            "min-waste-independent": ({"ttW_mAODv2": 1900, "merge": 850, "ttZ_mAODv2": 1900}, 14.4513, 1.0942, 3.895),
            "max-throughput": ({"ttW_mAODv2": 2000, "merge": 850, "ttZ_mAODv2": 2000}, 14.0474, 1.0980, 0.098),
            "min-waste": ({"ttW_mAODv2": 2000, "merge": 850, "ttZ_mAODv2": 2000}, 14.0474, 1.0980, 0.098),
        },
        "none": {
            "max-seen": ({"all": 2000}, 15.8822, 1, 0),
            "min-waste-independent": ({"all": 1900}, 16.1096, 0.9980, 3.797),
            "max-throughput": ({"all": 2000}, 15.8822, 1, 0),
        },
    },
    "bwa": {
        "category": {
            "max-seen": ({"Join": 4, "Split": 1304, "Analysis": 321}, 21.0444, 4.3764, 0),
            "min-waste-independent": ({"Join": 4, "Split": 50, "Analysis": 300}, 16.2419, 4.5635, 1.386),
            "max-throughput": ({"Join": 4, "Split": 50, "Analysis": 300}, 16.2419, 4.5635, 1.386),
        },
        "none": {
            "max-seen": ({"all": 1304}, 78.9432, 1, 0),
            "min-waste-independent": ({"all": 300}, 20.6487, 4.1537, 1.386),
            "max-throughput": ({"all": 300}, 20.6487, 4.1537, 1.386),
        },
    },
}


@pytest.mark.parametrize("name", ["bwa", pytest.param("cms_simulation", marks=pytest.mark.long)])
@pytest.mark.parametrize("by", ["category", "none"])
def test_the_tables_of_tovar_are_reproduced(replay: Replay, data: Path, name: str, by: str) -> None:
    expected = TOVAR[name][by]
    source = data / "sizing" / f"{name}.csv"
    results = replay(source, "--protocol", "tovar", "--by", by, "--strategies", ",".join(expected))
    for one in results:
        first, waste, throughput, retries = expected[one["strategy"]]
        assert {group: round(amount / MB) for group, amount in one["allocations"].items()} == first
        assert one["waste_fraction"] * 100 == pytest.approx(waste, abs=0.00006)
        assert one["throughput"] == pytest.approx(throughput, abs=0.00006)
        assert one["retries_fraction"] * 100 == pytest.approx(retries, abs=0.0006)
    assert {one["jobs"] for one in results} == {7434 if name == "bwa" else 30630}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bwa", {"cores": 1.968, "memory": 4.154, "disk": 51.304}),
        pytest.param("cms_simulation", {"cores": 1.943, "memory": 1.000, "disk": 8.887}, marks=pytest.mark.long),
    ],
)
def test_the_throughput_of_every_resource_is_that_of_figure_12(
    replay: Replay, data: Path, name: str, expected: dict[str, float]
) -> None:
    words = [word for resource in expected for word in ("--resource", resource)]
    source = data / "sizing" / f"{name}.csv"
    found = replay(source, "--protocol", "tovar", "--by", "none", "--strategies", "max-throughput", *words)
    assert {one["resource"]: round(one["throughput"], 3) for one in found} == expected


# Phung et al., Tables I (WRR) and II (ATE), memory, in %.

WORKFLOWS = ("colmena", "coffea", "normal_small", "uniform_large", "exponential_small", "bimodal_small_std", "trimodal")
BUCKETS = {"colmena": 2, "coffea": 3, "bimodal_small_std": 2, "trimodal": 3}
LEVEL_1 = (
    "62.768/34.444",
    "98.723/85.546",
    "88.404/56.274",
    "61.126/62.402",
    "2.369/16.128",
    "68.863/59.647",
    "48.499/46.353",
)
PHUNG: dict[tuple[str, int], tuple[str, ...]] = {
    ("whole-machine", 1): ("0/15.795", "0/0.614", "0/12.409", "0/39.086", "0/15.734", "0/31.254", "0/30.714"),
    ("doubling", 1): (
        "72.917/51.881",
        "88.105/4.916",
        "71.354/33.091",
        "-6.580/41.611",
        "57.132/27.588",
        "17.673/37.418",
        "30.279/43.253",
    ),
    ("declared", 1): (
        "63.485/33.240",
        "99.796/69.099",
        "84.916/48.432",
        "56.483/59.588",
        "0/15.734",
        "65.310/56.720",
        "42.796/43.660",
    ),
    ("quantized", 1): LEVEL_1,
    ("k-means", 1): LEVEL_1,
    ("quantized", 2): ("60.268/41.922", "97.872/45.273", *LEVEL_1[2:5], "43.344/43.398", "49.299/57.784"),
    ("k-means", 2): ("65.060/43.906", "98.051/45.935", *LEVEL_1[2:5], "86.988/84.232", "48.864/57.482"),
    ("quantized", 3): (LEVEL_1[0], "98.653/91.001", *LEVEL_1[2:5], "96.448/93.911", "80.762/71.266"),
    ("k-means", 3): (LEVEL_1[0], "98.653/91.001", *LEVEL_1[2:5], "96.448/93.911", "80.762/71.266"),
}


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(
    "workflow", [*WORKFLOWS[:2], *(pytest.param(name, marks=pytest.mark.long) for name in WORKFLOWS[2:])]
)
def test_the_tables_of_phung_are_reproduced(replay: Replay, data: Path, workflow: str, level: int) -> None:
    strategies = [name for name, at in PHUNG if at == level]
    if level > 1 and workflow not in BUCKETS:  # one type only: all levels are the same, and the faster one tells it
        strategies = ["k-means"]
    words: list[object] = ["--protocol", "phung", "--level", level, "--strategies", ",".join(strategies)]
    if level == 2:
        words += ["--buckets", BUCKETS.get(workflow, 1)]
    found = replay(data / "sizing" / f"phung_{workflow}.txt", *words)
    assert [one["strategy"] for one in found] == strategies
    for one in found:
        expected = PHUNG[one["strategy"], level][WORKFLOWS.index(workflow)]
        wrr, ate = (float(part) for part in expected.split("/"))
        assert one["wrr"] * 100 == pytest.approx(wrr, abs=0.06)
        assert one["ate"] * 100 == pytest.approx(ate, abs=0.06)


def test_level_2_has_as_many_buckets_as_there_are_types(replay: Replay) -> None:
    rows = [("abc"[n % 3], 100 * 3 ** (n % 3) + n, 10, 1, 10) for n in range(90)]
    source = table(rows, "category,memory,wall_time,cores,disk")
    words = (source, "--protocol", "phung", "--level", 2, "--strategies", "quantized")
    unsaid, one, three = (replay(*words, *more)[0]["wrr"] for more in ((), ("--buckets", 1), ("--buckets", 3)))
    assert unsaid == three != one


@pytest.mark.parametrize(
    ("workflow", "strategy", "level", "wrr", "ate"),
    [
        ("trimodal", "min-waste", 3, 84.2, 76.9),
        ("trimodal", "auto", 3, 84.9, 76.7),
        ("coffea", "auto", 3, 99.7, 91.3),
        pytest.param("exponential_small", "ladder", 3, 74.0, 44.0, marks=pytest.mark.long),
    ],
)
def test_growing_only_what_is_exhausted_beats_the_published_buckets(
    replay: Replay, data: Path, workflow: str, strategy: str, level: int, wrr: float, ate: float
) -> None:
    source = data / "sizing" / f"phung_{workflow}.txt"
    words = ("--protocol", "phung", "--level", level, "--grow", "exhausted", "--strategies", strategy)
    (one,) = replay(source, *words)
    assert one["wrr"] * 100 >= wrr - 0.5
    assert one["ate"] * 100 >= ate - 0.5


@pytest.mark.parametrize(
    ("trace", "rival", "said"),
    [
        ("methylseq", 653.5, 245.0),
        pytest.param("iwd", 0.361, 0.32, marks=pytest.mark.long),
        pytest.param("chipseq", 94.7, 46.7, marks=pytest.mark.long),
    ],
)
def test_auto_wastes_less_than_its_rivals_on_real_traces_as_the_documentation_says(
    replay: Replay, data: Path, trace: str, rival: float, said: float
) -> None:
    source = data / "traces" / f"nextflow_{trace}.csv"
    (one,) = replay(source, "--protocol", "sizey", "--strategies", "auto")  # the mean over the seeds 11 to 15
    assert one["waste_gbh"] < rival
    assert one["waste_gbh"] == pytest.approx(said, rel=0.02)
