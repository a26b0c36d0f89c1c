"""Recorded judgements judged again by another judge, without new rollouts, and how far the two agree."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, Unpack

from judges.errors import JudgeError, JudgeInputError, PromptTooLong
from judges.llm.client import DEFAULT_JUDGE
from judges.llm.loop import run_sync
from judges.llm.record import record_file
from judges.llm.session import Session, Usage
from judges.reliability.agreement import PairCounts, count_pairs, figure
from judges.reliability.groups import LabelledGroup, judge_each, read_recorded
from judges.scoring.prompt import build_prompts
from judges.scoring.ruler import ruler, settle
from judges.scoring.types import SharedOptions


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the scores of another judge agree with the recorded ones.

    Orders are compared within each group, between its different trajectories. Score differences are taken over all
    trajectories.
    """

    groups: int
    """Groups that are compared: both judges gave a verdict."""
    failures: int
    """Groups on which the other judge gave no verdict, or was not asked, for want of money. No other figure counts
    them."""
    last_error: str
    """Why the last of these failed; empty where none failed."""
    kendall_tau: float | None
    """Mean over the groups of Kendall's tau-b (Kendall 1945, Biometrika 33, 239): 1 the same order, -1 the reverse, 0
    unrelated. A group in which a judge gave every trajectory the same score has no tau-b. None: no group has one."""
    tau_groups: int
    """Groups that have a tau-b."""
    flip_rate: float | None
    """Of the pairs that both judges order strictly, the share that they order against each other; 0.5 is chance. None:
    there is no such pair."""
    pairs: int
    """How many such pairs there are."""
    mean_difference: float
    """Mean of the other judge's score minus the recorded one: above 0 where the other is the more generous."""
    mean_absolute_difference: float
    """Mean distance between the two scores."""
    usage: Usage
    """What judging again took: all that the session was asked meanwhile."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return {**asdict(self), "usage": self.usage.to_dict()}

    def rows(self) -> dict[str, str]:
        """The figures as text, by the name that a table shows."""
        return {
            "Groups compared": str(self.groups),
            "Without a verdict": str(self.failures),
            "Kendall's tau-b": f"{figure(self.kendall_tau, '+')}  (mean of {self.tau_groups} groups; 1: same order)",
            "Flip rate": f"{figure(self.flip_rate)}  (of {self.pairs} pairs that both order; 0.5 is chance)",
            "Mean difference": f"{figure(self.mean_difference, '+')}  (other judge minus recorded)",
            "Mean |difference|": figure(self.mean_absolute_difference),
            "Usage": str(self.usage),
            **({"Last error": self.last_error} if self.last_error else {}),
        }


def replay(
    run: str | os.PathLike[str],
    judge_model: str = DEFAULT_JUDGE,
    *,
    limit: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Unpack[SharedOptions],
) -> Agreement:
    """Judge the recorded groups of a run again and compare.

    Args:
        run: A run directory with a ``judgements.jsonl``, or such a file.
        judge_model: The other judge, as in `ruler`.
        limit: Take the first so many groups.
        on_progress: Called after each group with the numbers of groups compared and of groups without a verdict so far.
        **options: As in `ruler`. Without a ``rubric`` each group is judged by its own. As many groups as the session's
            ``max_concurrency`` are judged at the same time.

    Raises:
        JudgeInputError: There is no record, nothing in it was scored, or a setting cannot be used.
        JudgeError: The other judge failed on every group, or on all of the first ones; the last failure.
    """
    settled = settle(judge_model, options)
    session = Session.of(settled.get("session"))
    settled["session"] = session
    if session.records_to(record_file(run)):
        raise JudgeInputError(f"{record_file(run)} is read; record the new judgements in another file")
    before = replace(session.usage)
    pairs: list[PairCounts] = []
    differences: list[float] = []
    failures: list[JudgeError] = []

    async def judge(group: LabelledGroup) -> list[JudgeError | None]:
        own: SharedOptions = settled if settled.get("rubric") is not None else {**settled, "rubric": group.rubric}
        try:
            scores = [score.score for score in await ruler(group.trajectories, tools=group.tools, **own)]
        except JudgeError as error:
            # A setting that cannot be used fails every group; a group that is too long fails alone.
            if isinstance(error, JudgeInputError) and not isinstance(error, PromptTooLong):
                raise
            failures.append(error)
            return [error]
        pairs.append(_count_different(group, scores))
        differences.extend(new - old for old, new in zip(group.labels, scores, strict=True))
        return [None]

    run_sync(judge_each(islice(read_recorded(run), limit), judge, session, on_progress))
    if failures and not pairs:
        raise failures[-1]
    if not pairs:
        raise JudgeInputError(f"the record of {os.fspath(run)} holds no group that was scored")
    return _agreement(pairs, differences, failures, session.usage.since(before))


def _count_different(group: LabelledGroup, scores: Sequence[float]) -> PairCounts:
    """The pairs of different trajectories; equal ones are tied for both judges anyway."""
    (prompt,) = build_prompts(group.trajectories)
    different = [prompt.labels.index(label) for label in prompt.shown]
    return count_pairs([group.labels[place] for place in different], [scores[place] for place in different])


def _agreement(
    pairs: Sequence[PairCounts], differences: Sequence[float], failures: Sequence[JudgeError], usage: Usage
) -> Agreement:
    taus = [counts.tau_b for counts in pairs if counts.tau_b is not None]
    total = sum(pairs, PairCounts())
    return Agreement(
        groups=len(pairs),
        failures=len(failures),
        last_error=str(failures[-1]) if failures else "",
        kendall_tau=fmean(taus) if taus else None,
        tau_groups=len(taus),
        flip_rate=total.flip_rate,
        pairs=total.concordant + total.discordant,
        mean_difference=fmean(differences),
        mean_absolute_difference=fmean(map(abs, differences)),
        usage=usage,
    )
