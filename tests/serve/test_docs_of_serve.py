"""The calls on the page of the documentation on `serve` work as they stand."""

import os
import re
import subprocess
from pathlib import Path

from tests.command_line import CommandLine
from tests.serve.server import TOKEN, Server

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_every_call_of_the_page_works(command_line: CommandLine, tmp_path: Path) -> None:
    command_line("generate", "jobs", "--peaks", "trimodal", "--jobs", "3000", "-o", "jobs.csv")
    command_line("archive", "import", "jobs.csv", "--archive", "example.db")
    blocks = _BLOCK.findall(_PAGE.read_text())
    calls = re.split(r"\n(?=curl )", "\n".join(block.strip() for block in blocks))
    assert len(calls) >= 9
    with Server(f"sqlite:///{tmp_path}/example.db", folder=tmp_path) as server:
        for call in calls:
            text = call.replace("http://127.0.0.1:8000", server.url).replace("curl -s", "curl -s --fail-with-body")
            environment = {**os.environ, "TONNAGE_TOKEN": TOKEN}
            ran = subprocess.run(
                ["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, (call, ran.stdout)
    assert "withName" in (tmp_path / "sizes.config").read_text()
    assert len((tmp_path / "jobs.jsonl").read_text().splitlines()) == 1000
