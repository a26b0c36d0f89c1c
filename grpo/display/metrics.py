"""How numbers are shown to people: metrics with their intervals, short numbers, durations, running means.

Only text is made here. `terminal` prints it, and the pages of `grpo.report` hold it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo.statistics import Interval

TOO_FEW = "too few to say"
"""Stands for an interval of fewer scenarios than `grpo.statistics.MIN_CLUSTERS`."""

Summary = Mapping[str, float | None]
"""``mean``, ``low`` and ``high`` of a metric; an end of the interval that is not known is None."""


@dataclass(frozen=True, slots=True)
class ShownMetric:
    """An evaluation metric that tables show: its name, its label, its decimals, whether it is a share of 0 to 1.

    One that is ``exceptional`` is shown only where it is not 0 throughout. ``gain`` is 1 where more of it is better, -1
    where less is, and 0 where it is neither.
    """

    name: str
    label: str
    decimals: int
    is_share: bool = False
    exceptional: bool = False
    gain: int = 1

    def is_shown(self, means: Iterable[float | None]) -> bool:
        """Whether a table has a row of it, given its means."""
        known = [mean for mean in means if mean is not None]
        return any(known) if self.exceptional else bool(known)

    def format(self, value: float | None) -> str:
        """The value for people; a share in percent."""
        if value is None or not math.isfinite(value):
            return "–"
        return f"{100 * value:,.{self.decimals}f} %" if self.is_share else f"{value:,.{self.decimals}f}"

    def format_difference(self, value: float) -> str:
        """A difference of two values, with its sign; of shares in percentage points."""
        if not math.isfinite(value):
            return "-∞" if value < 0 else "+∞"
        return f"{100 * value:+.{self.decimals}f} pp" if self.is_share else f"{value:+.{self.decimals}f}"

    def format_ends(self, difference: Interval) -> str:
        """``[-0.3 pp, +4.2 pp]``, the ends of a difference's interval."""
        if not difference.is_known:
            return f"[{TOO_FEW}]"
        if difference.low == difference.high:
            return "[no spread]"
        return f"[{self.format_difference(difference.low)}, {self.format_difference(difference.high)}]"

    def ends(self, summary: Summary | None) -> tuple[float, float, float] | None:
        """Mean, low and high; an end that is not known is the mean."""
        if summary is None or (mean := summary["mean"]) is None:
            return None
        low, high = (mean if (end := summary.get(name)) is None else end for name in ("low", "high"))
        return mean, low, high

    def with_interval(self, summary: Summary) -> str:
        """``43.2 %  [33.0, 53.4]``; without the brackets where all episodes agree on a number that is no share."""
        low, high = summary["low"], summary["high"]
        mean = self.format(summary["mean"])
        if low is None or high is None:
            return f"{mean}  [{TOO_FEW}]"
        if low == high:
            return mean
        low, high = (self.format(end).removesuffix(" %") for end in (low, high))
        return f"{mean}  [{low}, {high}]"

    def with_margin(self, summary: Summary | None) -> str:
        """``43.2 % ± 10.2``, half the width of the interval."""
        if summary is None:
            return "–"
        low, high = summary["low"], summary["high"]
        if low is None or high is None or low == high:
            return self.format(summary["mean"])
        return f"{self.format(summary['mean'])} ± {self.format(abs(high - low) / 2).removesuffix(' %')}"


REWARD = ShownMetric("reward/mean", "Reward", 3)
CORRECT = ShownMetric("answer/correct", "Correct", 1, True)

EVALUATION_METRICS = (
    REWARD,
    ShownMetric("env/success", "Success", 1, True),
    ShownMetric("env/found", "Found by search", 1, True),
    ShownMetric("env/read", "Read the mail", 1, True),
    ShownMetric("env/valid_call_rate", "Valid tool calls", 1, True),
    ShownMetric("turns/mean", "Turns", 2, gain=0),
    ShownMetric("tokens/completion_mean", "Sampled tokens", 1, gain=0),
    ShownMetric("answer/by_judge", "Answers marked by judge", 1, True, exceptional=True, gain=0),
    ShownMetric("answer/undecided", "Answers undecided", 1, True, exceptional=True, gain=-1),
    ShownMetric("turns/cut_share", "Turns cut for length", 1, True, exceptional=True, gain=-1),
    ShownMetric("episodes/context_full_share", "Cut, context full", 1, True, exceptional=True, gain=-1),
)
"""What the tables of a run's evaluations show, in this order, where the evaluation has it."""


def standings(summaries: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """The table of who played the same tasks, its head first and then the worst; `eval/<label>.json` are ``summaries``.

    The metrics are those of `EVALUATION_METRICS` that are a share or the reward, as far as anybody has them.
    """
    ordered = sorted(summaries, key=lambda summary: summary["metrics"]["reward/mean"]["mean"])
    means = [(summary, summary["metrics"]) for summary in ordered]
    shown = [metric for metric in EVALUATION_METRICS[:5] if any(metric.name in found for _, found in means)]
    rows = [
        [_player(summary), *(metric.with_margin(found.get(metric.name)) for metric in shown)]
        for summary, found in means
    ]
    return [["", *(metric.label for metric in shown)], *rows]


def _player(summary: Mapping[str, Any]) -> str:
    """Whom a summary is of."""
    name, _, how = str(summary["label"]).rpartition("-")
    who = name.replace("-", " ") if how == "baseline" else f"policy {name} GRPO"
    return f"{who} (knows the answers)" if summary.get("knows_answers") else who


def short_number(value: float) -> str:
    """A number with about three digits that matter: ``0.412``, ``4.12``, ``41.2``, ``412``, ``0.00412``."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def counted(count: int, noun: str) -> str:
    """``1 scenario``, ``2 scenarios``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def short_duration(seconds: float) -> str:
    """A duration for people: ``0.4 s``, ``41 s``, ``4 min 40 s``, ``2 h 05 min``."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


@dataclass(slots=True)
class RunningMean:
    """Sum over count, for averages shown while values still arrive."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float, count: int = 1) -> None:
        """Adds ``value`` as the mean of ``count`` observations."""
        self.total += value * count
        self.count += count

    @property
    def mean(self) -> float:
        """The mean so far, without what sums of floats leave of a zero; NaN before the first value."""
        return round(self.total / self.count, 12) if self.count else math.nan
