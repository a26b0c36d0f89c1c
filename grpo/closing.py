"""``with`` for things that have a ``close``: a log, a progress bar, the display of a run."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Base of what is used in a ``with`` statement and closed at its end, however that comes about."""

    def close(self) -> None:
        """End it; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
