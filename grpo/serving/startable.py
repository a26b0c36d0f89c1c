"""What is started, waited for, and stopped at the end of its ``with`` statement: a server of ours, or a fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

Progress = Callable[[float, str], None]
"""Called about once a second during a start with the seconds so far and what the server is doing."""


SILENT_SECONDS = 30.0
"""A start may take so long before something is said of it; on a GPU the first one takes minutes."""


def said_if_long(say: Callable[[str], None]) -> Progress:
    """Tells ``say`` now and then what a server is doing that takes long to start."""
    said = 0.0

    def on_progress(seconds: float, doing: str) -> None:
        nonlocal said
        if seconds >= said + SILENT_SECONDS:
            said = seconds
            say(f"still starting: {doing} ({seconds:.0f} s)")

    return on_progress


class Startable:
    """Base of what ``with`` starts, hands out ready, and stops, however it ends."""

    __slots__ = ()

    def start(self) -> None:
        """Begin to start; returns at once."""
        raise NotImplementedError

    def wait_ready(self, on_progress: Progress | None = None) -> float:
        """Wait until requests are answered; returns the seconds since ``start``."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop it. Twice does no harm."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Start, and wait until it is ready."""
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()
