"""Where a command's stdout is its JSON: what user code prints meanwhile goes to stderr."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

_STDOUT, _STDERR = 1, 2


@contextmanager
def stdout_aside() -> Iterator[None]:
    """Send to stderr what Python code, libraries in C and child programs write to stdout meanwhile."""
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        with redirect_stdout(sys.stderr):
            yield
        return
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C has in its buffers
        os.dup2(kept, _STDOUT)
        os.close(kept)
