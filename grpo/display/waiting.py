"""What a command says while it does something that is mostly quick and at times takes a minute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

PATIENCE_SECONDS = 2.0


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
