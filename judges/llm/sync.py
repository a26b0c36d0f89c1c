"""How code without an event loop calls a coroutine, and how Ctrl-C ends it: in one line, as a `KeyboardInterrupt`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

STOPPED = "Stopped. Judgements that were recorded or cached are kept."
_CLEAN_UP_SECONDS = 2.0


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop of a thread of its own, so that a notebook's own loop does not matter.

    Raises:
        KeyboardInterrupt: On Ctrl-C, after the coroutine was cancelled. A program that does not catch it ends with one
            line instead of the pages of a traceback through every library below.
    """
    ended = threading.Event()

    async def noted() -> T:
        try:
            return await coroutine
        finally:
            ended.set()

    loop = _loop_of(os.getpid())
    if _running_loop() is loop:  # a callback of a judgement asks for another one
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, coroutine).result()
    running = asyncio.run_coroutine_threadsafe(noted(), loop)
    try:
        return running.result()
    except KeyboardInterrupt:
        running.cancel()
        ended.wait(_CLEAN_UP_SECONDS)
        stopped = KeyboardInterrupt(STOPPED)
    _show_in_one_line(stopped)
    raise stopped


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    """The one loop of all synchronous calls of a process: litellm keeps a client for each loop, and 200 at most."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="judges", daemon=True).start()
    return loop


def _show_in_one_line(stopped: KeyboardInterrupt) -> None:
    """Let this exception, should nobody catch it, be shown without its traceback; every other as before."""
    show = sys.excepthook

    def show_or_tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is stopped:
            print(error, file=sys.stderr)
        else:
            show(kind, error, trace)

    sys.excepthook = show_or_tell
