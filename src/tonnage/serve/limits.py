"""Limits on requests: their size, how slowly they may be sent, and how long a client may stall."""

import asyncio

import h11
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tonnage.serve.responses import refuse
from tonnage.serve.settings import Limits, Settings
from tonnage.units import format_bytes

__all__ = ["Bounded", "Punctual"]


class Punctual(H11Protocol):
    """A connection that is closed if the headers of a request do not arrive in time; uvicorn would wait forever."""

    seconds = 20.0
    """How many seconds the headers may take."""
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Cancel the timeout once the headers are complete; start it when another request is due."""
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._alarm is None:
            self._alarm = self.loop.call_later(self.seconds, self._give_up)

    def _forget(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class _BeyondError(Exception):
    """The body of a request is too long or arrives too slowly."""

    def __init__(self, status: int, error: str, hint: str) -> None:
        super().__init__(error)
        self.problem = (status, error, hint)


class Bounded:
    """Limits the size and the duration of request bodies."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._limits = settings.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on while it stays within the limits."""
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
                return  # the parser of the body reported the exceeded limit as an error of its own
            answering = True
            # Without this, a client that stops reading would keep a query on the archive open forever.
            async with asyncio.timeout(self._limits.stall_seconds):
                await send(message)

        try:
            await self._app(scope, body.receive, noted)
        except ClientDisconnect:
            return None  # the client left before its body had arrived, so a response would reach nobody
        except (_BeyondError, TimeoutError):
            if body.beyond is None and not answering:
                raise
        if body.beyond is not None and not answering:
            await refuse(scope, body.rest, send, *body.beyond.problem)
        return None


class _Body:
    """The body of a request, as far as it has arrived."""

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
        if self._whole:  # the only message left is that the client has disconnected
            return await self._receive()
        deadline = self._start + self._limits.body_seconds + self._taken / self._limits.body_speed
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            self.beyond = _BeyondError(408, "the body of the request arrived too slowly", "send it without pauses")
            raise self.beyond from None
        self._taken += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._taken > self._most:
            self.beyond = _too_much(self._most)
            raise self.beyond
        return message

    async def rest(self) -> Message:
        """Return the rest of the body, unless it is too slow."""
        if self._whole or (self.beyond is not None and self.beyond.problem[0] == 408):
            return {"type": "http.request", "body": b"", "more_body": False}
        return await self._receive()


def _too_much(most: int) -> _BeyondError:
    return _BeyondError(413, f"the body is longer than {format_bytes(most, binary=True)}", "send it in smaller pieces")
