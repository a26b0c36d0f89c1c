"""Recorded judgements judged again by another judge, without new rollouts, and how far the two agree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any, Unpack

from judges.agreement import PairCounts, count_pairs
from judges.client import JudgeClient
from judges.errors import JudgeError, JudgeInputError, PromptTooLong
from judges.record import read_judgements
from judges.ruler import DEFAULT_MAX_PROMPT_TOKENS, ruler, run_sync
from judges.session import Session
from judges.types import CallOptions
from judges.usage import Usage


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the scores of a second judge agree with the recorded ones.

    Orders are compared within each group, between different trajectories; differences over all trajectories.
    """

    groups: int
    """Compared: both judges gave a verdict."""
    failures: int
    """Groups on which the other judge gave no verdict. They are left out of all else."""
    last_error: str
    """Why the last of them failed."""
    kendall_tau: float | None
    """Mean over the groups of Kendall's tau-b (Kendall 1945, Biometrika 33, 239): 1 the same order, -1 the reverse, 0
    unrelated. Groups in which a judge gave all the same score have none. None: there is no other group."""
    tau_groups: int
    """Groups over which that mean is taken."""
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
    """What judging again took."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "usage": self.usage.to_dict()}

    def to_text(self) -> str:
        """The numbers as lines."""

        def number(value: float | None, sign: str = "") -> str:
            return "undefined" if value is None else f"{value:{sign}.3f}"

        lines = [
            f"Groups compared      {self.groups}",
            f"Without a verdict    {self.failures}" + (f"  (the last: {self.last_error})" if self.failures else ""),
            f"Kendall's tau-b      {number(self.kendall_tau, '+')}  (mean of {self.tau_groups} groups; 1: same order)",
            f"Flip rate            {number(self.flip_rate)}  (of {self.pairs} pairs that both order; 0.5 is chance)",
            f"Mean difference      {number(self.mean_difference, '+')}  (other judge minus recorded)",
            f"Mean |difference|    {number(self.mean_absolute_difference)}",
            f"Usage                {self.usage}",
        ]
        return "\n".join(lines)


def replay(
    run: str | os.PathLike[str],
    *,
    judges: Sequence[str | JudgeClient],
    rubric: str | None = None,
    extra_litellm_params: Mapping[str, Any] | None = None,
    permutations: int = 1,
    max_prompt_tokens: int | None = DEFAULT_MAX_PROMPT_TOKENS,
    limit: int | None = None,
    session: Session | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    **call: Unpack[CallOptions],
) -> Agreement:
    """Judge the recorded groups of a run again and compare.

    Args:
        run: A run directory with a ``judgements.jsonl``, or such a file.
        judges: The other judge or judges, as in `ruler`.
        rubric: Another rubric; None: each group's own.
        extra_litellm_params: As in `ruler`.
        permutations: As in `ruler`.
        max_prompt_tokens: As in `ruler`.
        limit: Take the first so many groups.
        session: As in `ruler`. As many groups as its ``max_concurrency`` are judged at the same time.
        seed: As in `ruler`.
        on_progress: Called after each group with the numbers of groups compared and of groups without a verdict so far.
        **call: As in `ruler`.

    Raises:
        JudgeInputError: There is no record, nothing in it was scored, or a setting cannot be used.
        JudgeError: The other judge failed on every group; the last failure.
    """
    session = session or Session()
    scored = (record for record in read_judgements(run) if record["kind"] == "ruler" and record["scores"])
    records = islice(scored, limit)
    tally = _Tally()

    async def work() -> None:
        """Take the next group until there is none: no more of them are in memory than are asked about."""
        for record in records:
            try:
                scores = await ruler(
                    record["trajectories"],
                    judges=judges,
                    rubric=record["rubric"] if rubric is None else rubric,
                    tools=record["tools"],
                    extra_litellm_params=extra_litellm_params,
                    permutations=permutations,
                    max_prompt_tokens=max_prompt_tokens,
                    session=session,
                    seed=seed,
                    **call,
                )
            except PromptTooLong as error:
                tally.failures.append(error)
            except JudgeInputError:
                raise
            except JudgeError as error:
                tally.failures.append(error)
            else:
                tally.add(record, [score.score for score in scores])
            if on_progress is not None:
                on_progress(tally.groups, len(tally.failures))

    async def work_together() -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(session.max_concurrency):
                workers.create_task(work())

    try:
        run_sync(work_together())
    except* JudgeInputError as errors:
        raise errors.exceptions[0] from None
    if not tally.groups:
        if tally.failures:
            raise tally.failures[-1]
        raise JudgeInputError(f"the record of {os.fspath(run)} holds no group that was scored")
    return tally.agreement(session.usage)


@dataclass(slots=True)
class _Tally:
    """Sums over the groups judged again so far."""

    groups: int = 0
    failures: list[JudgeError] = field(default_factory=list)
    pairs: PairCounts = field(default_factory=PairCounts)
    taus: list[float] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)

    def add(self, record: Mapping[str, Any], scores: Sequence[float]) -> None:
        recorded = [score["score"] for score in record["scores"]]
        different = _first_of_equals(record["verdicts"][0]["labels"])
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
