"""The two streams of a command: what user code prints is kept out of its JSON, and a long wait is said on stderr."""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import click

PATIENCE_SECONDS = 2.0
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


@contextmanager
def said_if_slow(what: str, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Say on stderr what is being done if it takes longer than that, so that nobody takes it for a standstill."""
    line = f"{what[0].upper()}{what[1:]}; the first time this may take a minute"
    timer = threading.Timer(patience_seconds, lambda: click.echo(line, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
