"""Questions that may not take for ever: a server's clients share one archive."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, event

__all__ = ["shared", "within"]

_DEADLINE: ContextVar[float | None] = ContextVar("deadline", default=None)
_CACHE = 32 * 1024  # KiB
_STEPS = 20_000  # of SQLite's machine: some tenths of a millisecond


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let no question to a shared database, asked in this block, take longer than that."""
    token = _DEADLINE.set(monotonic() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def shared(engine: Engine) -> None:
    """Prepare an engine that many clients share.

    `within` interrupts what is asked over it from now on, and each of its connections keeps little in memory: there are
    many, and the operating system keeps the file for all of them.
    """
    engine.dispose()  # connections that are open already would not know of it
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _watch_sqlite)
    else:
        event.listen(engine, "begin", _tell_postgres)


def _watch_sqlite(driver: Any, record: Any) -> None:  # noqa: ANN401, ARG001 (SQLAlchemy's own signature)
    driver.set_progress_handler(_is_over, _STEPS)
    driver.execute(f"PRAGMA cache_size = -{_CACHE}")


def _is_over() -> bool:
    deadline = _DEADLINE.get()
    return deadline is not None and monotonic() > deadline


def _tell_postgres(connection: Connection) -> None:
    deadline = _DEADLINE.get()
    if deadline is not None:
        left = max(1, round(1000 * (deadline - monotonic())))
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {left}")
