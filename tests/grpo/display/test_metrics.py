"""How numbers are shown."""

import math

import pytest

from grpo.display.metrics import EVALUATION_METRICS, RunningMean, short_duration, short_number
from grpo.statistics import Interval


def test_a_running_mean_is_sum_over_count() -> None:
    mean = RunningMean()
    assert math.isnan(mean.mean)
    mean.add(1.0)
    mean.add(4.0, count=2)
    assert mean.mean == pytest.approx(3.0)


def test_a_running_mean_of_zero_is_not_a_rest_of_rounding() -> None:
    mean = RunningMean()
    for value in (-0.3, 0.1, 0.2):
        mean.add(value)
    assert mean.total != 0
    assert short_number(mean.mean) == "0.00"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.4123, "0.412"), (4.126, "4.13"), (41.26, "41.3"), (1412.6, "1,413"), (0.00412, "0.00412"), (0, "0.00"),
     (-0.8, "-0.800"), (math.nan, "–")],
)  # fmt: skip
def test_numbers_show_about_three_digits(value: float, expected: str) -> None:
    assert short_number(value) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.42, "0.4 s"), (41.2, "41 s"), (59.7, "1 min 00 s"), (280, "4 min 40 s"), (7530, "2 h 05 min"), (math.nan, "–")],
)
def test_durations_are_in_the_units_people_use(seconds: float, expected: str) -> None:
    assert short_duration(seconds) == expected


def test_shares_are_in_percent_and_their_differences_in_percentage_points() -> None:
    reward, success = EVALUATION_METRICS[:2]
    assert (reward.format(0.0875), success.format(0.281)) == ("0.087", "28.1 %")
    assert (reward.format_difference(0.4), success.format_difference(-0.0266)) == ("+0.400", "-2.7 pp")
    assert reward.format_ends(Interval(0.1, -0.2, 0.4, 9)) == "[-0.200, +0.400]"
    assert success.format_ends(Interval(0.0, 0.0, 0.0, 9)) == "[no spread]"
    assert success.format_ends(Interval(0.0, -math.inf, math.inf, 4)) == "[too few to say]"
    assert (success.format(None), success.format_difference(-math.inf)) == ("–", "-∞")


def test_intervals_stand_in_brackets_or_as_margins() -> None:
    reward, success = EVALUATION_METRICS[:2]
    share = {"mean": 0.9, "low": 0.75, "high": 1.0}
    assert success.with_interval(share) == "90.0 %  [75.0, 100.0]"
    assert success.with_margin(share) == "90.0 % ± 12.5"
    assert success.ends(share) == (0.9, 0.75, 1.0)
    assert reward.with_interval({"mean": 1234.5, "low": -1.0, "high": 2.0}) == "1,234.500  [-1.000, 2.000]"
    alone = {"mean": 0.5, "low": None, "high": None}
    assert (reward.with_interval(alone), reward.with_margin(alone)) == ("0.500  [too few to say]", "0.500")
    same = {"mean": -1.0, "low": -1.0, "high": -1.0}
    assert (reward.with_interval(same), reward.with_margin(same)) == ("-1.000", "-1.000")
    assert reward.ends(alone) == (0.5, 0.5, 0.5)
    assert (reward.with_margin(None), reward.ends(None)) == ("–", None)
