"""How attempts on a cluster ended: the monitor's word first, then the cluster's, and nobody is tried for ever."""

import signal

import pytest

from tonnage.batch.scheduler import Verdict
from tonnage.batch.slurm.output_markers import verdict_from_output
from tonnage.jobs import Outcome, Resource
from tonnage.run.backends.batch.verdicts import explained, needs_verdict
from tonnage.run.events import Ended
from tonnage.run.minders import Answer
from tonnage.watch.order import MONITOR_KILLED, TERMINATED

LOST = Ended(attempt=1, outcome=Outcome.LOST, killed=True, note="its monitor was killed")


@pytest.mark.parametrize(
    ("answer", "needed"),
    [
        (Answer(1, status=0), False),
        (Answer(1, status=3 << 8), False),
        (Answer(1, status=int(signal.SIGSEGV)), False),
        (Answer(1, status=int(signal.SIGKILL)), True),
        (Answer(1, status=int(signal.SIGKILL), stopped_because="limit", exceeded={"memory": (1, 2)}), False),
        (Answer(1, status=int(signal.SIGTERM), stopped_because=TERMINATED), True),
        (Answer(1, stopped_because=MONITOR_KILLED, lost=True), True),
        (Answer(1, error="no such program"), False),
    ],
)
def test_the_cluster_is_asked_only_where_the_monitor_does_not_know(answer: Answer, needed: bool) -> None:
    assert needs_verdict(answer) is needed


@pytest.mark.parametrize(
    ("verdict", "outcome", "exhausted", "killed"),
    [
        (Verdict(Outcome.EXHAUSTED, Resource.WALL_TIME), Outcome.EXHAUSTED, Resource.WALL_TIME, False),
        (Verdict(Outcome.EXHAUSTED, Resource.MEMORY), Outcome.EXHAUSTED, Resource.MEMORY, False),
        (Verdict(Outcome.PREEMPTED), Outcome.PREEMPTED, None, False),
        (Verdict(Outcome.LOST, note="node n3 failed"), Outcome.LOST, None, False),
        (Verdict(Outcome.CANCELLED), Outcome.CANCELLED, None, False),
        (Verdict(Outcome.DONE), Outcome.LOST, None, True),
        (Verdict(Outcome.FAILED, exit_status=127, note="exit status 127"), Outcome.LOST, None, True),
        (Verdict(), Outcome.LOST, None, True),
    ],
)
def test_what_the_cluster_says_decides_what_becomes_of_the_task(
    verdict: Verdict, outcome: Outcome, exhausted: Resource | None, killed: bool
) -> None:
    end = explained(LOST, verdict)
    assert (end.outcome, end.exhausted, end.killed) == (outcome, exhausted, killed)
    assert end.note


@pytest.mark.parametrize(
    ("printed", "outcome", "exhausted"),
    [
        (
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-16T17:00:00 DUE TO TIME LIMIT ***",
            Outcome.EXHAUSTED,
            Resource.WALL_TIME,
        ),
        (
            "slurmstepd: error: Job 7 exceeded memory limit (204800000 > 52428800), being killed",
            Outcome.EXHAUSTED,
            Resource.MEMORY,
        ),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=9.batch. Some of your processes may have been "
            "killed by the cgroup out-of-memory handler.",
            Outcome.EXHAUSTED,
            Resource.MEMORY,
        ),
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-16 DUE TO PREEMPTION ***", Outcome.PREEMPTED, None),
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-16 DUE TO NODE FAILURE ***", Outcome.LOST, None),
    ],
)
def test_slurm_writes_into_the_output_why_it_ends_a_job(
    printed: str, outcome: Outcome, exhausted: Resource | None
) -> None:
    verdict = verdict_from_output(f"something else\n{printed}\n")
    assert verdict is not None
    assert (verdict.outcome, verdict.exhausted) == (outcome, exhausted)


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "srun: cluster configuration lacks support for cpu binding\n",
        "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-16T17:00:00 ***",
        "my own log: DUE TO TIME LIMIT\n",
    ],
)
def test_what_others_print_says_nothing(printed: str) -> None:
    assert verdict_from_output(printed) is None
