import asyncio
import itertools
import re

import pytest

from grpo.agents.playing import PolicyAgents
from grpo.config import TrainConfig, load_config
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.envs.workers import EnvWorkers
from grpo.episodes.tasks import TaskStream
from grpo.errors import EnvError, TrainingError
from grpo.learner.segments import TurnWeights, segments_of
from grpo.training.imitation import (
    demonstrate,
    demonstrations,
    scripted_episodes,
    taught_episodes,
    warm_start_rate,
)
from grpo.types import Task
from judges.common.tool_calls import format_call
from tests.support.envs import ENDLESS_ENV, SUMS_ENV, WORD_ENV
from tests.support.episodes import ids_of, mask_of
from tests.support.model_server import ModelServer, sums
from tests.support.policies import ByteChat


def config(policy: str, max_tokens: int, keep: str = "rewarded") -> TrainConfig:
    settings = {"warm_start.policy": policy, "warm_start.keep": keep, "rollout.max_tokens": max_tokens}
    return load_config(None, {"env": WORD_ENV, **settings})


def shown(env, stream, settings):
    return demonstrations(scripted_episodes(env, stream, ByteChat(), settings.warm_start.policy), settings)


def test_a_demonstration_has_the_same_ids_as_a_rollout_of_the_same_words():
    env = MessageEnv(WORD_ENV, {})
    chat = ByteChat()
    trajectory = demonstrate(env, Task(0, "train-maple"), chat, "oracle", 0)
    prompt = chat.prompt_ids(trajectory.messages[:2], [])
    assert ids_of(trajectory) == [*prompt, *b"It is maple.", 256]
    assert mask_of(trajectory) == [False] * len(prompt) + [True] * 13
    assert (trajectory.reward, trajectory.metrics["success"]) == (1.0, 1.0)


def test_demonstrations_go_through_the_tasks_and_leave_out_what_is_too_long():
    stream = TaskStream([f"train-{w}" for w in ("falcon", "maple", "harbor", "quartz")], 0)
    found = list(itertools.islice(shown(MessageEnv(WORD_ENV, {}), stream, config("oracle", 1000)), 4))
    said = [bytes(i for i, flag in zip(s.ids, s.action_mask, strict=True) if flag and i < 256) for s in found]
    assert sorted(said) == [b"It is falcon.", b"It is harbor.", b"It is maple.", b"It is quartz."]
    assert stream.position == 4


class Stumbler:
    """Says some words, of which some are not to be imitated."""

    def __init__(self, words, imitated):
        self._turns = iter(zip(words, imitated, strict=True))

    def act(self, observation, info):
        word, self.imitate = next(self._turns)
        return word


@pytest.mark.parametrize(
    ("imitated", "learned"),
    [((False, True, True), b"oakmaple"), ((True, True, True), b"oakmaple"), ((True, False, True), b"maple")],
)
def test_errors_of_turns_that_are_not_imitated_are_no_errors_of_others(imitated, learned, monkeypatch):
    env = MessageEnv(WORD_ENV, {})
    stumbler = Stumbler(["ash?", "oak", "maple"], imitated)
    monkeypatch.setattr(env, "scripted_policy", lambda name, seed: stumbler)
    trajectory = demonstrate(env, Task(0, "train-maple"), ByteChat(), "stumbler", 0)
    rows = segments_of(trajectory, 1.0, TurnWeights(invalid_calls=0.0))
    said = b"".join(
        bytes(i for i, a in zip(r.ids, r.action_mask, strict=True) if a and i < 256) for r in rows if r.advantage
    )
    assert said == learned


def test_an_unknown_expert_names_the_ones_there_are():
    with pytest.raises(EnvError, match="has no scripted policy 'wizard'; it offers: oracle"):
        demonstrate(MessageEnv(WORD_ENV, {}), Task(0), ByteChat(), "wizard", 0)


def test_a_demonstration_that_does_not_end_is_an_error():
    with pytest.raises(TrainingError, match=r"demonstration of 'walker' in \S+ did not end within 1,000 turns; give"):
        demonstrate(MessageEnv(ENDLESS_ENV, {}), Task(0), ByteChat(), "walker", 0)


def test_where_the_env_tells_no_success_every_demonstration_is_taken():
    env = MessageEnv("CliffWalking-v1", {"max_episode_steps": 3})
    found = shown(env, TaskStream(None, 0), config("random", 5000))
    text = ByteChat().decode(next(found).ids)
    assert text.count('"name": "act", "arguments": {"action": ') == 3


def test_what_the_env_does_not_reward_is_imitated_where_all_is_kept():
    def first(keep):
        env = MessageEnv(SUMS_ENV, {})
        found = shown(env, TaskStream(env.scenario_ids(), 0), config("silly", 5000, keep))
        return next(found)

    with pytest.raises(TrainingError, match="200 demonstrations of 'silly' in a row failed"):
        first("rewarded")
    assert any(first("all").action_mask)


def test_demonstrations_of_which_none_can_be_used_end_with_an_error_instead_of_never():
    env = MessageEnv("CliffWalking-v1", {"max_episode_steps": 3})
    found = shown(env, TaskStream(None, 0), config("random", 64))
    with pytest.raises(
        TrainingError, match=r"200 demonstrations of 'random' in a row failed or were longer than .* 64"
    ):
        next(found)


def test_the_learning_rate_rises_for_five_steps_and_falls_to_nothing():
    rates = [warm_start_rate(step, 20, 1.0) for step in range(20)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[4] == pytest.approx(16 / 20)
    assert rates[19] == pytest.approx(1 / 20)


@pytest.mark.parametrize("teacher", ["script", "model"])
def test_an_agent_is_taught_in_its_own_prompts_by_a_script_or_a_model(teacher):
    pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")

    def play(messages, tools):
        assert messages[0]["content"].startswith("You add.\n\nWhat is"), "as the agent asks, not as the env does"
        return sums(messages, tools)

    with ModelServer(play) as server:
        warm_start = {"model": f"openai:m@{server.url}"} if teacher == "model" else {"policy": "oracle"}
        rollout = {"max_tokens": 5000, "max_turn_tokens": 200}
        settings = load_config(
            None,
            {"env": SUMS_ENV, "warm_start": warm_start, "rollout": rollout, "agent": "tests.support.agents:by_chat"},
        )
        agents = PolicyAgents(settings.rollout, settings.agent)
        asyncio.run(agents.open())
        try:
            with EnvPool(SUMS_ENV, {}, EnvWorkers(stay=True), home=agents.env_thread) as pool:
                stream = TaskStream(["sum/2", "sum/4"], 0)
                found = demonstrations(taught_episodes(agents, ByteChat(), pool, stream, settings), settings)
                first = next(found)
        finally:
            asyncio.run(agents.close())
    text = ByteChat().decode(first.ids)
    said = bytes(i for i, acts in zip(first.ids, first.action_mask, strict=True) if acts and i < 256).decode()
    number = int(re.search(r"What is (\d+)", text)[1])
    asked = format_call("double", {"number": number}) if teacher == "model" else ""
    assert said == f"{asked}{2 * number}"
    assert text.startswith("You add.\n\nWhat is")
