"""What is being asked right now, by key: a question that another asks at the same time waits for that answer.

It serves several threads and event loops, like the session that has it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future


class InFlight:
    """The work under way, by key. An error of who works is everyone's; where that one is cancelled, the next works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, Future[str | None]] = {}

    async def once(self, key: str, work: Callable[[], Awaitable[str]]) -> str:
        """What ``work`` returns, done here or by another call."""
        while True:
            mine: Future[str | None] = Future()
            mine.set_running_or_notify_cancel()  # one who waits and is cancelled must not cancel it for all
            with self._lock:
                pending = self._pending.setdefault(key, mine)
            if pending is mine:
                return await self._work(key, work, mine)
            result = await asyncio.wrap_future(pending)
            if result is not None:
                return result

    async def _work(self, key: str, work: Callable[[], Awaitable[str]], mine: Future[str | None]) -> str:
        result: str | None = None
        failure: Exception | None = None
        try:
            result = await work()
            return result
        except Exception as error:
            failure = error
            raise
        finally:
            with self._lock:
                del self._pending[key]
            if failure is not None:
                mine.set_exception(failure)
            else:
                mine.set_result(result)  # None: cancelled
