"""A progress bar's state: how many items are done, how long they took, and running averages of their values.

It draws nothing; ``terminal`` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from grpo.display.metrics import RunningMean, short_number
from grpo.files import Closeable


class Bar(Closeable):
    """One progress bar; ``Display.progress`` makes it.

    A subclass may have a ``status`` of its own.

    Attributes:
        always_ends: In a log, its last line is written however quick it was.
    """

    always_ends = False

    def __init__(
        self, description: str, total: int, clock: Callable[[], float], on_change: Callable[[Bar], None]
    ) -> None:
        self.description = description
        self.total = total
        self.done = 0
        self.means: dict[str, RunningMean] = {}
        self._on_change = on_change
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None

    @property
    def is_closed(self) -> bool:
        """True after ``close``."""
        return self._ended is not None

    @property
    def seconds(self) -> float:
        """From its begin to now, or to its end."""
        return (self._clock() if self._ended is None else self._ended) - self._began

    def update(self, n: int = 1, **averages: float) -> None:
        """Counts ``n`` more items; each keyword is the mean of these items and enters a running average."""
        self.done += n
        for name, value in averages.items():
            self.means.setdefault(name, RunningMean()).add(value, n)
        self._on_change(self)

    def close(self) -> None:
        """Ends the bar; its clock stops and a second call does nothing."""
        if self._ended is None:
            self._ended = self._clock()
            self._on_change(self)

    def status(self) -> str:
        """``5/8 [00:31<00:18, 6.20s/it, reward=0.412, completion_tokens=143]``, averages over all items so far."""
        per_item = self.seconds / self.done if self.done else math.nan
        left = per_item * max(self.total - self.done, 0)
        rate = f"{per_item:.2f}s/it" if self.done else "?s/it"
        averages = [f"{name}={short_number(mean.mean)}" for name, mean in list(self.means.items())]
        times = f"{_clock_time(self.seconds)}<{_clock_time(left)}"
        return f"{self.done}/{self.total} [{times}, {', '.join([rate, *averages])}]"


def _clock_time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return (f"{hours}:" if hours else "") + f"{rest // 60:02d}:{rest % 60:02d}"
