"""Sizes over HTTP: the same decisions, in the same words, as `tonnage size`."""

import json
from pathlib import Path

import pytest

from tests.serve.sample_archive import HOSTILE, fill
from tests.serve.server import Server
from tests.warm import Warm
from tonnage.size.export import EXPORTERS


def printed(server: Server, *options: str) -> str:
    with Warm("size", server.archive.removeprefix("sqlite:///"), *options) as call:
        said = call.said()
    assert said.status == 0, said.stderr
    return said.stdout


@pytest.mark.parametrize("format", EXPORTERS)
def test_settings_are_those_of_the_command_line(filled: Server, format: str) -> None:
    query = {"format": format, "strategy": "min-waste", "machine": "memory=64GB"}
    answer = filled.client.get("/api/sizes", params=query)
    assert answer.text == printed(filled, "--strategy", "min-waste", "--machine", "memory=64GB", "--format", format)
    assert "attachment" in answer.headers["content-disposition"]


def test_sizes_as_json_are_those_of_the_command_line(filled: Server) -> None:
    answer = filled.client.get("/api/sizes", params={"machine": "memory=64GB,cores=8"}).json()
    said = json.loads(printed(filled, "--machine", "memory=64GB,cores=8", "--json"))
    assert answer["allocations"] == said["allocations"]


def test_a_category_has_sizes_with_reasons_and_pictures(url: str, tmp_path: Path) -> None:
    fill(url)
    with Server(url, folder=tmp_path) as server:
        found = server.client.get("/api/category", params={"name": "align", "machine": "memory=64GB"}).json()
        assert (found["jobs"], found["finished"]) == (201, 200)
        memory = next(one for one in found["allocations"] if one["resource"] == "memory")
        assert memory["ladder"][-1] == 64e9
        assert "201 jobs" in memory["reason"]
        assert sum(found["figures"]["memory"]["data"][0]["y"]) == 200
        page = server.client.get("/category", params={"name": "align", "machine": "memory=64GB"}).text
        assert memory["reason"].removeprefix("auto") in page
        assert server.client.get("/api/category", params={"name": "", "strategy": "max-seen"}).json()["jobs"] == 1


def test_the_strategy_and_the_workflow_matter(filled: Server) -> None:
    def first(**query: str) -> float:
        found = filled.client.get("/api/category", params={"name": "align", **query}).json()
        return float(next(one["ladder"][0] for one in found["allocations"] if one["resource"] == "memory"))

    largest = 2e9 + 1e7 * 195 + 4e9
    assert first(strategy="percentile") < largest <= first(strategy="max-seen", workflow="genomes")
    assert first(strategy="max-seen") > first(strategy="max-seen", workflow="genomes")  # one elsewhere ran out


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ({"name": "nobody has it"}, 404, "no stored job"),
        ({"name": "align", "workflow": "nobody"}, 404, "no stored job"),
        ({"name": "align", "strategy": "best-ever"}, 422, "strategy"),
        ({"name": "align", "strategy": "density"}, 422, "strategy"),
        ({"name": "align", "strategy": "whole-machine"}, 422, "needs to know how much"),
        ({"name": "align", "strategy": "min-waste", "objective": "throughput"}, 422, "objective"),
        ({"name": "align", "machine": "memory=lots"}, 422, "lots"),
        ({"name": "merge", "machine": "memory=1MB"}, 422, "fits nowhere"),
        ({"name": "align", "unheard": "of"}, 422, "unheard"),
        ({}, 422, "name"),
    ],
)
def test_what_cannot_be_sized_is_refused_in_the_users_words(
    filled: Server, query: dict[str, str], status: int, word: str
) -> None:
    answer = filled.client.get("/api/category", params=query)
    assert (answer.status_code, word in answer.json()["error"]) == (status, True), answer.text


def test_the_page_says_what_is_wrong_and_still_shows_what_jobs_used(filled: Server) -> None:
    answer = filled.client.get("/category", params={"name": "merge", "machine": "memory=1MB"})
    assert answer.status_code == 200
    assert "fits nowhere" in answer.text
    assert 'id="figure-memory"' in answer.text


def test_nothing_to_size_is_an_error(filled: Server, served: Server) -> None:
    assert filled.client.get("/api/sizes", params={"category": "nobody"}).status_code == 422
    assert filled.client.get("/api/sizes", params={"category": HOSTILE}).status_code == 422  # it never finished
    page = filled.client.get("/category", params={"name": HOSTILE})
    assert "none finished and was measured" in page.text
