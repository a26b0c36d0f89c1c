"""How far a judge can be trusted, measured on groups whose trajectories have labels.

Every group is judged in several orders. The measurement says whether the judge orders trajectories as the labels do,
whether it does so in every order shown, how often it gives no usable verdict, and what a group costs.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import Any, Unpack

from judges.errors import JudgeError, JudgeInputError, MalformedVerdict, PromptTooLong, SpendLimitReached
from judges.llm.client import DEFAULT_JUDGE, CallOptions, JudgeClient
from judges.llm.loop import run_sync
from judges.llm.session import Session, Usage
from judges.reliability.agreement import Estimate, PairCounts, count_pairs, figure, ratio_over_groups
from judges.reliability.groups import LabelledGroup, judge_each, read_labelled
from judges.scoring.judgement import Verdict, judge_prompts
from judges.scoring.prompt import JudgePrompt, build_prompts
from judges.scoring.ruler import DEFAULT_MAX_PROMPT_TOKENS, judges_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured. Pairs are pairs of trajectories of one group."""

    groups: int
    not_judged: int
    """Groups that no other figure counts: the money was spent before."""
    permutations: int
    pairs: int
    """Pairs that the labels tell apart, in groups of which every order got a verdict."""
    accuracy: Estimate
    """Share of the pairs told apart by the labels that one verdict orders as they do; equal scores count one half. 0.5
    is chance."""
    accuracy_of_mean: Estimate
    """The same for the mean of a group's verdicts over all its orders."""
    kendall_tau: Estimate
    """Kendall's tau-b of one verdict and the labels; the mean over the verdicts that have one."""
    order_flips: float | None
    """Of the pairs that two verdicts on the same group order strictly, the share they order against each other."""
    order_spread: float | None
    """The largest minus the smallest score of a trajectory over the orders; the mean over the trajectories."""
    first_place_bonus: float | None
    """The score of a trajectory when shown first minus its mean score elsewhere; the mean over the trajectories."""
    verdicts: int
    """How many were asked for: groups times orders (a group of equal trajectories has one order)."""
    malformed: int
    """How many first answers were no verdict."""
    malformed_after_repair: int
    """How many of these were no verdict after the repair turn either."""
    call_failures: int
    """How many verdicts failed because the judge could not be asked."""
    last_error: str
    """Why the last of the failed verdicts failed, or no further ones were asked for; empty where none failed."""
    usage: Usage
    """What the session was asked meanwhile."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return {**asdict(self), "usage": self.usage.to_dict(), "cost_per_group_dollars": self.cost_per_group}

    @property
    def cost_per_group(self) -> float | None:
        """Dollars, all orders added up; None where no price is known."""
        cost = self.usage.to_dict()["cost_dollars"]
        return None if cost is None else cost / self.groups

    def rows(self) -> dict[str, str]:
        """The figures as text, by the name that a table shows."""
        cost = "cost unknown" if self.cost_per_group is None else f"${self.cost_per_group:.4f}"
        tokens = (self.usage.prompt_tokens + self.usage.completion_tokens) / self.groups
        return {
            "Groups": f"{self.groups}, in {self.permutations} orders each; {self.pairs} pairs to compare"
            + (f"; {self.not_judged} not judged" if self.not_judged else ""),
            "Pairwise accuracy": f"{self.accuracy}  (one verdict; 0.5 is chance)",
            "  of the mean": f"{self.accuracy_of_mean}  (mean of the {self.permutations} orders)",
            "Kendall's tau-b": f"{self.kendall_tau}  (one verdict; 1: same order)",
            "Flips between orders": f"{figure(self.order_flips)}  (share of pairs; 0: the order shown does not matter)",
            "Spread over orders": f"{figure(self.order_spread)}  (of a trajectory's score)",
            "Bonus of first place": figure(self.first_place_bonus, "+"),
            "Malformed verdicts": f"{self.malformed} of {self.verdicts} ({self.malformed / self.verdicts:.1%}), "
            f"{self.malformed_after_repair} after the repair turn too",
            "Failed calls": str(self.call_failures),
            "Per group": f"{cost}, {tokens:.0f} tokens",
            "Usage": str(self.usage),
            **({"Last error": self.last_error} if self.last_error else {}),
        }


@dataclass(slots=True)
class MeasuredGroup:
    """The labels of a group and one verdict for each order in which it was shown. Failed verdicts are left out."""

    labels: Sequence[float]
    prompts: Sequence[JudgePrompt]
    verdicts: list[Verdict] = field(default_factory=list)
    """Empty until it was judged."""

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
        if len(self.usable()) < len(self.prompts):
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


def calibrate(
    groups: str | os.PathLike[str] | Iterable[LabelledGroup],
    judge_model: str | JudgeClient = DEFAULT_JUDGE,
    *,
    rubric: str | None = None,
    permutations: int = 4,
    max_prompt_tokens: int | None = DEFAULT_MAX_PROMPT_TOKENS,
    session: Session | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    **call: Unpack[CallOptions],
) -> Calibration:
    """Judge labelled groups and compare the scores with the labels.

    Args:
        groups: Labelled groups, or the JSONL file of them (`judges.reliability.groups`). A group that no cut brings
            under ``max_prompt_tokens`` is named in a warning and left out.
        judge_model: A litellm model name, or a client.
        rubric: As in `ruler`.
        permutations: Orders in which every group is judged; as many as a group has members shows a position bias best.
        max_prompt_tokens: As in `ruler`.
        session: As in `ruler`. All groups are asked about at once, as many as its limit allows. Once its money is
            spent, the figures are those of what was judged.
        seed: As in `ruler`; of the bootstrap too.
        on_progress: Called after each group with the numbers of groups judged and of groups with a failure so far.
        **call: As in `ruler`.

    Raises:
        JudgeInputError: The groups cannot be used, or a setting cannot.
        JudgeError: The first groups have no usable verdict, or none has one; the last failure.
    """
    groups = read_labelled(groups) if isinstance(groups, (str, os.PathLike)) else list(groups)
    if not groups:
        raise JudgeInputError("there is no labelled group to measure a judge on")
    clients = judges_of(DEFAULT_JUDGE, [judge_model], call)
    session = Session.of(session)
    before = replace(session.usage)
    shown = {"seed": seed, "permutations": permutations, "max_prompt_tokens": max_prompt_tokens}
    measured = _with_prompts(groups, rubric, shown)

    async def judge(group: MeasuredGroup) -> list[JudgeError | None]:
        verdicts = await judge_prompts(clients, group.prompts, session, max_prompt_tokens)
        group.verdicts += [verdict for verdict in verdicts if not isinstance(verdict.error, SpendLimitReached)]
        return [verdict.error for verdict in verdicts]

    spent = run_sync(judge_each(measured, judge, session, on_progress))
    return _measure(measured, permutations, session.usage.since(before), seed, spent)


def _with_prompts(groups: Sequence[LabelledGroup], rubric: str | None, shown: Mapping[str, Any]) -> list[MeasuredGroup]:
    """Every group that fits into a prompt; at least one does."""
    measured: list[MeasuredGroup] = []
    too_long: list[PromptTooLong] = []
    for number, group in enumerate(groups, start=1):
        if not isinstance(group, LabelledGroup):
            raise JudgeInputError(f"group {number} must be a judges.LabelledGroup, got a {type(group).__name__}")
        by = group.rubric if rubric is None else rubric
        try:
            prompts = build_prompts(group.trajectories, tools=group.tools, rubric=by, **shown)
        except PromptTooLong as error:
            too_long.append(PromptTooLong(f"group {number}: {error}"))
            logger.warning("passed over: %s", too_long[-1])
            continue
        except JudgeInputError as error:
            raise type(error)(f"group {number}: {error}") from None
        measured.append(MeasuredGroup(group.labels, prompts))
    if not measured:
        raise too_long[-1]
    return measured


def _measure(
    asked: Sequence[MeasuredGroup], permutations: int, usage: Usage, seed: int, spent: JudgeError | None
) -> Calibration:
    """The figures over the groups that were judged; raises the last error where no verdict is usable."""
    groups = [group for group in asked if group.verdicts]
    if spent and not groups:
        raise spent
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    errors = [verdict.error for verdict in verdicts if verdict.error is not None]
    if len(errors) == len(verdicts):
        raise type(errors[-1])(
            f"none of {len(verdicts)} verdicts on the first {len(groups)} groups is usable; the last: {errors[-1]}"
        )
    of_verdicts = [sum(group.agreements(), PairCounts()) for group in groups]
    of_means = [group.agreement_of_mean() for group in groups]
    taus = [[tau for counts in group.agreements() if (tau := counts.tau_b) is not None] for group in groups]
    between_orders = sum((group.between_orders() for group in groups), PairCounts())
    spreads = [spread for group in groups for spread in group.spreads()]
    bonuses = [bonus for group in groups for bonus in group.first_place_bonuses()]
    malformed_after_repair = sum(isinstance(error, MalformedVerdict) for error in errors)
    return Calibration(
        groups=len(groups),
        not_judged=len(asked) - len(groups),
        permutations=permutations,
        pairs=sum(counts.ordered for counts in of_means),
        accuracy=ratio_over_groups([(counts.correct, counts.ordered) for counts in of_verdicts], seed),
        accuracy_of_mean=ratio_over_groups([(counts.correct, counts.ordered) for counts in of_means], seed),
        kendall_tau=ratio_over_groups([(sum(of_group), len(of_group)) for of_group in taus], seed),
        order_flips=between_orders.flip_rate,
        order_spread=fmean(spreads) if spreads else None,
        first_place_bonus=fmean(bonuses) if bonuses else None,
        verdicts=len(verdicts),
        malformed=sum(verdict.was_malformed for verdict in verdicts),
        malformed_after_repair=malformed_after_repair,
        call_failures=len(errors) - malformed_after_repair,
        last_error=str(spent or (errors[-1] if errors else "")),
        usage=usage,
    )
