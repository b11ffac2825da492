"""A watched command behaves as it would without the monitor: streams, signals, terminal, environment."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tonnage.watch import Summary
from watch.conftest import Watched

Watch = Callable[..., Watched]

# Notes every TERM, HUP, INT and USR1 in a file, ends after the first that is not USR1.
LISTENER = """
import os, signal, sys, time
got = []
for name in ("TERM", "HUP", "INT", "USR1"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame: got.append(signal.Signals(number).name))
open("ready", "w").close()
end = time.monotonic() + 20
while time.monotonic() < end and not got:
    time.sleep(0.01)
time.sleep(0.3)
open("got", "w").write(" ".join(got))
sys.exit(9)
"""


def start(monitor: list[str], folder: Path, command: list[str], *, new_group: bool = False) -> subprocess.Popen[bytes]:
    full = [*monitor, "--summary", str(folder / "summary.json"), "--", *command]
    return subprocess.Popen(full, cwd=folder, process_group=0 if new_group else None)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1"])
@pytest.mark.parametrize("to", ["the monitor", "its process group"])
def test_a_signal_reaches_the_command_once(name: str, to: str, monitor: list[str], tmp_path: Path) -> None:
    process = start(monitor, tmp_path, [sys.executable, "-c", LISTENER], new_group=True)
    wait_for(tmp_path / "ready")
    number = signal.Signals[name]
    if to == "the monitor":
        os.kill(process.pid, number)
    else:
        os.killpg(process.pid, number)
    assert process.wait(20) == 9
    assert (tmp_path / "got").read_text() == name
    assert Summary.read(tmp_path / "summary.json").exit_status == 9


def test_a_signal_to_both_processes_of_the_monitor_is_not_lost(monitor: list[str], tmp_path: Path) -> None:
    """As ``pkill tonnage`` does: neither is told by the other, and the command was not meant."""
    process = start(monitor, tmp_path, ["/bin/sleep", "30"], new_group=True)
    minder = child_of(process.pid)
    for pid in (minder, process.pid):
        os.kill(pid, signal.SIGTERM)
    assert process.wait(5) == -signal.SIGTERM


def child_of(pid: int) -> int:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found and Path(f"/proc/{found[0]}/task/{found[0]}/children").read_text().split():
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("the command was not started")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_command_that_dies_of_a_signal_takes_the_monitor_with_it(number: signal.Signals, watched: Watch) -> None:
    result = watched(command=["/bin/sh", "-c", f"kill -{number:d} $$; sleep 5"])
    assert result.status == -number
    assert (result.summary.exit_type, result.summary.signal) == ("signal", number)


def test_the_summary_exists_after_sigterm_to_the_monitor(monitor: list[str], tmp_path: Path) -> None:
    process = start(monitor, tmp_path, ["/bin/sleep", "30"])
    child_of(process.pid)
    process.terminate()
    assert process.wait(10) == -signal.SIGTERM
    summary = Summary.read(tmp_path / "summary.json")
    assert (summary.exit_type, summary.signal) == ("signal", signal.SIGTERM)
    assert summary.stopped_because is None


def test_sigterm_ends_what_a_command_left_behind(monitor: list[str], actor: str, tmp_path: Path) -> None:
    process = start(monitor, tmp_path, [actor, *["daemon", "{", "hold", "60", "}", "exit", "0"]])
    time.sleep(0.5)
    process.terminate()
    assert process.wait(10) == 0


def test_sigchld_ignored_by_the_caller_does_no_harm(monitor: list[str], tmp_path: Path) -> None:
    code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    words = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sh", "-c", "exit 3"]
    assert subprocess.run([sys.executable, "-c", code, *words], timeout=20, check=False).returncode == 3


def test_an_alarm_that_the_caller_set_ends_the_command(monitor: list[str], tmp_path: Path) -> None:
    code = "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])"
    words = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sleep", "30"]
    assert subprocess.run([sys.executable, "-c", code, *words], timeout=20, check=False).returncode == -signal.SIGALRM


def test_a_command_with_a_process_group_of_its_own_gets_signals_too(monitor: list[str], tmp_path: Path) -> None:
    # Not GNU timeout: that passes a signal on twice, to its child and to its group.
    process = start(monitor, tmp_path, [sys.executable, "-c", f"import os; os.setpgid(0, 0){LISTENER}"], new_group=True)
    wait_for(tmp_path / "ready")
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(20)
    assert (tmp_path / "got").read_text() == "SIGTERM"


def test_when_the_terminal_closes_the_command_gets_sighup(monitor: list[str], tmp_path: Path) -> None:
    """As with ``ssh -t host tonnage watch ...``: the monitor is then the leader of its session."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(monitor[0], [*monitor, "--summary", "s.json", "--", "/bin/sleep", "30"])
    child_of(pid)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGHUP
    assert Summary.read(tmp_path / "s.json").signal == signal.SIGHUP


def test_a_stopped_minder_is_continued(monitor: list[str], tmp_path: Path) -> None:
    options = ["--limit", "wall_time=1s", "--summary", str(tmp_path / "s.json"), "--"]
    process = subprocess.Popen([*monitor, *options, "/bin/sleep", "30"], stderr=subprocess.DEVNULL)
    os.kill(child_of(process.pid), signal.SIGSTOP)
    assert process.wait(10) == 124


def test_a_group_signal_that_ends_the_command_does_not_reach_a_daemon(monitor: list[str], tmp_path: Path) -> None:
    script = "setsid sh -c 'touch apart; sleep 1; touch survived' & while [ ! -e apart ]; do sleep 0.05; done; kill 0"
    process = start(monitor, tmp_path, ["/bin/sh", "-c", script], new_group=True)
    assert process.wait(20) == -signal.SIGTERM
    assert (tmp_path / "survived").exists()


def surroundings(prefix: list[str], folder: Path) -> str:
    script = (
        "grep -E '^Sig(Blk|Ign|Cgt)|^Threads|^NoNewPrivs' /proc/self/status; env | grep -v '^_=' | sort; umask;"
        " ulimit -a; pwd; ls /proc/self/fd | wc -l; cat /proc/self/oom_score_adj; ps -o ni= -p $$"
    )
    command = ["env", "-u", "LC_ALL", "-u", "LC_CTYPE", "-u", "LANG", *prefix, "/bin/bash", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    # glibc's posix_spawn ignores signals 32 and 33, which are its own and which no program can use.
    return re.sub(r"(?<=SigIgn:\t)\w+", lambda mask: f"{int(mask[0], 16) & ~(3 << 31):x}", ended.stdout)


def test_the_command_sees_what_it_would_see_without_the_monitor(monitor: list[str], tmp_path: Path) -> None:
    watched = surroundings([*monitor, "--summary", str(tmp_path.parent / "s.json"), "--"], tmp_path)
    assert watched == surroundings([], tmp_path)


def test_an_ignored_signal_stays_ignored(monitor: list[str], tmp_path: Path) -> None:
    inner = shlex.join([*monitor, "--summary", "s.json", "--", "grep", "SigIgn", "/proc/self/status"])
    ended = subprocess.run(
        ["/bin/sh", "-c", f"trap '' HUP; {inner}"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert int(ended.stdout.split()[1], 16) & 1


def test_streams_pass_through(monitor: list[str], tmp_path: Path) -> None:
    command = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sh", "-c", "cat; echo problem >&2"]
    ended = subprocess.run(command, input="some\ninput\n", capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("some\ninput\n", "problem\n")


def test_a_pipe_closes_when_the_command_closes_it(monitor: list[str], tmp_path: Path) -> None:
    command = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sh", "-c", "echo x; exec >&-; sleep 3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        begin = time.monotonic()
        assert process.stdout.read() == b"x\n"
        assert time.monotonic() - begin < 2
        assert process.wait() == 0


def test_other_open_files_pass_through(monitor: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    command = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/bash", "-c", f"echo jobserver >&{writer}"]
    subprocess.run(command, pass_fds=[writer], check=True)
    os.close(writer)
    assert os.read(reader, 100) == b"jobserver\n"
    os.close(reader)


def test_a_script_without_an_interpreter_line_is_run_as_shells_run_it(watched: Watch, place: Path) -> None:
    script = place / "script"
    script.write_text("echo from $0 $1; exit 6\n")
    script.chmod(0o755)
    result = watched(command=[str(script), "argument"])
    assert (result.status, result.stdout) == (6, f"from {script} argument\n")


@pytest.fixture
def user() -> str:
    """Rights make no difference here."""
    return "root"


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, monitor: list[str], folder: Path) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.environ["PS1"] = "PROMPT "
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self._seen = ""
        self.expect("PROMPT")
        words = shlex.join(monitor)
        self.type(f"watch() {{ {words} \"$@\"; }}; bind 'set enable-bracketed-paste off'\n")
        self.expect("PROMPT")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def expect(self, text: str, seconds: float = 15) -> str:
        """Read until a text appears; return all that came before and with it."""
        end = time.monotonic() + seconds
        while text not in self._seen:
            assert time.monotonic() < end, f"{text!r} did not appear in {self._seen!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                self._seen += os.read(self._terminal, 65536).decode(errors="replace")
        before, _, self._seen = self._seen.partition(text)
        return before + text

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@pytest.fixture
def terminal(monitor: list[str], tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(monitor, tmp_path)
    yield terminal
    terminal.close()


def test_ctrl_c_ends_the_command_and_a_loop_around_it(terminal: Terminal) -> None:
    terminal.type("for i in 1 2 3; do watch --summary s.json -- sleep 30; done; echo status $?\n")
    time.sleep(0.7)
    terminal.type("\x03")
    terminal.expect("PROMPT", 5)
    terminal.type("echo status $?\n")
    terminal.expect("status 130")


def test_ctrl_c_that_the_command_handles_is_its_own_affair(terminal: Terminal) -> None:
    terminal.type("watch -- bash -c 'trap \"echo heard it\" INT; echo rea''dy; sleep 5; echo end'; echo status $?\n")
    terminal.expect("ready")
    time.sleep(0.2)
    terminal.type("\x03")
    terminal.expect("heard it")
    terminal.expect("status 0", 5)


def test_ctrl_z_stops_the_command_and_fg_continues_it(terminal: Terminal) -> None:
    terminal.type("watch --summary s.json -- sh -c 'echo rea''dy; sleep 1; echo fini''shed'\n")
    terminal.expect("ready")
    time.sleep(0.3)  # a shell that is just starting a program cannot be stopped, with or without us
    terminal.type("\x1a")
    terminal.expect("Stopped", 5)
    time.sleep(1.2)
    terminal.type("ps -o stat= -C sleep; echo lis''ted\n")
    assert "T" in terminal.expect("listed")
    terminal.type("fg\n")
    terminal.expect("finished", 5)
    terminal.type("echo status $?\n")
    terminal.expect("status 0")


def test_a_background_command_that_reads_the_terminal_stops_until_it_is_in_front(terminal: Terminal) -> None:
    terminal.type("watch --summary s.json -- head -n 1 &\n")
    time.sleep(0.5)
    terminal.type("\n")
    terminal.expect("Stopped", 5)
    terminal.type("fg\n")
    time.sleep(0.3)
    terminal.type("typed\n")
    terminal.expect("typed")
    terminal.expect("typed", 5)
    terminal.expect("PROMPT")


def test_an_interactive_program_works(terminal: Terminal) -> None:
    terminal.type("watch --summary s.json -- bash --norc -i\n")
    terminal.type("PS1='INNER '\n")
    terminal.expect("INNER ")
    terminal.type("sleep 30\n")
    time.sleep(0.4)
    terminal.type("\x1a")
    terminal.expect("Stopped", 5)
    terminal.type("kill -9 %1; while kill -0 %1 2>/dev/null; do sleep 0.1; done; jobs; exit 7\n")
    terminal.type("echo status $?\n")
    terminal.expect("status 7", 5)


def test_the_live_line_is_shown_on_a_terminal_only(terminal: Terminal, monitor: list[str], actor: str) -> None:
    terminal.type(f"watch --live --summary s.json -- {actor} take 50 hold 1; echo do''ne\n")
    shown = terminal.expect("done")
    assert re.search(r"5[34](\.\d)? MB memory", shown), shown
    ended = subprocess.run(
        [*monitor, "--live", "--summary", "/dev/null", "--", "/bin/sleep", "0.3"], capture_output=True, check=True
    )
    assert ended.stderr == b""
