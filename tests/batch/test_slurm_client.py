"""How Slurm's programs are called, with fake programs in their place."""

import os
import time
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tonnage.batch.scheduler import Request
from tonnage.batch.slurm import Slurm, SlurmOptions
from tonnage.batch.slurm.client import Client
from tonnage.errors import (
    InputError,
    ProgramFailedError,
    SchedulerUnreachableError,
    SubmissionRejectedError,
    TonnageError,
)

_POLICY = (
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size"
    " and/or time limits)"
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for fake programs, the only one on the PATH besides the system's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin-none:/bin-none")
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
    (folder / name).chmod(0o755)


def request(folder: Path) -> Request:
    return Request(name="job-1", words=("true",), folder=folder, output=folder / "out")


def test_a_machine_without_slurm_is_an_error_of_the_call(programs: Path) -> None:
    with pytest.raises(InputError, match="Slurm is not available on this machine: scontrol was not found") as problem:
        Slurm().limits()
    assert "login node" in str(problem.value.hint)
    with pytest.raises(InputError, match="sbatch was not found"):
        Slurm().submit(request(programs), programs / "x")


def test_variables_that_change_what_programs_do_are_not_handed_on(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_EXPORT", "SQUEUE_FORMAT", "SACCT_FORMAT", "SLURM_CONF", "MINE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    program(programs, "squeue", "env")
    program(programs, "sbatch", "env")
    client = Client()
    asked = dict(line.split("=", 1) for line in client.run("squeue").splitlines())
    assert {"SLURM_CONF", "MINE", "SLURM_TIME_FORMAT"} < asked.keys()
    assert asked.keys().isdisjoint({"SLURM_JOB_ID", "SBATCH_EXPORT", "SQUEUE_FORMAT", "SACCT_FORMAT"})
    given = dict(line.split("=", 1) for line in client.submit().splitlines())
    assert given["LC_ALL"] == "de_DE.UTF-8"  # a job inherits it
    assert [name for name in given if name.startswith(("SLURM_", "SBATCH_"))] == ["SLURM_CONF"]
    assert client.calls == {"squeue": 1, "sbatch": 1}


def test_jobs_inherit_who_pays_and_options_beat_that_for_tonnages_own(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task may call sbatch too; and sbatch itself lets its variables override a script."""
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    monkeypatch.setenv("SBATCH_QOS", "")
    program(programs, "sbatch", f'echo "$@" $SBATCH_ACCOUNT ${{SBATCH_QOS-none}} > {programs}/words; echo 7')
    options = SlurmOptions(account="other", partition="main", qos="high")
    Slurm(options).submit(request(programs), programs / "x")
    given = (programs / "words").read_text().split()
    assert given == ["--parsable", "--partition=main", "--account=other", "--qos=high", f"{programs}/x", "lab", "none"]


@pytest.mark.parametrize(
    "said",
    [
        "squeue: error: slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "slurm_load_node error: Zero Bytes were transmitted or received",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Communication connection failure",
        "squeue: error: Munge encode failed: Failed to connect to the socket: Connection refused",
        "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:db:6819",
        "slurm_load_jobs error: Slurm backup controller in standby mode",
        "squeue: fatal: Could not establish a configuration source",
    ],
)
def test_silence_is_not_a_refusal(programs: Path, said: str) -> None:
    program(programs, "squeue", f"cat >&2 <<'END'\n{said}\nEND\nexit 1")
    with pytest.raises(SchedulerUnreachableError, match="does not answer"):
        Slurm().poll()


def test_other_errors_are_told_in_slurms_words(programs: Path) -> None:
    program(programs, "squeue", "echo 'squeue: error: Access/permission denied' >&2; exit 1")
    with pytest.raises(ProgramFailedError, match="squeue: Access/permission denied"):
        Slurm().poll()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", SubmissionRejectedError),
        (f"sbatch: error: AssocMaxSubmitJobLimit\n{_POLICY}", SchedulerUnreachableError),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{_POLICY}", SchedulerUnreachableError),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", SchedulerUnreachableError),
        (f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{_POLICY}", SubmissionRejectedError),
    ],
)
def test_a_full_queue_is_no_refusal_for_good(programs: Path, said: str, kind: type[TonnageError]) -> None:
    program(programs, "sbatch", f"cat >&2 <<'END'\n{said}\nEND\nexit 1")
    program(
        programs, "scontrol", "case $* in *config*) echo A = b;; *) echo PartitionName=main Default=YES State=UP;; esac"
    )
    with pytest.raises(kind):
        Slurm().submit(request(programs), programs / "x")


@pytest.mark.parametrize(("printed", "number"), [("17", "17"), ("17;cluster", "17")])
def test_the_number_of_a_job(programs: Path, printed: str, number: str) -> None:
    program(programs, "sbatch", f"echo '{printed}'")
    assert Slurm().submit(request(programs), programs / "x") == number


def test_no_number_is_no_answer(programs: Path) -> None:
    program(programs, "sbatch", "echo Submitted batch job")
    with pytest.raises(SchedulerUnreachableError, match="printed no job number"):
        Slurm().submit(request(programs), programs / "x")


def test_a_program_that_does_not_end_is_ended(programs: Path, tmp_path: Path) -> None:
    program(programs, "squeue", f"echo $$ > {tmp_path}/pid; echo some words >&2; exec sleep {2 * HANGS}")
    with pytest.raises(SchedulerUnreachableError, match=r"has not answered after 3 s: some words"):
        Client().run("squeue", seconds=3)  # enough for it to print its message, even on a busy machine
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_program_that_prints_without_end_is_ended(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.batch.programs._LARGEST", 1 << 22)
    program(programs, "squeue", "exec cat /dev/zero")
    with pytest.raises(TonnageError, match="printed more than"):
        Client().run("squeue")


def test_a_question_of_thousands_of_jobs_is_asked_in_few_calls(programs: Path) -> None:
    program(programs, "squeue", "exit 0")
    program(programs, "scontrol", "echo AccountingStorageType = accounting_storage/none")
    slurm = Slurm()
    assert slurm.verdicts([f"7_{number}" for number in range(10_000)] + [str(number) for number in range(5_000)]) == {}
    assert slurm.calls["squeue"] == 1


def test_an_accounting_that_is_silent_leaves_open_what_the_controller_forgot(programs: Path) -> None:
    program(programs, "squeue", "echo '7|FAILED|256|0|1|2|n1|NonZeroExitCode|'")
    program(programs, "scontrol", "echo AccountingStorageType = accounting_storage/slurmdbd")
    program(programs, "sacct", "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1")
    assert Slurm().verdicts(["7"])["7"].exit_status == 1
    with pytest.raises(SchedulerUnreachableError):
        Slurm().verdicts(["7", "8"])


def test_jobs_that_have_not_ended_are_not_looked_for_in_the_accounting(programs: Path) -> None:
    program(programs, "squeue", "echo '7|RUNNING|0|0|1|2|n1|None|'; echo '8|COMPLETED|0|0|1|2|n1|None|'")
    slurm = Slurm()
    assert slurm.verdicts(["7", "8"]).keys() == {"8"}
    assert slurm.calls == {"squeue": 1}


def test_what_cannot_be_cancelled_is_told(programs: Path) -> None:
    program(
        programs, "scancel", "echo 'scancel: error: Kill job error on job id 7: Access/permission denied' >&2; exit 1"
    )
    with pytest.raises(ProgramFailedError, match="permission denied"):
        Slurm().cancel(["7"])
    program(
        programs, "scancel", "echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2; exit 1"
    )
    Slurm().cancel(["7"])


def test_elements_are_cancelled_as_ranges(programs: Path, tmp_path: Path) -> None:
    program(programs, "scancel", f'echo "$@" >> {tmp_path}/words')
    Slurm().cancel(["5", "7_1", "7_2", "7_3", "7_9", "5_1"])
    Slurm().cancel([])
    assert (tmp_path / "words").read_text() == "--quiet 5 7_[1-3,9]\n"


def test_where_others_jobs_are_hidden_two_questions_tell_of_their_nodes(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time())
    monkeypatch.setattr("os.getuid", lambda: 1000)
    nodes = "".join(f"NodeName=n{n} CPUAlloc={4 * (n > 1)} CPUEfctv=4 RealMemory=9 State=MIXED\n" for n in (1, 2, 3))
    (programs / "nodes").write_text(nodes)
    program(
        programs,
        "scontrol",
        "case $* in *config*) echo PrivateData = jobs,usage; echo AccountingStorageType = accounting_storage/none;;"
        f" *node*) cat {programs}/nodes;; *partition*) echo 'PartitionName=main Default=YES Nodes=n[1-3]';; esac",
    )
    program(programs, "squeue", "exit 0")
    start = f"$(grep -q nodes=1 && echo {now + 100} || echo {now + 900})"
    program(
        programs, "sbatch", f"echo sbatch: Job 5 to start at {start} using 1 processors on nodes n2 in partition x >&2"
    )
    slurm = Slurm()
    queue = slurm.queue()
    assert slurm.calls["sbatch"] == 2
    assert [queue.earliest(count, 60) - now for count in (1, 2, 3)] == pytest.approx([0, 100, 900], abs=5)
    assert "hidden" in slurm.limits().notes[0]


def test_every_call_of_a_program_can_be_logged(programs: Path, caplog: pytest.LogCaptureFixture) -> None:
    program(programs, "squeue", "exit 3")
    with caplog.at_level("DEBUG", "tonnage"), pytest.raises(ProgramFailedError):
        Slurm().poll()
    assert "squeue ended with status 3 after" in caplog.text
