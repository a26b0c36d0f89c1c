"""Coroutines on an event loop in a thread of its own: they go on while the main thread computes.

A learner stays in the main thread, where Ctrl-C ends it between two operations; torch lets go of the interpreter
while it computes, so the other thread plays on.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from judges.common.files import Closeable

T = TypeVar("T")


class BackgroundLoop(Closeable):
    """An event loop that runs from its creation until it is closed.

    Args:
        name: Of the thread.
        closing_seconds: How long what was cancelled may take to end; None: as long as it likes.
    """

    def __init__(self, name: str, closing_seconds: float | None = None) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._closing_seconds = closing_seconds
        self._thread = threading.Thread(target=self._play, name=name, daemon=True)
        self._thread.start()

    def _play(self) -> None:
        with self._runner:  # at its end it cancels what is under way and waits until it is gone, in this thread
            self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine; what it has begun goes on afterwards. A Ctrl-C while waiting cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what is under way, wait until it is gone, and end the thread. Twice does no harm."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._closing_seconds)
