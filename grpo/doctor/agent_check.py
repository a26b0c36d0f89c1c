"""What would be learned of an agent: two episodes of one task are played, and their calls are drawn as a tree.

Who would show it how (`grpo.training.imitation.teacher_of`) is its model; neither the policy nor a server is needed.
"""

import asyncio
from collections.abc import Iterator

from grpo.agents.playing import PolicyAgents
from grpo.chat import chat_for, load_tokenizer
from grpo.config import TrainConfig
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


def drawing(episode: Episode) -> Iterator[str]:
    """An episode's calls, a line each: what it follows, its tokens, and what becomes of it."""
    yield f"  {episode.task.key}, {episode.ending}, reward {episode.reward:.2f}" + (
        f": {episode.error}" if episode.error else ""
    )
    depths: dict[int, int] = {}
    for number, call in enumerate(episode.calls):
        depth = depths[number] = 0 if call.follows is None else depths[call.follows] + 1
        fate = call.left_out or call.error or "learned"
        asked = ", ".join(f"{name} is not honoured" for name in call.asked if name not in ("tools", "stream_options"))
        why = f"; a root, for {call.differs}" if call.differs else ""
        tokens = f"{len(call.prompt_ids)} new, {len(call.sampled_ids)} sampled"
        place = "root" if call.follows is None else f"on {call.follows + 1}"
        yield f"  {'  ' * depth}{number + 1:3} {place}: {tokens}: {fate}{why}{f'; {asked}' if asked else ''}"
    if episode.late_calls:
        yield f"      {episode.late_calls} after the end, answered with what ends an agent"
