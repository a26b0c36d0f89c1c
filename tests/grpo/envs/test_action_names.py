"""Where other people's envs keep the names of their actions."""

import enum
from typing import ClassVar

import pytest
from gymnasium import spaces

from grpo.envs.action_names import action_names
from grpo.envs.docstrings import read_docs
from tests.support.envs import Toll


class Moves(enum.IntEnum):
    left = 0
    right = 1
    forward = 2


class Lanes:
    actions_all: ClassVar = {0: "LANE_LEFT", 1: "IDLE", 2: "LANE_RIGHT", 3: "FASTER", 4: "SLOWER"}
    actions: ClassVar = {0: "LANE_LEFT", 1: "IDLE", 2: "LANE_RIGHT"}


def walk(doc=None, count=3, start=0, **has):
    return type("Walk", (Toll,), {"__doc__": doc, "action_space": spaces.Discrete(count, start=start), **has})()


OLD_GYM = """A pole.

    Observation:
        Type: Box(2)
        Num     Observation      Min     Max
        0       Place            -4.8    4.8
        1       Speed            -9      9

    Actions:
        Type: Discrete(2)
        Num   Action
        0     Push to the left
        1     Push to the right

    Reward:
        1 for each step
"""


@pytest.mark.parametrize(
    ("env", "names"),
    [
        (walk(actions=Moves), "left right forward"),
        (walk(all_actions=[*Moves]), "left right forward"),
        (walk(action_names=("NOOP", "FIRE", "UP"), start=1), "NOOP FIRE UP"),
        (walk(ACTIONS={"stay": 0, "go": 1, "jump": 2}), "stay go jump"),
        (walk(action_to_name={move: move.name.upper() for move in Moves}), "LEFT RIGHT FORWARD"),
        (walk(id_to_action=dict(enumerate(Moves))), "left right forward"),
        (walk(action_type=Lanes()), "LANE_LEFT IDLE LANE_RIGHT"),
        (walk(get_action_meanings=lambda self: ["NOOP", "FIRE", "UP"]), "NOOP FIRE UP"),
        (walk(actions={0: "left", 1: "right"}), ""),  # of another list
        (walk(actions={0: (0, 1), 1: (1, 0), 2: (0, -1)}), ""),
        (walk("A walk. Actions are LEFT, DOWN, RIGHT."), "LEFT DOWN RIGHT"),
        (walk("A walk. The actions are discrete and few."), ""),
        (walk("A market. Actions: 0 = hold, 1 = buy, 2 = sell."), "hold buy sell"),
        (walk("A market.\n\nThe agent has these actions\n\n* 0 -> hold\n* 1 -> buy\n* 2 -> sell"), "hold buy sell"),
        (
            walk("A market. These are the actions.\n\n* 0 -> hold\n* 1 -> buy\n* 2 -> sell\n\nGood.\n\nLuck."),
            "hold buy sell",
        ),
        (walk("A grid. An action moves.\n\nCells:\n0: free\n1: wall\n2: goal"), ""),
        (walk("A grid. An action moves.\nState:\n0: free\n1: wall\n2: goal"), ""),
        (walk("A grid. Actions:\n0: left\n1: right\n2: up\n3: down"), ""),  # one more than it takes
        (walk(OLD_GYM, count=2), "Push to the left|Push to the right"),
    ],
)
def test_an_envs_docstring_enum_or_table_names_all_of_its_actions(env, names):
    found = action_names(env, read_docs(type(env)))
    words = names.split("|") if "|" in names else names.split()
    assert found == dict(enumerate(words, start=int(env.action_space.start)))


def test_names_in_gymnasiums_form_come_first_and_may_be_some():
    env = walk("A walk.\n\n## Action Space\n- 2: Jump", actions=Moves)
    assert action_names(env, read_docs(type(env))) == {2: "Jump"}


def test_the_module_of_an_env_may_have_the_table(monkeypatch):
    monkeypatch.setitem(globals(), "ACTION_NAMES", ["a", "b", "c", "d"])
    assert action_names(walk(count=4), read_docs(Toll)) == {0: "a", 1: "b", 2: "c", 3: "d"}
