"""The REST interface for people: ``/docs``, made from its OpenAPI description, without anybody else's scripts."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from tonnage.serve.outlines import example, outline
from tonnage.serve.pages import render

__all__ = ["router"]

router = APIRouter()
_LIKELY = {"name": "align", "id": "ID", "file": "@jobs.csv"}
"""What stands in examples."""


@router.get("/docs", include_in_schema=False)
def page(request: Request) -> HTMLResponse:
    """Show what the server answers to."""
    description = request.app.openapi()
    base = str(request.base_url).rstrip("/")
    calls = [
        _call(description, base, method, path, said)
        for path, methods in description["paths"].items()
        for method, said in methods.items()
    ]
    return HTMLResponse(render("docs.html", here="/docs", about=description["info"]["description"], calls=calls))


def _call(description: dict[str, Any], base: str, method: str, path: str, said: dict[str, Any]) -> dict[str, Any]:
    token = bool(said.get("security"))
    return {
        "anchor": f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}",
        "method": method.upper(),
        "path": path,
        "summary": said.get("summary", ""),
        "about": said.get("description", ""),
        "token": token,
        "parameters": [_parameter(description, one) for one in said.get("parameters", [])],
        "bodies": [
            (kind, outline(content["schema"], description))
            for kind, content in said.get("requestBody", {}).get("content", {}).items()
        ],
        "answers": [_answer(description, status, answer) for status, answer in said["responses"].items()],
        "curl": _curl(description, base, method, path, said, token),
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


def _curl(description: dict[str, Any], base: str, method: str, path: str, said: dict[str, Any], token: bool) -> str:
    """Return a call that works as it stands, where what it names is there."""
    required = [one["name"] for one in said.get("parameters", []) if one.get("required") and one["in"] == "query"]
    query = "&".join(f"{name}={_LIKELY.get(name, '...')}" for name in required)
    address = base + path.replace("{", "").replace("}", "").replace("/id", "/ID")
    words = ["curl", *([] if method == "get" else ["-X", method.upper()])]
    words += ["--oauth2-bearer", "TOKEN"] if token else []
    for kind, content in said.get("requestBody", {}).get("content", {}).items():
        if kind == "multipart/form-data":
            words += ["-F", "file=@jobs.csv"]
        elif kind == "application/json":
            words += ["-H", f"'Content-Type: {kind}'", "-d", f"'{example(content['schema'], description)}'"]
    return " ".join([*words, f"'{address}{'?' if query else ''}{query}'"])
