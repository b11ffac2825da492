"""The paper's experiment: its moments, its parts, its figures, and going on where it was."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.pack.swf_logs import HOUR, NODES, busy_jobs, swf
from tonnage.batch import Cluster, Workload
from tonnage.errors import InputError
from tonnage.lab import pack_replay
from tonnage.lab.pack_checkpoint import Saved
from tonnage.lab.pack_replay import (
    Chunk,
    Crossings,
    Experiment,
    Player,
    chunks,
    results,
    scores,
    submission_times,
    try_out,
)
from tonnage.logs.log import Log
from tonnage.pack import PACKERS, Work, simulate
from tonnage.workflow import read
from tonnage.workflow.families import FAMILIES

DAY = 24 * HOUR
WORKLOAD = Workload.read(Log.of(swf(busy_jobs())))
WORKS = {name: Work.of(FAMILIES[name].generate(25)) for name in ("cybershake", "epigenomics")}
TIMES = submission_times(WORKLOAD, every=6 * HOUR, days=2, warmup=DAY, spread=False)
EXPERIMENT = Experiment(TIMES, ("per-task", "zhang", "glume"), caps=(2, 16))


def played(experiment: Experiment = EXPERIMENT) -> dict[Chunk, Crossings]:
    player = Player(WORKS, WORKLOAD, experiment)
    return {chunk: player(chunk) for chunk in chunks(WORKS, experiment)}


PLAYED = played()


def test_moments_count_from_the_first_submission() -> None:
    first = int(WORKLOAD.submit[0])
    assert first == 5_000
    usual = submission_times(WORKLOAD, every=1800, days=6, warmup=DAY, spread=False)
    assert len(usual) == 289
    assert usual[:2] == (first + DAY, first + DAY + 1800)
    assert usual[-1] == first + 7 * DAY


def test_spread_moments_are_as_many_over_the_whole_log() -> None:
    spread = submission_times(WORKLOAD, every=1800, days=6, warmup=DAY, spread=True)
    assert len(spread) == 289
    assert (spread[0], spread[-1]) == (int(WORKLOAD.submit[0]) + DAY, int(WORKLOAD.submit[-1]) - DAY)
    gaps = np.diff(spread)
    assert gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize(
    ("every", "days", "warmup", "spread"),
    [
        (1800, 10.0, DAY, False),
        (1800, 6.0, 6 * DAY, True),
        (0, 6.0, 0, False),
        (1, 12.0, 0, True),
        (60, -1.0, 0, False),
    ],
)
def test_moments_that_the_log_does_not_have_are_refused(every: int, days: float, warmup: int, spread: bool) -> None:
    with pytest.raises(InputError):
        submission_times(WORKLOAD, every=every, days=days, warmup=warmup, spread=spread)


def test_each_crossing_is_that_of_the_workflow_alone() -> None:
    for chunk, found in PLAYED.items():
        cluster = Cluster(NODES, WORKLOAD, max_submitted=chunk.cap)
        cluster.advance(TIMES[chunk.begin])
        outcome = simulate(WORKS[chunk.workflow], cluster, "glume")
        assert found[2, 0].tolist() == [outcome.makespan, outcome.expired, outcome.idle]


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_it_does_not_matter_how_the_work_is_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(EXPERIMENT, PLAYED, "zhang"), scores(EXPERIMENT, PLAYED)
    monkeypatch.setattr(pack_replay, "_CHUNK", size)
    again = played()
    assert len(again) == 2 * 2 * -(-len(TIMES) // size)
    assert (results(EXPERIMENT, again, "zhang"), scores(EXPERIMENT, again)) == expected
    if size == 4:
        del again[chunks(WORKS, EXPERIMENT)[0]]
        with pytest.raises(ValueError, match="missing"):
            results(EXPERIMENT, again, "zhang")


def test_a_player_can_be_sent_to_another_process() -> None:
    chunk = chunks(WORKS, EXPERIMENT)[0]
    twin = pickle.loads(pickle.dumps(Player(WORKS, WORKLOAD, EXPERIMENT)))
    assert np.array_equal(twin(chunk), PLAYED[chunk])


def made_up(*makespans: tuple[int, ...]) -> Crossings:
    """Crossings of these makespans, a row for each strategy; one batch job expires and 3,600 seconds are idle each."""
    table = np.array(makespans, np.int64)
    return np.stack([table, np.ones_like(table), np.full_like(table, 3600)], axis=2)


def test_improvements_are_means_of_ratios_and_wins_count_beyond_five_percent() -> None:
    experiment = Experiment((0, 1), ("zhang", "glume"))
    makespans = {"a": ((100, 200), (50, 200)), "b": ((100, 100), (97, 97)), "c": ((100, 100), (110, 110))}
    table = {Chunk(name, 16, 0, 2): made_up(*both) for name, both in makespans.items()}
    found = {(one.workflow, one.strategy): one for one in results(experiment, table, "zhang")}
    assert found["a", "glume"].improvement == pytest.approx(0.25)
    assert found["a", "zhang"].improvement == 0
    one = found["b", "glume"]
    assert (one.cap, one.submissions, one.mean_makespan, one.expired, one.idle_hours) == (16, 2, 97, 2, 1)
    score = next(one for one in scores(experiment, table) if one.strategy == "glume")
    assert (score.rival, score.wins(), score.losses(), score.wins(0), score.losses(0)) == ("zhang", 1, 1, 2, 1)


def test_a_strategy_or_baseline_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="magic"):
        Experiment((0,), ("magic",))
    with pytest.raises(InputError, match="one-job"):
        results(EXPERIMENT, PLAYED, "one-job")


def saved(path: Path, experiment: Experiment = EXPERIMENT) -> Saved:
    return Saved(path, WORKS, WORKLOAD, experiment)


def test_what_is_done_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "done"
    first = saved(path)
    for chunk, found in list(PLAYED.items())[:2]:
        first.add(chunk, found)
    again = saved(path)
    assert list(again.done) == list(PLAYED)[:2]
    assert all(np.array_equal(again.done[chunk], PLAYED[chunk]) for chunk in again.done)


def test_wherever_a_run_was_killed_whole_parts_remain(tmp_path: Path) -> None:
    path = tmp_path / "done"
    first = saved(path)
    header = path.stat().st_size
    for chunk, found in list(PLAYED.items())[:2]:
        first.add(chunk, found)
    data = path.read_bytes()
    for size in range(header, len(data) + 1, 7):
        path.write_bytes(data[:size])
        again = saved(path)
        assert len(again.done) == data[:size].count(b"\n") - 1
        again.add(*list(PLAYED.items())[2])
        assert len(saved(path).done) == len(again.done)


def test_other_parameters_are_refused_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "done"
    saved(path)
    data = path.read_bytes()
    others = [
        Experiment(TIMES[:-1], EXPERIMENT.strategies, EXPERIMENT.caps),
        Experiment(TIMES, EXPERIMENT.strategies, EXPERIMENT.caps, requests="real"),
        Experiment(TIMES, EXPERIMENT.strategies, (None,)),
    ]
    for other in others:
        with pytest.raises(InputError, match="a replay with different"):
            saved(path, other)
    with pytest.raises(InputError, match="different workflows"):
        Saved(path, {"cybershake": WORKS["cybershake"]}, WORKLOAD, EXPERIMENT)
    halves = {name: replace(work, shares=(work.seconds * 0 + 500,) * 2) for name, work in WORKS.items()}
    with pytest.raises(InputError, match="different workflows"):
        Saved(path, halves, WORKLOAD, EXPERIMENT)
    with pytest.raises(InputError, match="different log"):
        Saved(path, WORKS, WORKLOAD.head(50), EXPERIMENT)
    assert path.read_bytes() == data


def test_a_folder_is_no_file_to_keep_parts_in(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        saved(tmp_path)


def test_parts_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "done"
    saved(path)
    monkeypatch.setattr("tonnage.lab.pack_checkpoint.__version__", "99.9")
    with pytest.raises(InputError, match="different version"):
        saved(path)


@pytest.mark.parametrize("text", ["hello\nworld", "no line", "[1]\n", '{"kind": "other"}\n{'])
def test_a_file_of_something_else_is_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text(text)
    with pytest.raises(InputError, match="not the file of an interrupted replay"):
        saved(path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line", ["7", "{}", json.dumps({"workflow": "a", "cap": 2, "begin": 0, "end": 9, "found": []})]
)
def test_a_damaged_part_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "done"
    saved(path)
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match=r"done:2: is not a part of this replay"):
        saved(path)


@pytest.mark.parametrize("strategy", PACKERS)
def test_the_first_decision_of_a_trial_is_what_is_submitted_first(strategy: str) -> None:
    _, (trial,) = try_out(WORKS["epigenomics"], WORKLOAD, Experiment(TIMES[3:4], (strategy,)))
    assert trial.reason
    assert trial.first
    begun = [one for one in trial.outcome.carried if one.submitted == trial.begin]
    for asked, carried in zip(trial.first, begun, strict=False):
        assert (asked.levels, asked.nodes, asked.seconds) == (
            carried.job.levels,
            carried.job.nodes,
            carried.job.seconds,
        )
        assert asked.tasks.tolist() == carried.job.tasks.tolist()


def test_with_accurate_requests_one_job_is_done_when_it_is_estimated_to_be() -> None:
    _, (trial,) = try_out(WORKS["epigenomics"], WORKLOAD, Experiment(TIMES[3:4], ("one-job",)))
    assert trial.estimate == trial.outcome.makespan


@pytest.mark.parametrize("strategy", PACKERS)
@pytest.mark.parametrize("name", ["cybershake", "montage", "sipht"])
def test_tasks_that_take_longer_than_expected_are_all_done_in_the_end(strategy: str, name: str) -> None:
    work = Work.of(FAMILIES[name].generate(80))
    work = work.taking(work.seconds + 120)
    actual = work.seconds * 5 // 2
    cluster = Cluster(NODES, WORKLOAD, max_submitted=4)
    cluster.advance(TIMES[3])
    outcome = simulate(work, cluster, strategy, actual=actual)
    assert sum(one.busy for one in outcome.carried) == actual.sum()
    assert outcome.expired
    assert outcome.makespan >= actual.max()


@pytest.mark.parametrize(
    ("log", "requests", "moment", "name", "strategy"),
    [
        ("sdsc-sp2", "real", 845_664, "CYBERSHAKE_250_360000", "glume"),
    ],
)
def test_a_batch_job_may_expire_when_others_start_or_tasks_go_on_their_own(
    log: str, requests: str, moment: int, name: str, strategy: str, data: Path
) -> None:
    workload = Workload.load(data / "queues" / f"{log}.swf.gz")
    work = Work.of(read(data / "workflows" / "glume" / f"{name}.dax"))
    cluster = Cluster(workload.machine_nodes, workload, requests=requests, max_submitted=16)
    cluster.advance(moment)
    outcome = simulate(work, cluster, strategy)
    assert outcome.expired
    assert sum(one.busy for one in outcome.carried) == work.seconds.sum()
