"""Envs of third parties: how they are found, what they may do wrong, and that nothing of it becomes a zero reward."""

import asyncio
import contextlib
import re
import sys

import gymnasium
import numpy as np
import pytest

from grpo.config import TrainConfig
from grpo.doctor.checks import check_env, examine
from grpo.ending import Ending
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.envs.registry import make_env
from grpo.errors import ConfigError, EnvError
from grpo.serving.policy import SamplingParams
from grpo.types import Task
from tests.support.agents import Unwritable
from tests.support.envs import WORD_ENV, WordEnv
from tests.support.episodes import planned, player
from tests.support.policies import ByteChat, ScriptedPolicy


def flat_tool():
    return {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}


def as_tool(function):
    return {"type": "function", "function": function}


RESETS = {
    "no messages": lambda text, info: info.pop("messages"),
    "no messages at all": lambda text, info: info.clear(),
    "empty messages": lambda text, info: info.update(messages=[]),
    "messages as text": lambda text, info: info.update(messages="Hello"),
    "unknown role": lambda text, info: info["messages"].append({"role": "bot", "content": "Hi."}),
    "tools as a dict": lambda text, info: info.update(tools={"look": flat_tool()}),
    "flat tools": lambda text, info: info.update(tools=[flat_tool()]),
    "tools without parameters": lambda text, info: info.update(tools=[as_tool({"name": "look"})]),
    "tools without a name": lambda text, info: info.update(tools=[as_tool({**flat_tool(), "name": None})]),
    "one tool twice": lambda text, info: info.update(tools=[as_tool(flat_tool())] * 2),
    "tools no JSON": lambda text, info: info.update(tools=[as_tool({**flat_tool(), "strict": {1, 2}})]),
    "no tools": lambda text, info: info.pop("tools"),
    "metrics as a list": lambda text, info: info.update(metrics=[1.0]),
}
"""What a reset gives otherwise, by the flaw."""

STEPS = {
    "no messages in step": lambda v: v[4].pop("messages"),
    "bad message": lambda v: v[4].update(messages=[{"role": "tool", "content": None}]),
    "an assistant's message": lambda v: v[4].update(messages=[{"role": "assistant", "content": "Mine."}]),
    "nan reward": lambda v: v.__setitem__(1, float("nan")),
    "no reward": lambda v: v.__setitem__(1, None),
    "text reward": lambda v: v.__setitem__(1, "1"),
    "text terminated": lambda v: v.__setitem__(2, "no"),
    "truncated is None": lambda v: v.__setitem__(3, None),
    "nan metric": lambda v: v[4]["metrics"].update(turns=float("nan")),
    "text metric": lambda v: v[4]["metrics"].update(turns="many"),
    "other metrics": lambda v: v[4]["metrics"].pop("turns"),
    "unknown error code": lambda v: v[4].update(error="oops"),
    "error is None": lambda v: v[4].update(error=None),
    "no observation": lambda v: v.__setitem__(0, None),
    "info is a list": lambda v: v.__setitem__(4, []),
    "four values": lambda v: v.pop(3),
}


class Flawed(WordEnv):
    """A word env that does one thing wrong, named by ``flaw``."""

    made = 0

    def __init__(self, flaw=""):
        super().__init__()
        type(self).made += 1
        self.flaw = flaw
        if flaw == "policies as a list":
            self.scripted_policies = ["oracle"]
        if flaw == "constructor raises":
            raise OSError("no such socket")
        if flaw == "constructor leaves":
            raise SystemExit("out of coins")

    def scenario_ids(self):
        if self.flaw == "ids raise":
            raise OSError("the list is gone")
        odd = {"ids as text": "abc", "ids as numbers": [1, 2], "an id twice": ["train-maple"] * 2, "no ids": []}
        return odd[self.flaw] if self.flaw in odd else super().scenario_ids()

    def reset(self, *, seed=None, options=None):
        text, info = super().reset(seed=seed, options=options)
        RESETS.get(self.flaw, lambda text, info: None)(text, info)
        if self.flaw == "another beginning":
            info["messages"][1]["content"] += str(np.random.default_rng().integers(2**60))
        if self.flaw == "the old Gym's reset":
            return text
        return text, info

    def step(self, action):
        values = list(super().step(action))
        STEPS.get(self.flaw, lambda values: None)(values)
        if self.flaw == "raises" and "boom" in action:
            raise ZeroDivisionError("division by zero")
        if self.flaw == "drawer":
            return {}["drawer"]
        if self.flaw == "cancels itself":
            raise asyncio.CancelledError
        if self.flaw == "runs a loop":
            with contextlib.closing(asyncio.new_event_loop()) as loop:
                loop.call_soon(loop.stop)
                loop.run_forever()
        if self.flaw == "unwritable":
            raise Unwritable
        if self.flaw == "leaves":
            sys.exit("bye")
        if self.flaw == "fails in a library":
            np.ones(3).reshape(2)
        if self.flaw == "numpy":
            info = {**values[4], "metrics": {"success": np.bool_(True), "turns": np.int32(2), "difficulty_easy": 1}}
            return values[0], np.float32(0.5), np.bool_(False), np.bool_(True), info
        return tuple(values)

    def close(self):
        if self.flaw in ("raises", "close raises"):
            raise RuntimeError("already gone")


gymnasium.register("tests/Flawed-v0", entry_point=Flawed)
gymnasium.register("tests/FlawedLimited-v0", entry_point=Flawed, max_episode_steps=5)

BREACHES = [
    ("no messages", r"gives info\['scenario_id'\] but no info\['messages'\] at reset"),
    ("empty messages", r"gives an empty info\['messages'\] at reset"),
    ("messages as text", r"gives info\['messages'\] = 'Hello' at reset; messages are a list"),
    ("unknown role", "'role': 'bot'.* at reset; its role is one of system, user, assistant, tool"),
    ("tools as a dict", r"gives info\['tools'\] = \{'look': .* at reset; tools are a list of OpenAI function schemas"),
    ("flat tools", "gives the tool {.*'name': 'look'.* at reset; a tool is {'type': 'function', 'function': {"),
    (
        "tools without parameters",
        "gives the tool 'look' with the parameters None at reset; .* a tool that takes nothing has",
    ),
    ("tools without a name", "at reset; a tool's function has a 'name', a text"),
    ("one tool twice", "gives two tools of the name 'look' at reset"),
    ("tools no JSON", "gives the tool 'look' at reset; JSON cannot hold it: .*set"),
    ("no tools", r"gives no info\['tools'\] at reset; .*, \[\] where there are none"),
    ("metrics as a list", r"gives info\['metrics'\] = \[1.0\] at reset; metrics are a dict of numbers"),
    ("no messages in step", r"no info\['messages'\] \(but \['error', 'metrics', 'stop_reason'\]\) at step"),
    ("bad message", "a message is a dict with 'role' and 'content', both text"),
    ("an assistant's message", "at step; its role is one of tool, user"),
    ("nan reward", "gives the reward nan at step; a reward must be a finite number"),
    ("no reward", "gives the reward None at step"),
    ("text reward", "gives the reward '1' at step"),
    ("text terminated", "gives terminated = 'no' at step; terminated is True or False"),
    ("truncated is None", "gives truncated = None at step"),
    ("text metric", r"info\['metrics'\]\['turns'\] = 'many' at step; a metric is a finite number"),
    ("nan metric", r"info\['metrics'\]\['turns'\] = nan at step; a metric is a finite number"),
    ("other metrics", r"other info\['metrics'\] at step than at its first reset \(different: turns\)"),
    ("unknown error code", r"info\['error'\] = 'oops' at step; an error code is one of '', 'bad_json'"),
    ("error is None", r"info\['error'\] = None at step"),
    ("no observation", "gives the observation None"),
    ("info is a list", r"gives the info \[\] at step; info is a dict"),
    ("four values", r"step(.* want \(observation, reward, terminated, truncated, info\)|: .* \(expected 5, got 4\))"),
    ("the old Gym's reset", r"\.reset\(\) returns 'The word begins with .*; want \(observation, info\)$"),
    ("ids as text", r"scenario_ids\(\) gives 'abc'; scenario ids are a list of texts"),
    ("ids as numbers", r"scenario_ids\(\) gives \[1, 2\]; scenario ids are a list of texts"),
    ("an id twice", r"scenario_ids\(\) gives 'train-maple' twice"),
    ("no ids", "names no scenario; choose another split or other data"),
    ("ids raise", r"failed at scenario_ids: OSError: the list is gone \(test_message_env.py:\d+\)$"),
    ("policies as a list", r"\.scripted_policies is \['oracle'\]; it is a dict of names and classes"),
    ("cancels itself", r"failed at step: CancelledError \(test_message_env.py:\d+\)$"),
    ("runs a loop", r"failed at step: RuntimeError: .* while another loop is running \(test_message_env.py:\d+\)$"),
    ("drawer", r"failed at step: KeyError: 'drawer' \(test_message_env.py:\d+\)$"),
    ("unwritable", r"failed at step: Unwritable \(test_message_env.py:\d+\)$"),
    ("leaves", r"failed at step: SystemExit: bye \(test_message_env.py:\d+\)$"),
    ("fails in a library", r"failed at step: ValueError: cannot reshape .* \(test_message_env.py:\d+\)$"),
]


@pytest.mark.parametrize(("flaw", "message"), BREACHES)
@pytest.mark.parametrize("name", ["Flawed", "FlawedLimited"])
def test_what_is_against_the_contract_is_named(name, flaw, message):
    env = MessageEnv(f"tests/{name}-v0", {"flaw": flaw})

    async def play():  # as training and evaluations do
        env.reset(env.first_task())
        env.scripted_names()
        env.step("maple")

    with pytest.raises(EnvError, match=rf"^tests/{name}-v0.*{message}"):
        asyncio.run(play())
    assert env.broken or "ids" in flaw or flaw in ("an id twice", "policies as a list")


@pytest.mark.parametrize(("flaw", "message"), BREACHES[::5])
def test_the_doctor_finds_what_is_against_the_contract(flaw, message):
    config = TrainConfig(env="tests/Flawed-v0", env_kwargs={"flaw": flaw})
    (result,) = examine([("env", lambda: check_env(config))])
    assert result.status == "failed"
    assert re.search(message.rstrip("$"), result.found), result.found


def test_an_env_that_fails_at_close_says_so_in_one_line():
    env = MessageEnv("tests/Flawed-v0", {"flaw": "close raises"})
    with pytest.raises(
        EnvError, match=r"^tests/Flawed-v0 failed at close: RuntimeError: already gone \(test_mess\S+\)$"
    ):
        env.close()


def test_half_a_character_that_an_env_repeats_does_not_reach_a_tokenizer():
    class Echo(WordEnv):
        def step(self, action):
            values = super().step(action)
            values[4]["messages"] = [{"role": "tool", "content": f"{action} é", "name": "echo"}]
            return values

    gymnasium.register("tests/Echo-v0", entry_point=Echo)
    env = MessageEnv("tests/Echo-v0", {})
    env.reset(Task(0))
    assert env.step("half \ud83d").messages == [{"role": "tool", "content": "half ? é", "name": "echo"}]


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


def playing(pool, *turns, concurrency=1):
    """A player of a policy that says these turns."""
    policy = ScriptedPolicy(ByteChat(), list(turns))
    return player(pool, policy.chat, policy, SamplingParams(1.0, 64), 400, concurrency)


async def test_an_env_that_raises_fails_its_episode_and_is_replaced():
    pool = EnvPool("tests/Flawed-v0", {"flaw": "raises"})
    Flawed.made = 0
    broken, again = await playing(pool, "oak", "boom").all(planned(Task(0, "train-maple"), 2))
    for trajectory in (broken, again):
        assert trajectory.ending is Ending.INFRASTRUCTURE
        said = r"tests/Flawed-v0 failed at step: ZeroDivisionError: division by zero \(test_message_env.py:\d+\)"
        assert re.fullmatch(said, trajectory.error)
    assert Flawed.made == 2, "the env that had raised was not used again"
    (trajectory,) = await playing(pool, "maple").all(planned(Task(0, "train-maple"), 1))
    assert (trajectory.ending, trajectory.reward) == (Ending.ANSWERED, 1.0)
    assert Flawed.made == 3


async def test_an_env_that_cannot_be_made_ends_what_would_play_it():
    pool = EnvPool("tests/Flawed-v0", {"flaw": "constructor raises"})
    with pytest.raises(EnvError, match=r"could not be made .*: OSError: no such socket"):
        await playing(pool, "maple", concurrency=2).all(planned(Task(0), 2))


async def test_members_of_an_env_that_ignores_its_seed_stop_the_run():
    pool = EnvPool("tests/Flawed-v0", {"flaw": "another beginning"})
    said = r"begins sample 1 of 'train-maple' with another prompt than the sample before; the same seed \(\d+\) and"
    with pytest.raises(EnvError, match=said):
        await playing(pool, "maple", concurrency=4).group(Task(0, "train-maple"), 3, "t")


def test_a_text_env_without_any_of_the_contract_is_wrapped():
    first = MessageEnv("tests/Flawed-v0", {"flaw": "no messages at all"}).reset(Task(0))
    assert "Call act with action: text of 1 to 200 characters, each one of [0123456789A" in first.messages[0]["content"]


@pytest.mark.parametrize(
    ("env", "kwargs", "said"),
    [
        ("NoSuchEnv-v7", {}, "module:id"),
        (WORD_ENV, {"colour": "blue"}, r"refused the arguments \{'colour': 'blue'\}: .* keyword argument 'colour'$"),
        ("no_such_module:Env-v0", {}, "there is no module 'no_such_module'"),
        ("tests/Flawed-v0", {"flaw": "constructor raises"}, r"OSError: no such socket \(test_message_env.py:\d+\)$"),
        ("tests/Flawed-v0", {"flaw": "constructor leaves"}, r"SystemExit: out of coins \(test_message_env.py:\d+\)$"),
    ],
)
def test_an_env_that_cannot_be_made_says_what_to_do(env, kwargs, said):
    with pytest.raises((EnvError, ConfigError), match=said):
        make_env(env, **kwargs)
