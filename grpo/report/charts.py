"""Inline SVG for the report: curves over steps, stacked bars, and before/after intervals.

Small and without dependencies on purpose: the page must work offline, in light and dark, for years. Colours are CSS
classes (``c0`` to ``c4``); hovering is done by the page's script from ``data-points``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from grpo.display.metrics import short_number

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 24
_LONGEST_LABEL = 28  # letters beside an interval
MAX_DOTS = 40
"""Above this many points a curve is drawn without dots."""
MAX_RAW = 100
"""Above this many points its running mean is drawn on top."""


@dataclass(frozen=True, slots=True)
class Series:
    """A named curve: ``points`` are (step, value), finite, in rising order of steps."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Range:
    """A mean with its interval before and after, shares of 0 to 1; ``None`` where not measured."""

    label: str
    is_slice: bool
    before: tuple[float, float, float] | None
    after: tuple[float, float, float] | None


def line_chart(series: Sequence[Series], *, percent: bool = False) -> Markup:
    """Curves over steps; with ``percent`` the values are shares and the axis runs from 0 to 100 %."""
    xs = sorted({x for one in series for x, _ in one.points})
    ys = [y for one in series for _, y in one.points]
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if percent else nice_ticks(min(ys), max(ys))
    place_x = _scale(xs[0], xs[-1], LEFT, WIDTH - RIGHT)
    place_y = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [_axes(xs, ticks, place_x, place_y, percent)]
    for index, one in enumerate(series):
        many = len(one.points) > MAX_RAW
        parts.append(_path(one.points, place_x, place_y, f"line c{index}{' faint' if many else ''}"))
        if many:
            parts.append(_path(trailing_mean(one.points), place_x, place_y, f"line c{index}"))
        elif len(one.points) <= MAX_DOTS:
            parts += [
                Markup('<circle class="dot c{}" cx="{:.1f}" cy="{:.1f}" r="2.6"/>').format(
                    index, place_x(x), place_y(y)
                )
                for x, y in one.points
            ]
    return _figure(series, xs, parts, place_x, percent)


def stacked_bars(series: Sequence[Series]) -> Markup:
    """One bar for each step, its parts on top of each other."""
    xs = sorted({x for one in series for x, _ in one.points})
    values = [dict(one.points) for one in series]
    ticks = nice_ticks(0.0, max(sum(part.get(x, 0.0) for part in values) for x in xs))
    slot = (WIDTH - RIGHT - LEFT) / len(xs)
    place_x = _scale(xs[0], xs[-1], LEFT + slot / 2, WIDTH - RIGHT - slot / 2)
    place_y = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [_axes(xs, ticks, place_x, place_y, percent=False)]
    width = max(min(slot * 0.7, 26), 1)
    for x in xs:
        base = 0.0
        for index, part in enumerate(values):
            height = place_y(base) - place_y(base + part.get(x, 0.0))
            base += part.get(x, 0.0)
            parts.append(
                Markup('<rect class="bar c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    index, place_x(x) - width / 2, place_y(base), width, max(height, 0)
                )
            )
    return _figure(series, xs, parts, place_x, percent=False)


def interval_chart(rows: Sequence[Range], names: tuple[str, str] = ("before", "after")) -> Markup:
    """A row for each share: where it was on both sides, called ``names``, with whiskers for the 95 % intervals."""
    row_height = 41
    labels = [row.label if len(row.label) <= _LONGEST_LABEL else row.label[: _LONGEST_LABEL - 1] + "…" for row in rows]
    left = max(112.0, 14 + 7.4 * max(map(len, labels), default=0))  # a letter is about 7 wide
    height = TOP + row_height * len(rows) + BOTTOM
    place = _scale(0.0, 1.0, left, WIDTH - 18)
    parts: list[Markup] = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            Markup('<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(
                place(tick), TOP, height - BOTTOM
            )
            + _text(place(tick), height - 8, f"{100 * tick:.0f} %", "middle")
        )
    for index, (row, label) in enumerate(zip(rows, labels, strict=True)):
        middle = TOP + row_height * (index + 0.5)
        parts.append(_text(left - 10, middle + 4, label, "end", "name slice" if row.is_slice else "name"))
        for side, name, values, offset in (("before", names[0], row.before, -6), ("after", names[1], row.after, 6)):
            if values is None:
                continue
            mean, low, high = (place(min(max(value, 0.0), 1.0)) for value in values)
            said = (
                f"{row.label} {name}: {_shown(values[0], True)} [{_shown(values[1], True)}, {_shown(values[2], True)}]"
            )
            parts.append(
                Markup(
                    '<g class="{}"><title>{}</title>'
                    '<line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
                    '<circle cx="{:.1f}" cy="{y:.1f}" r="4.5"/></g>'
                ).format(side, said, low, high, mean, y=middle + offset)
            )
    measured = [(side, name) for side, name in zip(("before", "after"), names, strict=True) if name]
    keys = [Markup('<span><i class="{}"></i>{}</span>').format(side, name) for side, name in measured]
    legend = Markup("<figcaption>{}</figcaption>").format(Markup("").join(keys)) if len(keys) > 1 else Markup("")
    drawing = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, "95 % intervals: " + ", ".join(row.label for row in rows), Markup("").join(parts)
    )
    return legend + drawing


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About ``count`` round numbers (1, 2, 2.5 or 5 times a power of ten) whose first and last enclose the range."""
    size = max(abs(low), abs(high))
    if high - low <= 0.01 * size:  # a flat curve is drawn flat, not as its last digits
        margin = 0.1 * size or 1.0
        low, high = (low + high) / 2 - margin, (low + high) / 2 + margin
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * index for index in range(first, last + 1)]


def trailing_mean(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Each value's mean with the values before it, over a tenth of the curve."""
    window = max(len(points) // 10, 1)
    values = [y for _, y in points]
    result: list[tuple[float, float]] = []
    for index, (x, _) in enumerate(points):
        recent = values[max(0, index - window + 1) : index + 1]
        result.append((x, math.fsum(recent) / len(recent)))
    return result


class _Scale:
    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.start = low, start
        self.factor = (end - start) / (high - low) if high > low else 0.0
        self.shift = 0.0 if high > low else (end - start) / 2  # a single value stands in the middle

    def __call__(self, value: float) -> float:
        return self.start + self.shift + (value - self.low) * self.factor


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    return _Scale(low, high, start, end)


def _shown(value: float, percent: bool) -> str:
    return f"{100 * value:.0f} %" if percent else short_number(value)


def _tick_label(value: float, step: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:.0f} %"
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    decimals = max(
        0,
        -math.floor(math.log10(step) + 1e-9) + (1 if round(step / 10 ** math.floor(math.log10(step)), 3) == 2.5 else 0),
    )
    if decimals > 4:
        return f"{value:.1e}" if value else "0"
    return f"{value:,.{decimals}f}"


def _text(x: float, y: float, text: str, anchor: str, name: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(name, x, y, anchor, text)


def _axes(xs: Sequence[float], ticks: Sequence[float], place_x: _Scale, place_y: _Scale, percent: bool) -> Markup:
    parts: list[Markup] = []
    step = ticks[1] - ticks[0]
    for tick in ticks:
        y = place_y(tick)
        name = "grid zero" if abs(tick) < step / 1e6 else "grid"
        parts.append(
            Markup('<line class="{}" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>').format(
                name, LEFT, WIDTH - RIGHT, y=y
            )
        )
        parts.append(_text(LEFT - 7, y + 3.5, _tick_label(tick, step, percent), "end"))
    whole = [tick for tick in nice_ticks(xs[0], xs[-1], 6) if tick == int(tick) and xs[0] <= tick <= xs[-1]]
    for tick in whole if len(xs) > 1 else xs:
        parts.append(_text(place_x(tick), HEIGHT - 7, f"{tick:g}", "middle"))
    return Markup("").join(parts)


def _path(points: Sequence[tuple[float, float]], place_x: _Scale, place_y: _Scale, name: str) -> Markup:
    corners = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in points)
    return Markup('<polyline class="{}" points="{}"/>').format(name, corners)


def _figure(
    series: Sequence[Series], xs: Sequence[float], parts: Sequence[Markup], place_x: _Scale, percent: bool
) -> Markup:
    columns = [dict(one.points) for one in series]
    hover = {
        "x": [round(place_x(x), 1) for x in xs],
        "step": list(xs),
        "rows": [[_shown(column[x], percent) if x in column else "–" for column in columns] for x in xs],
        "labels": [one.label for one in series],
    }
    keys = Markup("").join(
        Markup("<span>{}{}</span>").format(
            Markup('<i class="c{}"></i>').format(index) if len(series) > 1 else "", one.label
        )
        for index, one in enumerate(series)
    )
    legend = Markup("<figcaption>{}</figcaption>").format(keys)
    labels = escape(", ".join(one.label for one in series))
    drawing = Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" data-points="{}">{}'
        '<line class="cursor" x1="0" x2="0" y1="{}" y2="{}"/></svg>'
    ).format(WIDTH, HEIGHT, labels, json.dumps(hover), Markup("").join(parts), TOP, HEIGHT - BOTTOM)
    return legend + drawing
