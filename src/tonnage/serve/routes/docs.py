"""The documentation of the REST API: ``/docs``, made from its OpenAPI description without third-party scripts."""

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from tonnage.serve.pages import render

__all__ = ["example", "outline", "router"]

_DEEPEST = 6
_MOST_NAMES = 12
_SMALL = 4096  # larger limits are not worth mentioning
router = APIRouter()
_LIKELY = {"name": "align", "id": "ID", "file": "@jobs.csv"}
"""Values for examples."""


def outline(schema: dict[str, Any], whole: dict[str, Any], depth: int = 0) -> str:
    """Return an outline of a schema: names and types, with lists in brackets."""
    schema = _meant(schema, whole)
    pad = "  " * (depth + 1)
    if schema.get("properties") and depth < _DEEPEST:
        required = schema.get("required", [])
        lines = [
            f"{pad}{name}{'' if name in required else '?'}: {outline(one, whole, depth + 1)}"
            for name, one in schema["properties"].items()
        ]
        return "\n".join(["{", *lines, f"{pad[2:]}}}"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(outline(one, whole, depth) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"[{outline(schema.get('items', {}), whole, depth)}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{name: {outline(schema['additionalProperties'], whole, depth)}}}"
    return _kind(schema)


def _kind(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        names = [str(one) for one in schema["enum"]]
        return " | ".join(names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], "..."])
    kind = {"string": "text", "object": "{...}"}.get(str(schema.get("type", "")), str(schema.get("type", "anything")))
    if schema.get("format") == "binary" or schema.get("contentMediaType") == "application/octet-stream":
        return "file"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high <= _SMALL * _SMALL:
        return f"{kind} from {low} to {high}"
    return kind


def example(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return a small value that fits a schema, as JSON."""
    return json.dumps(_example(schema, whole))


def _example(schema: dict[str, Any], whole: dict[str, Any]) -> Any:  # noqa: ANN401 (any JSON)
    schema = _meant(schema, whole)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        own = list(schema.get("required") or [])
        own += schema["anyOf"][-1].get("required", []) if "anyOf" in schema else []
        return {name: _example(schema["properties"][name], whole) for name in own}
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], whole)
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}), whole)]
    return {"integer": 1, "number": 1.0, "boolean": True, "object": {}}.get(schema.get("type", ""), "text")


def _meant(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Resolve references."""
    while "$ref" in schema:
        found: Any = whole
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        schema = found
    return schema


@router.get("/docs", include_in_schema=False)
def page(request: Request) -> HTMLResponse:
    """Show the documentation of the REST API."""
    description = request.app.openapi()
    base = str(request.base_url).rstrip("/")
    calls = [
        _call(description, base, method, path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    return HTMLResponse(render("docs.html", here="/docs", about=description["info"]["description"], calls=calls))


def _call(description: dict[str, Any], base: str, method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    token = bool(operation.get("security"))
    return {
        "anchor": f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}",
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "about": operation.get("description", ""),
        "token": token,
        "parameters": [_parameter(description, one) for one in operation.get("parameters", [])],
        "bodies": [
            (kind, outline(content["schema"], description))
            for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        ],
        "answers": [_answer(description, status, answer) for status, answer in operation["responses"].items()],
        "curl": _curl(description, base, method, path, operation, token),
    }


def _parameter(description: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    schema = one["schema"]
    return {
        "name": one["name"],
        "place": one["in"],
        "required": one.get("required", False),
        "kind": outline({**schema, "description": None}, description),
        "default": schema.get("default"),
        "about": one.get("description") or schema.get("description", ""),
    }


def _answer(description: dict[str, Any], status: str, answer: dict[str, Any]) -> dict[str, Any]:
    kinds = answer.get("content", {})
    return {
        "status": status,
        "about": answer.get("description", ""),
        "good": status.startswith("2"),
        "contents": [(kind, outline(content.get("schema", {}), description)) for kind, content in kinds.items()],
    }


def _curl(description: dict[str, Any], base: str, method: str, path: str, call: dict[str, Any], token: bool) -> str:
    """Return a curl command that works as it is, if what it names exists."""
    required = [one["name"] for one in call.get("parameters", []) if one.get("required") and one["in"] == "query"]
    query = "&".join(f"{name}={_LIKELY.get(name, '...')}" for name in required)
    address = base + path.replace("{", "").replace("}", "").replace("/id", "/ID")
    words = ["curl", *([] if method == "get" else ["-X", method.upper()])]
    words += ["--oauth2-bearer", "TOKEN"] if token else []
    for kind, content in call.get("requestBody", {}).get("content", {}).items():
        if kind == "multipart/form-data":
            words += ["-F", "file=@jobs.csv"]
        elif kind == "application/json":
            words += ["-H", f"'Content-Type: {kind}'", "-d", f"'{example(content['schema'], description)}'"]
    return " ".join([*words, f"'{address}{'?' if query else ''}{query}'"])
