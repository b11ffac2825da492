"""Watching from Python."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.waiting import until
from tests.watch.conftest import MB
from tonnage import InputError, Summary, TonnageError, measure


def test_it_returns_what_was_used(actor: str, tmp_path: Path) -> None:
    series = tmp_path / "series.csv"
    summary = measure(
        [actor, *["take", "50", "hold", "0.2", "exit", "0"]],
        limits={"memory": "1GB", "wall_time": 2 * HANGS},
        category="align",
        workflow="genomes",
        fields={"sample": "NA12878"},
        folder=tmp_path,
        series=series,
    )
    assert isinstance(summary, Summary)
    assert summary.ok
    assert summary.memory == pytest.approx(51 * MB, rel=0.05)
    assert (summary.category, summary.workflow, summary.fields) == ("align", "genomes", {"sample": "NA12878"})
    assert series.exists()


def test_failure_and_limits_are_told_by_the_summary(actor: str) -> None:
    failed = measure([actor, "exit", "3"])
    assert not failed.ok
    assert failed.exit_status == 3
    stopped = measure([actor, "take", "50", "hold", "60"], limits={"memory": 20_000_000}, stderr=subprocess.DEVNULL)
    assert not stopped.ok
    assert stopped.limits_exceeded == {"memory": pytest.approx(20_000_000, rel=0.001)}


def test_numbers_are_in_base_units(actor: str) -> None:
    for resource, amount in {"cores": 8, "processes": 50, "cpu_time": 0.75, "disk": 1e12, "memory": 1.5e9}.items():
        assert measure([actor, "hold", "0.05"], limits={resource: amount}).ok


def test_a_wrong_call_raises() -> None:
    with pytest.raises(InputError, match="ram"):
        measure(["/bin/true"], limits={"ram": 3})
    with pytest.raises(TonnageError, match="not found"):
        measure(["no-such-command-here"])
    with pytest.raises(InputError, match="no command"):
        measure([])


def test_odd_arguments_are_refused_or_understood() -> None:
    for command, limits in [("true", {}), (["/bin/true"], {"memory": float("nan")}), (["/bin/true"], {"cores": None})]:
        with pytest.raises(InputError):
            measure(command, limits=limits)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="PIPE"):
        measure(["/bin/true"], stdout=subprocess.PIPE)
    assert measure([Path("/bin/true")], grace="1s", limits={"wall_time": 1e15}).ok


def test_an_interrupt_lets_the_command_clean_up(tmp_path: Path) -> None:
    code = "import sys; from tonnage import measure; measure(sys.argv[1:])"
    script = "trap 'sleep 0.3; echo cleaned > cleaned; exit 0' INT; touch ready; while :; do sleep 0.02; done"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "/bin/sh", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    until((tmp_path / "ready").exists)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert "KeyboardInterrupt" in said
    assert (tmp_path / "cleaned").exists()


def test_streams_can_be_redirected(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        assert measure(["/bin/echo", "hello"], stdout=out).ok
    assert (tmp_path / "out").read_text() == "hello\n"


def test_the_calling_process_gets_no_foreign_children(actor: str) -> None:
    """A notebook must not become the parent of daemons."""
    code = "import os, sys; from tonnage import measure; measure(sys.argv[1:]); os.waitpid(-1, 0)"
    command = [sys.executable, "-c", code, actor, "daemon", "{", "hold", "0.2", "}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ChildProcessError" in ended.stderr


def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resource.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    assert measure(["/bin/true"]).ok
