"""Intervals against hand-computed values and published tables."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.statistics import Interval, mcnemar_p, mean_interval, observed_interval, paired_interval, share_interval


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        (4, 2.77645),
        (5, 2.57058),
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
    """By hand: 1 to 5 have mean 3, s^2 = 5/2, standard error sqrt(1/2) = 0.707107; t(0.975, 4) = 2.77645."""
    interval = mean_interval([1, 2, 3, 4, 5])
    assert interval.mean == 3
    assert interval.low == pytest.approx(3 - 2.77645 * 0.707107, abs=1e-5)
    assert interval.high == pytest.approx(3 + 2.77645 * 0.707107, abs=1e-5)
    assert interval.n == 5


def test_clusters_that_agree_inside_count_as_one_observation_each() -> None:
    """By hand: a pair of ones and four of zeros: residual sums 8/5 and four of -2/5; variance 5/4 * 16/5 / 100 = 1/25."""
    interval = mean_interval([1, 1, 0, 0, 0, 0, 0, 0, 0, 0], clusters=[*"aabbccddee"])
    assert interval.mean == pytest.approx(1 / 5)
    assert interval.high - interval.mean == pytest.approx(2.77645 / 5, abs=1e-5)
    assert interval.n == 10
    once = mean_interval([1, 0, 0, 0, 0])
    assert (once.low, once.high) == pytest.approx((interval.low, interval.high))


def test_fewer_than_five_clusters_are_too_few_to_say() -> None:
    for interval in (mean_interval, share_interval):
        assert interval([0.2, 0.4], clusters=["a", "a"]) == Interval(pytest.approx(0.3), -math.inf, math.inf, 2)
        assert not interval([0, 0, 1, 1, 0], clusters=[*"abcdd"]).is_known
        assert interval([0, 0, 1, 1, 0]).is_known
    assert mean_interval([0.5]).to_dict() == {"mean": 0.5, "low": None, "high": None}


def test_equal_values_have_no_width() -> None:
    assert mean_interval([1.0] * 8) == Interval(1.0, 1.0, 1.0, 8)


def test_unusable_values_are_refused_with_what_was_seen() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
    with pytest.raises(ValueError, match="value 1 is nan"):
        mean_interval([1.0, math.nan])


@pytest.mark.parametrize(
    ("values", "direction"),
    [([1.0, 2.0, 1.5, 1.0, 2.0], "up"), ([-1.0, -2.0, -1.5, -1.0, -2.0], "down"), ([-4.9, 0.1, 10.1, 0.6, 2.1], "noise"),
     ([1.0], "noise")],
)  # fmt: skip
def test_a_difference_has_a_direction_where_its_interval_leaves_out_zero(values: list[float], direction: str) -> None:
    assert mean_interval(values).direction == direction


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


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(0, 10, 0.0, 0.308497), (10, 10, 0.691503, 1.0), (5, 10, 0.187086, 0.812914), (1, 50, 0.000506, 0.106470)],
)
def test_the_interval_of_a_share_is_clopper_and_pearsons(right: int, n: int, low: float, high: float) -> None:
    """Published tables; at the ends by hand: 1 - 0.025^(1/10) = 0.308497."""
    interval = share_interval([1.0] * right + [0.0] * (n - right))
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=2e-6)
    assert (interval.mean, interval.n) == (right / n, n)


def test_samples_that_agree_within_their_scenario_are_worth_one_each() -> None:
    once, four = [1.0] * 3 + [0.0] * 7, [1.0] * 12 + [0.0] * 28
    clusters = [scenario for scenario in range(10) for _ in range(4)]
    assert share_interval(four, clusters).low == pytest.approx(share_interval(once).low, abs=0.01)
    assert share_interval([0.0] * 40, clusters).high == share_interval([0.0] * 10).high
    assert share_interval(four).high < share_interval(four, clusters).high


@pytest.mark.parametrize(("samples", "together"), [(1, 0.0), (4, 0.0), (4, 0.5), (4, 1.0)])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("scenarios", [10, 100])
def test_the_interval_of_a_share_covers_the_truth(scenarios: int, share: float, samples: int, together: float) -> None:
    """Simulated, 1,000 draws: with the chance ``together`` the samples of a scenario are all the same."""
    rng = random.Random(f"{scenarios} {share} {samples} {together}")
    clusters = [scenario for scenario in range(scenarios) for _ in range(samples)]
    covered = 0
    for _ in range(1000):
        values: list[float] = []
        for _ in range(scenarios):
            first = float(rng.random() < share)
            same = rng.random() < together
            values += [first, *(first if same else float(rng.random() < share) for _ in range(samples - 1))]
        covered += not share_interval(values, clusters).excludes(share)
    assert covered >= 930


@pytest.mark.parametrize("together", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(8, 2), (0.5, 4), (0.2, 0.2)])
@pytest.mark.parametrize("scenarios", [10, 50])
def test_the_interval_of_graded_shares_covers_the_truth_and_is_no_wider_than_it_must_be(
    scenarios: int, shape: tuple[float, float], together: float
) -> None:
    """Values of beta distributions: a reward that is a share of 0 to 1, with four samples a scenario."""
    rng = random.Random(f"{scenarios} {shape} {together}")
    truth = shape[0] / sum(shape)
    clusters = [scenario for scenario in range(scenarios) for _ in range(4)]
    covered, width, familiar = 0, 0.0, 0.0
    for _ in range(1000):
        values: list[float] = []
        for _ in range(scenarios):
            alike = rng.random() < together
            first = rng.betavariate(*shape)
            values += [first, *(first if alike else rng.betavariate(*shape) for _ in range(3))]
        found, by_t = share_interval(values, clusters), mean_interval(values, clusters)
        covered += not found.excludes(truth)
        width += found.high - found.low
        familiar += by_t.high - by_t.low
    assert covered >= 930
    assert width < 1.25 * familiar


def test_no_interval_leaves_what_an_episode_can_have() -> None:
    rewards = [-1.0, -1.0, -1.0, -1.0, 1.5]
    clusters = [*"abcde"]
    assert mean_interval(rewards).low < -1.0
    observed = observed_interval("reward/mean", rewards, clusters)
    assert (observed.low, observed.high) == (-1.0, pytest.approx(-0.5 + 2.77645 * 0.5, abs=1e-5))
    assert observed_interval("env/success", [0.0] * 5, clusters) == share_interval([0.0] * 5)
    assert observed_interval("turns/mean", [1.0] * 5, clusters) == Interval(1.0, 1.0, 1.0, 5)


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=30),
    st.floats(-1e3, 1e3),
    st.floats(0.01, 100),
)
def test_the_interval_moves_and_stretches_with_its_values(values: list[float], shift: float, scale: float) -> None:
    plain, moved = mean_interval(values), mean_interval([scale * value + shift for value in values])
    room = 1e-6 * (1 + scale * 1e6)
    assert moved.mean == pytest.approx(scale * plain.mean + shift, abs=room)
    assert moved.low == pytest.approx(scale * plain.low + shift, abs=room)
    assert moved.high == pytest.approx(scale * plain.high + shift, abs=room)


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [(0, 0, 1.0), (3, 0, 0.25), (5, 0, 0.0625), (1, 5, 14 / 64), (4, 4, 1.0), (10, 2, 158 / 4096)],
)
def test_mcnemars_p_is_the_tail_of_a_fair_coin(gained: int, lost: int, expected: float) -> None:
    """By hand: 10 against 2 are 2 (1 + 12 + 66) / 4096."""
    assert mcnemar_p(gained, lost) == mcnemar_p(lost, gained) == expected


def test_a_change_is_never_wider_than_any_two_values_seen_allow():
    """Five questions, four of them gained: the t interval alone reached to 1.36."""
    before, after = [0.0] * 5, [1.0, 1.0, 1.0, 1.0, 0.0]
    change = paired_interval(before, after)
    assert (change.mean, round(change.low, 3), change.high) == (0.8, 0.245, 1.0)
    rewards = paired_interval([-0.5] * 5, [1.5, 1.5, 1.5, 1.5, -0.5])
    assert (rewards.mean, round(rewards.low, 3), rewards.high) == (1.6, 0.489, 2.0)
    assert not paired_interval([0.0], [1.0]).is_known
