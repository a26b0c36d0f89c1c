"""How far two sets of scores put the same trajectories in the same order: counts of pairs, and what follows from them.

Only pairs within a group are compared: RULER's scores are relative to their group and mean nothing across groups. The
interval of a ratio is a bootstrap over groups (Efron 1979), not over pairs: pairs of one group share trajectories, so
they are not independent.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Self

TIE = 1e-9
"""Scores no further apart than this are equal: means over permutations carry rounding errors."""
RESAMPLES = 2000
MIN_GROUPS = 5
"""Fewer are too few for an interval: resampled, one group says that it is certain."""


@dataclass(frozen=True, slots=True)
class PairCounts:
    """The pairs of a group, or of many groups added up, by how two scorings order them."""

    concordant: int = 0
    """Both order the pair, in the same way."""
    discordant: int = 0
    """Both order the pair, each in another way."""
    tied_reference: int = 0
    """Equal by the reference alone."""
    tied_scores: int = 0
    """Equal by the scores alone."""
    tied_both: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def ordered(self) -> int:
        """The pairs that the reference orders."""
        return self.concordant + self.discordant + self.tied_scores

    @property
    def correct(self) -> float:
        """The pairs that the scores order as the reference does; a pair of equal scores counts one half."""
        return self.concordant + self.tied_scores / 2

    @property
    def accuracy(self) -> float | None:
        """``correct / ordered``. 0.5 is chance, and what a scorer gets that gives everything the same score.

        None: the reference orders no pair.
        """
        return self.correct / self.ordered if self.ordered else None

    @property
    def tau_b(self) -> float | None:
        """Kendall's tau-b (Kendall 1945, Biometrika 33, 239): 1 the same order, -1 the reverse, ties corrected.

        None where one of the two orders no pair.
        """
        decided = self.concordant + self.discordant
        product = (decided + self.tied_scores) * (decided + self.tied_reference)
        return (self.concordant - self.discordant) / math.sqrt(product) if product else None

    @property
    def flip_rate(self) -> float | None:
        """Of the pairs that both order, the share that they order against each other; without ties ``(1 - tau_b) / 2``.

        A flipped pair is what hurts training: the worse trajectory is reinforced. A tie is no flip, but it lowers
        tau-b. None: there is no such pair.
        """
        decided = self.concordant + self.discordant
        return self.discordant / decided if decided else None


def count_pairs(reference: Sequence[float], scores: Sequence[float]) -> PairCounts:
    """Compare two scorings of one group, member by member.

    Raises:
        ValueError: They are of different length.
    """
    counts = PairCounts()
    for (r1, s1), (r2, s2) in combinations(zip(reference, scores, strict=True), 2):
        first, second = _order(r1 - r2), _order(s1 - s2)
        counts += PairCounts(
            concordant=int(first * second > 0),
            discordant=int(first * second < 0),
            tied_reference=int(first == 0 != second),
            tied_scores=int(first != 0 == second),
            tied_both=int(first == 0 == second),
        )
    return counts


def _order(difference: float) -> int:
    return 0 if abs(difference) <= TIE else 1 if difference > 0 else -1


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
