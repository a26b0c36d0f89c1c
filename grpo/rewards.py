"""What a group is rewarded with: the env's own reward, RULER's relative scores, or both.

RULER needs no labels: an LLM judge compares the members of a group. A group whose judge failed has no scores; it is
dropped and counted, never scored zero. ``env+ruler`` adds ``HYBRID_WEIGHT`` times the judge's score to the env's own;
with rewards that lie closer together than that, the judge can reorder them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from grpo.errors import JudgeFailure
from grpo.types import Group, StopReason

HYBRID_WEIGHT = 0.25
"""Weight of the judge's score (0..1) beside the env's reward in ``env+ruler``."""


@dataclass(slots=True)
class Rewarder:
    """Rewards groups in place. ``failures`` counts groups whose judge gave no verdict."""

    kind: Literal["env", "ruler", "env+ruler"] = "env"
    judge_model: str = ""
    judge_api_base: str | None = None
    rubric: str | None = None
    seed: int = 0
    failures: int = 0
    last_error: str = field(default="")

    async def reward(self, groups: list[Group]) -> list[Group]:
        """The groups that have rewards; for the env's own reward that is all of them.

        Raises:
            JudgeFailure: No group of the step got a verdict.
        """
        if self.kind == "env" or not groups:
            return groups
        whole = [_without_failures(group) for group in groups]
        judged = await asyncio.gather(*(self._judge(group) for group in whole if group.trajectories))
        kept = [group for group in judged if group is not None]
        self.failures += len(groups) - len(kept)
        if not kept:
            raise JudgeFailure(
                f"the judge {self.judge_model!r} scored none of {len(groups)} groups; the last error: {self.last_error}"
            )
        return kept

    async def _judge(self, group: Group) -> Group | None:
        from judges import JudgeError, ruler_score_group

        try:
            scored = await ruler_score_group(
                group,
                self.judge_model,
                rubric=self.rubric,
                api_base=self.judge_api_base,
                seed=self.seed,
            )
        except JudgeError as error:
            self.last_error = str(error)
            return None
        assert scored is not None
        if self.kind == "env+ruler":
            for trajectory in scored.trajectories:
                metrics = trajectory.metrics
                trajectory.reward = metrics["independent_reward"] + HYBRID_WEIGHT * metrics["ruler_score"]
        return scored


def _without_failures(group: Group) -> Group:
    kept = [t for t in group.trajectories if t.stop_reason is not StopReason.FAILED]
    return Group(group.task, kept)
