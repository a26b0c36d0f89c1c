"""What a command shows while it goes on: phases, notes, progress bars, the last training steps, tables.

On a terminal the steps and the bars are redrawn in place. Elsewhere (a pipe, a log file) everything is one plain line
at a time without control codes, and bars write at most one line in ten seconds. Nothing here decides or stores
anything; the numbers also lie in the run directory.
"""

import atexit
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grpo.display.metrics import EVALUATION_METRICS, RunningMean, short_duration, short_number
from grpo.display.steps import StepTable
from judges.common.files import Closeable
from judges.common.text import for_terminal

PLAIN_SECONDS = 10.0
"""Bars write at most one line in this time where the output is not a terminal."""

DRAWN_BAR_COLUMNS = 100
"""On a narrower terminal a bar is its numbers alone: the running averages matter more than the drawing."""


class Bar(Closeable):
    """A progress bar: how many items are done, how fast, and running averages of their values.

    ``Display.progress`` makes it and draws it. A subclass may have ``parts`` of its own.

    Attributes:
        earlier: How many items a former process did, which say nothing about speed.
        is_begun: In a log it has a line, and not yet the last one: it is shown to its end.
    """

    def __init__(
        self, description: str, total: int, clock: Callable[[], float], on_change: Callable[["Bar"], None]
    ) -> None:
        self.description = description
        self.total = total
        self.done = 0
        self.means: dict[str, RunningMean] = {}
        self.is_begun = False
        self.earlier = 0
        self._on_change = on_change
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None

    @property
    def is_closed(self) -> bool:
        """True after ``close``."""
        return self._ended is not None

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

    def parts(self) -> list[str]:
        """What is said between the count and the speed: averages over all items so far."""
        return [f"{name} {short_number(mean.mean)}" for name, mean in list(self.means.items())]

    def status(self) -> str:
        """``5/8  reward 0.412  tokens 143  0.161/s  19 s left``."""
        parts = [f"{self.done}/{self.total}", *self.parts()]
        seconds = (self._clock() if self._ended is None else self._ended) - self._began
        if (timed := self.done - self.earlier) and seconds > 0:
            rate, left = timed / seconds, self.total - self.done
            parts += [f"{rate:.3g}/s", f"{short_duration(left / rate)} left"][: 2 if left > 0 else 1]
        return "  ".join(parts)


B = TypeVar("B", bound=Bar)


class Display(Closeable):
    """Shows a run on a terminal, or as plain lines; use it in a ``with`` statement.

    Args:
        quiet: Show nothing but tables.
        stderr: Write to standard error, not to standard output.
        console: Where to write instead.
        live: Redraw in place; by default only where the output is a terminal.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stderr: bool = False,
        console: Console | None = None,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet = quiet
        self.console = console or Console(stderr=stderr, highlight=False)
        is_terminal = self.console.file.isatty() and not self.console.is_dumb_terminal
        self.is_live = is_terminal if live is None else live
        self._clock = clock
        self._bars: list[Bar] = []
        self._steps = StepTable()
        self._last_bar_line = clock()
        self._live: Live | None = None

    def phase(self, title: str) -> None:
        """Begins a part of the run; what the last part showed stays above it."""
        self.close()
        self._bars, self._steps = [], StepTable()
        if self.quiet:
            return
        if self.is_live:
            self.console.print(Text.assemble("\n", ("● ", "bold cyan"), (for_terminal(title), "bold")))
        else:
            self._line(f"== {title}")

    def progress(self, description: str, total: int, kind: type[B] = Bar) -> B:
        """A bar of ``total`` items; close it, or use it in a ``with`` statement."""
        bar = kind(for_terminal(description), total, self._clock, self._bar_changed)
        self._bars.append(bar)
        self._redraw()
        return bar

    def doing(self) -> list[str]:
        """What the open bars say."""
        return [f"{bar.description} {bar.status()}" for bar in list(self._bars) if not bar.is_closed]

    def step(
        self,
        metrics: Mapping[str, Any],
        total_steps: int | None = None,
        *,
        left_seconds: float | None = None,
        about: bool = False,
    ) -> None:
        """Shows a finished training step.

        Args:
            metrics: Of the step.
            total_steps: Number of the last one, for the time left.
            left_seconds: Time left, where it is known better than from the steps alone.
            about: The number of steps may still change.
        """
        self._steps.add(metrics, total_steps, left_seconds, about)
        self._bars = [bar for bar in self._bars if not bar.is_closed]  # their numbers are in the row now
        if self.quiet:
            return
        if self.is_live:
            self._redraw()
        else:
            self._line(self._steps.line())

    def note(self, text: str) -> None:
        """One line of text."""
        if self.quiet:
            return
        if self.is_live:
            self.console.print(Text(for_terminal(text)), soft_wrap=True)
        else:
            self._line(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table whose first column holds names; shown in quiet mode too."""
        self.close()
        grid = [[for_terminal(cell) for cell in row] for row in (columns, *rows)]
        if self.is_live:
            self.console.print()
            self.console.print(_drawn_table(for_terminal(title), grid))
            return
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        self._line(f"-- {title}")
        for first, *others in grid if any(columns) else grid[1:]:
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            self._line("   ".join([first.ljust(widths[0]), *cells]).rstrip())

    def eval_table(self, summaries: Sequence[Mapping[str, Any]]) -> None:
        """A run's evaluations side by side: means with half the width of their 95 % intervals.

        Args:
            summaries: Evaluation summaries as they lie in ``eval/<label>.json``; sampled and greedy stand side by side.
        """
        if not summaries:
            return
        ordered = sorted(summaries, key=lambda summary: summary["temperature"] == 0)  # stable: before stays first
        rows = [["Episodes", *(str(summary["episodes"]) for summary in ordered)]]
        for metric in EVALUATION_METRICS:
            values = [summary["metrics"].get(metric.name) for summary in ordered]
            if metric.is_shown(value and value["mean"] for value in values):
                rows.append([metric.label, *map(metric.with_margin, values)])
        split = ordered[0].get("split")
        where = f" on the {split} split" if split else ""
        self.table(
            f"Evaluation{where}, mean ± half of the 95 % interval",
            ["", *map(_evaluation_name, ordered)],
            rows,
        )

    def close(self) -> None:
        """Stops redrawing and leaves the last picture standing; the display can be used again."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
            atexit.unregister(live.stop)
            self._bars = []

    def _redraw(self) -> None:
        if self.quiet or not self.is_live:
            return
        if self._live is None:
            live = self._live = Live(get_renderable=self._picture, console=self.console, refresh_per_second=4)
            atexit.register(live.stop)  # an interrupted run gives the cursor back
            live.start()
        else:
            self._live.refresh()

    def _bar_changed(self, bar: Bar) -> None:
        if self.quiet:
            return
        if self.is_live:
            if self._live is not None and bar.is_closed:
                self._live.refresh()
            return
        if (bar.is_closed and bar.is_begun) or self._clock() - self._last_bar_line >= PLAIN_SECONDS:
            self._last_bar_line = self._clock()
            bar.is_begun = bar.done < bar.total
            self._line(f"{bar.description} {bar.status()}".lstrip())

    def _picture(self) -> RenderableType:
        bars = Table.grid(padding=(0, 1))
        for bar in list(self._bars):
            drawn = [ProgressBar(total=max(bar.total, 1), completed=bar.done, width=16)]
            wide = self.console.width >= DRAWN_BAR_COLUMNS
            bars.add_row(Text(bar.description), *(drawn if wide else ()), Text(bar.status(), "dim"))
        return Group(self._steps.drawn(self.console.width), bars) if self._steps else bars

    def _line(self, text: str) -> None:
        encoding = getattr(self.console.file, "encoding", None) or "utf-8"
        printable = for_terminal(text).encode(encoding, "replace").decode(encoding)  # an ASCII log must not stop a run
        print(printable, file=self.console.file, flush=True)


def _drawn_table(title: str, grid: Sequence[Sequence[str]]) -> Table:
    columns, *rows = grid
    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(title, "bold"),
        title_justify="left",
        header_style="dim",
        padding=(0, 0, 0, 1),  # four evaluations side by side fit 80 columns
        show_edge=False,
        show_header=any(columns),
    )
    for place, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if place else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _evaluation_name(summary: Mapping[str, Any]) -> str:
    temperature = float(summary["temperature"])
    how = "greedy" if temperature == 0 else f"T={temperature:g}"
    when = str(summary["label"]).rpartition("-")[0]
    return f"{when}, {how}"
