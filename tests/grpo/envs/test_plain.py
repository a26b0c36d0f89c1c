"""Plain Gymnasium envs, spoken with in messages: the real ones, and small ones whose every number is known."""

import json
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from grpo.envs.message_env import MessageEnv, check_env
from grpo.envs.plain import PlainEnv
from grpo.errors import EnvError
from grpo.types import Task
from tests import ROOT
from tests.support.envs import Toll, call

NAMES = ["FrozenLake-v1", "Blackjack-v1", "CliffWalking-v1", "CartPole-v1", "Pendulum-v1"]


def toll(max_turns=50):
    env = PlainEnv(Toll(), max_turns)
    env.reset(seed=0)
    return env


def test_frozen_lake_is_shown_as_its_map_and_says_what_its_actions_are():
    first = MessageEnv("FrozenLake-v1", {"is_slippery": False}).reset(Task(0))
    system, user = first.messages
    assert system["content"].startswith("FrozenLake-v1. Frozen lake involves crossing a frozen lake from start to goal")
    form = "integer from 0 to 3 (0 = Move left, 1 = Move down, 2 = Move right, 3 = Move up)."
    assert system["content"].endswith(f"At most 50 of the env's 100 turns. Call act with action: {form}")
    assert user == {"role": "user", "content": "[S]FFF\nFHFH\nFFFH\nHFFG"}
    (tool,) = first.tools
    assert tool["function"]["parameters"] == {
        "type": "object",
        "properties": {"action": {"type": "integer", "minimum": 0, "maximum": 3}},
        "required": ["action"],
    }


def test_the_page_on_other_envs_shows_frozen_lake_as_it_is():
    page = (ROOT / "docs/your-env.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\n(system .*?)^```$", page, re.M | re.S)
    env = MessageEnv("FrozenLake-v1", {"is_slippery": False})
    messages = env.reset(Task(0)).messages
    messages += [{"role": "assistant", "content": call(1)}, *env.step(call(1)).messages]
    real = " ".join(f"{message['role']} {message['content']}" for message in messages)
    assert re.sub(r"\s+", "", block) == re.sub(r"\s+", "", real)


def test_an_episode_of_frozen_lake_is_played_by_hand():
    env = MessageEnv("FrozenLake-v1", {"is_slippery": False})
    env.reset(Task(0))
    # every accepted form of an action, down the safe way: down, down, right, right, down, right
    turns = ["1", call(1), '{"name": "act", "arguments": {"action": "2"}}', "move right", call('"Move down"')]
    for turn in turns:
        seen = env.step(turn)
        assert (seen.reward, seen.terminated, seen.info["error"]) == (0.0, False, "")
    assert seen.messages == [{"role": "tool", "content": "reward 0, total 0\n  (Down)\nSFFF\nFHFH\nFFFH\nHF[F]G"}]
    last = env.step(call(2))
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)
    assert last.text == "reward 1, total 1, the episode is over\n  (Right)\nSFFF\nFHFH\nFFFH\nHFF[G]"
    assert last.metrics == {
        "return": 1.0, "length": 6.0, "invalid_calls": 0.0, "valid_call_rate": 1.0, "turns": 6.0,
    }  # fmt: skip


POLE = "Cart Position -0.04144, Cart Velocity -0.02632, Pole Angle 0.03013, Pole Angular Velocity 0.008216"


@pytest.mark.parametrize(
    ("name", "seen", "told"),
    [
        ("CartPole-v1", POLE, "CartPole-v1. "),
        (
            *("Pendulum-v1", "x = cos(theta) -0.8587, y = sin(theta) -0.5125, Angular Velocity -0.5264"),
            "Call act with action: number from -2.0 to 2.0 (Torque).",
        ),
        ("Blackjack-v1", "7, 10, 0", "3-tuple containing: the player's current sum"),
    ],
)
def test_numbers_have_their_names_or_are_told_of_at_the_beginning(name, seen, told):
    first = MessageEnv(name, {}).reset(Task(3))
    assert first.text == seen
    assert told in first.messages[0]["content"]


@pytest.mark.parametrize("name", NAMES)
def test_members_of_a_group_begin_equal_and_the_same_turns_lead_to_the_same_end(name):
    def play(env):
        seen = [env.reset(Task(7))]
        while not (seen[-1].terminated or seen[-1].truncated):
            seen.append(env.step(call(1) if len(seen) % 4 else "hm"))
        return [(o.messages, o.reward, o.metrics) for o in seen]

    one, other = MessageEnv(name, {}), MessageEnv(name, {})
    first = play(one)
    assert first == play(other) == play(one)
    names = ("return", "length", "invalid_calls", "valid_call_rate", "turns")
    assert {tuple(metrics) for _, _, metrics in first} == {names}
    assert all(type(value) is float for _, _, metrics in first for value in metrics.values())
    assert first[-1][2]["return"] == pytest.approx(sum(reward for _, reward, _ in first))


@pytest.mark.parametrize(
    ("turn", "code", "said"),
    [
        ("I think left is best.", "no_tool_call", "no tool was called"),
        ("", "no_tool_call", "the turn is empty"),
        ("<tool_call>act(1)</tool_call>", "bad_json", "not valid JSON"),
        ('{"name": "move", "arguments": {"action": 1}}', "unknown_tool", "there is no tool 'move'"),
        ('{"name": "act", "arguments": {"direction": 1}}', "bad_args", 'the arguments must be {"action": ...}'),
        (call(3), "bad_args", "3 is outside 1 to 2"),
        (call(1) + call(9), "bad_args", "9 is outside 1 to 2"),
        ("0", "bad_args", "0 is outside 1 to 2"),
    ],
)
def test_a_wrong_call_is_an_observation_and_the_env_does_not_move(turn, code, said):
    env = toll()
    text, reward, terminated, truncated, info = env.step(turn)
    assert said in text
    assert "Call act with action: integer from 1 to 2." in text
    # a random step costs 2, so a wrong call costs 2.1
    assert (reward, terminated, truncated, info["error"]) == (pytest.approx(-2.1), False, False, code)
    assert (env.unwrapped.place, info["metrics"]["length"], info["metrics"]["invalid_calls"]) == (0, 0.0, 1.0)
    assert (info["metrics"]["turns"], info["metrics"]["valid_call_rate"]) == (1.0, 0.0)
    assert env.step(call(1))[0] == "reward -2, total -4.1\n1"


def test_several_calls_run_in_order_until_the_episode_ends():
    env = toll()
    text, reward, terminated, _, info = env.step(call(1) * 4)
    assert (text, reward, terminated) == ("reward -8, total -8\n4", -8.0, False)
    text, reward, terminated, _, info = env.step(call(1) * 3)
    assert (text, reward, terminated) == ("reward -2, total -10, the episode is over\n5", -2.0, True)
    assert info["metrics"] == {
        "return": -10.0, "length": 5.0, "invalid_calls": 0.0, "valid_call_rate": 1.0, "turns": 2.0, "success": 1.0,
    }  # fmt: skip


def test_calls_with_ids_are_answered_one_by_one():
    env = toll()
    calls = [{"id": name, "function": {"name": "act", "arguments": '{"action": 1}'}} for name in "abc"]
    text, reward, *_, info = env.step(json.dumps({"role": "assistant", "content": None, "tool_calls": calls}))
    assert (text, reward) == ("reward -6, total -6\n3", -6.0), "as for calls without ids"
    assert info["messages"] == [
        {"role": "tool", "tool_call_id": "a", "content": "reward -2\n1"},
        {"role": "tool", "tool_call_id": "b", "content": "reward -2\n2"},
        {"role": "tool", "tool_call_id": "c", "content": "reward -2, total -6\n3"},
    ]
    assert env.step(call(1) * 2)[4]["messages"] == [
        {"role": "tool", "content": "reward -4, total -10, the episode is over\n5"}
    ]


def test_the_turn_limit_truncates_and_counts_wrong_turns():
    env = toll(max_turns=3)
    env.step("hm")
    assert env.step(call(1))[2:4] == (False, False)
    *_, truncated, info = env.step(call(1))
    assert truncated
    assert info["stop_reason"] == "max_turns"
    assert info["metrics"]["success"] == 0.0


def test_five_wrong_turns_in_a_row_end_the_episode_at_the_price_of_all_that_were_left():
    env = toll(max_turns=20)
    env.step("hm")
    env.step(call(1))  # the count begins again
    rewards = [env.step("hm")[1:4] for _ in range(5)]
    assert [truncated for _, _, truncated in rewards] == [False] * 4 + [True]
    # turn 7 of 20: itself and the 13 left
    assert [reward for reward, _, _ in rewards] == pytest.approx([-2.1] * 4 + [-2.1 * 14])


def test_nonsense_is_never_worth_more_than_playing_where_steps_cost():
    """CliffWalking takes 13 steps of -1 at best; five turns of nonsense must not be cheaper."""
    env = MessageEnv("CliffWalking-v1", {})
    env.reset(Task(0))
    nonsense = 0.0
    while not (seen := env.step("?")).truncated:
        nonsense += seen.reward
    nonsense += seen.reward
    seen = env.reset(Task(0))
    played = sum(env.step(call(a)).reward for a in [0, *[1] * 11, 2])
    assert played == -13.0
    assert nonsense == pytest.approx(50 * env.env.invalid_call_reward)
    assert nonsense < played - 100


def test_one_rehearsal_serves_all_envs_of_a_kind(monkeypatch):
    """An env may take seconds for a step, and an evaluation has sixteen of them."""
    steps = []

    class Counted(Toll):
        def __init__(self, cost=2):
            self.cost = cost

        def step(self, action):
            steps.append(self.cost)
            return self.place, -self.cost, False, False, {}

    monkeypatch.setitem(gymnasium.registry, "Counted-v0", gymnasium.envs.registration.EnvSpec("Counted-v0", Counted))
    two, again, five = (MessageEnv("Counted-v0", {"cost": cost}) for cost in (2, 2, 5))
    for env in (two, again, five):
        env.reset(Task(0))
    assert steps == [2] * 32 + [5] * 32
    assert [env.step("hm").reward for env in (two, again, five)] == [-2.1, -2.1, -5.1]


def test_the_rehearsal_has_actions_of_the_type_that_calls_give():
    """Envs that insist on an int were refused at the start, for an action that a space draws is one of numpy's."""
    taken = []

    class Strict(Toll):
        def step(self, action):
            taken.append(type(action))
            return super().step(action)

    env = PlainEnv(Strict())
    env.reset(seed=0)
    env.step(call(1))
    assert taken == [int] * 33


def test_a_step_that_raises_in_the_rehearsal_is_told_as_a_step():
    class Jammed(Toll):
        def step(self, action):
            raise ValueError("the gate is jammed")

    gymnasium.register("tests/Jammed-v0", entry_point=lambda: Jammed())
    line = Jammed.step.__code__.co_firstlineno + 1
    said = rf"^tests/Jammed-v0 failed at a random step, .*: ValueError: the gate is jammed \(test_plain.py:{line}\)$"
    try:
        with pytest.raises(EnvError, match=said):
            check_env("tests/Jammed-v0", {})
    finally:
        del gymnasium.registry["tests/Jammed-v0"]


def test_the_users_max_episode_steps_is_the_turn_limit():
    env = MessageEnv("CartPole-v1", {"max_episode_steps": 3})
    assert "At most 3 turns" in env.reset(Task(0)).messages[0]["content"]
    assert [env.step(call(a)).truncated for a in (0, 1, 0)] == [False, False, True]
    without = MessageEnv("CartPole-v1", {"max_episode_steps": -1}).reset(Task(0))
    assert "At most 50 turns" in without.messages[0]["content"]


def test_text_in_and_out_without_the_contract_is_spoken_with_as_it_is():
    class Echo(gymnasium.Env):
        """Says what it hears."""

        observation_space = spaces.Text(20)
        action_space = spaces.Text(20)

        def reset(self, *, seed=None, options=None):
            return "hello", {}

        def step(self, action):
            return action, 1.0, False, False, {}

    env = PlainEnv(Echo(), 5)
    assert env.reset(seed=0)[0] == "hello"
    assert env.step("Echo")[0] == "reward 1, total 1\nEcho"
    assert env.step(call('"Again"'))[0] == "reward 1, total 2\nAgain"


def test_an_action_written_for_the_env_is_read_as_that_action():
    env = toll()
    assert env.write_action(np.int64(2)) == '<tool_call>\n{"name": "act", "arguments": {"action": 2}}\n</tool_call>'
    assert env.step(env.write_action(np.int64(2)))[4]["error"] == ""


def test_the_numbers_of_a_written_action_are_short_where_they_may_be():
    pendulum = MessageEnv("Pendulum-v1", {})
    pendulum.reset(Task(0))
    assert '{"action": 1.36}' in pendulum.env.write_action(np.array([1.3579834], np.float32))

    class Narrow(Toll):
        action_space = spaces.Box(0.12345, 0.12346, (1,))

    assert '{"action": 0.12345' in PlainEnv(Narrow(), 5).write_action(np.array([0.123455], np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_the_random_policy_of_a_plain_env_makes_valid_calls_that_depend_on_its_seed(name):
    env = MessageEnv(name, {"max_episode_steps": 12})
    assert env.scripted_names() == ("random",)

    def play(seed):
        policy, seen = env.scripted_policy("random", seed), [env.reset(Task(7))]
        said = []
        while not (seen[-1].terminated or seen[-1].truncated):
            said.append(policy.act(seen[-1].text, seen[-1].info))
            seen.append(env.step(said[-1]))
        assert seen[-1].metrics["invalid_calls"] == 0.0
        return said

    assert play(1) == play(1)
    assert len({tuple(play(seed)) for seed in range(5)}) > 1
