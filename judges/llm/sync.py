"""How code without an event loop calls a coroutine, and how Ctrl-C ends it: in one line, as a `KeyboardInterrupt`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

STOPPED = "Stopped. Judgements that were recorded or cached are kept."


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. In a notebook, whose thread has a running loop, it runs in a thread of its own.

    Raises:
        KeyboardInterrupt: On Ctrl-C, after the coroutine was cancelled. A program that does not catch it ends with one
            line instead of the pages of a traceback through every library below.
    """
    try:
        asyncio.get_running_loop()
        is_notebook = True
    except RuntimeError:
        is_notebook = False
    try:  # not in the handler above, whose error would stand in front of each of the coroutine's
        return _run_in_thread(coroutine) if is_notebook else asyncio.run(coroutine)
    except KeyboardInterrupt:
        stopped = KeyboardInterrupt(STOPPED)
    _show_in_one_line(stopped)
    raise stopped


def _run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
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


def _show_in_one_line(stopped: KeyboardInterrupt) -> None:
    """Let this exception, should nobody catch it, be shown without its traceback; every other as before."""
    show = sys.excepthook

    def show_or_tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is stopped:
            print(error, file=sys.stderr)
        else:
            show(kind, error, trace)

    sys.excepthook = show_or_tell
