"""How far a judge can be trusted, measured on groups whose trajectories have labels.

Every group is judged in several orders. What comes out: whether the judge orders trajectories as the labels do, whether
it does so whatever the order shown, how often it gives no usable verdict, and what a group costs.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Unpack

from judges.agreement import PairCounts, count_pairs
from judges.client import JudgeClient
from judges.errors import JudgeError, JudgeInputError, MalformedVerdict
from judges.labelled import LabelledGroup, read_labelled
from judges.ruler import DEFAULT_JUDGE, DEFAULT_MAX_PROMPT_TOKENS, run_sync
from judges.session import Session
from judges.types import CallOptions
from judges.usage import Usage

if TYPE_CHECKING:
    from judges.judgement import Verdict
    from judges.prompt import JudgePrompt

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval: percentiles of a bootstrap over groups (Efron 1979), seeded.

    All three are None where nothing could be compared. With few groups (below about 20) the interval is too narrow.
    """

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return "undefined" if self.value is None else f"{self.value:.3f}  [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured. Pairs are pairs of trajectories within a group that the labels tell apart."""

    groups: int
    permutations: int
    pairs: int
    """Pairs that the labels tell apart, in groups of which every order got a verdict."""
    accuracy: Estimate
    """Share of pairs that one verdict orders as the labels do; equal scores count one half. 0.5 is chance."""
    accuracy_of_mean: Estimate
    """The same for the mean of a group's verdicts over all its orders."""
    kendall_tau: Estimate
    """Kendall's tau-b of one verdict and the labels, mean over the verdicts that have one."""
    order_flips: float | None
    """Of the pairs that two verdicts on the same group order strictly, the share they order against each other."""
    order_spread: float | None
    """Mean over trajectories of the largest minus the smallest score over the orders."""
    first_place_bonus: float | None
    """Mean over trajectories of the score when shown first minus the mean score elsewhere."""
    verdicts: int
    """Asked for: groups times orders (a group of equal trajectories has one)."""
    malformed: int
    """Of these, first answers that were no verdict."""
    malformed_after_repair: int
    """Of these, second answers that were none either."""
    call_failures: int
    """Verdicts for which the judge could not be asked."""
    last_error: str
    usage: Usage

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name, value in plain.items():
            if isinstance(value, Estimate):
                plain[name] = {part: getattr(value, part) for part in Estimate.__slots__}
        return {**plain, "usage": self.usage.to_dict(), "cost_per_group_dollars": self.cost_per_group}

    @property
    def cost_per_group(self) -> float | None:
        """Dollars, all orders added up; None where no price is known."""
        cost = self.usage.to_dict()["cost_dollars"]
        return None if cost is None else cost / self.groups

    def to_text(self) -> str:
        """The numbers as lines."""

        def number(value: float | None, sign: str = "") -> str:
            return "undefined" if value is None else f"{value:{sign}.3f}"

        cost = "cost unknown" if self.cost_per_group is None else f"${self.cost_per_group:.4f}"
        tokens = (self.usage.prompt_tokens + self.usage.completion_tokens) / self.groups
        lines = [
            f"Groups                 {self.groups}, in {self.permutations} orders each; {self.pairs} pairs to compare",
            f"Pairwise accuracy      {self.accuracy}  (one verdict; 0.5 is chance)",
            f"  of the mean          {self.accuracy_of_mean}  (mean of the {self.permutations} orders)",
            f"Kendall's tau-b        {self.kendall_tau}  (one verdict; 1: same order)",
            f"Flips between orders   {number(self.order_flips)}  (share of pairs; 0: the order shown does not matter)",
            f"Spread over orders     {number(self.order_spread)}  (of a trajectory's score)",
            f"Bonus of first place   {number(self.first_place_bonus, '+')}",
            f"Malformed verdicts     {self.malformed} of {self.verdicts} ({self.malformed / self.verdicts:.1%}), "
            f"{self.malformed_after_repair} after the repair turn too",
            f"Failed calls           {self.call_failures}",
            f"Per group              {cost}, {tokens:.0f} tokens",
            f"Usage                  {self.usage}",
        ]
        if self.last_error:
            lines.append(f"Last error             {self.last_error}")
        return "\n".join(lines)


def calibrate(
    groups: str | os.PathLike[str] | Sequence[LabelledGroup],
    judge_model: str | JudgeClient = DEFAULT_JUDGE,
    *,
    rubric: str | None = None,
    extra_litellm_params: Mapping[str, Any] | None = None,
    permutations: int = 4,
    max_prompt_tokens: int | None = DEFAULT_MAX_PROMPT_TOKENS,
    session: Session | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    **call: Unpack[CallOptions],
) -> Calibration:
    """Judge labelled groups and compare.

    Args:
        groups: Labelled groups, or the JSONL file of them (`judges.labelled`).
        judge_model: A litellm model name, or a client.
        rubric: As in `ruler`.
        extra_litellm_params: As in `ruler`.
        permutations: Orders in which every group is judged; as many as a group has members shows a position bias best.
        max_prompt_tokens: As in `ruler`.
        session: As in `ruler`. All groups are asked about at once, as many as its limit allows.
        seed: As in `ruler`; of the bootstrap too.
        on_progress: Called after each group with the numbers of groups judged and of groups with a failure so far.
        **call: As in `ruler`.

    Raises:
        JudgeInputError: The groups cannot be used, or a setting cannot.
        JudgeError: No verdict at all came back; the last failure.
    """
    from judges.judgement import judge_prompts
    from judges.prompt import build_prompts

    if isinstance(groups, (str, os.PathLike)):
        groups = read_labelled(groups)
    if not groups:
        raise JudgeInputError("there is no labelled group to measure a judge on")
    named = not isinstance(judge_model, JudgeClient)
    client = JudgeClient(judge_model, extra_params=extra_litellm_params or {}, **call) if named else judge_model
    session = session or Session()
    prompts = [
        build_prompts(
            group.trajectories,
            rubric=rubric,
            tools=group.tools,
            seed=seed,
            permutations=permutations,
            max_prompt_tokens=max_prompt_tokens,
        )
        for group in groups
    ]

    judged: list[bool] = []

    async def judge_one(orders: Sequence[JudgePrompt]) -> list[Verdict]:
        verdicts = await judge_prompts([client], orders, session, max_prompt_tokens)
        judged.append(all(verdict.error is None for verdict in verdicts))
        if on_progress is not None:
            on_progress(sum(judged), len(judged) - sum(judged))
        return verdicts

    async def judge_all() -> list[list[Verdict]]:
        return await asyncio.gather(*map(judge_one, prompts))

    verdicts = run_sync(judge_all())
    errors = [verdict.error for many in verdicts for verdict in many if verdict.error is not None]
    if len(errors) == sum(map(len, verdicts)):
        raise errors[-1]
    return _measure(groups, verdicts, permutations, errors, session.usage, seed)


def _measure(
    groups: Sequence[LabelledGroup],
    verdicts: Sequence[Sequence[Verdict]],
    permutations: int,
    errors: Sequence[JudgeError],
    usage: Usage,
    seed: int,
) -> Calibration:
    single: list[tuple[float, float]] = []
    mean: list[tuple[float, float]] = []
    taus: list[tuple[float, float]] = []
    between = PairCounts()
    spreads: list[float] = []
    bonuses: list[float] = []
    for group, orders in zip(groups, verdicts, strict=True):
        usable = [verdict for verdict in orders if verdict.entries is not None]
        scores = [[verdict.entry(place).score for place in range(len(group.labels))] for verdict in usable]
        counts = [count_pairs(group.labels, one) for one in scores]
        single.append(_correct_and_all(sum(counts, PairCounts())))
        defined = [tau for one in counts if (tau := one.tau_b) is not None]
        taus.append((sum(defined), len(defined)))
        for one, other in combinations(scores, 2):
            between += count_pairs(one, other)
        bonuses += _bonuses(usable)
        if len(usable) == len(orders):
            means = [fmean(column) for column in zip(*scores, strict=True)]
            mean.append(_correct_and_all(count_pairs(group.labels, means)))
        if len(scores) > 1:
            spreads += [max(column) - min(column) for column in zip(*scores, strict=True)]
    judged = [verdict for orders in verdicts for verdict in orders]
    twice = sum(isinstance(error, MalformedVerdict) for error in errors)
    return Calibration(
        groups=len(groups),
        permutations=permutations,
        pairs=round(sum(ordered for _, ordered in mean)),
        accuracy=_ratio(single, seed),
        accuracy_of_mean=_ratio(mean, seed),
        kendall_tau=_ratio(taus, seed),
        order_flips=between.flip_rate,
        order_spread=fmean(spreads) if spreads else None,
        first_place_bonus=fmean(bonuses) if bonuses else None,
        verdicts=len(judged),
        malformed=sum(len(verdict.exchange.answers) > (verdict.entries is not None) for verdict in judged),
        malformed_after_repair=twice,
        call_failures=len(errors) - twice,
        last_error=str(errors[-1]) if errors else "",
        usage=usage,
    )


def _correct_and_all(counts: PairCounts) -> tuple[float, float]:
    """Pairs ordered as the reference does, equal scores one half; and all pairs that the reference orders."""
    ordered = counts.concordant + counts.discordant + counts.tied_scores
    return counts.concordant + counts.tied_scores / 2, ordered


def _bonuses(verdicts: Sequence[Verdict]) -> list[float]:
    """For each different trajectory that was shown first and elsewhere: score first minus mean score elsewhere."""
    first: dict[int, list[float]] = {}
    elsewhere: dict[int, list[float]] = {}
    for verdict in verdicts:
        assert verdict.entries is not None
        for label in verdict.prompt.shown:
            side = first if label == verdict.prompt.shown[0] else elsewhere
            side.setdefault(verdict.prompt.labels.index(label), []).append(verdict.entries[label].score)
    return [fmean(first[place]) - fmean(elsewhere[place]) for place in first.keys() & elsewhere.keys()]


def _ratio(parts: Sequence[tuple[float, float]], seed: int) -> Estimate:
    """The sum of the first numbers over the sum of the second, resampled by group."""
    parts = [part for part in parts if part[1]]
    if not parts:
        return Estimate(None, None, None)

    def ratio(some: Sequence[tuple[float, float]]) -> float:
        return sum(part[0] for part in some) / sum(part[1] for part in some)

    rng = random.Random(seed)
    resampled = sorted(ratio(rng.choices(parts, k=len(parts))) for _ in range(RESAMPLES))
    return Estimate(ratio(parts), resampled[RESAMPLES // 40], resampled[-1 - RESAMPLES // 40])
