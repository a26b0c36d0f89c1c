"""What a step trains on: groups are sampled, rewarded as soon as they are complete, refilled, and cut into rows.

A group is complete when its last episode ends; its reward (an LLM judge may take a while) is awaited while other groups
still roll out. Groups without rewards and groups without spread are dropped and counted.

With ``rollout.max_staleness`` the next steps' groups are begun when a step's batch is there, and played while it is
learned. With ``rollout.oversample`` more groups are begun than a step needs, and it takes those that are whole first;
the others are for the next step. A group that is too old for it is dropped and counted, and its task comes again: what
takes long is played by a newer policy, not left out.

An episode that we cut, because its context was full, is neither learned from nor part of its group's baseline (compare
DAPO's overlong filtering, arXiv 2503.14476, section 3.4, which masks its loss alone). What it would have come to is not
known: where every step costs, its reward so far beats every episode that was played out, and long turns would pay;
where every step pays, it may have been the best.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from grpo.agents.playing import PolicyAgents
from grpo.chat import Chat
from grpo.config import TrainConfig
from grpo.display.terminal import Bar, Display
from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.episodes.marking import Marker
from grpo.episodes.player import Player
from grpo.episodes.tasks import TaskStream
from grpo.errors import ConfigError, EnvError, JudgeFailure
from grpo.learner.advantages import group_advantages, has_spread, turn_advantages
from grpo.learner.segments import Segment, TurnWeights, segments_of
from grpo.serving.policy import Policy
from grpo.training.batch import Batch
from grpo.training.group_stream import GroupStream
from grpo.training.rewards import GroupReward
from grpo.training.unfinished_step import UnfinishedStep
from grpo.types import Episode, Group, Task
from judges import SpendLimitReached
from judges.scoring.types import FIRST_FAILURES, VerdictCount

Policies = Callable[[int], AbstractAsyncContextManager[Policy]]
"""Gives out the policy of a version, as `Sampler.policy` does."""

Played = tuple[Group, Group | None]
"""A group as it was sampled and as it was rewarded; without rewards None."""


@dataclass(slots=True)
class Batches:
    """Makes the batches of a run, one after another."""

    config: TrainConfig
    pool: EnvPool
    chat: Chat
    agents: PolicyAgents
    tasks: TaskStream
    reward: GroupReward
    display: Display
    unfinished: UnfinishedStep
    marker: Marker = field(default_factory=Marker)
    _stream: GroupStream[Played] | None = field(init=False, default=None)
    _gate: asyncio.Semaphore | None = field(init=False, default=None)
    _bar: Bar | None = field(init=False, default=None)
    _judged: VerdictCount = field(init=False, default_factory=VerdictCount)
    """Groups of the newest steps; a step of eight or more stands for itself."""
    _early: int = field(init=False, default=0)
    """Episodes that ended while no bar was shown."""
    _costs_before: tuple[float | None, float | None] | None = field(init=False, default=None)
    _ended: float | None = field(init=False, default=None)

    @property
    def open_tasks(self) -> list[Task]:
        """Those that were handed out and not learned from: a run that goes on from here plays them first."""
        return [*(self._stream.tasks if self._stream else ()), *self.tasks.again]

    async def next(self, step: int, policies: Policies, steps: int | None = None) -> Batch:
        """The batch of ``step``: groups with spread, refilled up to ``rollout.refill_rounds`` times.

        With ``rollout.max_staleness`` it is called in one event loop; groups of later steps are under way in it when it
        returns.

        Args:
            step: Steps done so far; it decides the seeds, and is the version of the newest policy.
            policies: Where to get the policy of a version.
            steps: How many the run has in all; by default the config's.

        Raises:
            EnvError: Most episodes failed, or the members of a group began from different prompts.
            ConfigError: No episode had room for its first turn.
            JudgeFailure: More groups than ``judge.max_failures`` allows had no rewards, or the judge's money is spent.
        """
        settings = self.config.rollout
        began = time.monotonic()
        costs_before = self._costs_before or self._costs()
        if self._stream is None or settings.max_staleness == 0:
            self._stream, self._gate = GroupStream(), asyncio.Semaphore(settings.concurrency)
        groups: list[Played] = []
        rewarded: list[Group] = []
        used: list[Group] = []
        try:
            for _ in range(1 + settings.refill_rounds):
                missing = settings.groups_per_step - len(used)
                if missing == 0:
                    break
                self._fill(missing + settings.oversample, step, policies, step - settings.max_staleness)
                groups += await self._take(self._stream, missing, step)
                rewarded = [group.compared() for _, group in groups if group is not None]
                used = [group for group in rewarded if has_spread(group.rewards)]
            sampled = [episode for pair in groups for episode in _with_rewards(*pair)]
            # of the others all episodes failed, and not for want of a verdict
            asked = sum(any(e.ending.counted or e.unmarked for e in group.episodes) for group, _ in groups)
            try:
                self._check_failures(sampled, asked, len(rewarded))
            except ConfigError:
                self.unfinished.clear()  # what cannot be learned from must not meet the run again
                raise
            left = (self.config.steps if steps is None else steps) - step - 1
            ahead = max(0, min(settings.max_staleness, left))
            oldest = step + 1 - settings.max_staleness if ahead else step + 1  # that the next step may learn from
            dropped = self._stream.drop_before(oldest)
            self.tasks.again += dropped
            if ahead:
                self._fill(ahead * settings.groups_per_step + settings.oversample, step, policies, oldest)
        except BaseException:
            await self._stream.close()
            raise
        judge_cost, answer_cost = (
            None if now is None else now - (before or 0.0)
            for now, before in zip(self._costs(), costs_before, strict=True)
        )
        ended = time.monotonic()
        since = began if self._ended is None else self._ended
        if settings.max_staleness:
            self._costs_before, self._ended = self._costs(), ended
        return Batch(
            used,
            rewarded,
            self._segments(used, step),
            sampled,
            dropped=len(groups) - len(used),
            unrewarded=asked - len(rewarded),
            stale=len(dropped),
            seconds=ended - began,
            sampling_seconds=ended - since,
            found_tokens=sum(e.num_sampled_tokens for group, same in groups if group is same for e in group.episodes),
            judge_cost_usd=judge_cost,
            answer_cost_usd=answer_cost,
        )

    async def close(self) -> None:
        """End the groups that are under way, and close the envs, in the thread in which they were played."""
        if self._stream is not None:
            await self._stream.close()
        self.pool.close()

    def _fill(self, count: int, step: int, policies: Policies, oldest: int) -> None:
        """Begin groups with the policy of ``step`` until ``count`` are under way; those on disk are as whole as new, if
        the policy of ``oldest`` or a later one played them.
        """
        assert self._stream is not None, "there is one once a batch was asked for"
        new = self.tasks.take(max(0, count - len(self._stream)))
        found = self.unfinished.groups(step)
        on_disk = {task: group for task, group in found.items() if version_of(group) >= oldest}
        kept = [task for task in new if task in on_disk]
        if kept:
            self.display.note(f"step {step + 1}: {len(kept)} of {len(new)} groups were finished before")
        for task in new:
            group = on_disk.get(task)
            version = step if group is None else version_of(group)
            self._stream.begin(task, version, self._play(task, step, policies) if group is None else self._whole(group))

    async def _take(self, stream: GroupStream[Played], count: int, step: int) -> list[Played]:
        settings = self.config.rollout
        with self.display.progress(f"rollout {step + 1}:", len(stream) * settings.group_size) as bar:
            if self._early:
                bar.update(self._early)
            self._bar, self._early = bar, 0
            try:
                return await stream.take(count)
            finally:
                self._bar = None

    async def _play(self, task: Task, step: int, policies: Policies) -> Played:
        """A group of the policy of ``step``."""
        settings = self.config.rollout
        async with policies(step) as policy:
            agent = self.agents.agent(policy, self.chat, settings.temperature)
            player = Player(agent, self.pool, timeout_seconds=settings.timeout, marker=self.marker, gate=self._gate)
            seed_parts = "train", self.config.seed, step
            group = await player.group(task, settings.group_size, *seed_parts, on_done=self._count)
        return group, await self._reward(group, step)

    async def _whole(self, group: Group) -> Played:
        """A group that was finished before: as it was played it is no longer there, so its rewarded form is both."""
        for episode in group.episodes:
            self._count(episode)
        return group, group

    def _count(self, episode: Episode) -> None:
        if self._bar is None:
            self._early += 1
        else:
            reward = {"reward": episode.reward} if episode.ending.compared else {}
            self._bar.update(1, **reward, tokens=episode.num_sampled_tokens)

    async def _reward(self, group: Group, step: int) -> Group | None:
        whole = Group(group.task, [episode for episode in group.episodes if episode.ending.counted])
        if not whole.episodes or any(episode.unmarked for episode in group.episodes):
            return None  # a judge that failed fails the group: nothing counts as wrong
        compared = whole.compared()  # of those that were cut the return is not known: they move nobody's reward
        if compared.episodes:
            rewarded = await self.reward.reward(compared)
            if rewarded is None:
                return None
            whole = Group(group.task, _with_rewards(whole, rewarded))
        if group.failed == 0:
            self.unfinished.add(step, whole)
        return whole

    def _costs(self) -> tuple[float | None, float | None]:
        return self.reward.cost_usd, self.marker.cost_usd

    def _segments(self, groups: Sequence[Group], step: int) -> list[Segment]:
        """The rows of the groups' episodes; fills in their advantages."""
        loss = self.config.loss
        weights = TurnWeights(loss.negative_weight, loss.invalid_call_weight)
        segments: list[Segment] = []
        for group in groups:
            group.advantages = group_advantages(group.rewards, scale_by_std=loss.scale_by_std)
            staleness = step - version_of(group)
            answered = [_answered(episode) if loss.turn_credit else {} for episode in group.episodes]
            of_calls = turn_advantages(group.rewards, answered, scale_by_std=loss.scale_by_std)
            for episode, advantage, own in zip(group.episodes, group.advantages, of_calls, strict=True):
                rows = segments_of(episode, advantage, weights, own)
                segments += [replace(row, staleness=staleness) for row in rows] if staleness else rows
        return segments

    def _check_failures(self, sampled: Sequence[Episode], asked: int, rewarded: int) -> None:
        if not any(episode.calls for episode in sampled) and sampled[0].ending is Ending.CONTEXT_FULL:
            raise ConfigError(f"no episode of a step had room for a turn: {sampled[0].error}")
        if self.config.agent is not None and not any(call.sampled_ids for e in sampled for call in e.calls):
            why = next((episode.error for episode in sampled if episode.error), "it may ask another one")
            raise ConfigError(
                f"the agent has got no turn from its model in {len(sampled)} episodes, so there is nothing to learn "
                f"from ({why}); it is to ask at model.base_url (OPENAI_BASE_URL); grpo-doctor --agent shows its calls"
            )
        failed = [episode for episode in sampled if not episode.ending.counted and not episode.unmarked]
        if failed and len(failed) > len(sampled) / 2:
            raise EnvError(
                f"{len(failed)} of {len(sampled)} episodes of a step failed; the first: {failed[0].error}. The "
                "checkpoint of the step before is kept; mend that and go on with --resume"
            )
        count = self._judged
        count.usable += rewarded
        count.failed += asked - rewarded
        bound, groups = self.config.judge.max_failures, count.usable + count.failed
        is_spent = isinstance(self.reward.last_error, SpendLimitReached) or self.marker.is_spent
        if count.failed > bound * max(groups, FIRST_FAILURES) or count.is_hopeless or (is_spent and not rewarded):
            why = next((episode.unmarked for episode in sampled if episode.unmarked), self.reward.last_error)
            raise JudgeFailure(
                f"{count.failed} of the newest {groups} groups have no rewards; the last error: {why}. {bound:g} of a "
                f"step's groups may have none, or of {FIRST_FAILURES} where it has fewer (judge.max_failures). The "
                "checkpoint of the step before is kept; mend the judge and go on with --resume"
            )
        if groups >= FIRST_FAILURES:
            self._judged = VerdictCount()


def _with_rewards(group: Group, rewarded: Group | None) -> list[Episode]:
    """All members of a group, those that were rewarded in their rewarded form."""
    by_index = {e.sample_index: e for e in rewarded.episodes} if rewarded is not None else {}
    return [by_index.get(e.sample_index, e) for e in group.episodes]


def _answered(episode: Episode) -> dict[int, tuple[int, ...]]:
    """What each call answered, as the tokens that were new to the model."""
    calls = enumerate(episode.calls)
    return {number: tuple(call.prompt_ids) for number, call in calls if call.sampled_ids and not call.left_out}


def version_of(group: Group) -> int:
    """Of the policy that played it."""
    return next((e.policy_version for e in group.episodes if e.policy_version is not None), 0)
