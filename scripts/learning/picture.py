"""Held-out reward against minutes, as an SVG file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from grpo.report.charts import nice_ticks
from learning.results import Result

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 180, 24, 48
COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#64748b", "#0891b2", "#b91c1c", "#65a30d", "#111827")


def picture(results: Sequence[Result], target: float) -> str:
    """A line for each run, a colour for each arm, and the target as a dashed line."""
    points = [(point.minutes, point.reward) for result in results for point in result.curve]
    xs = nice_ticks(0.0, max(x for x, _ in points), 6)
    ys = nice_ticks(min(target, *(y for _, y in points)), max(target, *(y for _, y in points)))

    def place(minutes: float, reward: float) -> tuple[float, float]:
        across = (minutes - xs[0]) / (xs[-1] - xs[0])
        up = (reward - ys[0]) / (ys[-1] - ys[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13" role="img">',
        "<title>Held-out reward against minutes of training</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for y in ys:
        parts += [
            _line(*place(xs[0], y), *place(xs[-1], y), "#e2e8f0"),
            _text(LEFT - 8, place(0, y)[1] + 4, f"{y:g}", "end"),
        ]
    parts += [_text(place(x, ys[0])[0], HEIGHT - BOTTOM + 18, f"{x:g}", "middle") for x in xs]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "minutes of training, without evaluations", "middle"))
    parts.append(_text(LEFT, TOP - 8, "reward on the validation split, temperature 1", "start"))
    parts.append(_line(*place(xs[0], target), *place(xs[-1], target), "#334155", 'stroke-dasharray="5 4"'))
    for number, arm in enumerate(dict.fromkeys(result.arm for result in results)):
        colour = COLOURS[number % len(COLOURS)]
        for result in (result for result in results if result.arm == arm):
            placed = [place(point.minutes, point.reward) for point in result.curve]
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            parts.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in placed]
        y = TOP + 10 + 20 * number
        parts += [
            _line(WIDTH - RIGHT + 16, y, WIDTH - RIGHT + 38, y, colour),
            _text(WIDTH - RIGHT + 46, y + 4, arm, "start"),
        ]
    return "\n".join([*parts, "</svg>", ""])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#334155">{escape(text)}</text>'
