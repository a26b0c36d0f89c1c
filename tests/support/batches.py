"""Batches of a real env with a scripted policy, for the tests of a step's batch."""

import asyncio
import tempfile
from pathlib import Path

from grpo.agents.playing import PolicyAgents
from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.envs.pool import EnvPool
from grpo.episodes.tasks import TaskStream
from grpo.serving.policy import Policy
from grpo.settings import JudgeSettings
from grpo.training.batches import Batches
from grpo.training.rewards import RulerReward
from grpo.training.unfinished_step import UnfinishedStep
from grpo.types import SampledTurn
from judges import Session
from tests.support.envs import WORD_ENV
from tests.support.policies import ByteChat, always

IDS = [f"train-{word}" for word in ("falcon", "maple", "harbor", "quartz")]


class Guesser(Policy):
    """Sees the first letter of the word in its prompt; what it says is up to ``turn(letter, member)``."""

    version = 0

    def __init__(self, turn):
        self.chat = ByteChat()
        self.turn = turn
        self.asked = dict.fromkeys("fmhq", 0)

    async def sample(self, prompt_ids, params, *, max_tokens, seed):
        letter = self.chat.decode(prompt_ids).split("begins with ")[1][0]
        self.asked[letter] += 1
        said = self.turn(letter, self.asked[letter])
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, Exception):
            raise said
        ids = [*self.chat.encode(said), ByteChat.END]
        return SampledTurn(ids, [-0.5] * len(ids), "stop")


def unfinished_step():
    """In a folder of its own."""
    return UnfinishedStep(Path(tempfile.mkdtemp()))


def batches(reward, **settings):
    rollout = {"groups_per_step": 4, "group_size": 2, "max_tokens": 400}
    config = load_config(None, {"env": WORD_ENV, "rollout": rollout, **settings})
    pool = EnvPool(WORD_ENV, {})
    return Batches(
        config,
        pool,
        ByteChat(),
        PolicyAgents(config.rollout),
        TaskStream(IDS, 0),
        reward,
        Display(quiet=True),
        unfinished_step(),
    )


def judged(server, kind=RulerReward, model="openai/judge"):
    """A reward by a judge that ``server`` stands for; the price of the usual one is not known."""
    return kind(JudgeSettings(model=model, api_base=server.url), Session())


def batch(made, turn):
    return asyncio.run(made.next(0, always(Guesser(turn))))


WORDS = {word[0]: word for word in ("falcon", "maple", "harbor", "quartz")}


def right_at_first(letter, number):
    """The first to ask is right; all others guess wrong three times."""
    return WORDS[letter] if number == 1 else "oak"
