"""Group-relative advantages (DeepSeekMath, arXiv 2402.03300, section 4.1; without std scaling: Dr. GRPO, 2503.20783).

The mean of the group is the baseline. Dividing by the group's standard deviation favours tasks that are nearly solved
or nearly hopeless, so it is an option. A group without spread teaches nothing and gets zeros.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import stdev

import numpy as np

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
    """Advantages of turns: the value of where a turn led, less that of the last place where others were, too.

    Members stand at the same place where they have the same observation, the anchor states of GiGPO (arXiv 2505.10978).
    The value of a place is the mean of the values that its visits led to, and of the rewards where they ended: what
    batch TD(0) finds (Sutton and Barto, Reinforcement Learning, 2nd edition, section 6.3). So a search that brought the
    right mail is worth what that mail was worth to all who read it, whatever was answered next; and an answer is
    compared with other answers to the mail.

    Args:
        rewards: One finite number per member, of the whole episode.
        answered: Of each member, by turn in their order, the observation that the turn answered.
        scale_by_std: As in `group_advantages`.

    Returns:
        Of each member, by turn.
    """
    visits = Counter(seen for turns in answered for seen in turns.values())
    members = Counter(seen for turns in answered for seen in set(turns.values()))
    numbers = {seen: number for number, seen in enumerate(visits)}
    left, ended = np.eye(len(numbers)), np.zeros(len(numbers))
    for turns, reward in zip(answered, rewards, strict=True):
        path = list(turns.values())
        for here, there in pairwise(path):
            left[numbers[here], numbers[there]] -= 1 / visits[here]
        for last in path[-1:]:
            ended[numbers[last]] += reward / visits[last]
    values = np.linalg.solve(left, ended).tolist()
    mean = math.fsum(rewards) / len(rewards)
    unit = (stdev(rewards) + EPSILON) if scale_by_std and len(rewards) > 1 else 1.0

    def gains(turns: Mapping[int, Hashable], reward: float) -> Iterator[tuple[int, float]]:
        baseline = mean
        led_to = [*(values[numbers[seen]] for seen in turns.values()), reward][1:]
        for (turn, seen), value in zip(turns.items(), led_to, strict=True):
            baseline = values[numbers[seen]] if members[seen] > 1 else baseline
            gain = value - baseline
            yield turn, gain / unit if abs(gain) > SPREAD_FLOOR else 0.0

    return [dict(gains(turns, reward)) for turns, reward in zip(answered, rewards, strict=True)]
