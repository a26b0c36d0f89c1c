"""Envs of third parties: how they are found, what they may do wrong, and that nothing of it becomes a zero reward."""

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from grpo.envs.message_env import MessageEnv, check_env
from grpo.envs.registry import make_env, takes_split
from grpo.errors import ConfigError, EnvError
from grpo.rollout.rollout import EnvPool, Rollout, group_specs
from grpo.serving.policy import SamplingParams
from grpo.types import StopReason, Task
from tests import ROOT
from tests.fakes import WORD_ENV, ByteChat, ScriptedPolicy, WordEnv


class Flawed(WordEnv):
    """A word env that does one thing wrong, named by ``flaw``."""

    made = 0

    def __init__(self, flaw=""):
        super().__init__()
        type(self).made += 1
        self.flaw = flaw
        if flaw == "constructor raises":
            raise OSError("no such socket")

    def reset(self, *, seed=None, options=None):
        text, info = super().reset(seed=seed, options=options)
        if self.flaw == "no messages":
            del info["messages"]
        if self.flaw == "no messages at all":
            info = {}
        if self.flaw == "empty messages":
            info["messages"] = []
        if self.flaw == "another beginning":
            info["messages"][1]["content"] += str(np.random.default_rng().integers(2**60))
        return text, info

    def step(self, action):
        text, reward, terminated, truncated, info = super().step(action)
        if self.flaw == "raises" and "boom" in action:
            raise ZeroDivisionError("division by zero")
        if self.flaw == "no messages in step":
            del info["messages"]
        if self.flaw == "bad message":
            info["messages"] = [{"role": "tool", "content": None}]
        if self.flaw == "nan reward":
            reward = float("nan")
        if self.flaw == "text metric":
            info["metrics"]["turns"] = "many"
        if self.flaw == "other metrics":
            del info["metrics"]["turns"]
        if self.flaw == "four values":
            return text, reward, terminated, info
        if self.flaw == "numpy":
            info["metrics"] = {"success": np.bool_(True), "turns": np.int32(2), "difficulty_easy": 1}
            return text, np.float32(0.5), np.bool_(False), np.bool_(True), info
        return text, reward, terminated, truncated, info

    def close(self):
        if self.flaw == "raises":
            raise RuntimeError("already gone")


gymnasium.register("tests/Flawed-v0", entry_point=Flawed)


@pytest.mark.parametrize(
    ("flaw", "message"),
    [
        ("no messages", r"gives info\['scenario_id'\] but no info\['messages'\] at reset"),
        ("empty messages", r"an empty info\['messages'\] at reset"),
        (
            "no messages in step",
            r"gives no info\['messages'\] at step \(it gives \['error', 'metrics', 'stop_reason'\]\)",
        ),
        ("bad message", "a message is a dict with 'role' and 'content', both text"),
        ("nan reward", "gave the reward nan at step"),
        ("text metric", r"info\['metrics'\]\['turns'\] = 'many' at step; a metric is a number"),
        ("other metrics", r"other info\['metrics'\] at step than at its first reset \(different: turns\)"),
        ("four values", "failed at step: ValueError: not enough values to unpack"),
    ],
)
def test_what_is_against_the_contract_is_named(flaw, message):
    env = MessageEnv("tests/Flawed-v0", {"flaw": flaw})

    def play():
        env.reset(Task(0))
        env.step("maple")

    with pytest.raises(EnvError, match=rf"^tests/Flawed-v0 .*{message}"):
        play()
    assert env.broken


def test_numpy_scalars_ints_and_bools_become_plain_floats_and_bools():
    env = MessageEnv("tests/Flawed-v0", {"flaw": "numpy"})
    env.reset(Task(0))
    seen = env.step("maple")
    assert (seen.reward, seen.terminated, seen.truncated) == (0.5, False, True)
    assert seen.metrics == {"success": 1.0, "turns": 2.0, "difficulty_easy": 1.0}
    assert {type(v) for v in (seen.reward, *seen.metrics.values())} == {float}
    assert {type(seen.terminated), type(seen.truncated)} == {bool}


def test_a_wrapped_text_env_still_speaks():
    class Wrapped(MessageEnv):
        def __init__(self):
            super().__init__(WORD_ENV, {})
            self.env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(self.env, 2))

    env = Wrapped()
    assert env.reset(Task(0, "train-maple")).messages[0]["content"] == "Guess the word."
    assert env.scenario_ids()[0] == "train-falcon"
    assert [env.step("oak").truncated for _ in range(2)] == [False, True]


async def test_an_env_that_raises_fails_its_episode_and_is_replaced():
    pool = EnvPool("tests/Flawed-v0", {"flaw": "raises"})
    chat = ByteChat()
    rollout = Rollout(pool, chat, ScriptedPolicy(chat, ["oak", "boom"]), SamplingParams(1.0, 64), 400, 1)
    Flawed.made = 0
    broken, again = await rollout.run(group_specs([Task(0, "train-maple")], 2, "t"))
    for trajectory in (broken, again):
        assert trajectory.stop_reason is StopReason.FAILED
        assert trajectory.error == "tests/Flawed-v0 failed at step: ZeroDivisionError: division by zero"
    assert Flawed.made == 2, "the env that had raised was not used again"
    good = Rollout(pool, chat, ScriptedPolicy(chat, ["maple"]), SamplingParams(1.0, 64), 400, 1)
    (trajectory,) = await good.run(group_specs([Task(0, "train-maple")], 1, "t"))
    assert (trajectory.stop_reason, trajectory.reward) == (StopReason.TERMINATED, 1.0)
    assert Flawed.made == 3


async def test_an_env_that_cannot_be_made_fails_its_episode_alone():
    pool = EnvPool("tests/Flawed-v0", {"flaw": "constructor raises"})
    chat = ByteChat()
    rollout = Rollout(pool, chat, ScriptedPolicy(chat, ["maple"]), SamplingParams(1.0, 64), 400, 2)
    trajectories = await rollout.run(group_specs([Task(0)], 2, "t"))
    assert {t.stop_reason for t in trajectories} == {StopReason.FAILED}
    assert "OSError: no such socket" in trajectories[0].error


async def test_members_of_an_env_that_ignores_its_seed_stop_the_run():
    chat = ByteChat()
    pool = EnvPool("tests/Flawed-v0", {"flaw": "another beginning"})
    rollout = Rollout(pool, chat, ScriptedPolicy(chat, ["maple"]), SamplingParams(1.0, 64), 400, 4)
    with pytest.raises(EnvError, match=r"'train-maple' began from 3 different prompts; .* same seed and scenario"):
        await rollout.group(Task(0, "train-maple"), 3, "t")


def test_a_text_env_without_any_of_the_contract_is_wrapped():
    first = MessageEnv("tests/Flawed-v0", {"flaw": "no messages at all"}).reset(Task(0))
    assert "Call act with action: text of at most 200 characters." in first.messages[0]["content"]


def test_an_unknown_env_and_wrong_env_arguments_say_what_to_do():
    with pytest.raises(EnvError, match="module:id"):
        make_env("NoSuchEnv-v7")
    with pytest.raises(EnvError, match=r"refused the arguments \{'colour': 'blue'\}: .* keyword argument 'colour'$"):
        make_env(WORD_ENV, colour="blue")
    with pytest.raises(ConfigError, match="there is no module 'no_such_module'"):
        make_env("no_such_module:Env-v0")
    with pytest.raises(EnvError, match="OSError: no such socket"):
        check_env("tests/Flawed-v0", {"flaw": "constructor raises"})


class Counted(WordEnv):
    made = 0

    def __init__(self, split="train"):
        type(self).made += 1


def make_counted(**kwargs):
    return Counted(**kwargs)


gymnasium.register("tests/Counted-v0", entry_point=Counted)
gymnasium.register("tests/Factory-v0", entry_point=make_counted)
gymnasium.register("tests/Lost-v0", entry_point="no_such_module:Env")


def test_split_support_is_found_without_making_an_env():
    assert takes_split(WORD_ENV)
    assert takes_split("tests/Counted-v0")
    assert not takes_split("CartPole-v1")
    assert not takes_split("tests/Factory-v0")
    assert takes_split("EmailSearch-v0")
    assert Counted.made == 0
    with pytest.raises(EnvError, match="'no_such_module:Env', which cannot be loaded"):
        takes_split("tests/Lost-v0")


def test_an_id_is_found_through_a_module_or_a_file_of_the_current_directory(tmp_path, monkeypatch):
    source = (ROOT / "examples" / "guess_number.py").read_text()
    (tmp_path / "my_guess_env.py").write_text(source.replace("GuessNumber-v0", "MyGuess-v0"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p) != tmp_path])
    assert MessageEnv("my_guess_env:MyGuess-v0", {}).reset(Task(0)).text == "Your first guess?"
    assert MessageEnv("my_guess_env.py:MyGuess-v0", {}).reset(Task(0)).text == "Your first guess?"
