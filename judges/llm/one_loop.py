"""The one event loop, in a thread of its own, in which litellm is called, from whatever loop or thread.

litellm has one queue of callbacks in a process, for one loop. Loops of several threads take it from each other, and
each time asyncio prints a traceback to the terminal.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class _Loop:
    """Started at the first call; its thread does not keep the process from its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="judges-litellm", daemon=True).start()
            return self._loop


_shared = _Loop()
os.register_at_fork(after_in_child=_shared.__init__)  # a fork has no thread of its parent's


async def in_one_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await ``coroutine`` in the shared loop; raises what it raises.

    Where this is cancelled, so is it, and this waits for its end: litellm imports modules even then, and a program that
    ends during an import may hang, or report another end than Ctrl-C.
    """
    loop = _shared.get()
    ended: Future[asyncio.Task[T]] = Future()
    tasks: list[asyncio.Task[T]] = []

    def start() -> None:
        tasks.append(loop.create_task(coroutine))
        tasks[0].add_done_callback(ended.set_result)

    loop.call_soon_threadsafe(start)
    waiting = asyncio.wrap_future(ended)
    try:
        return (await asyncio.shield(waiting)).result()
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        await asyncio.wait({waiting})
        raise
