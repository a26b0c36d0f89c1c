import math

import pytest

from grpo.learner.advantages import group_advantages, has_spread


def test_advantages_are_rewards_minus_the_group_mean():
    assert group_advantages([1.0, 0.0, 0.5, 0.5]) == [0.5, -0.5, 0.0, 0.0]


def test_scaling_divides_by_the_sample_standard_deviation():
    std = math.sqrt((0.25 + 0.25) / 3)
    expected = [0.5 / (std + 1e-4), -0.5 / (std + 1e-4), 0.0, 0.0]
    assert group_advantages([1.0, 0.0, 0.5, 0.5], scale_by_std=True) == pytest.approx(expected, rel=1e-12)


def test_a_group_without_spread_teaches_nothing():
    assert group_advantages([0.3, 0.3, 0.3]) == [0.0, 0.0, 0.0]
    assert not has_spread([0.3, 0.3])
    assert not has_spread([0.3])
    assert has_spread([0.3, 0.31])


def test_a_reward_that_is_not_finite_is_refused_with_its_value():
    with pytest.raises(ValueError, match="reward 1 of the group is nan"):
        group_advantages([0.0, math.nan])
