"""At most so many calls at the same time, counted over event loops and threads.

`asyncio.Semaphore` belongs to one event loop, but every synchronous call runs a loop of its own, and a trainer may
judge in a thread beside its own loop. A free slot goes to the waiter that came first and wakes it in its own loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import TracebackType


class Limiter:
    """An async context manager that lets ``limit`` bodies run at once."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = threading.Lock()
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                still_waiting = turn in self._waiters
                if still_waiting:
                    self._waiters.remove(turn)
            if not still_waiting:  # the slot was handed over as the waiter was cancelled: pass it on
                self._release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        while True:
            with self._lock:
                if not self._waiters:
                    self._free += 1
                    return
                turn = self._waiters.popleft()
            try:
                turn.get_loop().call_soon_threadsafe(_wake, turn)
                return
            except RuntimeError:  # that loop was closed with its waiter in it: the next waiter is woken
                continue


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
