"""Recorded judgements judged again by another judge, without new rollouts, and how far the two agree."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from statistics import fmean
from typing import Any, Unpack

from judges.errors import JudgeError, JudgeInputError, PromptTooLong
from judges.llm.client import DEFAULT_JUDGE
from judges.llm.loop import run_sync
from judges.llm.record import record_file
from judges.llm.session import Session, Usage
from judges.reliability.agreement import PairCounts, count_pairs, figure
from judges.reliability.groups import RecordedGroup, judge_each, read_recorded
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
    """Groups on which the other judge gave no verdict. No other figure counts them."""
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
        JudgeError: The other judge failed on every group, or the first calls all failed; the last failure.
    """
    settled = settle(replay, judge_model, options)
    session = Session.of(settled.get("session"))
    settled["session"] = session
    if session.records_to(record_file(run)):
        raise JudgeInputError(f"{record_file(run)} is read; record the new judgements in another file")
    records = islice(read_recorded(run), limit)
    tally, before = _Tally(), replace(session.usage)

    async def judge(record: RecordedGroup) -> list[JudgeError | None]:
        return [await _judge_again(record, settled, tally)]

    run_sync(judge_each(records, judge, session, on_progress))
    if not tally.groups:
        if tally.failures:
            raise tally.failures[-1]
        raise JudgeInputError(f"the record of {os.fspath(run)} holds no group that was scored")
    return tally.agreement(session.usage.since(before))


async def _judge_again(record: RecordedGroup, options: SharedOptions, tally: _Tally) -> JudgeError | None:
    """Judge a record; what came of it is in the tally."""
    with_rubric = options.copy()
    if with_rubric.get("rubric") is None:
        with_rubric["rubric"] = record.rubric
    try:
        scores = await ruler(record.trajectories, tools=record.tools, **with_rubric)
    except JudgeError as error:
        # A setting that cannot be used fails every group; a group that is too long fails alone.
        if isinstance(error, JudgeInputError) and not isinstance(error, PromptTooLong):
            raise
        tally.failures.append(error)
        return error
    tally.add(record, [score.score for score in scores])
    return None


@dataclass(slots=True)
class _Tally:
    """Sums over the groups judged again so far."""

    groups: int = 0
    failures: list[JudgeError] = field(default_factory=list)
    pairs: PairCounts = field(default_factory=PairCounts)
    taus: list[float] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)

    def add(self, record: RecordedGroup, scores: Sequence[float]) -> None:
        recorded = record.scores
        different = _first_of_equals(record.labels)
        counts = count_pairs([recorded[i] for i in different], [scores[i] for i in different])
        self.groups += 1
        self.pairs += counts
        self.taus += [] if counts.tau_b is None else [counts.tau_b]
        self.differences += [new - old for old, new in zip(recorded, scores, strict=True)]

    def agreement(self, usage: Usage) -> Agreement:
        return Agreement(
            groups=self.groups,
            failures=len(self.failures),
            last_error=str(self.failures[-1]) if self.failures else "",
            kendall_tau=fmean(self.taus) if self.taus else None,
            tau_groups=len(self.taus),
            flip_rate=self.pairs.flip_rate,
            pairs=self.pairs.concordant + self.pairs.discordant,
            mean_difference=fmean(self.differences),
            mean_absolute_difference=fmean(map(abs, self.differences)),
            usage=usage,
        )


def _first_of_equals(labels: Sequence[str]) -> list[int]:
    """The places of the different trajectories: equal ones have one label and are tied for both judges anyway."""
    return [place for place, label in enumerate(labels) if label not in labels[:place]]
