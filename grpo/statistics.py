"""Means with honest intervals, for evaluations and for the report.

Rollouts of one scenario resemble each other, so they are not independent observations: the interval here is
cluster-robust, with scenarios as clusters. Comparing two policies on the same questions pairs them, which removes the
spread between easy and hard questions from the difference.

Source: E. Miller, "Adding Error Bars to Evals" (arXiv:2411.00640), section 2.2 (clustered standard errors) and 4.2
(paired differences); the factor G/(G-1) and the t distribution with G-1 degrees of freedom are the usual
small-sample corrections (Cameron and Miller, "A Practitioner's Guide to Cluster-Robust Inference", 2015, section VI).
A share of 0 to 1 has another interval, which is right at its ends too: Clopper and Pearson's (Biometrika 26, 1934), of
as many observations as the clustered ones are worth (Korn and Graubard, "Confidence Intervals for Proportions with
Small Expected Number of Positive Counts", Survey Methodology 24, 1998). Fewer than five clusters have no interval.
McNemar's exact test stands beside them for comparing two evaluations. Quantiles are scipy's, loaded when the first
interval is made; not a general statistics package.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

TAIL = 0.025
"""What lies beyond either end of an interval: their coverage is 95 %."""

MIN_CLUSTERS = 5
"""With fewer clusters an interval would say more of its formula than of the data: there is none."""

NO_SHARES = frozenset(
    {"env/turns", "env/tool_calls", "turns/mean", "tokens/calls_mean", "tokens/prompt_mean", "tokens/completion_mean"}
    | {"time/episode"}
)
"""Columns that are no shares of 0 to 1, even where every value is 1."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its confidence interval.

    Attributes:
        mean: Mean of the observations.
        low: Lower end; minus infinity where fewer than ``MIN_CLUSTERS`` clusters are too few to say.
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

    @property
    def direction(self) -> str:
        """Of a difference: ``up`` or ``down`` where the interval leaves out zero, else ``noise``."""
        return ("up" if self.mean > 0 else "down") if self.excludes(0.0) else "noise"

    @property
    def is_known(self) -> bool:
        """False where there were too few clusters to say."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def within(self, least: float, most: float) -> "Interval":
        """The same with ends no farther out than these; one that is not known stays so."""
        return Interval(self.mean, max(self.low, least), min(self.high, most), self.n) if self.is_known else self

    def to_dict(self) -> dict[str, float | None]:
        """Mean, low and high for JSON; an unbounded end is ``None``."""
        return {
            name: value if math.isfinite(value) else None
            for name, value in (("mean", self.mean), ("low", self.low), ("high", self.high))
        }


def mean_interval(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Interval:
    """The mean of ``values`` with a cluster-robust t interval of 95 %.

    The variance of the mean is ``G/(G-1) * sum_g (sum_{i in g} (x_i - mean))^2 / n^2`` over G clusters; where every
    value is its own cluster this is the familiar ``s^2 / n``. Values that are all equal give an interval of no width;
    of shares, `share_interval` says more.

    Args:
        values: Observations, finite numbers, at least one.
        clusters: One label for each value, usually scenario ids; ``None`` takes each value as its own cluster.

    Raises:
        ValueError: No values, a value that is not finite, or labels of another length.
    """
    mean, count, variance = _clustered(values, clusters)
    if count < MIN_CLUSTERS:
        return Interval(mean, -math.inf, math.inf, len(values))
    from scipy.special import stdtrit

    margin = float(stdtrit(count - 1, 1.0 - TAIL)) * math.sqrt(variance)
    return Interval(mean, mean - margin, mean + margin, len(values))


def share_interval(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Interval:
    """The mean of shares with the 95 % interval of Clopper and Pearson, of the clustered values' effective number.

    That number is ``mean (1 - mean) / variance of the mean``, times the squared ratio of the t quantiles with n-1 and
    d degrees of freedom; at least G, the number of clusters, and at most ``n mean (1 - mean) / variance of a value``,
    which is n where all values are 0 or 1 and more where some lie between. It is G where the values are all alike:
    samples of one scenario that agree may have had no choice. Korn and Graubard take d = G-1. Here d is at most the
    number of clusters that hold the rarer value, since only those tell the spread: with 4 right answers of 200 the
    usual d covered the truth in 91 of 100 simulated cases.

    Args:
        values: Numbers from 0 to 1, for example whether an answer was right, or the share of a test that it passed.
        clusters: As in `mean_interval`.
    """
    mean, count, variance = _clustered(values, clusters)
    n = len(values)
    if count < MIN_CLUSTERS:
        return Interval(mean, -math.inf, math.inf, n)
    from scipy.special import betaincinv, stdtrit

    effective = float(count)
    if variance > 0.0:
        labels = range(n) if clusters is None else clusters
        telling = len({label for label, value in zip(labels, values, strict=True) if value != round(mean)})
        worth = float(stdtrit(n - 1, TAIL) / stdtrit(min(count - 1, telling), TAIL)) ** 2
        spread = mean * (1.0 - mean)  # the variance of 0 and 1 with this mean; no values of 0 to 1 have more
        most = n * spread / (math.fsum((value - mean) ** 2 for value in values) / n)
        effective = min(max(spread / variance * worth, count), most)
    right = mean * effective
    low = float(betaincinv(right, effective - right + 1.0, TAIL)) if mean > 0.0 else 0.0
    high = float(betaincinv(right + 1.0, effective - right, 1.0 - TAIL)) if mean < 1.0 else 1.0
    return Interval(mean, low, high, n)


def observed_interval(name: str, values: Sequence[float], clusters: Sequence[Hashable]) -> Interval:
    """The interval of what was measured in episodes, never beyond what one of them can have.

    Args:
        name: Of the quantity. Where all values lie between 0 and 1 it is taken for a share, unless in ``NO_SHARES``.
        values: One number an episode.
        clusters: Scenario of each episode.
    """
    if name not in NO_SHARES and all(0.0 <= value <= 1.0 for value in values):
        return share_interval(values, clusters)
    return mean_interval(values, clusters).within(min(values), max(values))


def paired_interval(before: Sequence[float], after: Sequence[float]) -> Interval:
    """The mean change of pairs, never beyond the widest one between any values seen; of shares, beyond 1.

    Args:
        before: One number a pair.
        after: Likewise, in the same order.
    """
    seen = [*before, *after]
    widest = 1.0 if all(0.0 <= value <= 1.0 for value in seen) else max(seen) - min(seen)
    return mean_interval([y - x for x, y in zip(before, after, strict=True)]).within(-widest, widest)


def _clustered(values: Sequence[float], clusters: Sequence[Hashable] | None) -> tuple[float, int, float]:
    """The mean, the number of clusters, and the variance of the mean (infinite with one cluster)."""
    if not values:
        raise ValueError("cannot take the mean of no values; pass at least one observation")
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise ValueError(f"value {index} is {value}; leave failed observations out and count them apart")
    labels: Sequence[Hashable] = range(len(values)) if clusters is None else clusters
    n = len(values)
    mean = math.fsum(values) / n
    residuals: dict[Hashable, list[float]] = {}
    for value, label in zip(values, labels, strict=True):
        residuals.setdefault(label, []).append(value - mean)
    count = len(residuals)
    if count == 1:
        return mean, count, math.inf
    squares = math.fsum(math.fsum(members) ** 2 for members in residuals.values())
    return mean, count, count / (count - 1) * squares / n**2


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


SLICE_PREFIX = "env/difficulty_"
"""Columns of this prefix are 0/1 flags that cut an evaluation into slices."""


_SLICE_ORDER = {"easy": 0, "medium": 1, "hard": 2}


Row = tuple[str, Mapping[str, float]]
"""An episode's scenario and its numbers, by the names of their columns."""

Means = dict[str, dict[str, float | None]]
"""Mean and interval of every column."""


def column_means(rows: Sequence[Row]) -> Means:
    """Over episodes; a column that some lack is averaged over the others."""
    means: Means = {}
    for name in dict.fromkeys(name for _, columns in rows for name in columns):
        if name.startswith(SLICE_PREFIX):
            continue
        having = [(columns[name], scenario) for scenario, columns in rows if name in columns]
        values, clusters = [value for value, _ in having], [scenario for _, scenario in having]
        means[name] = observed_interval(name, values, clusters).to_dict()
    return means


def slice_order(name: str) -> tuple[int, str]:
    """A sort key: easy ones first; slices of other names follow by name."""
    return _SLICE_ORDER.get(name, len(_SLICE_ORDER)), name


def slice_means(rows: Sequence[Row]) -> dict[str, Means]:
    """``column_means`` of the episodes in each slice: those where an env's metric ``difficulty_*`` is set."""
    flags = sorted({name for _, columns in rows for name in columns if name.startswith(SLICE_PREFIX)})
    inside = {flag: [row for row in rows if row[1].get(flag)] for flag in flags}
    return {flag.removeprefix(SLICE_PREFIX): column_means(some) for flag, some in inside.items() if some}
