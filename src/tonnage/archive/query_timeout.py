"""A time limit for queries, needed because the clients of a server share one archive."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, event

__all__ = ["shared", "within"]

_DEADLINE: ContextVar[float | None] = ContextVar("deadline", default=None)
_CACHE = 32 * 1024  # KiB
_STEPS = 20_000  # instructions of SQLite's virtual machine: a few tenths of a millisecond


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the time of queries on a shared engine within this block."""
    token = _DEADLINE.set(monotonic() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def shared(engine: Engine) -> None:
    """Prepare an engine to be shared by many clients.

    From now on `within` applies to its queries, and each connection has a small cache: there are many connections, and
    the operating system caches the file for all of them.
    """
    engine.dispose()  # connections that are already open would not be limited
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
