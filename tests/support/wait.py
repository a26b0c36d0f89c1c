"""Waiting for what another thread or process does."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    *,
    seconds: float = 120.0,
    every: float = 0.02,
    process: subprocess.Popen[Any] | None = None,
    told: Callable[[], object] = str,
) -> T:
    """Wait until ``condition`` holds, and return its value.

    When the time is up, or ``process`` has ended before, it fails with what ``told`` says.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert process is None or process.poll() is None, f"the process ended early: {told()}"
        assert time.monotonic() < deadline, f"waited {seconds:g} seconds in vain: {told()}"
        time.sleep(every)
    return value
