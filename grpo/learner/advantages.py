"""Group-relative advantages (DeepSeekMath, arXiv 2402.03300, section 4.1; without std scaling: Dr. GRPO, 2503.20783).

The mean of the group is the baseline. Dividing by the group's standard deviation favours tasks that are nearly solved
or nearly hopeless, so it is an option. A group without spread teaches nothing and gets zeros.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import pvariance

SPREAD_FLOOR = 1e-6
"""Reward spread (max - min) at or below which a group counts as having none."""

EPSILON = 1e-4
"""Keeps a division by the standard deviation finite; TRL's value."""


def has_spread(rewards: Sequence[float]) -> bool:
    """Whether the rewards of a group differ enough to be compared."""
    return len(rewards) > 1 and max(rewards) - min(rewards) > SPREAD_FLOOR


def group_advantages(rewards: Sequence[float], *, scale_by_std: bool = False) -> list[float]:
    """Advantage of each member: reward minus group mean, optionally over the sample standard deviation.

    Args:
        rewards: One finite number per member.
        scale_by_std: Divide by (standard deviation with n - 1, plus ``EPSILON``).
    """
    if not has_spread(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if scale_by_std:
        std = math.sqrt(math.fsum(c * c for c in centred) / (len(rewards) - 1))
        centred = [c / (std + EPSILON) for c in centred]
    return centred


def max_variance_subset(rewards: Sequence[float], count: int) -> list[int]:
    """The ``count`` members of a group whose rewards have the largest variance (PODS, arXiv 2504.13818).

    Such a subset is the k highest rewards and the ``count`` - k lowest, for some k. Each k is tried, in exact
    arithmetic. Of equal variances the fewest highest are taken, as in the authors' code; of equal rewards the first
    members stand among the highest, the last among the lowest.

    The advantages of the subset are taken around its own mean: `group_advantages` of its rewards.

    Args:
        rewards: One finite number per member.
        count: At least one; with as many or more than there are members, all are taken.

    Returns:
        Their numbers, rising.
    """
    assert count > 0, "an update needs a rollout"
    if count >= len(rewards):
        return list(range(len(rewards)))
    falling = sorted(range(len(rewards)), key=lambda number: -rewards[number])
    subsets = (falling[:highest] + falling[len(falling) - count + highest :] for highest in range(count + 1))
    return sorted(max(subsets, key=lambda numbers: pvariance([Fraction(rewards[number]) for number in numbers])))
