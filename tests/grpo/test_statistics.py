"""Intervals against hand-computed values and published tables."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.statistics import Interval, bootstrap_interval, mcnemar_p, mean_interval, paired_difference


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (9, 2.26216),
        (30, 2.04227),
        (63, 1.99834),
        (399, 1.96593),
    ],
)
def test_the_margin_is_the_published_t_quantile_times_the_standard_error(degrees: int, expected: float) -> None:
    """By hand: a one among d zeros has the variance 1 / (d + 1), so the standard error of the mean is 1 / (d + 1)."""
    interval = mean_interval([1.0] + [0.0] * degrees)
    assert interval.high - interval.mean == pytest.approx(expected / (degrees + 1), rel=3e-6)


def test_the_interval_of_independent_values_is_the_familiar_one() -> None:
    """By hand: 1, 2, 3, 4 have mean 2.5, s^2 = 5/3, standard error sqrt(5/12) = 0.645497; t(0.975, 3) = 3.18245."""
    interval = mean_interval([1, 2, 3, 4])
    assert interval.mean == 2.5
    assert interval.low == pytest.approx(2.5 - 3.18245 * 0.645497, abs=1e-5)
    assert interval.high == pytest.approx(2.5 + 3.18245 * 0.645497, abs=1e-5)
    assert interval.n == 4


def test_clusters_that_agree_inside_count_as_one_observation_each() -> None:
    """By hand: clusters (1, 1), (0, 0), (0, 0): residual sums 4/3, -2/3, -2/3; variance 3/2 * 24/9 / 36 = 1/9."""
    interval = mean_interval([1, 1, 0, 0, 0, 0], clusters=["a", "a", "b", "b", "c", "c"])
    assert interval.mean == pytest.approx(1 / 3)
    assert interval.high - interval.mean == pytest.approx(4.30265 / 3, abs=1e-5)
    assert interval.n == 6
    once = mean_interval([1, 0, 0])
    assert (once.low, once.high) == pytest.approx((interval.low, interval.high))


def test_a_single_cluster_has_an_unbounded_interval() -> None:
    assert mean_interval([0.2, 0.4], clusters=["a", "a"]) == Interval(pytest.approx(0.3), -math.inf, math.inf, 2)
    assert mean_interval([0.5]).to_dict() == {"mean": 0.5, "low": None, "high": None}


def test_equal_values_have_no_width() -> None:
    assert mean_interval([1.0] * 8) == Interval(1.0, 1.0, 1.0, 8)


def test_a_higher_confidence_is_wider_by_the_ratio_of_the_quantiles() -> None:
    narrow, wide = mean_interval([1, 2, 3, 4], confidence=0.9), mean_interval([1, 2, 3, 4], confidence=0.99)
    assert (wide.high - 2.5) / (narrow.high - 2.5) == pytest.approx(5.84091 / 2.35336, rel=1e-5)


def test_unusable_values_are_refused_with_what_was_seen() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
    with pytest.raises(ValueError, match="value 1 is nan"):
        mean_interval([1.0, math.nan])
    with pytest.raises(ValueError, match="2 values but 1 cluster labels"):
        mean_interval([1.0, 2.0], clusters=["a"])
    with pytest.raises(ValueError, match=r"confidence is 95"):
        mean_interval([1.0, 2.0], confidence=95)


def test_a_paired_difference_removes_the_spread_between_questions() -> None:
    """By hand: every question gains exactly 0.1, however different the questions are."""
    before = {"a": 0.0, "b": 10.0, "c": -5.0}
    after = {"c": -4.9, "a": 0.1, "b": 10.1}
    difference = paired_difference(before, after)
    assert (difference.mean, difference.low, difference.high) == pytest.approx((0.1, 0.1, 0.1))
    assert difference.excludes(0.0)
    assert not mean_interval(list(after.values())).excludes(0.0)


def test_samples_of_one_scenario_form_a_cluster() -> None:
    before = {("a", 0): 0.0, ("a", 1): 0.0, ("b", 0): 0.0, ("b", 1): 0.0}
    after = {("a", 0): 1.0, ("a", 1): 1.0, ("b", 0): 0.0, ("b", 1): 0.0}
    clustered = paired_difference(before, after, cluster_of=lambda key: key[0])
    assert clustered.high - clustered.mean == pytest.approx(12.7062 * 0.5, rel=1e-5)  # two clusters: s = 0.7071
    assert clustered.n == 4
    assert paired_difference(before, after).high < clustered.high


def test_keys_on_one_side_only_are_refused_and_named() -> None:
    with pytest.raises(ValueError, match=r"2 keys stand on one side only \('b', 'c'\)"):
        paired_difference({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0})


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Simulated: 20 scenarios of 4 correlated samples; 1,000 draws; 95 % nominal, binomial noise is 0.7 %."""
    rng = random.Random(11)
    labels = [scenario for scenario in range(20) for _ in range(4)]
    covered = naive = 0
    for _ in range(1000):
        levels = [rng.gauss(0, 1) for _ in range(20)]
        values = [levels[label] + rng.gauss(0, 0.5) for label in labels]
        covered += not mean_interval(values, labels).excludes(0.0)
        naive += not mean_interval(values).excludes(0.0)
    assert 925 <= covered <= 975
    assert naive < 800  # what forgetting the clusters would claim as 95 %


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    st.floats(-1e3, 1e3),
    st.floats(0.01, 100),
)
def test_the_interval_moves_and_stretches_with_its_values(values: list[float], shift: float, scale: float) -> None:
    plain, moved = mean_interval(values), mean_interval([scale * value + shift for value in values])
    room = 1e-6 * (1 + scale * 1e6)
    assert moved.mean == pytest.approx(scale * plain.mean + shift, abs=room)
    assert moved.low == pytest.approx(scale * plain.low + shift, abs=room)
    assert moved.high == pytest.approx(scale * plain.high + shift, abs=room)


def test_the_bootstrap_of_four_values_has_the_ends_of_its_binomial() -> None:
    """By hand: four draws of 1, 0, 0, 0 hold Binomial(4, 1/4) ones; P(X = 0) = 0.316, P(X <= 2) = 0.949, P(X <= 3) = 0.996."""
    interval = bootstrap_interval([1.0, 0.0, 0.0, 0.0], seed=3)
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.25, 0.0, 0.75, 4)


@pytest.mark.parametrize("values", [[0.0, 1.0, 3.0], [-1.0, 0.5, 0.5, 2.0, 7.0]])
def test_the_bootstrap_agrees_with_every_resample_there_is(values: list[float]) -> None:
    means = sorted(sum(drawn) / len(values) for drawn in itertools.product(values, repeat=len(values)))
    interval = bootstrap_interval(values, confidence=0.8, resamples=40_000)
    for end, share in ((interval.low, 0.1), (interval.high, 0.9)):
        near = [means[round((share + off) * (len(means) - 1))] for off in (-0.02, 0.02)]
        assert near[0] <= end <= near[1]


def test_the_bootstrap_repeats_itself_and_one_cluster_says_nothing() -> None:
    rng = random.Random(1)
    values = [rng.gauss(0, 1) for _ in range(50)]
    assert bootstrap_interval(values, seed=7) == bootstrap_interval(values, seed=7)
    assert bootstrap_interval(values, seed=7) != bootstrap_interval(values, seed=8)
    assert bootstrap_interval([0.5]) == Interval(0.5, -math.inf, math.inf, 1)
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval([])


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [(0, 0, 1.0), (3, 0, 0.25), (5, 0, 0.0625), (1, 5, 14 / 64), (4, 4, 1.0), (10, 2, 158 / 4096)],
)
def test_mcnemars_p_is_the_tail_of_a_fair_coin(gained: int, lost: int, expected: float) -> None:
    """By hand: 10 against 2 are 2 (1 + 12 + 66) / 4096."""
    assert mcnemar_p(gained, lost) == mcnemar_p(lost, gained) == expected
