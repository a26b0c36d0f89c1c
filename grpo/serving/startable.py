"""What is started, waited for, and stopped at the end of its ``with`` statement: a server of ours, or a fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

Progress = Callable[[float, str], None]
"""Called about once a second during a start with the seconds so far and what the server is doing."""


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
