"""JSON responses, and errors as responses: a status with `{"error": ..., "hint": ...}`, or a page for people."""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from tonnage.errors import InputError, ServerBusyError, TonnageError

__all__ = ["Answer", "Json", "Problem", "add_handlers", "problems", "refuse", "wants_page"]

_log = logging.getLogger(__name__)
_LONGEST = 500
_AGAIN = 5
_DRAINED = 32 * 2**20  # bytes
_DRAINING = 3.0  # seconds


class Answer(BaseModel):
    """The base of every response: the version of its schema."""

    schema_: Literal[1] = Field(default=1, alias="schema")


class Json(JSONResponse):
    """Plain values as JSON, not validated: checking a thousand attempts takes longer than finding them.

    NaN and infinity, which only a damaged archive holds, become null.
    """

    def __init__(self, facts: dict[str, Any], status: int = 200) -> None:
        super().__init__({"schema": 1, **facts}, status)

    def render(self, content: Any) -> bytes:  # noqa: ANN401 (Starlette's own signature)
        """Return the body."""
        try:
            return _dumped(content)
        except ValueError:
            return _dumped(json.loads(json.dumps(content), parse_constant=lambda _: None))


def _dumped(content: object) -> bytes:
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class Problem(BaseModel):
    """An error."""

    error: str
    """What went wrong, in one sentence."""
    hint: str | None = None
    """What can be done about it."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe error responses with these statuses, for a route's `responses`."""
    return {status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in statuses}


def wants_page(scope: Scope) -> bool:
    """Whether the client is a browser that requests a page."""
    accepted = dict(scope["headers"]).get(b"accept", b"")
    return not str(scope["path"]).startswith("/api/") and b"text/html" in accepted


def _answered(
    scope: Scope, status: int, error: str, hint: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error response, as a page or as JSON."""
    error = error if len(error) <= _LONGEST else f"{error[:_LONGEST]}..."
    if wants_page(scope):
        from tonnage.serve.pages import render

        context = {"status": status, "phrase": HTTPStatus(status).phrase, "error": error, "hint": hint}
        return HTMLResponse(render("problem.html", **context), status, headers)
    return JSONResponse({"error": error, "hint": hint}, status, headers)


async def refuse(
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int,
    error: str,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Refuse a request whose body was not read.

    A client that is still sending when the connection closes may never see the response, so some of the body is read
    first; a client that waits to be asked for it, as curl does, is not asked.
    """
    if b"expect" not in dict(scope["headers"]):
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAINING):
                await _drain(receive)
    headers = {**(headers or {}), "Connection": "close"}
    await _answered(scope, status, error, hint, headers)(scope, receive, send)


async def _drain(receive: Receive) -> None:
    taken, more = 0, True
    while more and taken <= _DRAINED:
        message = await receive()
        taken += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)


def add_handlers(app: FastAPI) -> None:
    """Turn the errors of Tonnage and FastAPI into responses; clients never see a traceback."""
    app.add_exception_handler(TonnageError, _tonnage_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)


async def _tonnage_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TonnageError)  # noqa: S101 (for mypy: handlers are registered by type)
    if isinstance(error, InputError):
        return _answered(request.scope, 422, str(error), error.hint)
    status = 429 if isinstance(error, ServerBusyError) else 503
    return _answered(request.scope, status, str(error), error.hint, {"Retry-After": str(_AGAIN)})


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    more = len(error.errors()) - 1
    hint = f"and {more} more" if more else None
    if first["type"] == "json_invalid":
        return _answered(request.scope, 400, f"the body is not JSON: {first['ctx']['error']}", hint)
    return _answered(request.scope, 422, f"{place}: {first['msg']}", hint)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    plain = {404: "there is nothing here", 405: f"{request.method} is not allowed here"}
    detail = plain.get(error.status_code, error.detail) if error.detail == _phrase(error.status_code) else error.detail
    hint = {404: "/docs lists all addresses"}.get(error.status_code)
    headers = {"Allow": _allowed(request)} if error.status_code == 405 else error.headers
    return _answered(request.scope, error.status_code, detail, hint, headers)


def _allowed(request: Request) -> str:
    """Return the methods allowed at a path; Starlette lists only those of the first matching route."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(found))


async def _bug(request: Request, error: Exception) -> Response:
    """Respond to an unexpected error; the server's log has the traceback."""
    _log.error("%s %s", request.method, request.url.path, exc_info=error)
    return _answered(request.scope, 500, "internal server error; see the server's log")


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
