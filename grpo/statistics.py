"""Means with honest intervals, for evaluations and for the report.

Rollouts of one scenario resemble each other, so they are not independent observations: the interval here is
cluster-robust, with scenarios as clusters. Comparing two policies on the same questions pairs them, which removes the
spread between easy and hard questions from the difference.

Source: E. Miller, "Adding Error Bars to Evals" (arXiv:2411.00640), section 2.2 (clustered standard errors) and 4.2
(paired differences); the factor G/(G-1) and the t distribution with G-1 degrees of freedom are the usual
small-sample corrections (Cameron and Miller, "A Practitioner's Guide to Cluster-Robust Inference", 2015, section VI).
The percentile bootstrap and McNemar's exact test stand beside them for comparing two evaluations. The standard
library, and numpy for the bootstrap; not a general statistics package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

_EXACT_DEGREES = 400  # above this the expansion around the normal is exact to 1e-6
_DRAWN_AT_ONCE = 2_000_000  # a bootstrap's memory: 16 MB of numbers


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its confidence interval.

    Attributes:
        mean: Mean of the observations.
        low: Lower end; minus infinity where one cluster alone says nothing about the spread.
        high: Upper end; plus infinity likewise.
        n: Number of observations (not of clusters).
    """

    mean: float
    low: float
    high: float
    n: int

    def excludes(self, value: float) -> bool:
        """True where ``value`` lies outside the interval."""
        return value < self.low or value > self.high

    def to_dict(self) -> dict[str, float | None]:
        """Mean, low and high for JSON; an unbounded end is ``None``."""
        return {
            name: value if math.isfinite(value) else None
            for name, value in (("mean", self.mean), ("low", self.low), ("high", self.high))
        }


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of ``values`` with a cluster-robust t interval.

    The variance of the mean is ``G/(G-1) * sum_g (sum_{i in g} (x_i - mean))^2 / n^2`` over G clusters; where every
    value is its own cluster this is the familiar ``s^2 / n``. Values that are all equal (a success rate of 0 or 1)
    give an interval of no width: read it as "no failure seen in n", not as certainty.

    Args:
        values: Observations, finite numbers, at least one.
        clusters: One label for each value, usually scenario ids; ``None`` takes each value as its own cluster.
        confidence: Coverage of the interval, between 0 and 1.

    Raises:
        ValueError: No values, a value that is not finite, labels of another length, or a confidence outside (0, 1).
    """
    if not values:
        raise ValueError("cannot take the mean of no values; pass at least one observation")
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise ValueError(f"value {index} is {value}; leave failed observations out and count them apart")
    labels: Sequence[Hashable] = range(len(values)) if clusters is None else clusters
    if len(labels) != len(values):
        raise ValueError(f"{len(values)} values but {len(labels)} cluster labels; pass one label for each value")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; it must lie between 0 and 1, for example 0.95")

    n = len(values)
    mean = math.fsum(values) / n
    residuals: dict[Hashable, list[float]] = {}
    for value, label in zip(values, labels, strict=True):
        residuals.setdefault(label, []).append(value - mean)
    count = len(residuals)
    if count == 1:
        return Interval(mean, -math.inf, math.inf, n)
    squares = math.fsum(math.fsum(members) ** 2 for members in residuals.values())
    standard_error = math.sqrt(count / (count - 1) * squares) / n
    margin = t_quantile(0.5 + confidence / 2, count - 1) * standard_error
    return Interval(mean, mean - margin, mean + margin, n)


def paired_difference(
    before: Mapping[Key, float],
    after: Mapping[Key, float],
    *,
    cluster_of: Callable[[Key], Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The mean of ``after - before`` over the same keys, with its interval.

    Args:
        before: Value of each key, for example reward by scenario id or by (scenario id, sample).
        after: The same keys, measured after.
        cluster_of: Cluster of a key, for example ``lambda key: key[0]``; ``None`` takes each key as its own.
        confidence: Coverage of the interval.

    Raises:
        ValueError: No keys, or keys that stand on one side only. Intersect first and say so, where that is meant.
    """
    unmatched = before.keys() ^ after.keys()
    if unmatched:
        shown = ", ".join(sorted(repr(key) for key in unmatched)[:3])
        raise ValueError(
            f"{len(unmatched)} keys stand on one side only ({shown}{', ...' if len(unmatched) > 3 else ''}); "
            "a paired difference needs the same keys before and after"
        )
    keys = list(before)
    clusters = None if cluster_of is None else [cluster_of(key) for key in keys]
    return mean_interval([after[key] - before[key] for key in keys], clusters, confidence)


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, resamples: int = 10_000, confidence: float = 0.95
) -> Interval:
    """The mean of ``values`` with a percentile bootstrap interval (Efron and Tibshirani, 1993, section 13.3).

    Args:
        values: One number for each cluster, for example a scenario's paired difference; drawn whole, with replacement.
        seed: Of the draws; the same seed gives the same interval.
        resamples: How many times to draw.
        confidence: Coverage of the interval, between 0 and 1.

    Raises:
        ValueError: No values, or one that is not finite.
    """
    mean = mean_interval(values, confidence=confidence).mean
    count = len(values)
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    import numpy as np

    generator = np.random.default_rng(seed)
    array = np.asarray(values, dtype=np.float64)
    at_once = max(_DRAWN_AT_ONCE // count, 1)
    means = [
        array[generator.integers(0, count, (min(at_once, resamples - done), count))].mean(axis=1)
        for done in range(0, resamples, at_once)
    ]
    tail = 0.5 - confidence / 2
    low, high = np.quantile(np.concatenate(means), (tail, 1 - tail))
    return Interval(mean, float(low), float(high), count)


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact p-value of McNemar's test (1947): could ``gained`` against ``lost`` be the toss of a coin?

    Pairs that agree say nothing and are not asked for; without any that disagree the p-value is 1.

    Args:
        gained: Pairs that are wrong before and right after.
        lost: Pairs that are right before and wrong after.
    """
    discordant = gained + lost
    tail = sum(math.comb(discordant, i) for i in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**discordant)


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution with a whole number of degrees of freedom.

    Inverts the closed form of Abramowitz and Stegun, 26.7.3 and 26.7.4, by bisection; above 400 degrees it takes the
    expansion 26.7.5 around the normal quantile.

    Args:
        probability: Between 0 and 1.
        degrees: Degrees of freedom, at least 1.

    Raises:
        ValueError: A probability or degrees outside these ranges.
    """
    if not 0.0 < probability < 1.0 or degrees < 1:
        raise ValueError(f"no t quantile for probability {probability} and {degrees} degrees of freedom")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    if degrees > _EXACT_DEGREES:
        z = NormalDist().inv_cdf(probability)
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    target = 2 * probability - 1
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # bisection on the angle atan(t / sqrt(degrees)): 60 halvings reach double precision
        middle = (low + high) / 2
        low, high = (middle, high) if _central_probability(middle, degrees) < target else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _central_probability(angle: float, degrees: int) -> float:
    """P(|T| <= t) for t = tan(angle) * sqrt(degrees)."""
    sine, cosine_squared = math.sin(angle), math.cos(angle) ** 2
    odd = degrees % 2 == 1
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine_squared * ((k - 1) / k)
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
