"""The warm start: supervised steps on demonstrations that an env's scripted policy plays, or somebody's agent.

Demonstrations go through the same chat format and the same append-only ids as rollouts, so what is imitated is token
for token what will be sampled. That is why our learner does it, and not TRL's ``SFTTrainer``. Kept are the episodes
that the env rewards as a success, or all of them: then the reward has no part in the warm start.
"""

import asyncio
import math
import time
from collections.abc import Iterator

from grpo.agents.captured import ScriptTeacher
from grpo.agents.playing import PolicyAgents
from grpo.agents.upstream import Upstream, make_upstream
from grpo.chat import Chat
from grpo.chat.tree import CallTree
from grpo.config import TrainConfig
from grpo.envs.message_env import MessageEnv, Observation
from grpo.envs.pool import EnvPool, Seat
from grpo.envs.step_cost import Place
from grpo.episodes.play import MAX_TURNS, Play, Turn
from grpo.episodes.player import Player, ending_of, planned_episodes
from grpo.episodes.tasks import TaskStream
from grpo.errors import TrainingError
from grpo.learner.engine import Engine, LossSpec
from grpo.learner.segments import Segment, segments_of
from grpo.seeds import derive_seed
from grpo.types import Episode, Task
from grpo.watch import LEARNER_STANDS_STILL, Part, Waiting, computed

WARM_UP_STEPS = 5
"""Steps over which the learning rate rises."""
MAX_UNUSABLE = 200
AT_ONCE = 8
"""Episodes of the user's agent that are played at once to be imitated."""


def demonstrate(env: MessageEnv, task: Task, chat: Chat, policy_name: str, seed: int) -> Episode:
    """One episode of the env's scripted policy; its actions are kept like sampled ones, with logprob 0.

    A policy may set ``imitate`` to False for an action that is part of the demonstration but not to be learned.

    Raises:
        TrainingError: The episode does not end.
    """
    episode = Episode(env.env_id, task, seed=seed)
    play = Play(episode, Seat(Place.LOOP, lambda: env), MAX_TURNS)
    tree = CallTree(chat, episode)
    play.begin()
    policy = env.scripted_policy(policy_name, seed)

    async def speak(observation: Observation) -> Turn:
        prompt = tree.following(episode.messages, episode.tools)
        action = chat.own_form(policy.act(observation.text, observation.info), episode.tools)
        ids = chat.turn_ids(action)
        turn = {"role": "assistant", "content": action}
        if getattr(policy, "imitate", True):
            tree.said(prompt, ids, [0.0] * len(ids), sent=turn)
        else:
            tree.shown(prompt, ids, turn)
        return Turn(action)

    asyncio.run(play.converse(speak))
    if play.is_cut:
        raise TrainingError(
            f"a demonstration of {policy_name!r} in {env.env_id} did not end within {MAX_TURNS:,} turns; give the env "
            "a limit of its own, for example env_kwargs.max_episode_steps"
        )
    episode.ending, _ = ending_of(play, None)
    return episode


def is_kept(episode: Episode, config: TrainConfig) -> bool:
    """Whether a demonstration is imitated: any with ``warm_start.keep`` = all, else what the env rewards as a success.

    Where the env does not tell success (no metric of that name), every demonstration is one: such an env may have no
    reward above 0 at all, for example where every step costs.
    """
    if config.warm_start.keep == "all":
        return True
    success = episode.metrics.get("success")
    return success is None or (success > 0 and episode.reward > 0)


def scripted_episodes(env: MessageEnv, stream: TaskStream, chat: Chat, policy_name: str) -> Iterator[Episode]:
    """Endless episodes of a policy that the env brings along, in the env's own prompts."""
    while True:
        (task,) = stream.take(1)
        yield demonstrate(env, task, chat, policy_name, derive_seed(task.seed, "demonstration"))


def taught_episodes(
    agents: PolicyAgents, chat: Chat, pool: EnvPool, stream: TaskStream, config: TrainConfig
) -> Iterator[Episode]:
    """Endless episodes of the user's agent, in its own prompts, with somebody who can as its model.

    That is ``warm_start.model``, or the env's script ``warm_start.policy``.
    """
    player = Player(agents.taught(teacher_of(config), chat), pool, timeout_seconds=config.rollout.timeout)
    while True:
        yield from asyncio.run(player.all(planned_episodes(stream.take(AT_ONCE), 1, "demonstrations", config.seed)))


def teacher_of(config: TrainConfig) -> Upstream:
    """Who answers in the policy's place while an agent is shown how."""
    model = config.warm_start.model
    return ScriptTeacher(config.warm_start.policy) if model is None else make_upstream(model)


def demonstrations(episodes: Iterator[Episode], config: TrainConfig) -> Iterator[Segment]:
    """Endless segments of the ``episodes`` that ``warm_start.keep`` names, no longer than ``rollout.max_tokens``.

    Raises:
        TrainingError: ``MAX_UNUSABLE`` demonstrations in a row failed or were too long.
    """
    settings, max_tokens, unusable = config.warm_start, config.rollout.max_tokens, 0
    for episode in episodes:
        segments = segments_of(episode, advantage=1.0)
        if is_kept(episode, config) and segments and all(len(segment.ids) <= max_tokens for segment in segments):
            unusable = 0
            yield from segments
        elif (unusable := unusable + 1) == MAX_UNUSABLE:
            raise TrainingError(
                f"{MAX_UNUSABLE} demonstrations of {settings.teacher!r} in a row failed or were longer "
                f"than rollout.max_tokens = {max_tokens}; choose another warm_start.policy, shorter episodes or more "
                f"tokens{f'. The newest: {episode.error}' if episode.error else ''}"
            )


def warm_start_rate(step: int, steps: int, peak: float) -> float:
    """Rate of 0-based ``step``: linear warm-up, then linear decay to 0, so that the noise of small batches fades."""
    return peak * min(1.0, (step + 1) / WARM_UP_STEPS) * (1.0 - step / steps)


def warm_start(
    engine: Engine, segments: Iterator[Segment], config: TrainConfig, steps: int
) -> Iterator[dict[str, float]]:
    """Imitate ``steps`` batches of demonstrations; gives the metrics of each when it is done."""
    settings = config.warm_start
    for step in range(steps):
        began = time.monotonic()
        batch = [next(segments) for _ in range(settings.batch)]
        tokens = sum(segment.num_actions for segment in batch)
        rate = warm_start_rate(step, steps, settings.learning_rate)
        with Waiting(Part.LEARNER, f"an update of {len(batch)} rows", LEARNER_STANDS_STILL, pulse=computed):
            statistics = engine.forward_backward(batch, LossSpec("imitation", normalizer=tokens))
            norm = engine.optim_step(rate, config.optimizer.gradient_bound)
        loss = sum(row.loss for row in statistics)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingError(
                f"the warm start's loss is {loss} and its gradient's norm {norm} at step {step + 1}; lower its "
                "learning rate"
            )
        yield {
            "step": step + 1,
            "loss": loss,
            "grad_norm": norm,
            "lr": rate,
            "tokens": sum(len(segment.ids) for segment in batch),
            "seconds": time.monotonic() - began,
        }
