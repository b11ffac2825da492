"""Many posts, one writer: those that come while one is being stored are stored together after it.

A commit takes as long for a thousand posts as for one, and a database has one writer at a time anyway. Nobody waits in
a thread, so that questions are answered meanwhile.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from tonnage.archive import Archive
from tonnage.archive.attempt_rows import Batch
from tonnage.errors import TonnageError

__all__ = ["Writer"]

_MOST_WAITING = 50_000  # attempts; who comes then is told to come again
_MOST_TOGETHER = 10_000  # attempts in one transaction


@dataclass(slots=True)
class _Post:
    batch: Batch
    source: Sequence[str | None]
    stored: "asyncio.Future[int]"


@dataclass(slots=True)
class Writer:
    """Stores what is posted; belongs to one event loop."""

    archive: Archive
    _waiting: list[_Post] = field(default_factory=list)
    _task: "asyncio.Task[None] | None" = None

    async def store(self, batch: Batch, source: Sequence[str | None]) -> int:
        """Store a batch, all or nothing; return, after the commit, how many of its attempts were new."""
        if sum(len(post.batch) for post in self._waiting) > _MOST_WAITING:
            raise TonnageError("more is posted than can be stored: too many wait", hint="post it again a little later")
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
        """Return the posts that are stored together."""
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
            if len(posts) > 1:  # one that the database does not like must not take the others with it
                for post in posts:
                    await self._store([post])
                return
            _settle(posts[0].stored, error)
            return
        for post, count in zip(posts, counts, strict=True):
            _settle(post.stored, count)


def _settle(future: "asyncio.Future[int]", result: int | Exception) -> None:
    if future.done():  # nobody waits any more
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
