"""What the machine tells: how much memory a call takes, and whether it says how long a thread waited for a core."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def traced_peak(call: Callable[[], Any]) -> int:
    """The most bytes that Python's objects had at once in ``call``, above what there was."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _tells_waits() -> bool:
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[2]) > 0
    except (OSError, ValueError, IndexError):
        return False


TELLS_WAITS = _tells_waits()


needs_waits_told = pytest.mark.skipif(
    not TELLS_WAITS, reason="the system does not say how long a thread waits for a core (/proc/thread-self/schedstat)"
)
