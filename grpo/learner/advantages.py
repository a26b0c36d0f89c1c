"""Group-relative advantages (DeepSeekMath, arXiv 2402.03300, section 4.1; without std scaling: Dr. GRPO, 2503.20783).

The mean of the group is the baseline. Dividing by the group's standard deviation favours tasks that are nearly solved
or nearly hopeless, so it is an option. A group without spread teaches nothing and gets zeros.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import pvariance, stdev

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


def turn_advantages(
    rewards: Sequence[float], answered: Sequence[Mapping[int, Hashable]], *, scale_by_std: bool = False
) -> list[dict[int, float]]:
    """Advantages of turns: what members got that came where a turn led, less what those got that stood where it was.

    These are values as in VinePPO (arXiv 2410.01679), from the group's own members instead of further rollouts; members
    stand at the same place where they have the same observation, the anchor states of GiGPO (arXiv 2505.10978). So a
    search is worth what its hits were worth to all that saw them, and an answer is compared with other answers to the
    mail that was read. Where all turns have theirs, they add up to the member's advantage.

    Args:
        rewards: One finite number per member, of the whole episode.
        answered: Of each member, by turn in their order, the observation that the turn answered.
        scale_by_std: As in `group_advantages`.

    Returns:
        Of each member, by turn; turns at a place where nobody else was are left out.
    """
    there: dict[Hashable, list[float]] = {}
    for turns, reward in zip(answered, rewards, strict=True):
        for seen in dict.fromkeys(turns.values()):
            there.setdefault(seen, []).append(reward)
    values = {seen: math.fsum(found) / len(found) for seen, found in there.items()}
    unit = (stdev(rewards) + EPSILON) if scale_by_std and len(rewards) > 1 else 1.0

    def gains(turns: Mapping[int, Hashable], reward: float) -> Iterator[tuple[int, float]]:
        led_to = [*(values[seen] for seen in turns.values()), reward][1:]
        for (turn, seen), value in zip(turns.items(), led_to, strict=True):
            if len(there[seen]) > 1:
                gain = value - values[seen]
                yield turn, gain / unit if abs(gain) > SPREAD_FLOOR else 0.0

    return [dict(gains(turns, reward)) for turns, reward in zip(answered, rewards, strict=True)]


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
