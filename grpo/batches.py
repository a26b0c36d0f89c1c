"""What a step trains on: groups are sampled, rewarded as soon as they close, refilled, and cut into rows.

A group closes when its last episode ends; its reward (an LLM judge may take a while) is awaited while other groups
still roll out. Groups without rewards and groups without spread are dropped and counted.

An episode that we cut, because its context was full, is neither learned from nor part of its group's baseline (compare
DAPO's overlong filtering, arXiv 2503.14476, section 3.4, which masks its loss alone). What it would have come to is not
known: where every step costs, its reward so far beats every episode that was played out, and long turns would pay;
where every step pays, it may have been the best.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from grpo.advantages import group_advantages, has_spread
from grpo.chat import Chat
from grpo.config import TrainConfig
from grpo.display import Display
from grpo.errors import EnvError, JudgeFailure
from grpo.finished import FinishedGroups
from grpo.groups import TaskStream
from grpo.heldout import WithPolicy
from grpo.policy import Policy, SamplingParams
from grpo.rewards import GroupReward, verifiable_class
from grpo.rollout import EnvPool, Rollout, group_specs, into_groups
from grpo.segments import Segment, TurnWeights, weighted_segments
from grpo.types import Group, StopReason, Task, Trajectory
from judges.agreement import PairCounts, count_pairs

JUDGE_METRICS = {"independent_reward": "reward/env", "ruler_score": "judge/score"}
"""What `judges` adds to a trajectory's metrics, by the name under which a step logs its mean."""


@dataclass(slots=True)
class Batch:
    """What a step trains on and how it came about."""

    groups: list[Group]
    """With rewards that differ; their advantages are filled in."""
    rewarded: list[Group]
    """All that have rewards, those without spread too; without the episodes that were cut."""
    segments: list[Segment]
    sampled: list[Trajectory]
    """Every episode, with the reward it got; failed ones too."""
    dropped: int
    """Groups without rewards or without spread."""
    unrewarded: int
    """Of these, those without rewards although an episode was whole: the judge gave no verdict."""
    seconds: float
    judge_cost_usd: float | None = None
    """What judging it has cost, where that is known."""

    def metrics(self) -> dict[str, float]:
        """Means over the step's episodes that did not fail; rewards over those that were played out and have one."""
        whole = [t for t in self.sampled if t.stop_reason is not StopReason.FAILED]
        metrics = {
            **_mean_and_std([t.reward for group in self.rewarded for t in group.trajectories]),
            "tokens/completion_mean": sum(t.num_sampled_tokens for t in whole) / len(whole),
            "tokens/total_mean": sum(len(t.token_ids) for t in whole) / len(whole),
            "groups/used": float(len(self.groups)),
            "groups/dropped": float(self.dropped),
            "groups/zero_variance_share": 1.0 - len(self.groups) / len(self.rewarded),
            "episodes/failed": float(len(self.sampled) - len(whole)),
            "episodes/context_full": float(sum(not t.is_played_out for t in whole)),
            "episodes/forks": float(sum(t.num_forks for t in whole)),
            "judge/failures": float(self.unrewarded),
        }
        for name in dict.fromkeys(name for t in whole for name in t.metrics):
            values = [t.metrics[name] for t in whole if name in t.metrics]
            metrics[JUDGE_METRICS.get(name, f"env/{name}")] = math.fsum(values) / len(values)
        if (accuracy := self._agreement().accuracy) is not None:
            metrics["judge/disagreement"] = 1.0 - accuracy
        if self.judge_cost_usd is not None:
            metrics["judge/cost_usd"] = self.judge_cost_usd
        return metrics

    def remarks(self, max_tokens: int) -> list[str]:
        """What a user should know of the step: episodes that were cut, and why there is nothing to learn from it."""
        found: list[str] = []
        if cut := sum(t.stop_reason is StopReason.CONTEXT_FULL for t in self.sampled):
            found.append(
                f"{cut} of {len(self.sampled)} episodes were cut, their context full (max_tokens = {max_tokens}), and "
                "are not learned from; raise max_tokens, or lower max_turn_tokens or the env's limit of turns"
            )
        if not self.groups:
            small = sum(len(group.trajectories) < 2 for group in self.rewarded)
            reasons = {
                "had equal rewards": len(self.rewarded) - small,
                "had less than two episodes that were played out": small,
                "had no verdict": self.unrewarded,
            }
            why = ", ".join(f"{count} {what}" for what, count in reasons.items() if count)
            groups = f"{self.dropped} group{'' if self.dropped == 1 else 's'}"
            found.append(
                f"no update, for there is nothing to compare: of {groups}, {why}. What helps: more or "
                "larger groups (groups_per_step, group_size), drawing others (refill_rounds), a warm start "
                "(warm_start_steps), or a denser reward (the env's, or --reward)"
            )
        return found

    def _agreement(self) -> PairCounts:
        """How the judge's scores order what the env could verify; no pairs where no judge was asked."""
        counts = PairCounts()
        for group in self.rewarded:
            judged = [t for t in group.trajectories if "ruler_score" in t.metrics]
            counts += count_pairs([verifiable_class(t) for t in judged], [t.metrics["ruler_score"] for t in judged])
        return counts


@dataclass(frozen=True, slots=True)
class Batches:
    """Makes the batches of a run, one after another."""

    config: TrainConfig
    pool: EnvPool
    chat: Chat
    tasks: TaskStream
    reward: GroupReward
    display: Display
    finished: FinishedGroups = field(default_factory=FinishedGroups)

    def next(self, step: int, with_policy: WithPolicy) -> Batch:
        """The batch of ``step``: groups with spread, refilled up to ``refill_rounds`` times.

        Args:
            step: Steps done so far; it decides the seeds.
            with_policy: Runs an async job with the newest policy.

        Raises:
            EnvError: Most episodes failed, or the members of a group began from different prompts.
            JudgeFailure: More groups than ``max_judge_failures`` allows had no rewards, or all.
        """
        config = self.config
        began = time.monotonic()
        cost_before = self.reward.cost_usd
        kept: list[Group] = []
        rewarded: list[Group] = []
        sampled: list[Trajectory] = []
        dropped = asked = 0
        for _ in range(1 + config.refill_rounds):
            missing = config.groups_per_step - len(kept)
            if missing == 0:
                break
            groups, verdicts = self._rollout(missing, step, with_policy)
            dropped += missing
            asked += sum(group.failed < config.group_size for group in groups)
            rewarded += [verdict.played_out() for verdict in verdicts if verdict is not None]
            sampled += [t for pair in zip(groups, verdicts, strict=True) for t in _with_rewards(*pair)]
            kept = [group for group in rewarded if has_spread(group.rewards)]
        self._check_failures(sampled, asked, len(rewarded))
        segments: list[Segment] = []
        weights = TurnWeights(config.negative_weight, config.invalid_call_weight)
        for group in kept:
            group.advantages = group_advantages(group.rewards, scale_by_std=config.scale_by_std)
            for trajectory, advantage in zip(group.trajectories, group.advantages, strict=True):
                segments += weighted_segments(trajectory, advantage, weights)
        cost = self.reward.cost_usd
        return Batch(
            kept,
            rewarded,
            segments,
            sampled,
            dropped=dropped - len(kept),
            unrewarded=asked - len(rewarded),
            seconds=time.monotonic() - began,
            judge_cost_usd=None if cost is None else cost - (cost_before or 0.0),
        )

    def _rollout(self, count: int, step: int, with_policy: WithPolicy) -> tuple[list[Group], list[Group | None]]:
        """``count`` groups and what the reward made of each; those that were finished before are taken as they are."""
        config = self.config
        tasks = self.tasks.take(count)
        bar = self.display.progress(f"rollout {step + 1}:", count * config.group_size)

        def count_in(trajectory: Trajectory) -> None:
            reward = {"reward": trajectory.reward} if trajectory.is_played_out else {}
            bar.update(1, **reward, completion_tokens=trajectory.num_sampled_tokens)

        async def run(policy: Policy) -> tuple[list[Group], list[Group | None]]:
            sampling = SamplingParams(config.temperature, config.max_turn_tokens)
            rollout = Rollout(self.pool, self.chat, policy, sampling, config.max_tokens, config.concurrency)
            finished = {task: group for task, group in self.finished.of(step).items() if task in tasks}
            if finished:
                self.display.note(f"step {step + 1}: {len(finished)} of {count} groups were finished before")
            for group in finished.values():
                for trajectory in group.trajectories:
                    count_in(trajectory)
            missing = [task for task in tasks if task not in finished]
            specs = group_specs(missing, config.group_size, "train", config.seed, step)
            open_groups: dict[Task, list[Trajectory]] = {}
            rewards: dict[Task, asyncio.Task[Group | None]] = {}

            def on_done(trajectory: Trajectory) -> None:
                count_in(trajectory)
                members = open_groups.setdefault(trajectory.task, [])
                members.append(trajectory)
                if len(members) == config.group_size:
                    members.sort(key=lambda t: t.sample)
                    rewards[trajectory.task] = asyncio.create_task(self._reward(members, step))

            try:
                await rollout.run(specs, on_done)
                members = {task: group.trajectories for task, group in finished.items()} | open_groups
                groups = into_groups([t for task in tasks for t in members[task]], config.group_size)
                return groups, [finished.get(task) or await rewards[task] for task in tasks]
            finally:
                for task in rewards.values():
                    task.cancel()

        groups = with_policy(run)
        bar.close()
        return groups

    async def _reward(self, members: Sequence[Trajectory], step: int) -> Group | None:
        whole = [t for t in members if t.stop_reason is not StopReason.FAILED]
        verdict = await self.reward.reward(Group(members[0].task, whole)) if whole else None
        if verdict is not None and len(whole) == len(members):
            self.finished.add(step, verdict)
        return verdict

    def _check_failures(self, sampled: Sequence[Trajectory], asked: int, rewarded: int) -> None:
        failed = [t for t in sampled if t.stop_reason is StopReason.FAILED]
        if failed and len(failed) > len(sampled) / 2:
            raise EnvError(f"{len(failed)} of {len(sampled)} episodes of a step failed; the first: {failed[0].error}")
        bound = self.config.max_judge_failures
        if asked - rewarded > bound * asked or rewarded == 0:
            raise JudgeFailure(
                f"{asked - rewarded} of {asked} groups of a step have no rewards, above the bound of {bound:g} of them "
                f"(max_judge_failures); the last error: {self.reward.last_error}. The checkpoint of the step before is "
                "kept; mend the judge and go on with --resume"
            )


def _mean_and_std(rewards: Sequence[float]) -> dict[str, float]:
    if not rewards:
        return {}
    mean = math.fsum(rewards) / len(rewards)
    return {
        "reward/mean": mean,
        "reward/std": math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / len(rewards)),
    }


def _with_rewards(group: Group, verdict: Group | None) -> list[Trajectory]:
    """All members of a group, those that were rewarded in their rewarded form."""
    rewarded = {t.sample: t for t in verdict.trajectories} if verdict is not None else {}
    return [rewarded.get(t.sample, t) for t in group.trajectories]
