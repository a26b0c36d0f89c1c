"""The table of a run's last training steps: which columns it has, its averages, the time that is left."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from grpo.display.metrics import RunningMean, short_duration, short_number

COLUMNS = (
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
"""Metrics of a training step that tables show where the run has them, with their column names."""

FIRST_TO_GO = ("stale", "valid", "clipped", "train tok/s", "no spread", "gap", "judge $", "sample tok/s", "success")
"""The columns that a narrow terminal goes without, in this order."""

SHOWN_STEPS = 8
"""Rows of the table."""


class StepTable:
    """The last steps of a run, and averages over all that were added."""

    def __init__(self) -> None:
        self._steps: deque[Mapping[str, Any]] = deque(maxlen=SHOWN_STEPS)
        self._averages: dict[str, RunningMean] = {}
        self._total_steps: int | None = None
        self._left_seconds: float | None = None
        self._about = False

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, metrics: Mapping[str, Any], total_steps: int | None, left_seconds: float | None, about: bool) -> None:
        """Count a step; see ``Display.step``."""
        self._steps.append(dict(metrics))
        self._total_steps, self._left_seconds, self._about = total_steps, left_seconds, about
        for name, _ in COLUMNS:
            if (value := _number(metrics, name)) is not None:
                self._averages.setdefault(name, RunningMean()).add(value)

    def line(self) -> str:
        """The last step in one line, with averages and the time that is left."""
        metrics = self._steps[-1]
        step = f"{metrics.get('step', '?')}" + (f"/{self._total_steps}" if self._total_steps else "")
        cells = [f"{title}={cell(metrics, name)}" for name, title in COLUMNS if name in metrics]
        means = [
            f"mean {title} {short_number(self._averages[name].mean)}"
            for name, title in COLUMNS
            if title in ("reward", "tokens") and name in self._averages
        ]
        return f"step {step}: {'; '.join([', '.join(cells), *means, *filter(None, [self._time_left()])])}"

    def drawn(self, width: int) -> Table:
        """The table, in the columns that fit ``width`` characters."""
        table = Table(box=None, header_style="dim", padding=(0, 1), caption=Text(self._time_left(), "dim"))
        table.caption_justify = "left"
        table.show_footer = True
        table.add_column("step", justify="right", footer=Text("mean", "dim"))
        columns = self._columns(width)
        for name, title in columns:
            table.add_column(title, justify="right", footer=Text(short_number(self._averages[name].mean), "dim"))
        for metrics in list(self._steps):
            cells = [cell(metrics, name) for name, _ in columns]
            table.add_row(Text(str(metrics.get("step", "")), "bold"), *cells)
        return table

    def _columns(self, width: int) -> list[tuple[str, str]]:
        columns = [column for column in COLUMNS if column[0] in self._averages]
        for title in FIRST_TO_GO:
            if sum(max(len(name), 6) + 2 for _, name in columns) + 6 <= width:
                break
            columns = [column for column in columns if column[1] != title]
        return columns

    def _time_left(self) -> str:
        per_step = self._averages.get("time/step", RunningMean()).mean
        if self._total_steps is None or math.isnan(per_step):
            return ""
        done = int(self._steps[-1].get("step", 0))
        left = self._left_seconds
        if left is None or math.isnan(left):
            left = per_step * max(self._total_steps - done, 0)
        total = f"{'about ' if self._about else ''}{self._total_steps}"
        return f"{done} of {total} steps, {short_duration(per_step)} each, about {short_duration(left)} left"


def cell(metrics: Mapping[str, Any], name: str) -> str:
    """A metric of a step as a table shows it."""
    value = _number(metrics, name)
    return "–" if value is None else short_number(value)


def _number(metrics: Mapping[str, Any], name: str) -> float | None:
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
