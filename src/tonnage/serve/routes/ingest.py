"""The REST API for runs, which fetch their history at the start and post what they measured at the end."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse

from tonnage.archive import Archive
from tonnage.archive.attempt_rows import Batch
from tonnage.archive.codec import attempt_of, brief_record, parsed, text_of
from tonnage.archive.codec import schema as attempt_schema
from tonnage.archive.history import LONGEST_COMMAND, MOST_COMMANDS, Wanted, recall
from tonnage.archive.identity import Identities, number_of
from tonnage.archive.remote.upload import MOST
from tonnage.errors import InputError, TonnageError
from tonnage.jobs import Attempt
from tonnage.serve.access import token_wanted
from tonnage.serve.responses import Answer, Json, Problem, problems
from tonnage.serve.settings import Site, site_of

__all__ = ["make_router"]

_MOST_WAITING = 50_000  # attempts; beyond that, clients are told to retry later
_MOST_TOGETHER = 10_000  # attempts in one transaction
_LONGEST_NAME = 4096
_MOST_CATEGORIES = 10_000
_LINES = 500  # records sent at once
_SHORT = 16 * 1024  # bytes of a body that are parsed in a millisecond


@dataclass(slots=True)
class _Post:
    batch: Batch
    source: Sequence[str | None]
    stored: "asyncio.Future[int]"


@dataclass(slots=True)
class _Writer:
    """Stores posted attempts, those of many posts in one transaction; belongs to one event loop.

    A commit takes as long for a thousand posts as for one, and a database has one writer at a time anyway. So posts
    that arrive while others are being stored wait and are stored together. They do not occupy a thread each, so that
    the server can answer queries meanwhile.
    """

    archive: Archive
    _waiting: list[_Post] = field(default_factory=list)
    _task: "asyncio.Task[None] | None" = None

    async def store(self, batch: Batch, source: Sequence[str | None]) -> int:
        """Store a batch atomically; return, after the commit, how many of its attempts were new."""
        if sum(len(post.batch) for post in self._waiting) > _MOST_WAITING:
            raise TonnageError("too many posted attempts are waiting to be stored", hint="post them again later")
        post = _Post(batch, source, asyncio.get_running_loop().create_future())
        self._waiting.append(post)
        if self._task is None:
            self._task = asyncio.create_task(self._write())
        return await asyncio.shield(post.stored)

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._store(self._next())
        finally:
            self._task = None

    def _next(self) -> list[_Post]:
        """Return the posts to store together."""
        count = attempts = 0
        for post in self._waiting:
            attempts += len(post.batch)
            if count and attempts > _MOST_TOGETHER:
                break
            count += 1
        chosen, self._waiting = self._waiting[:count], self._waiting[count:]
        return chosen

    async def _store(self, posts: list[_Post]) -> None:
        together = [(post.batch, post.source) for post in posts]
        try:
            counts = await run_in_threadpool(self.archive.add_together, together)
        except Exception as error:
            if len(posts) > 1:  # one that the database rejects must not fail the others
                for post in posts:
                    await self._store([post])
                return
            _settle(posts[0].stored, error)
            return
        for post, count in zip(posts, counts, strict=True):
            _settle(post.stored, count)


def _settle(future: "asyncio.Future[int]", result: int | Exception) -> None:
    if future.done():  # the client has gone
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


class Stored(Answer):
    """The result of posting attempts, which are now safely stored in the archive."""

    stored: int
    """How many are new."""
    duplicates: int
    """How many were stored before, and are unchanged."""


class RefusedAttempt(Problem):
    """An attempt that cannot be stored."""

    place: int
    """Its index in the list of posted attempts, from 0."""


class Refused(Problem):
    """Why none of the posted attempts were stored."""

    refused: list[RefusedAttempt] | None = None


class _RefusedError(Exception):
    def __init__(self, places: list[tuple[int, InputError]]) -> None:
        super().__init__()
        self.places = places


@dataclass(frozen=True, slots=True)
class _Posted:
    batch: Batch
    source: tuple[str | None, ...]


def make_router() -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["runs"])
    writers: list[_Writer] = []

    async def writer(site: Annotated[Site, Depends(site_of)]) -> _Writer:
        if not writers:
            writers.append(_Writer(site.archive))
        return writers[0]

    @router.post(
        "/api/attempts",
        summary="Store attempts",
        response_model=Stored,
        responses={**problems(400, 401, 403, 413, 415, 503), 422: {"model": Refused}},
        dependencies=[token_wanted],
        openapi_extra=_body(_POSTED),
    )
    async def post_attempts(
        body: Annotated[bytes, Depends(_json_body)], writer: Annotated[_Writer, Depends(writer)]
    ) -> Response:
        """Store what attempts used, all of them or none: at most 1,000, in a body of at most 8 MiB.

        An attempt is identified by its `identity`, or else by its `native_id`. One that is already stored stays as it
        is, so a client that got no response can send the same again. When the response is sent, everything is stored.
        """
        try:
            # A thread is worth its cost only if other requests would have to wait.
            posted = _posted(body) if len(body) <= _SHORT else await run_in_threadpool(_posted, body)
        except _RefusedError as error:
            return _refused(error)
        stored = await writer.store(posted.batch, posted.source)
        return Json({"stored": stored, "duplicates": len(posted.batch) - stored})

    @router.post(
        "/api/past",
        summary="The history that a run needs at its start",
        responses={
            200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}, "description": "Records"},
            **problems(400, 401, 413, 415, 422, 503),
        },
        response_class=StreamingResponse,
        openapi_extra=_body(_WANTED),
    )
    def post_past(
        body: Annotated[bytes, Depends(_json_body)], site: Annotated[Site, Depends(site_of)]
    ) -> StreamingResponse:
        """Return attempts to learn from, one record per line without unknown values: the newest 5,000 of each category.

        They are attempts of this exact workflow, else of one with its name in the same folder, else of one with its
        name and at least half of its commands: the first of these with a finished attempt. Without categories, all
        those of the workflow are returned.
        """
        wanted = _wanted(_parsed(body))
        return StreamingResponse(_records(site.archive, wanted), media_type="application/x-ndjson")

    return router


async def _json_body(request: Request) -> bytes:
    """Return the body of a request whose content type is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body must be JSON, with Content-Type: application/json")
    return await request.body()


def _parsed(body: bytes) -> object:
    try:
        return parsed(body)
    except InputError as error:
        raise HTTPException(400, f"the body {error}") from None


# Requests


def _posted(body: bytes) -> _Posted:
    facts = _object(_parsed(body), "the body", ("source", "fields", "attempts"))
    source = _object(facts.get("source"), "source", ("label", "format", "path"))
    label, format = _text(source.get("label"), "label"), _text(source.get("format"), "format")
    path = None if source.get("path") is None else _text(source.get("path"), "path")
    fields = attempt_of({"fields": facts.get("fields", {})}).fields
    attempts = _taken(facts.get("attempts"))
    batch = Batch(number_of(label, format), time(), fields)
    for attempt, identity in zip(attempts, Identities(label).assign(attempts), strict=True):
        batch.add(attempt, identity)
    return _Posted(batch, (label, format, path, None))


def _taken(records: object) -> list[Attempt]:
    if not isinstance(records, list):
        raise InputError("attempts: expected a list")
    if len(records) > MOST:
        raise HTTPException(413, f"{len(records):,} attempts are too many: at most {MOST:,} in one request")
    found, wrong = [], []
    for place, one in enumerate(records):
        try:
            attempt = attempt_of(one)
            if attempt.identity is None and attempt.native_id is None:
                raise InputError("identity: an attempt needs an identity or a native_id")
            found.append(attempt)
        except InputError as error:
            wrong.append((place, error))
    if wrong:
        raise _RefusedError(wrong)
    return found


def _refused(error: _RefusedError) -> Response:
    place, first = error.places[0]
    facts = {
        "error": f"attempts.{place}: {first}",
        "hint": first.hint,
        "refused": [{"place": place, "error": str(problem), "hint": problem.hint} for place, problem in error.places],
    }
    return JSONResponse(facts, 422)


def _wanted(value: object) -> Wanted:
    facts = _object(value, "the body", ("workflow", "checksum", "folder", "commands", "tasks", "categories"))
    return Wanted(
        workflow=_text(facts.get("workflow"), "workflow"),
        checksum=_maybe_text(facts, "checksum"),
        folder=_maybe_text(facts, "folder"),
        commands=_texts(facts, "commands", MOST_COMMANDS, LONGEST_COMMAND),
        tasks=_texts(facts, "tasks", MOST_COMMANDS),
        categories=_texts(facts, "categories", _MOST_CATEGORIES),
    )


def _object(value: object, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{what}: expected an object")
    for key in value:
        if key not in keys:
            raise InputError(f'{what}: "{key[:50]}" is not one of {", ".join(keys)}')
    return value


def _text(value: object, what: str, longest: int = _LONGEST_NAME) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise InputError(f"{what}: expected a string of at most {longest:,} characters")
    return value


def _maybe_text(facts: dict[str, Any], key: str) -> str | None:
    return None if facts.get(key) is None else _text(facts[key], key)


def _texts(facts: dict[str, Any], key: str, most: int, longest: int = _LONGEST_NAME) -> frozenset[str]:
    values = facts.get(key, [])
    if not isinstance(values, list) or len(values) > most:
        raise InputError(f"{key}: expected a list of at most {most:,} strings")
    return frozenset(_text(one, f"one of {key}", longest) for one in values)


# Responses


def _records(archive: Archive, wanted: Wanted) -> Iterator[bytes]:
    """Yield many records at once, since each piece costs a round trip to a thread."""
    found = recall(archive, wanted)
    while some := list(islice(found, _LINES)):
        yield "".join(f"{text_of(brief_record(one))}\n" for one in some).encode()


# Schemas of the requests


def _body(schema: dict[str, object]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_NAME = {"type": "string", "maxLength": _LONGEST_NAME}
_MAYBE_NAME = {"anyOf": [_NAME, {"type": "null"}]}


def _described(required: list[str], **properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _with(key: str) -> dict[str, object]:
    return {"required": [key], "properties": {key: {"type": "string"}}}


_ATTEMPT: dict[str, Any] = attempt_schema()
_POSTED = _described(
    ["source", "attempts"],
    source=_described(["label", "format"], label=_NAME, format=_NAME, path=_MAYBE_NAME),
    fields=_ATTEMPT["properties"]["fields"],
    attempts={
        "type": "array",
        "maxItems": MOST,
        "items": {**_ATTEMPT, "anyOf": [_with("identity"), _with("native_id")]},
    },
)
_WANTED = _described(
    ["workflow"],
    workflow=_NAME,
    checksum=_MAYBE_NAME,
    folder=_MAYBE_NAME,
    commands={
        "type": "array",
        "maxItems": MOST_COMMANDS,
        "items": {"type": "string", "maxLength": LONGEST_COMMAND},
    },
    tasks={"type": "array", "maxItems": MOST_COMMANDS, "items": _NAME},
    categories={"type": "array", "maxItems": _MOST_CATEGORIES, "items": _NAME},
)
