"""Connections whose requests have a beginning in time: uvicorn would wait for one for ever."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Punctual"]


class Punctual(H11Protocol):
    """A connection that is closed where the head of a request does not come."""

    seconds = 20.0
    """How long a head may take."""
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head that has begun."""
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
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
