"""The description of the REST interface: complete, and its examples work."""

import shlex
import subprocess
from html import unescape
from re import DOTALL, findall
from typing import Any

import pytest

from tests.serve.server import TOKEN, Server
from tonnage.serve.routes.docs import example, outline


def test_every_call_is_described_with_an_example_that_works(filled: Server) -> None:
    description = filled.client.get("/openapi.json").json()
    page = filled.client.get("/docs").text
    examples = [unescape(one) for one in findall(r"<pre tabindex=\"0\">(curl .*?)</pre>", page, DOTALL)]
    calls = [(method, path) for path, methods in description["paths"].items() for method in methods]
    assert len(examples) == len(calls)
    worked = 0
    for (method, path), text in zip(calls, examples, strict=True):
        if method == "get" and "ID" not in text:
            words = shlex.split(text.replace("TOKEN", TOKEN))
            status = subprocess.check_output([*words, "-s", "-o", "/dev/null", "-w", "%{http_code}"], text=True)
            assert status == "200", (path, text)
            worked += 1
    assert worked >= 8


@pytest.mark.parametrize("path", ["/api/categories", "/api/attempts", "/api/category", "/api/sizes"])
def test_parameters_are_described(filled: Server, path: str) -> None:
    for one in filled.client.get("/openapi.json").json()["paths"][path]["get"]["parameters"]:
        assert one.get("description") or one["schema"].get("description"), one


def test_the_description_asks_nobody_else_for_anything(filled: Server) -> None:
    page = filled.client.get("/docs").text
    assert not findall(r"(?:src|href)=\"(?:https?:)?//", page)


_WHOLE: dict[str, Any] = {"defs": {"Job": {"properties": {"name": {"type": "string"}}, "required": ["name"]}}}


@pytest.mark.parametrize(
    ("schema", "shape", "value"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer from 1 to 9", "1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text | null", '"text"'),
        ({"enum": ["a", "b"]}, "a | b", '"a"'),
        ({"const": 1}, "1", "1"),
        ({"type": "array", "items": {"$ref": "#/defs/Job"}}, "[{\n  name: text\n}]", '[{"name": "text"}]'),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{name: number}", "{}"),
        ({}, "anything", '"text"'),
    ],
)
def test_a_schema_has_a_shape_and_an_example(schema: dict[str, Any], shape: str, value: str) -> None:
    assert outline(schema, _WHOLE) == shape
    assert example(schema, _WHOLE) == value
