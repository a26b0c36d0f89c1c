"""How an evaluation goes, in one line: redrawn on a terminal, else a plain line every ten seconds.

37/100  correct 43.2 %  errors 2  tokens 81,204  0.8/s  1 min 19 s left
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from grpo.eval.episode import Ending
from grpo.eval.results import Row
from grpo.metrics import RunningMean, short_duration

PLAIN_SECONDS = 10.0
_ERRORS = (Ending.AGENT_CRASH, Ending.TIMEOUT, Ending.CONTEXT_OVERFLOW, Ending.INFRASTRUCTURE)


class LiveLine:
    """Counts results and shows them. Use it in a ``with`` statement.

    Args:
        total: Episodes in all.
        console: Where to write; standard error by default.
        quiet: Show nothing.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        total: int,
        *,
        console: Console | None = None,
        quiet: bool = False,
        clock: Callable[[], float] | None = None,
    ):
        self.total = total
        self.done = 0
        self.errors = 0
        self.tokens = 0
        self.cost = 0.0
        self.correct = RunningMean()
        self.reward = RunningMean()
        self.quiet = quiet
        self._console = console or Console(stderr=True, highlight=False)
        self._clock = clock or time.monotonic
        self._began = self._shown = self._clock()
        self._played = 0
        self._live: Live | None = None

    def add(self, row: Row, *, earlier: bool = False) -> None:
        """Count a result; ``earlier`` ones were played by a former process and say nothing about speed."""
        self.done += 1
        self._played += not earlier
        self.errors += row["ending"] in _ERRORS
        self.tokens += row["prompt_tokens"] + row["completion_tokens"]
        self.cost += row["cost"] or 0.0
        if row["correct"] is not None:
            self.correct.add(float(row["correct"]))
        if row["reward"] is not None:
            self.reward.add(row["reward"])
        if self._live is None and not self.quiet and self._clock() - self._shown >= PLAIN_SECONDS:
            self._shown = self._clock()
            self._print()

    def line(self) -> str:
        """The line."""
        seconds = self._clock() - self._began
        score = (
            (f"correct {100 * self.correct.mean:.1f} %" if self.correct.count else f"reward {self.reward.mean:.3f}")
            if self.reward.count
            else "no score yet"
        )
        parts = [f"{self.done}/{self.total}", score, f"errors {self.errors}"]
        if self.tokens:
            parts.append(f"tokens {self.tokens:,}")
        if self.cost:
            parts.append(f"${self.cost:.4f}")
        if self._played and seconds > 0:
            rate = self._played / seconds
            parts += [f"{rate:.3g}/s", f"{short_duration((self.total - self.done) / rate)} left"]
        return "  ".join(parts)

    def __enter__(self) -> Self:
        if not self.quiet and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(get_renderable=lambda: Text(self.line()), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif not self.quiet:
            self._print()

    def _print(self) -> None:
        print(self.line(), file=self._console.file, flush=True)
