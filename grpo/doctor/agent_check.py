"""What would be learned of an agent: two episodes of one task are played, and their calls are drawn as a tree.

Who would show it how (`grpo.training.imitation.teacher_of`) is its model; neither the policy nor a server is needed.
"""

import asyncio

from grpo.agents.playing import PolicyAgents
from grpo.chat import chat_for, load_tokenizer
from grpo.config import TrainConfig
from grpo.display.capture import drawing
from grpo.envs.pool import EnvPool
from grpo.envs.registry import with_split
from grpo.envs.workers import EnvWorkers
from grpo.episodes.player import Player
from grpo.episodes.tasks import TaskStream
from grpo.errors import EvaluationError
from grpo.machine.models import resolve_model
from grpo.training.imitation import teacher_of
from grpo.types import Episode

EPISODES = 2
LITTLE = 0.5
"""Share of the sampled tokens below which an agent fails the check."""


def check_agent(config: TrainConfig) -> str:
    """The calls of two episodes, and which share of what was said would be learned from.

    Raises:
        EvaluationError: The agent asks its model nothing, or little of what was said would be learned from.
    """
    rollout = config.rollout
    chat = chat_for(load_tokenizer(resolve_model(config.model).path), rollout.history, rollout.chat_template_kwargs)
    agents = PolicyAgents(rollout, config.agent, config.agent_python)
    kwargs = with_split(config.env, config.env_kwargs, config.train_split)

    async def play() -> list[Episode]:
        await agents.open()
        try:
            player = Player(agents.taught(teacher_of(config), chat), pool, timeout_seconds=rollout.timeout)
            (task,) = TaskStream(pool.scenario_ids(), config.seed).take(1)
            return (await player.group(task, EPISODES, "doctor", config.seed)).episodes
        finally:
            await agents.close()

    with EnvWorkers(stay=True) as workers, EnvPool(config.env, kwargs, workers, home=agents.env_thread) as pool:
        episodes = asyncio.run(play())
    calls = [call for episode in episodes for call in episode.calls]
    said = sum(len(call.sampled_ids) for call in calls)
    learned = sum(len(call.sampled_ids) for call in calls if not call.left_out)
    drawn = "\n".join(line for episode in episodes for line in drawing(episode))
    if not said:
        why = next((episode.error for episode in episodes if episode.error), "it may ask another one")
        raise EvaluationError(f"its model was asked nothing ({why}); it is to ask at model.base_url\n{drawn}")
    share = (
        f"{learned / said:.0%} of {said} sampled tokens would be learned from, in the form of {config.model}\n{drawn}"
    )
    if learned < LITTLE * said:
        raise EvaluationError(f"only {share}")
    return share
