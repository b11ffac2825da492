"""The monitor starts the command at once: it imports little before that."""

import subprocess
import sys
from pathlib import Path

# Prints the modules that are loaded when the command is started.
PROGRAM = """
import sys
before = set(sys.modules)
import os
real = os.posix_spawn
def spy(*args, **options):
    os.write(1, (" ".join(set(sys.modules) - before) + "\\n").encode())
    return real(*args, **options)
os.posix_spawn = spy
sys.argv = ["tonnage", "watch", "--limit", "memory=1GB", "--summary", "s.json", "--", "/bin/true"]
from tonnage.__main__ import main
main()
"""
SLOW = ["numpy", "click", "dataclasses", "typing", "re", "pathlib", "logging", "importlib.metadata", "json"]
SLOW += ["argparse", "subprocess", "ctypes", "enum", "signal", "contextlib", "collections", "functools", "tempfile"]


def test_nothing_slow_is_imported_before_the_command_starts(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(_source())!r})\n{PROGRAM}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    loaded = set(ended.stdout.split())
    assert "tonnage.watch.minder" in loaded
    assert loaded.isdisjoint(SLOW), loaded & set(SLOW)


def test_the_fork_server_stays_small() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(_source())!r}); import tonnage.watch.fork_server; print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-P", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()).isdisjoint(SLOW)


def _source() -> Path:
    import tonnage

    return Path(tonnage.__file__).parent.parent


def test_only_the_standard_library_is_used(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["/usr/bin/python3", "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(_source())!r})\n{PROGRAM}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "s.json").exists()
