"""A labelled group and one judge's verdicts on its orders: what a calibration adds up over groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING

from judges.reliability.agreement import PairCounts, count_pairs

if TYPE_CHECKING:
    from judges.scoring.judgement import Verdict


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """The labels of a group and one verdict for each order in which it was shown. Failed verdicts are left out."""

    labels: Sequence[float]
    verdicts: Sequence[Verdict]

    def usable(self) -> list[Verdict]:
        """The verdicts that have entries."""
        return [verdict for verdict in self.verdicts if verdict.entries is not None]

    def scores(self) -> list[list[float]]:
        """One row per usable verdict, one column per trajectory of the input."""
        return [[verdict.entry(place).score for place in range(len(self.labels))] for verdict in self.usable()]

    def agreements(self) -> list[PairCounts]:
        """The labels against the scores of each usable verdict."""
        return [count_pairs(self.labels, scores) for scores in self.scores()]

    def agreement_of_mean(self) -> PairCounts:
        """The labels against the mean scores; no pair where a verdict failed, as that mean is not balanced."""
        if len(self.usable()) < len(self.verdicts):
            return PairCounts()
        return count_pairs(self.labels, [fmean(column) for column in zip(*self.scores(), strict=True)])

    def between_orders(self) -> PairCounts:
        """Every usable verdict against every other."""
        pairs = combinations(self.scores(), 2)
        return sum((count_pairs(one, other) for one, other in pairs), PairCounts())

    def spreads(self) -> list[float]:
        """The largest minus the smallest score of each trajectory; none with a single usable verdict."""
        scores = self.scores()
        return [max(column) - min(column) for column in zip(*scores, strict=True)] if len(scores) > 1 else []

    def first_place_bonuses(self) -> list[float]:
        """Score shown first minus mean score elsewhere, of each different trajectory that was shown in both ways."""
        first: dict[int, list[float]] = {}
        elsewhere: dict[int, list[float]] = {}
        for verdict in self.usable():
            for label in verdict.prompt.shown:
                place = verdict.prompt.labels.index(label)
                shown_at = first if label == verdict.prompt.shown[0] else elsewhere
                shown_at.setdefault(place, []).append(verdict.entry(place).score)
        return [fmean(first[place]) - fmean(elsewhere[place]) for place in first.keys() & elsewhere.keys()]
