"""What a group is rewarded with: the env's own reward, RULER's relative scores, both, or a function of the user's.

A `GroupReward` gets a group as soon as all its episodes have ended, without those that failed or were cut (their
context was full), and hands back a copy with rewards. A group on which a judge gave no verdict has no rewards: it is
dropped and counted, never scored zero.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo.config import REWARDS, TrainConfig
from grpo.episodes.judges import judge_session
from grpo.errors import RewardError
from grpo.machine.user_code import load_function
from grpo.settings import JudgeSettings
from grpo.types import Episode, Group
from grpo.watch import Part, Waiting
from judges import JudgeError, Session, ruler

HYBRID_WEIGHT = 0.25
"""Weight of the judge's score (0..1) beside the env's reward in ``env+ruler``."""


class GroupReward:
    """Rewards one group at a time; many groups are awaited at once.

    Attributes:
        last_error: Why a group had no rewards the last time; None where that never happened.
    """

    last_error: JudgeError | None = None

    @property
    def cost_usd(self) -> float | None:
        """What the rewards of this process have cost so far; None: nothing, or it is not known."""
        return None

    async def reward(self, group: Group) -> Group | None:
        """A rewarded copy of a group of episodes that were played out, in the same order; None: it has no rewards."""
        raise NotImplementedError


class EnvReward(GroupReward):
    """The rewards that the env gave during the episodes."""

    async def reward(self, group: Group) -> Group | None:
        """The group as it is."""
        return group


@dataclass
class RulerReward(GroupReward):
    """The scores of an LLM judge that compares the members with each other. It needs no labels."""

    settings: JudgeSettings
    session: Session
    """Limits, running cost, cache and record of the run."""
    rubric: str | None = None
    seed: int = 0

    @property
    def cost_usd(self) -> float | None:
        """By the judge's price, where that is known."""
        return self.session.usage.to_dict()["cost_dollars"]

    async def reward(self, group: Group) -> Group | None:
        """The group with the judge's scores; the env's own rewards stay in ``metrics["independent_reward"]``."""
        members = group.episodes
        try:
            with Waiting(Part.JUDGE, f"{self.settings.model}, asked about a group of {group.task.key}"):
                scores = await ruler(
                    [episode.messages for episode in members],
                    self.settings.model,
                    rubric=self.rubric,
                    tools=members[0].tools or None,
                    permutations=self.settings.permutations,
                    max_prompt_tokens=self.settings.max_prompt_tokens,
                    session=self.session,
                    seed=self.seed,
                    **self.settings.call,
                )
        except JudgeError as error:
            self.last_error = error
            return None
        return replace(
            group,
            episodes=[
                replace(_rewarded(episode, score.score, ruler_score=score.score), explanation=score.explanation)
                for episode, score in zip(members, scores, strict=True)
            ],
        )


class HybridReward(RulerReward):
    """The env's reward plus the judge's score, bound so that a wrong answer never outranks a right one."""

    async def reward(self, group: Group) -> Group | None:
        """The group with `hybrid_rewards`."""
        scored = await super().reward(group)
        if scored is None:
            return None
        members = scored.episodes
        rewards = hybrid_rewards(
            [verifiable_class(episode) for episode in members],
            [episode.metrics["independent_reward"] for episode in members],
            [episode.metrics["ruler_score"] for episode in members],
        )
        members = [replace(episode, reward=reward) for episode, reward in zip(members, rewards, strict=True)]
        return replace(scored, episodes=members)


@dataclass
class FunctionReward(GroupReward):
    """A function of the user's: the group in, one number per episode out, in order.

    It may be async; one that is not holds up the other episodes while it works.
    """

    function: Callable[[Group], Any]
    name: str

    async def reward(self, group: Group) -> Group | None:
        """The group with the function's numbers; the env's own stay in ``metrics["independent_reward"]``.

        Raises:
            RewardError: The function raised, or did not return one finite number per episode.
        """
        try:
            doing = f"{self.name}, given a group of {group.task.key}"
            with Waiting(Part.REWARD, doing, holds_all=True) as waiting:
                returned = self.function(group)
                waiting.holds_all = False
                if inspect.isawaitable(returned):
                    returned = await returned
        except (Exception, SystemExit) as error:  # whatever the user's function does
            raise RewardError(f"{self.name} raised {type(error).__name__}: {error}") from error
        try:
            if isinstance(returned, str | Mapping | Set):
                raise TypeError("it has no numbers in an order")
            rewards = [float(value) for value in returned]
        except (TypeError, ValueError) as error:
            raise RewardError(f"{self.name} returned {returned!r}; it must return a list of numbers") from error
        if len(rewards) != len(group.episodes):
            raise RewardError(
                f"{self.name} returned {len(rewards)} rewards for a group of {len(group.episodes)} episodes"
            )
        if not all(map(math.isfinite, rewards)):
            raise RewardError(f"{self.name} returned {rewards}; every reward must be a finite number")
        pairs = zip(group.episodes, rewards, strict=True)
        return replace(group, episodes=[_rewarded(episode, reward) for episode, reward in pairs])


def group_reward(config: TrainConfig, folder: Path) -> GroupReward:
    """The reward that a config names.

    Args:
        config: See there.
        folder: Of the run. Every judgement is kept there (``judgements.jsonl``), and answers that were paid for
            (``judge-cache.db``).

    Raises:
        ConfigError: It is a function that cannot be imported, or the rubric or the cache in the folder cannot be used.
    """
    if config.reward == "env":
        return EnvReward()
    if config.reward not in REWARDS:
        return FunctionReward(load_function(config.reward), config.reward)
    judged = RulerReward if config.reward == "ruler" else HybridReward
    return judged(config.judge, judge_session(config.judge, folder), config.rubric(), config.seed)


def verifiable_class(episode: Episode) -> float:
    """What the env could verify, higher is better: its metric ``success`` where it has one, else its reward."""
    metrics = episode.metrics
    if "success" in metrics:
        return metrics["success"]
    return round(metrics.get("independent_reward", episode.reward), 6)


def _rewarded(episode: Episode, reward: float, **metrics: float) -> Episode:
    """A copy with another reward; the env's own stays among the metrics."""
    metrics = {**episode.metrics, "independent_reward": episode.reward, **metrics}
    return replace(episode, reward=reward, metrics=metrics)


def hybrid_rewards(classes: Sequence[float], rewards: Sequence[float], scores: Sequence[float]) -> list[float]:
    """Env reward and judge's score in one, such that the judge decides within a class and never between classes.

    With env reward ``r``, score ``s`` and weight ``W = HYBRID_WEIGHT`` a member gets ``r + W s``. Then, from the worst
    class up, the whole class is lifted by as little as puts its lowest member at least ``d`` above every member of the
    lower classes. ``d`` is the env's own distance between the two, at most ``W``; where the env has none (it rewarded
    a wrong answer as high as a right one), it is ``W``. Rewards that lie further apart than ``W`` are never lifted, so
    ART-E's tiers never are.

    The alternative is a weight small enough to be safe for every env. It would silence the judge where the judge is
    needed: among answers that are all wrong or all right.

    Args:
        classes: What could be verified of each member, higher is better (`verifiable_class`).
        rewards: The env's own.
        scores: The judge's, from 0 to 1.

    Returns:
        One reward per member: higher in a higher class, whatever the scores; in one class as ``r + W s`` orders them.
    """
    mixed = [reward + HYBRID_WEIGHT * score for reward, score in zip(rewards, scores, strict=True)]
    below: list[int] = []
    for verified in sorted(set(classes)):
        members = [place for place, other in enumerate(classes) if other == verified]
        if below:
            own = min(rewards[m] for m in members) - max(rewards[b] for b in below)
            distance = min(own, HYBRID_WEIGHT) if own > 0 else HYBRID_WEIGHT
            lift = max(mixed[b] for b in below) + distance - min(mixed[m] for m in members)
            for member in members:
                mixed[member] += max(0.0, lift)
        below += members
    return mixed
