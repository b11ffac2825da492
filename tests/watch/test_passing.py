"""A watched command behaves as it would without the monitor: streams, signals, terminal, environment."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deadlines import HANGS
from tests.processes import commands_with, minder_and_command
from tests.waiting import until
from tests.watch.conftest import Watched
from tonnage import Summary
from tonnage.watch.proc import Process, children, read

Watch = Callable[..., Watched]

# Records every TERM, HUP, INT and USR1 in a file, and ends a while after the first.
LISTENER = f"""
import os, signal, sys, time
got = []
for name in ("TERM", "HUP", "INT", "USR1"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame: got.append(signal.Signals(number).name))
open("ready", "w").close()
end = time.monotonic() + {HANGS}
while time.monotonic() < end and not got:
    time.sleep(0.01)
time.sleep(0.3)
open("got", "w").write(" ".join(got))
sys.exit(9)
"""


def start(monitor: list[str], folder: Path, command: list[str], *, new_group: bool = False) -> subprocess.Popen[bytes]:
    full = [*monitor, "--summary", str(folder / "summary.json"), "--", *command]
    return subprocess.Popen(full, cwd=folder, process_group=0 if new_group else None)


def minder_of(process: "subprocess.Popen[bytes]") -> int:
    """Return the minder, once it has started the command."""
    return until(lambda: minder_and_command(process.pid))[0]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1"])
@pytest.mark.parametrize("to", ["the monitor", "its process group"])
def test_a_signal_reaches_the_command_once(name: str, to: str, monitor: list[str], tmp_path: Path) -> None:
    process = start(monitor, tmp_path, [sys.executable, "-c", LISTENER], new_group=True)
    until((tmp_path / "ready").exists)
    number = signal.Signals[name]
    if to == "the monitor":
        os.kill(process.pid, number)
    else:
        os.killpg(process.pid, number)
    assert process.wait(HANGS) == 9
    assert (tmp_path / "got").read_text() == name
    assert Summary.read(tmp_path / "summary.json").exit_status == 9


def test_a_signal_to_both_processes_of_the_monitor_is_not_lost(monitor: list[str], tmp_path: Path) -> None:
    """As ``pkill tonnage`` does: both get the signal directly, and it is not meant for the command."""
    process = start(monitor, tmp_path, ["/bin/sleep", "400"], new_group=True)
    for pid in (minder_of(process), process.pid):
        os.kill(pid, signal.SIGTERM)
    assert process.wait(HANGS) == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_command_that_dies_of_a_signal_takes_the_monitor_with_it(number: signal.Signals, watched: Watch) -> None:
    result = watched(command=["/bin/sh", "-c", f"kill -{number:d} $$; sleep 60"])
    assert result.status == -number
    assert (result.summary.exit_type, result.summary.signal) == ("signal", number)


def test_the_summary_exists_after_sigterm_to_the_monitor(monitor: list[str], tmp_path: Path) -> None:
    process = start(monitor, tmp_path, ["/bin/sleep", "400"])
    minder_of(process)
    process.terminate()
    assert process.wait(HANGS) == -signal.SIGTERM
    summary = Summary.read(tmp_path / "summary.json")
    assert (summary.exit_type, summary.signal) == ("signal", signal.SIGTERM)
    assert summary.stopped_because is None


def test_sigterm_ends_what_a_command_left_behind(monitor: list[str], tmp_path: Path) -> None:
    mark = f"400.{os.getpid()}"
    process = start(monitor, tmp_path, ["/bin/sh", "-c", f"setsid sleep {mark} & exit 0"])
    left = running("sleep", mark)
    minder = minder_of(process)
    until(lambda: children(minder) == [left])
    process.terminate()
    assert process.wait(HANGS) == 0


def test_sigchld_ignored_by_the_caller_does_no_harm(monitor: list[str], tmp_path: Path) -> None:
    code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    words = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sh", "-c", "exit 3"]
    assert subprocess.run([sys.executable, "-c", code, *words], timeout=HANGS, check=False).returncode == 3


def test_an_alarm_that_the_caller_set_ends_the_command(monitor: list[str], tmp_path: Path) -> None:
    code = "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])"
    words = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sleep", "400"]
    assert (
        subprocess.run([sys.executable, "-c", code, *words], timeout=HANGS, check=False).returncode == -signal.SIGALRM
    )


def test_a_command_with_a_process_group_of_its_own_gets_signals_too(monitor: list[str], tmp_path: Path) -> None:
    # Not GNU timeout, which passes a signal on twice: to its child and to its group.
    process = start(monitor, tmp_path, [sys.executable, "-c", f"import os; os.setpgid(0, 0){LISTENER}"], new_group=True)
    until((tmp_path / "ready").exists)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(HANGS)
    assert (tmp_path / "got").read_text() == "SIGTERM"


def test_when_the_terminal_closes_the_command_gets_sighup(monitor: list[str], tmp_path: Path) -> None:
    """As with ``ssh -t host tonnage watch ...``: the monitor is then the leader of its session."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(monitor[0], [*monitor, "--summary", "s.json", "--", "/bin/sleep", "400"])
    until(lambda: minder_and_command(pid))
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGHUP
    assert Summary.read(tmp_path / "s.json").signal == signal.SIGHUP


def test_a_stopped_minder_is_continued(monitor: list[str], tmp_path: Path) -> None:
    process = start(monitor, tmp_path, ["/bin/sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 3"])
    os.kill(minder_of(process), signal.SIGSTOP)
    (tmp_path / "go").touch()
    assert process.wait(HANGS) == 3


def test_a_group_signal_that_ends_the_command_does_not_reach_a_daemon(monitor: list[str], tmp_path: Path) -> None:
    script = "setsid sh -c 'touch apart; sleep 0.4; touch survived' & while [ ! -e apart ]; do sleep 0.05; done; kill 0"
    process = start(monitor, tmp_path, ["/bin/sh", "-c", script], new_group=True)
    assert process.wait(HANGS) == -signal.SIGTERM
    assert (tmp_path / "survived").exists()


def surroundings(prefix: list[str], folder: Path) -> str:
    script = (
        "grep -E '^Sig(Blk|Ign|Cgt)|^Threads|^NoNewPrivs' /proc/self/status; env | grep -v '^_=' | sort; umask;"
        " ulimit -a; pwd; ls /proc/self/fd | wc -l; cat /proc/self/oom_score_adj; ps -o ni= -p $$"
    )
    command = ["env", "-u", "LC_ALL", "-u", "LC_CTYPE", "-u", "LANG", *prefix, "/bin/bash", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    # glibc's posix_spawn ignores signals 32 and 33, which it reserves and no program can use.
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
    script = "echo x; exec >&-; until [ -e go ]; do sleep 0.02; done"
    command = [*monitor, "--summary", str(tmp_path / "s.json"), "--", "/bin/sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x\n"
        assert select.select([process.stdout], [], [], HANGS)[0], "the pipe is open"
        assert process.stdout.read() == b""
        assert process.poll() is None
        (tmp_path / "go").touch()
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
    """Privileges make no difference here."""
    return "root"


class Terminal:
    """An interactive shell on its own terminal."""

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

    def expect(self, text: str) -> str:
        """Read until a text appears; return everything up to and including it."""
        until(lambda: self.shows(text))
        before, _, self._seen = self._seen.partition(text)
        return before + text

    def shows(self, text: str) -> bool:
        """Read the output so far, and return whether it contains a text."""
        if select.select([self._terminal], [], [], 0)[0]:
            self._seen += os.read(self._terminal, 65536).decode(errors="replace")
        return text in self._seen

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@pytest.fixture
def terminal(monitor: list[str], tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(monitor, tmp_path)
    yield terminal
    terminal.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Something that a command can wait for, in one process, until the test releases it."""
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def running(name: str, mark: object) -> int:
    """Wait until a program with this argument runs; return its process id."""
    (pid,) = until(
        lambda: [pid for pid in commands_with(str(mark)) if read(f"/proc/{pid}/comm") == f"{name}\n".encode()]
    )
    return pid


def is_stopped(pid: int) -> bool:
    process = Process.of(pid)
    return process is not None and process.state == b"T"


def test_ctrl_c_ends_the_command_and_a_loop_around_it(terminal: Terminal, fifo: Path) -> None:
    terminal.type(f"for i in 1 2 3; do watch --summary s.json -- cat {fifo}; done; echo status $?\n")
    running("cat", fifo)
    terminal.type("\x03")
    terminal.expect("PROMPT")
    terminal.type("echo status $?\n")
    terminal.expect("status 130")


def test_ctrl_c_that_the_command_handles_is_its_own_affair(terminal: Terminal, fifo: Path) -> None:
    terminal.type(f"watch -- bash -c 'trap \"echo he''ard\" INT; cat {fifo}; echo end'; echo status $?\n")
    running("cat", fifo)
    terminal.type("\x03")
    terminal.expect("heard")
    terminal.expect("status 0")


def test_ctrl_z_stops_the_command_and_fg_continues_it(terminal: Terminal, fifo: Path) -> None:
    terminal.type(f"watch --summary s.json -- sh -c 'cat {fifo}; echo fini''shed'\n")
    command = running("cat", fifo)  # a shell that is just starting a program cannot be stopped, with or without us
    terminal.type("\x1a")
    terminal.expect("Stopped")
    assert is_stopped(command)
    terminal.type("fg\n")
    until(lambda: not is_stopped(command))
    fifo.write_text("")
    terminal.expect("finished")
    terminal.type("echo status $?\n")
    terminal.expect("status 0")


def is_in_front(pid: int) -> bool:
    """Whether a process is in the group that has the terminal."""
    fields = (read(f"/proc/{pid}/stat") or b") 0 0 0 0 0 -1").rpartition(b")")[2].split()
    return fields[2] == fields[5]


def test_a_background_command_that_reads_the_terminal_stops_until_it_is_in_front(
    terminal: Terminal, tmp_path: Path
) -> None:
    missing = f"{tmp_path}/missing"  # only a mark
    terminal.type(f"watch --summary s.json -- head -n 1 - {missing} &\n")
    command = running("head", missing)
    until(lambda: is_stopped(command))
    terminal.type("wait\n")  # for the monitor, which stops with the command
    terminal.expect("Stopped")
    terminal.type("fg\n")
    until(lambda: is_in_front(command) and not is_stopped(command))
    terminal.type("typed\n")
    terminal.expect("typed")
    terminal.expect("typed")
    terminal.expect("PROMPT")


def test_an_interactive_program_works(terminal: Terminal, fifo: Path) -> None:
    terminal.type("watch --summary s.json -- bash --norc -i\n")
    terminal.type("PS1='INN''ER '\n")
    terminal.expect("INNER ")
    terminal.type(f"cat {fifo}\n")
    running("cat", fifo)
    terminal.type("\x1a")
    terminal.expect("Stopped")
    terminal.type("kill -9 %1; while kill -0 %1 2>/dev/null; do sleep 0.1; done; jobs; exit 7\n")
    terminal.type("echo status $?\n")
    terminal.expect("status 7")


def test_the_live_line_is_shown_on_a_terminal_only(terminal: Terminal, monitor: list[str], actor: str) -> None:
    terminal.type(f"watch --live --summary s.json -- {actor} take 50 hold 1; echo do''ne\n")
    shown = terminal.expect("done")
    assert re.search(r"5[34](\.\d)? MB memory", shown), shown
    ended = subprocess.run(
        [*monitor, "--live", "--summary", "/dev/null", "--", "/bin/sleep", "0.3"], capture_output=True, check=True
    )
    assert ended.stderr == b""
