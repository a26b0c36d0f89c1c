"""Inline SVG for the report: curves over steps, and before/after intervals.

Small and without dependencies on purpose: the page must work offline, in light and dark, for years. Colours are CSS
classes (``c0`` to ``c4``); hovering is done by the page's script from ``data-points``.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from grpo.display.metrics import short_number

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 24
_LONGEST_LABEL = 28  # letters beside an interval
_SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]
MAX_DOTS = 40
"""Above this many points a curve is drawn without dots."""
MAX_RAW = 100
"""Above this many points its running mean is drawn on top."""

_Scale = Callable[[float], float]


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


def line_chart(series: Sequence[Series], *, percent: bool = False, marks: Mapping[float, str] | None = None) -> Markup:
    """Curves over steps, with the values that the page's script shows; with ``percent`` they are shares, 0 to 100 %.

    ``marks`` has steps at which something began, and what.
    """
    ys = [y for one in series for _, y in one.points]
    ticks = _SHARES if percent else nice_ticks(min(ys), max(ys))
    xs, columns = sorted({x for one in series for x, _ in one.points}), [dict(one.points) for one in series]
    place_x, place_y = _scale(xs, LEFT, WIDTH - RIGHT), _scale(ticks, HEIGHT - BOTTOM, TOP)
    parts: list[Markup] = []
    for tick in ticks:
        y = place_y(tick)
        name = "grid zero" if tick == 0 else "grid"
        parts.append(_element("line", class_=name, x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        parts.append(_text(LEFT - 7, y + 3.5, _shown(tick, True) if percent else f"{tick:g}", "end"))
    whole = [tick for tick in nice_ticks(xs[0], xs[-1], 6) if tick == int(tick) and xs[0] <= tick <= xs[-1]]
    parts += [_text(place_x(x), HEIGHT - 7, f"{x:g}", "middle") for x in (whole if len(xs) > 1 else xs)]
    for index, one in enumerate(series):
        many = len(one.points) > MAX_RAW
        for points, name in ((one.points, "faint"), (trailing_mean(one.points), "")) if many else ((one.points, ""),):
            corners = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in points)
            parts.append(_element("polyline", class_=f"line c{index} {name}".rstrip(), points=corners))
        if len(one.points) <= MAX_DOTS:
            for x, y in one.points:
                parts.append(_element("circle", class_=f"dot c{index}", cx=place_x(x), cy=place_y(y), r=2.6))
    for x, what in (marks or {}).items():
        line = _element("line", x1=place_x(x), x2=place_x(x), y1=TOP, y2=HEIGHT - BOTTOM)
        label = _text(place_x(x) + 3, TOP + 9, what, "start")
        parts.append(_element("g", _element("title", f"from step {x:g}: {what}") + line + label, class_="mark"))
    parts.append(_element("line", class_="cursor", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM))
    hover = {
        "x": [round(place_x(x), 1) for x in xs],
        "step": xs,
        "rows": [[_shown(column[x], percent) if x in column else "–" for column in columns] for x in xs],
        "labels": [one.label for one in series],
    }
    keys = [_key(f"c{index}" if len(series) > 1 else "", one.label) for index, one in enumerate(series)]
    labels = ", ".join(one.label for one in series)
    return _legend(keys) + _drawing(HEIGHT, parts, class_="chart", aria_label=labels, data_points=json.dumps(hover))


def interval_chart(rows: Sequence[Range], names: tuple[str, str] = ("before", "after")) -> Markup:
    """A row for each share: where it was on both sides, called ``names``, with whiskers for the 95 % intervals."""
    row_height = 41
    labels = [row.label if len(row.label) <= _LONGEST_LABEL else row.label[: _LONGEST_LABEL - 1] + "…" for row in rows]
    left = max(112.0, 14 + 7.4 * max(map(len, labels), default=0))  # a letter is about 7 wide
    height = TOP + row_height * len(rows) + BOTTOM
    place = _scale(_SHARES, left, WIDTH - 18)
    parts: list[Markup] = []
    for tick in _SHARES:
        x = place(tick)
        parts.append(_element("line", class_="grid", x1=x, x2=x, y1=TOP, y2=height - BOTTOM))
        parts.append(_text(x, height - 8, _shown(tick, True), "middle"))
    for index, (row, label) in enumerate(zip(rows, labels, strict=True)):
        middle = TOP + row_height * (index + 0.5)
        parts.append(_text(left - 10, middle + 4, label, "end", "name slice" if row.is_slice else "name"))
        for side, name, values, offset in (("before", names[0], row.before, -6), ("after", names[1], row.after, 6)):
            if values is None:
                continue
            mean, low, high = (place(min(max(value, 0.0), 1.0)) for value in values)
            said = "{} [{}, {}]".format(*(_shown(value, True) for value in values))
            y = middle + offset
            drawn = _element("title", f"{row.label} {name}: {said}")
            drawn += _element("line", class_="whisker", x1=low, x2=high, y1=y, y2=y)
            parts.append(_element("g", drawn + _element("circle", cx=mean, cy=y, r=4.5), class_=side))
    keys = [_key(side, name) for side, name in zip(("before", "after"), names, strict=True) if name]
    said = "95 % intervals: " + ", ".join(row.label for row in rows)
    return (_legend(keys) if len(keys) > 1 else Markup("")) + _drawing(height, parts, aria_label=said)


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
    recent = [values[max(0, end - window) : end] for end in range(1, len(points) + 1)]
    return [(x, math.fsum(some) / len(some)) for (x, _), some in zip(points, recent, strict=True)]


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    """From values to places: the first stands at ``start``, the last at ``end``; a single one in the middle."""
    low, high = values[0], values[-1]
    if low == high:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) * (end - start) / (high - low)


def _shown(value: float, percent: bool) -> str:
    return f"{100 * value:.0f} %" if percent else short_number(value)


def _text(x: float, y: float, text: str, anchor: str, name: str = "tick") -> Markup:
    return _element("text", text, class_=name, x=float(x), y=float(y), text_anchor=anchor)


def _key(name: str, label: str) -> Markup:
    """A label of the legend with its colour."""
    colour = Markup('<i class="{}"></i>').format(name) if name else Markup("")
    return _element("span", colour + label)


def _legend(keys: Sequence[Markup]) -> Markup:
    return _element("figcaption", Markup("").join(keys))


def _drawing(height: float, parts: Sequence[Markup], **attributes: Any) -> Markup:
    return _element("svg", Markup("").join(parts), viewBox=f"0 0 {WIDTH} {height}", role="img", **attributes)


def _element(name: str, content: str = "", **attributes: Any) -> Markup:
    """An element; ``class_`` and ``aria_label`` stand for its attributes ``class`` and ``aria-label``."""
    written = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    shown = [
        Markup(' {}="{}"').format(key, f"{value:.1f}" if isinstance(value, float) else value)
        for key, value in written.items()
    ]
    head = Markup("<{}{}").format(name, Markup("").join(shown))
    return head + (Markup(">{}</{}>").format(content, name) if content else Markup("/>"))
