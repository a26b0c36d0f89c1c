"""The rollout: many episodes at once against one policy, token-in and token-out.

Episodes run as coroutines in one thread. A cheap env is called there, too; one that waits or computes for longer has a
thread or a process of its own (`grpo.envs.pool`). Every id list is appended to and never re-rendered, so the trainer
sees exactly what the sampler saw. A harness fault ends its own episode, is recorded with its reason, and is never
turned into a zero reward.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from grpo.chat import Chat, next_prompt
from grpo.chat.tool_calls import final_answer
from grpo.envs.message_env import Observation
from grpo.envs.pool import EnvPool, Seat
from grpo.episodes.marking import Marker
from grpo.errors import ConfigError, EnvError, GrpoError, ServerDiedError
from grpo.seeds import derive_seed
from grpo.serving.policy import Policy, SamplingParams
from grpo.types import Group, Message, StopReason, Task, Trajectory

OnTrajectory = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """One episode to run: its task, which of the task's episodes it is, and the seed of its sampling."""

    task: Task
    sample_index: int
    seed: int


@dataclass(slots=True)
class Rollout:
    """Everything an episode needs besides its task: envs, chat format, policy, limits, and who marks its answer.

    At most ``concurrency`` episodes are played at once; rollouts that share a ``gate`` are bounded by it together.
    ``max_tokens`` bounds what the policy sees at once, the turn it samples included. An episode goes on while there is
    room for half a turn of ``sampling.max_turn_tokens``.
    """

    pool: EnvPool
    chat: Chat
    policy: Policy
    sampling: SamplingParams
    max_tokens: int
    concurrency: int = 64
    marker: Marker | None = None
    gate: asyncio.Semaphore | None = None
    lost: ServerDiedError | None = field(default=None, init=False)
    """Why episodes failed where no server was left to ask."""
    _gate: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._gate = self.gate or asyncio.Semaphore(self.concurrency)

    async def group(self, task: Task, size: int, *seed_parts: int | str, on_done: OnTrajectory | None = None) -> Group:
        """Play a group: ``size`` episodes of one task, each with a sampling seed of its own from ``seed_parts``.

        Raises:
            EnvError: Its members did not begin from the same prompt.
        """
        return group_of(await self.run(group_specs([task], size, *seed_parts), on_done))

    async def run(self, specs: Sequence[EpisodeSpec], on_done: OnTrajectory | None = None) -> list[Trajectory]:
        """Play all episodes; results in the order of ``specs``."""

        async def one(spec: EpisodeSpec) -> Trajectory:
            async with self._gate:
                trajectory = await self._episode(spec)
            if self.marker is not None:  # a judge is waited for while others play
                trajectory = await self.marker.marked(trajectory)
            if on_done is not None:
                on_done(trajectory)
            return trajectory

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(spec)) for spec in specs]
        return [task.result() for task in tasks]

    async def _episode(self, spec: EpisodeSpec) -> Trajectory:
        trajectory = Trajectory(self.pool.env_id, spec.task, spec.sample_index, self.policy.version)
        began = time.monotonic()
        try:
            seat = await self.pool.seat()
            try:
                with self.policy.session(spec.task) as policy:
                    await self._play(seat, spec, trajectory, policy)
            finally:
                self.pool.leave(seat)
        except GrpoError as error:
            trajectory.stop_reason, trajectory.error = StopReason.FAILED, str(error)
            if isinstance(error, ServerDiedError):
                self.lost = error
        trajectory.seconds = time.monotonic() - began
        return trajectory

    async def _play(self, env: Seat, spec: EpisodeSpec, trajectory: Trajectory, policy: Policy) -> None:
        observation = await env.reset(spec.task)
        begin(trajectory, observation, self.chat)
        longest_prompt = self.max_tokens - max(1, self.sampling.max_turn_tokens // 2)
        if len(trajectory.token_ids) > longest_prompt:
            raise ConfigError(
                f"the first prompt of {spec.task.key!r} has {len(trajectory.token_ids)} tokens; rollout.max_tokens "
                f"{self.max_tokens} with rollout.max_turn_tokens {self.sampling.max_turn_tokens} leaves room for one "
                f"of {longest_prompt}. Raise rollout.max_tokens or give the env less to say"
            )
        done, said = False, ""
        while not done:
            prompt_ids = trajectory.context_ids
            turn = await policy.sample(
                prompt_ids,
                self.sampling,
                max_tokens=min(self.sampling.max_turn_tokens, self.max_tokens - len(prompt_ids)),
                seed=derive_seed(spec.seed, trajectory.num_turns),
            )
            trajectory.append(turn.ids, turn.logprobs)
            trajectory.cut_turns += turn.finish_reason == "length"
            said = self.chat.decode(turn.ids)
            trajectory.messages.append({"role": "assistant", "content": said})
            done = take_turn(trajectory, await env.step(said), self.chat, longest_prompt)
        if self.marker is not None and trajectory.stop_reason is StopReason.TERMINATED:
            given = final_answer(said)
            trajectory.answer_key = await env.answered(given[0] if given else None)


def begin(trajectory: Trajectory, observation: Observation, chat: Chat) -> None:
    """Open a trajectory with the first observation's messages, tools and prompt ids."""
    trajectory.messages = list(observation.messages)
    trajectory.tools = observation.tools
    trajectory.metrics = observation.metrics
    trajectory.append(chat.prompt_ids(observation.messages, observation.tools))


def take_turn(trajectory: Trajectory, observation: Observation, chat: Chat, longest_prompt: int | None = None) -> bool:
    """Append what the env answered to the turn that was said; says whether the episode is over.

    The episode is over, too, where the next prompt would have more than ``longest_prompt`` tokens; it is not appended.
    """
    trajectory.turn_errors.append(str(observation.info.get("error", "")))
    trajectory.reward += observation.reward
    trajectory.metrics = observation.metrics
    over = True
    if observation.terminated or observation.truncated:
        trajectory.stop_reason = StopReason.TERMINATED if observation.terminated else StopReason.TRUNCATED
    elif not _answer(trajectory, chat, observation.messages, longest_prompt):
        trajectory.stop_reason = StopReason.CONTEXT_FULL
    else:
        over = False
    trajectory.messages.extend(observation.messages)
    return over


def _answer(trajectory: Trajectory, chat: Chat, new: list[Message], longest_prompt: int | None) -> bool:
    """Go on with the env's messages, in a new segment where the template rewrites what was said; False without room."""
    seen = trajectory.context_ids
    prompt, rewritten = next_prompt(chat, seen, trajectory.messages, new, trajectory.tools)
    if longest_prompt is not None and len(prompt) > longest_prompt:
        return False
    if rewritten:
        trajectory.fork(prompt)
    else:
        trajectory.append(prompt[len(seen) :])
    return True


def group_specs(tasks: Sequence[Task], group_size: int, *seed_parts: int | str) -> list[EpisodeSpec]:
    """The episodes of ``tasks`` x ``group_size`` members, group by group, each with a seed of its own.

    A scenario that comes again, in the same step or in a later epoch, has a task of another seed, and other episodes.
    """
    return [
        EpisodeSpec(task, index, derive_seed(*seed_parts, task.key, task.seed, index))
        for task in tasks
        for index in range(group_size)
    ]


def group_of(trajectories: Sequence[Trajectory]) -> Group:
    """The episodes of one task as a group.

    Raises:
        EnvError: They did not begin from the same prompt.
    """
    task = trajectories[0].task
    whole = [t for t in trajectories if t.stop_reason is not StopReason.FAILED]
    prompts = {tuple(t.token_ids[: _prompt_length(t)]) for t in whole}
    if len(prompts) > 1:
        raise EnvError(
            f"the members of group {task.key!r} began from {len(prompts)} different prompts; "
            "the env must give the same first observation for the same seed and scenario"
        )
    return Group(task, list(trajectories))


def _prompt_length(trajectory: Trajectory) -> int:
    try:
        return trajectory.action_mask.index(True)
    except ValueError:
        return len(trajectory.action_mask)
