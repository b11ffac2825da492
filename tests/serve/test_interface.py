"""The interface is as its description says: schemathesis asks for everything that is described, in every way."""

import os
import subprocess
import sys
from pathlib import Path

from tests.serve.server import TOKEN, Server
from tests.serve.test_uploads import ended, send

SOAK = int(os.environ.get("TONNAGE_SOAK", "0"))
LONG = ("--max-examples", str(SOAK)) if SOAK else ()
WRITER = ("--header", f"Authorization: Bearer {TOKEN}")
# What is too long is refused with 413, also where a description says so.
_SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 422, 429]
"""
# Conditions, amounts and fields are little languages of their own: no description tells what is one. Work that was
# stopped is still known. Who may not write hears nothing but that.
_LEFT_OUT = "positive_data_acceptance,use_after_free,unsupported_method"
_JOBS = "task,category,memory (MB),wall_time (s),outcome,user\n" + "".join(
    f"t{number},{'align' if number % 2 else 'merge'},{100 + number},{number},done,ada\n" for number in range(50)
)


def explored(server: Server, folder: Path, *options: str) -> str:
    """Let schemathesis ask a server; return what it says, and fail where anything is not as described."""
    (folder / "schemathesis.toml").write_text(_SETTINGS)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(folder / "schemathesis.toml")]
    command += ["run", f"{server.url}/openapi.json", "--exclude-checks", _LEFT_OUT, "--no-color", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=7200)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "Traceback" not in server.log.read_text()
    return done.stdout


def test_every_answer_is_as_described_and_none_is_a_mistake_of_the_server(tmp_path: Path) -> None:
    with Server(str(tmp_path / "a.db"), folder=tmp_path) as server:
        ended(server, send(server, "jobs.csv", _JOBS.encode()))
        explored(
            server, tmp_path, *WRITER, *(LONG or ("--phases", "fuzzing,stateful", "--max-examples", "6", "--seed", "1"))
        )


def test_answers_to_strangers_are_as_described(tmp_path: Path) -> None:
    effort = LONG or ("--phases", "fuzzing", "--max-examples", "3", "--seed", "1")
    with Server(str(tmp_path / "a.db"), folder=tmp_path, public=True) as server:
        explored(server, tmp_path, *effort)
