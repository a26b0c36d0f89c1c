"""A thread of its own for envs: they are made, reset, stepped and closed there, and others go on meanwhile.

Envs need not be thread-safe: one env never meets two threads. Two envs of the same class in two threads do run at the
same time, as they would in two processes, but with the same globals.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from grpo.errors import EnvError

Result = TypeVar("Result")

STUCK_SECONDS = 600.0
"""How long one call of an env may take before it is taken to hang."""


class StuckError(EnvError):
    """A call of an env did not come back in time."""


class OwnThread:
    """Does one request after another; a daemon, so that an env that hangs does not keep the program.

    Attributes:
        requests: What it is to do: calls with the future of their result, and None for its end.
        number: How often it was replaced; envs that were made before are called no more.

    Raises:
        EnvError: The system gives no further thread.
    """

    def __init__(self) -> None:
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self.number = -1
        self.replace()

    def replace(self) -> None:
        """Serve what is asked from now on in another thread; one that is stuck is left behind.

        Raises:
            EnvError: The system gives no further thread.
        """
        self.number += 1
        self._began = math.inf
        try:
            threading.Thread(target=self._serve, args=(self.number,), name="grpo-env", daemon=True).start()
        except RuntimeError as error:
            raise EnvError(f"no thread for an env: {error}; play fewer episodes at once (concurrency)") from error

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act`` in the thread.

        Raises:
            StuckError: The env has been in one call for `STUCK_SECONDS`.
        """
        waiting = asyncio.wrap_future(self.post(act))
        while not waiting.done():
            left = self._began + STUCK_SECONDS - time.monotonic()
            if left <= 0:
                raise StuckError(f"an env has been in one call for {STUCK_SECONDS:g} s and does not come back")
            await asyncio.wait([waiting], timeout=min(left, STUCK_SECONDS))
        return waiting.result()

    def post(self, act: Callable[[], Result]) -> Future[Result]:
        """Have ``act`` called in the thread."""
        future: Future[Result] = Future()
        self.requests.put((act, future))
        return future

    def end(self) -> None:
        """End the thread after what it was given so far."""
        self.requests.put(None)

    def _serve(self, number: int) -> None:
        while self.number == number and (request := self.requests.get()) is not None:
            self._began = time.monotonic()
            self._do(request)
            if self.number == number:
                self._began = math.inf
            del request  # nothing of an episode is kept until the next

    def _do(self, request: Any) -> None:
        act, future = request
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)
