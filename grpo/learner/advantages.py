"""Group-relative advantages (DeepSeekMath, arXiv 2402.03300, section 4.1; without std scaling: Dr. GRPO, 2503.20783).

The mean of the group is the baseline. Dividing by the group's standard deviation favours tasks that are nearly solved
or nearly hopeless, so it is an option. A group without spread teaches nothing and gets zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SPREAD_FLOOR = 1e-6
"""Reward spread (max - min) at or below which a group counts as having none."""


def has_spread(rewards: Sequence[float]) -> bool:
    """Whether the rewards of a group differ enough to be compared."""
    return len(rewards) > 1 and max(rewards) - min(rewards) > SPREAD_FLOOR


def group_advantages(rewards: Sequence[float], *, scale_by_std: bool = False, epsilon: float = 1e-4) -> list[float]:
    """Advantage of each member: reward minus group mean, optionally over the sample standard deviation.

    Args:
        rewards: One finite number per member.
        scale_by_std: Divide by (standard deviation with n - 1, plus ``epsilon``).
        epsilon: Keeps the division finite.

    Raises:
        ValueError: A reward is not finite.
    """
    for index, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise ValueError(f"reward {index} of the group is {reward}; rewards must be finite numbers")
    if not has_spread(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if scale_by_std:
        std = math.sqrt(math.fsum(c * c for c in centred) / (len(rewards) - 1))
        centred = [c / (std + epsilon) for c in centred]
    return centred
