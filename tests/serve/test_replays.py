"""Strategies side by side on stored jobs: the same figures as on the command line."""

import json
from pathlib import Path

from tests.serve.server import Server
from tests.serve.test_uploads import ended, send
from tests.warm import Warm
from tonnage.logs import synthetic


def printed(*words: object) -> str:
    """Return what the command line prints."""
    with Warm(*words) as call:
        said = call.said()
    assert said.status == 0, said.stderr
    return said.stdout


def test_a_comparison_says_what_the_command_line_says(tmp_path: Path) -> None:
    with Server(f"sqlite:///{tmp_path}/archive.db", folder=tmp_path) as server:
        ended(server, send(server, "jobs.csv", synthetic.render(synthetic.generate("bimodal", 300)).encode()))
        wanted = {"strategies": ["max-seen", "min-waste", "whole-machine"], "machine": "memory=64GB"}
        work = ended(server, server.client.post("/api/replays", json=wanted))
    assert work["state"] == "done", work
    words = ["--machine", "memory=64GB", "--strategies", "max-seen,min-waste,whole-machine", "--json"]
    said = json.loads(printed("replay", "size", tmp_path / "archive.db", *words))
    keys = ("strategy", "jobs", "waste_gbh", "throughput", "retries_fraction", "allocations")
    assert [[one[key] for key in keys] for one in work["result"]["results"]] == [
        [one[key] for key in keys] for one in said["results"]
    ]
    assert (work["done"], work["total"]) == (4, 4)


def test_what_cannot_be_compared_is_refused(served: Server) -> None:
    def refused(**wanted: object) -> str:
        answer = served.client.post("/api/replays", json=wanted)
        assert answer.status_code == 422, answer.text
        return str(answer.json()["error"])

    assert "best-ever" in refused(strategies=["best-ever"])
    assert "density" in refused(strategies=["density"], protocol="phung")
    assert "strategies" in refused(strategies=[])
    assert "unheard" in refused(strategies=["auto"], unheard=1)
    assert "lots" in refused(strategies=["auto"], machine="memory=lots")


def test_a_comparison_of_no_jobs_says_so(served: Server) -> None:
    work = ended(served, served.client.post("/api/replays", json={"category": "nobody has it"}))
    assert (work["state"], work["error"]) == ("failed", "no stored job matches")


def test_unknown_work_is_not_found_and_stopping_needs_the_token(served: Server) -> None:
    assert served.client.get("/api/work/nobody").status_code == 404
    assert served.stranger.delete("/api/work/nobody").status_code == 401
    assert served.client.delete("/api/work/nobody", headers=served.token).status_code == 404
