"""The one event loop, in a thread of its own, in which every judge is asked, and how code without a loop asks.

litellm has one queue of callbacks in a process, for one loop. Loops of several threads take it from each other, and
each time asyncio prints a traceback to the terminal. What calls share (limits, equal questions at the same time) needs
no locks where one loop runs it.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

STOPPED = "Stopped. Judgements that were recorded or cached are kept."
"""What a command says after Ctrl-C."""
_LAST_SECONDS = 5.0
"""For which the end of a program waits for the loop's."""


class _Loop:
    """Started at the first call; its thread ends before the interpreter does.

    A thread that is stopped during an import keeps that module's lock, and what litellm imports while it is destroyed
    would wait for it forever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._thread is None:
                self._runner.get_loop()
                self._thread = threading.Thread(target=self._run, name="judges", daemon=True)
                self._thread.start()
            return self._runner.get_loop()

    def stop(self) -> None:
        """Cancel what is left in the loop, and wait a moment for its end."""
        if self._thread is not None:
            loop = self._runner.get_loop()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        with self._runner:
            self._runner.get_loop().run_forever()


_shared = _Loop()
atexit.register(_shared.stop)
os.register_at_fork(after_in_child=_shared.__init__)  # a fork has no thread of its parent's


async def in_one_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await ``coroutine`` in the shared loop; raises what it raises.

    Where this is cancelled, so is it, and this waits for its end: litellm imports modules even then, and a program that
    ends during an import may hang, or report another end than Ctrl-C.
    """
    loop = _shared.get()
    if asyncio.get_running_loop() is loop:
        return await coroutine
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


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread of its own: the thread of a notebook has a running loop already.

    Raises:
        KeyboardInterrupt: On Ctrl-C, after the coroutine was cancelled and has ended.
    """
    tasks: list[asyncio.Task[Any]] = []

    async def noted() -> T:
        if task := asyncio.current_task():
            tasks.append(task)
        return await coroutine

    with ThreadPoolExecutor(1) as thread:  # its end waits for the coroutine's
        running = thread.submit(asyncio.run, noted())
        try:
            return running.result()
        except KeyboardInterrupt:
            for task in tasks:
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same function for code without an event loop, and for notebooks, which have one already."""

    @wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> T:
        return run_sync(function(*args, **options))

    return run
