"""Curves, bars and ticks against values computed by hand."""

import re

import pytest

from grpo.report.charts import Range, Series, interval_chart, line_chart, nice_ticks, trailing_mean


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0, 0.25, 0.5, 0.75, 1.0]),
        (0.13, 0.48, [0.1, 0.2, 0.3, 0.4, 0.5]),
        (-0.018, 0.021, [-0.02, -0.01, 0, 0.01, 0.02, 0.03]),
        (300, 340, [300, 310, 320, 330, 340]),
        (1.1801, 1.1802, [1.0, 1.1, 1.2, 1.3]),
        (5, 5, [4.5, 4.75, 5.0, 5.25, 5.5]),
    ],
)
def test_ticks_are_round_and_enclose_the_values(low: float, high: float, expected: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(expected)


def test_the_running_mean_looks_back_over_a_tenth_of_the_curve() -> None:
    points = [(float(i), float(i)) for i in range(20)]
    assert trailing_mean(points)[:3] == [(0.0, 0.0), (1.0, 0.5), (2.0, 1.5)]


def test_a_line_runs_from_the_lowest_tick_to_the_highest() -> None:
    """By hand: steps 0 and 10 stand at x 46 and 410; shares 0 and 1 at y 166 and 10."""
    svg = line_chart([Series("a <b>", [(0, 0.0), (10, 1.0)])], percent=True)
    assert 'points="46.0,166.0 410.0,10.0"' in svg
    assert "a &lt;b&gt;" in svg
    assert "<b>" not in svg


def test_intervals_lie_on_the_axis_and_carry_the_names_of_their_sides() -> None:
    """By hand: shares 0 and 1 stand at x 112 and 402."""
    svg = interval_chart([Range("all", False, (0.0, 0.0, 0.5), (1.0, 0.5, 1.0))], ("<a>", "b"))
    assert re.findall(r'x1="([\d.]+)" x2="([\d.]+)" y1="[\d.]+" y2="[\d.]+"/><circle cx="([\d.]+)"', svg) == [
        ("112.0", "257.0", "112.0"),
        ("257.0", "402.0", "402.0"),
    ]
    assert "all &lt;a&gt;: 0 % [0 %, 50 %]" in svg
    assert 'aria-label="95 % intervals: all"' in svg
    wide = interval_chart(
        [Range("Answers marked by judge", False, None, (0.0, 0.0, 1.0)), Range("x" * 40, True, None, None)]
    )
    assert re.findall(r'class="name( slice)?" x="([\d.]+)".*?>([^<]+)<', wide) == [
        ("", "211.2", "Answers marked by judge"),
        (" slice", "211.2", "x" * 27 + "…"),
    ]
    assert "figcaption" not in interval_chart([Range("all", False, None, (1.0, 0.5, 1.0))], ("", "b"))
