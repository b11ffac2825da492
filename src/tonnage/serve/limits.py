"""How much a request may send, and how slowly; an answer that nobody takes ends, too."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tonnage.serve.problems import refuse
from tonnage.serve.settings import Limits, Settings
from tonnage.units import format_bytes

__all__ = ["Bounded"]


class _BeyondError(Exception):
    """The body of a request is longer, or comes more slowly, than it may."""

    def __init__(self, status: int, error: str, hint: str) -> None:
        super().__init__(error)
        self.problem = (status, error, hint)


class Bounded:
    """Counts and times the bodies of requests."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._limits = settings.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass as long as it stays within the limits."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        most = self._limits.upload if scope["path"] == "/api/uploads" else self._limits.body
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > most:
            return await refuse(scope, receive, send, *_too_much(most).problem)
        body = _Body(receive, most, self._limits)
        answering = False

        async def noted(message: Message) -> None:
            nonlocal answering
            if body.beyond is not None and not answering:
                return  # whoever parsed the body took the limit for an error of its own
            answering = True
            # Without this, a client that stops reading would keep a question to the archive open for ever.
            async with asyncio.timeout(self._limits.stall_seconds):
                await send(message)

        try:
            await self._app(scope, body.receive, noted)
        except ClientDisconnect:
            return None  # it went away before its body had come: nobody is left to be told anything
        except (_BeyondError, TimeoutError):
            if body.beyond is None and not answering:
                raise
        if body.beyond is not None and not answering:
            await refuse(scope, body.rest, send, *body.beyond.problem)
        return None


class _Body:
    """The body of a request, as far as it has come."""

    def __init__(self, receive: Receive, most: int, limits: Limits) -> None:
        self.beyond: _BeyondError | None = None
        self._receive = receive
        self._most = most
        self._limits = limits
        self._start = asyncio.get_running_loop().time()
        self._taken = 0
        self._whole = False

    async def receive(self) -> Message:
        """Return the next piece."""
        if self._whole:  # what still comes is that the client has gone
            return await self._receive()
        deadline = self._start + self._limits.body_seconds + self._taken / self._limits.body_speed
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            self.beyond = _BeyondError(408, "the body of the request came too slowly", "send it at once")
            raise self.beyond from None
        self._taken += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._taken > self._most:
            self.beyond = _too_much(self._most)
            raise self.beyond
        return message

    async def rest(self) -> Message:
        """Return what still comes, where that is not too slow."""
        if self._whole or (self.beyond is not None and self.beyond.problem[0] == 408):
            return {"type": "http.request", "body": b"", "more_body": False}
        return await self._receive()


def _too_much(most: int) -> _BeyondError:
    return _BeyondError(413, f"the body is longer than {format_bytes(most, binary=True)}", "send less at once")
