"""How code without an event loop calls a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. In a notebook, whose thread has a running loop, it runs in a thread of its own."""
    try:
        asyncio.get_running_loop()
        is_notebook = True
    except RuntimeError:
        is_notebook = False
    if not is_notebook:  # not in the handler above, whose error would stand in front of each of the coroutine's
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
