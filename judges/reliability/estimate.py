"""Figures of a measurement: numbers that may be undefined, and ratios with a 95 % interval.

The interval is a bootstrap over groups (Efron 1979), not over pairs: pairs of one group share trajectories, so they are
not independent.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000
MIN_GROUPS = 5
"""Fewer are too few for an interval: resampled, one group says that it is certain."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval. All three are None where nothing could be compared.

    ``low`` and ``high`` are None where there are fewer than ``MIN_GROUPS`` groups. With few (below about 20) the
    interval is too narrow.
    """

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.value is None:
            return "undefined"
        known = self.low is not None and self.high is not None
        return f"{self.value:.3f}  [{f'{self.low:.3f}, {self.high:.3f}' if known else 'too few groups to say'}]"


def ratio_over_groups(parts: Sequence[tuple[float, float]], seed: int) -> Estimate:
    """The sum of numerators over the sum of denominators, with percentiles of a seeded bootstrap.

    Args:
        parts: Numerator and denominator of each group; groups whose denominator is 0 are left out.
        seed: Seed of the bootstrap.
    """
    parts = [part for part in parts if part[1]]
    if not parts:
        return Estimate(None, None, None)
    if len(parts) < MIN_GROUPS:
        return Estimate(_ratio(parts), None, None)
    rng = random.Random(seed)
    resampled = sorted(_ratio(rng.choices(parts, k=len(parts))) for _ in range(RESAMPLES))
    tail = RESAMPLES // 40  # 2.5 % on each side
    return Estimate(_ratio(parts), resampled[tail], resampled[-1 - tail])


def figure(value: float | None, sign: str = "") -> str:
    """A number with three decimals, or "undefined". ``sign="+"`` shows the sign of positive numbers too."""
    return "undefined" if value is None else f"{value:{sign}.3f}"


def _ratio(parts: Sequence[tuple[float, float]]) -> float:
    return sum(part[0] for part in parts) / sum(part[1] for part in parts)
