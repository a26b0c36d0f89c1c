"""What a run shows while it goes on: phases, progress bars, a table of the last steps, the closing table.

On a terminal the table of steps and the bars are redrawn in place; elsewhere (a pipe, a log file) everything is one
plain line at a time without control codes, and bars write at most one line in ten seconds. Nothing here decides or
stores anything; the numbers also lie in the run directory.
"""

from __future__ import annotations

import atexit
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grpo.closing import Closing
from grpo.metrics import EVALUATION_METRICS, RunningMean, short_duration, short_number
from grpo.progress import Bar

PLAIN_SECONDS = 10.0
"""Bars write at most one line in this time where the output is not a terminal."""

DRAWN_BAR_COLUMNS = 100
"""On a narrower terminal a bar is its numbers alone: the running averages matter more than the drawing."""

STEP_COLUMNS = (
    ("reward/mean", "reward"),
    ("env/success", "success"),
    ("env/valid_call_rate", "valid"),
    ("tokens/completion_mean", "tokens"),
    ("groups/zero_variance_share", "no spread"),
    ("loss/clip_share", "clipped"),
    ("gap/mean_abs", "gap"),
    ("staleness", "stale"),
    ("speed/sample_tokens_per_second", "sample tok/s"),
    ("speed/train_tokens_per_second", "train tok/s"),
    ("judge/cost_usd", "judge $"),
    ("time/step", "s"),
)
"""Metrics of a training step that are shown where the run has them, with their column names."""

FIRST_TO_GO = ("stale", "valid", "clipped", "train tok/s", "no spread", "gap", "judge $", "sample tok/s", "success")
"""The columns that a narrow terminal goes without, in this order."""

_CONTROL = dict.fromkeys((*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)))


class Display(Closing):
    """Shows a run on a terminal, or as plain lines; use it in a ``with`` statement.

    Args:
        quiet: Show nothing but tables.
        console: Where to write; standard output by default.
        live: Redraw in place; by default only where the output is a terminal.
        recent_steps: Rows of the table of steps.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        console: Console | None = None,
        live: bool | None = None,
        recent_steps: int = 8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet = quiet
        self.console = console or Console(highlight=False)
        is_terminal = self.console.file.isatty() and not self.console.is_dumb_terminal
        self.is_live = is_terminal if live is None else live
        self._clock = clock
        self._bars: list[Bar] = []
        self._steps: deque[dict[str, Any]] = deque(maxlen=recent_steps)
        self._averages: dict[str, RunningMean] = {}
        self._total_steps: int | None = None
        self._last_bar_line = clock()
        self._begun: Bar | None = None
        self._live: Live | None = None

    def phase(self, title: str) -> None:
        """Begins a part of the run; what the last part showed stays above it."""
        self.close()
        self._bars, self._averages, self._total_steps = [], {}, None
        self._steps.clear()
        if self.quiet:
            return
        if self.is_live:
            self.console.print(Text.assemble("\n", ("● ", "bold cyan"), (_clean(title), "bold")))
        else:
            self._line(f"== {title}")

    def progress(self, description: str, total: int) -> Bar:
        """A bar of ``total`` items; close it, or use it in a ``with`` statement."""
        bar = Bar(_clean(description), total, self._clock, self._bar_changed)
        self._bars.append(bar)
        self._redraw()
        return bar

    def step(self, metrics: Mapping[str, Any], total_steps: int | None = None) -> None:
        """Shows a finished training step; ``total_steps`` is the number of the last one, for the time left."""
        self._steps.append(dict(metrics))
        self._total_steps = total_steps
        self._bars = [bar for bar in self._bars if not bar.is_closed]  # their numbers are in the row now
        for name, _ in STEP_COLUMNS:
            if (value := _number(metrics, name)) is not None:
                self._averages.setdefault(name, RunningMean()).add(value)
        if self.quiet:
            return
        if self.is_live:
            self._redraw()
        else:
            self._line(self._step_line(metrics))

    def note(self, text: str) -> None:
        """One line of text."""
        if self.quiet:
            return
        if self.is_live:
            self.console.print(Text(_clean(text)), soft_wrap=True)
        else:
            self._line(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table whose first column holds names; shown in quiet mode too.

        Raises:
            ValueError: A row whose length differs from that of ``columns``.
        """
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"table {title!r} has {len(columns)} columns but a row of {len(row)}: {list(row)}")
        self.close()
        if not self.is_live:
            grid = [[_clean(cell) for cell in row] for row in (columns, *rows)]
            widths = [max(len(row[index]) for row in grid) for index in range(len(columns))]
            self._line(f"-- {title}")
            for row in grid:
                cells = [
                    cell.rjust(width) if index else cell.ljust(width)
                    for index, (cell, width) in enumerate(zip(row, widths, strict=True))
                ]
                self._line("   ".join(cells).rstrip())
            return
        table = Table(
            box=box.SIMPLE_HEAD,
            title=Text(_clean(title), "bold"),
            title_justify="left",
            header_style="dim",
            padding=(0, 0, 0, 1),  # four evaluations side by side fit 80 columns
            show_edge=False,
        )
        for index, column in enumerate(columns):
            table.add_column(Text(_clean(column)), justify="right" if index else "left")
        for row in rows:
            table.add_row(*(Text(_clean(cell)) for cell in row))
        self.console.print()
        self.console.print(table)

    def eval_table(self, summaries: Sequence[Mapping[str, Any]]) -> None:
        """The closing table: one column for each evaluation, means with half the width of their 95 % intervals.

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
                rows.append([metric.label, *(_with_margin(metric.format, value) for value in values)])
        split = ordered[0].get("split")
        where = f" on the {split} split" if split else ""
        self.table(
            f"Evaluation{where}, mean ± half of the 95 % interval",
            ["", *(_column(summary) for summary in ordered)],
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
        elif self._clock() - self._last_bar_line >= PLAIN_SECONDS or (bar.is_closed and bar is self._begun):
            self._last_bar_line = self._clock()
            self._begun = bar if bar.done < bar.total else None  # a bar that has a line is shown to its end
            self._line(f"{bar.description} {bar.status()}")

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._steps:
            parts.append(self._step_table())
        bars = Table.grid(padding=(0, 1))
        for bar in list(self._bars):
            drawn = [ProgressBar(total=max(bar.total, 1), completed=bar.done, width=16)]
            status = Text(bar.status(), "dim", overflow="ellipsis", no_wrap=True)
            bars.add_row(Text(bar.description), *(drawn if self.console.width >= DRAWN_BAR_COLUMNS else ()), status)
        return Group(*parts, bars)

    def _step_table(self) -> Table:
        table = Table(box=None, header_style="dim", padding=(0, 1), caption=Text(self._outlook(), "dim"))
        table.caption_justify = "left"
        table.show_footer = True
        table.add_column("step", justify="right", footer=Text("mean", "dim"))
        columns = self._columns()
        for name, title in columns:
            mean = self._averages.get(name, RunningMean()).mean
            table.add_column(title, justify="right", footer=Text(short_number(mean), "dim"))
        for metrics in list(self._steps):
            cells = [_cell(metrics, name) for name, _ in columns]
            table.add_row(Text(str(metrics.get("step", "")), "bold"), *cells)
        return table

    def _columns(self) -> list[tuple[str, str]]:
        """The columns that have a value and together fit the terminal."""
        columns = [column for column in STEP_COLUMNS if column[0] in self._averages]
        for title in FIRST_TO_GO:
            if sum(max(len(name), 6) + 2 for _, name in columns) + 6 <= self.console.width:
                break
            columns = [column for column in columns if column[1] != title]
        return columns

    def _step_line(self, metrics: Mapping[str, Any]) -> str:
        step = f"{metrics.get('step', '?')}" + (f"/{self._total_steps}" if self._total_steps else "")
        cells = [f"{title}={_cell(metrics, name)}" for name, title in STEP_COLUMNS if name in metrics]
        means = [
            f"mean {title} {short_number(self._averages[name].mean)}"
            for name, title in STEP_COLUMNS
            if title in ("reward", "tokens") and name in self._averages
        ]
        return f"step {step}: {'; '.join([', '.join(cells), *means, *filter(None, [self._outlook()])])}"

    def _outlook(self) -> str:
        per_step = self._averages.get("time/step", RunningMean()).mean
        if self._total_steps is None or not self._steps or math.isnan(per_step):
            return ""
        done = int(self._steps[-1].get("step", 0))
        left = short_duration(per_step * max(self._total_steps - done, 0))
        return f"{done} of {self._total_steps} steps, {short_duration(per_step)} each, about {left} left"

    def _line(self, text: str) -> None:
        encoding = getattr(self.console.file, "encoding", None) or "utf-8"
        printable = _clean(text).encode(encoding, "replace").decode(encoding)  # an ASCII log must not stop a run
        print(printable, file=self.console.file, flush=True)


def _cell(metrics: Mapping[str, Any], name: str) -> str:
    value = _number(metrics, name)
    return "–" if value is None else short_number(value)


def _number(metrics: Mapping[str, Any], name: str) -> float | None:
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _with_margin(show: Callable[[float | None], str], value: Mapping[str, float | None] | None) -> str:
    if value is None or value["mean"] is None:
        return "–"
    low, high = value.get("low"), value.get("high")
    if low is None or high is None:
        return show(value["mean"])
    return f"{show(value['mean'])} ± {show((high - low) / 2).removesuffix(' %')}"


def _column(summary: Mapping[str, Any]) -> str:
    temperature = float(summary["temperature"])
    how = "greedy" if temperature == 0 else f"T={temperature:g}"
    name = str(summary["label"]).removesuffix("-sampled").removesuffix("-greedy")
    return f"{name}, {how}"


def _clean(text: str) -> str:
    """The text without control characters: what a model or a mail wrote must not steer the terminal."""
    return text.translate(_CONTROL)
