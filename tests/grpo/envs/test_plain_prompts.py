"""What plain envs say of themselves, and how those that break Gymnasium's API are named."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from grpo.envs.docstrings import EnvDocs, read_docs
from grpo.envs.message_env import MessageEnv
from grpo.envs.plain import PlainEnv
from grpo.errors import EnvError
from grpo.types import Task
from tests.support.envs import Toll, call


class Ring(Toll):
    """Goes round for ever; gives what it was made with."""

    observation_space = spaces.Dict({"place": spaces.Discrete(6), "gate": spaces.Text(9)})

    def __init__(self, observation=None, reward=0.0, terminated=False, info=None):
        self.info = info or {}
        self.given = observation if observation is not None else {"place": 1, "gate": "open"}
        self.reward, self.terminated = reward, terminated

    def reset(self, *, seed=None, options=None):
        return None if isinstance(self.given, str) else self.given, {}

    def step(self, action):
        return self.given, self.reward, self.terminated, False, self.info


gymnasium.register("tests/Ring-v0", entry_point=Ring, max_episode_steps=500)
gymnasium.register("tests/EndlessRing-v0", entry_point=Ring)


def test_the_colours_of_a_picture_that_has_several_are_named():
    env = MessageEnv("Taxi-v4", {})
    assert env.reset(Task(3)).text.splitlines()[1:6] == [
        "|blue[R]: |yellow[ ]: :G|",
        "| : | : : |",
        "| : : : : |",
        "| | : | : |",
        "|magenta[Y]| : |B: |",
    ]
    for direction in (0, 0, 3, 1, 1):  # round the wall between the passenger and the taxi
        seen = env.step(call(direction))
    assert "|blue[R]:yellow[ ]| : :G|" in seen.text
    assert "|blue+yellow[R]: | : :G|" in env.step(call(3)).text
    assert "|green[R]: | : :G|" in env.step(call(4)).text


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        (
            "CartPole-v1",
            "the goal is to balance the pole by applying forces in the left and right direction on the cart.",
        ),
        ("Pendulum-v1", "the goal is to apply torque on the free end to swing it into an upright position"),
        ("MountainCar-v0", "to strategically accelerate the car to reach the goal state on top of the right hill."),
        ("Acrobot-v1", "to swing the free end of the linear chain above a given height while starting from"),
        ("Taxi-v4", "The goal is move the taxi to the passenger's location, pick up the passenger"),
    ],
)
def test_the_prompt_says_what_the_goal_is_and_stays_short(name, goal):
    prompt = MessageEnv(name, {}).reset(Task(0)).messages[0]["content"]
    assert goal in prompt
    assert prompt.count("goal is") <= 1
    assert len(prompt) < 800


@pytest.mark.parametrize(
    ("name", "said"), [("tests/Ring-v0", "50 of the env's 500 turns"), ("tests/EndlessRing-v0", "50 turns")]
)
def test_an_episode_that_is_cut_before_the_env_ends_it_says_so(name, said):
    env = MessageEnv(name, {})
    assert f"At most {said}." in env.reset(Task(0)).messages[0]["content"]
    last = [env.step("1") for _ in range(50)][-1]
    assert (last.terminated, last.truncated) == (False, True)
    assert last.text.startswith(f"reward 0, total 0, the episode is cut after {said}\n")
    whole = MessageEnv(name, {"max_episode_steps": 500}).reset(Task(0)).messages[0]["content"]
    assert "At most 500 turns." in whole


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"observation": "none"}, "gives the observation None"),
        ({"observation": np.zeros((9, 9), np.uint8)}, r"shows pictures \(uint8 of shape \(9, 9\)\)"),
        ({"reward": None}, "gives the reward None at step"),
        ({"reward": "much"}, "gives the reward 'much' at step"),
        ({"info": {"is_success": "no"}}, r"gives info\['metrics'\]\['success'\] = 'no' at step"),
        ({"info": 7}, "gives the info 7 at step; info is a dict"),
        ({"terminated": "no"}, "gives terminated = 'no' at step; terminated is True or False"),
    ],
)
def test_what_a_plain_env_gives_against_gymnasiums_api_is_named(kwargs, message):
    env = MessageEnv("tests/Ring-v0", kwargs)

    def play():
        env.reset(Task(0))
        env.step("1")

    with pytest.raises(EnvError, match=rf"^tests/Ring-v0 {message}"):
        play()


class Sketch(Ring):
    """Says that it draws itself as text."""

    metadata: ClassVar = {"render_modes": ["ansi"]}

    def __init__(self, drawn=None, render_mode=None):
        super().__init__()
        self.drawn, self.render_mode = drawn, render_mode

    def render(self):
        return self.drawn


class OldGym(Ring):
    def step(self, action):
        return self.given, 1.0, False, {}


gymnasium.register("tests/Sketch-v0", entry_point=Sketch)
gymnasium.register("tests/OldGym-v0", entry_point=OldGym)


def test_an_env_that_draws_itself_is_shown_by_its_picture():
    assert MessageEnv("tests/Sketch-v0", {"drawn": "<o>\r\n"}).reset(Task(0)).text == "<o>"
    with pytest.raises(EnvError, match=r"^tests/Sketch-v0 .* draws .*'a'.*, which is no text; with --env-kwargs"):
        MessageEnv("tests/Sketch-v0", {"drawn": ["a"]}).reset(Task(0))
    assert MessageEnv("tests/Sketch-v0", {"render_mode": None}).reset(Task(0)).text == "place: 1\ngate: open"


def test_a_plain_env_of_the_old_gym_is_named_with_the_method_that_is_old():
    with pytest.raises(
        EnvError, match=r"^tests/OldGym-v0\.step\(\) returns .*; want \(observation, reward, terminated"
    ):
        MessageEnv("tests/OldGym-v0", {}).reset(Task(0))


class Fork(gymnasium.Env):
    action_space = spaces.Discrete(3, start=1)
    observation_space = spaces.Discrete(9)

    def __init__(self, info=None):
        self.given = info or {}

    def reset(self, *, seed=None, options=None):
        return 0, self.given

    def step(self, action):
        return 1, 0.0, False, False, {}


class Guide(Fork):
    """It is told what to say itself, and it speaks in messages."""

    def __init__(self, system_prompt="Mine."):
        said = [{"role": "system", "content": system_prompt}, {"role": "user", "content": "Where to?"}]
        super().__init__({"messages": said, "tools": []})


class Plain(Guide):
    def __init__(self):
        super().__init__()


for made in (Fork, Guide, Plain):
    gymnasium.register(f"tests/{made.__name__}-v0", entry_point=made, max_episode_steps=9)


def test_what_nothing_says_of_an_env_is_told_to_the_user_who_may_say_it():
    env = MessageEnv("tests/Fork-v0", {})
    assert env.reset(Task(0)).messages[0]["content"] == (
        "tests/Fork-v0.\nAt most 9 turns. Call act with action: integer from 1 to 3."
    )
    assert env.remarks() == [
        "tests/Fork-v0: nothing says what it is about and what its actions mean; say it in the docstring of its class, "
        "or with --system-prompt"
    ]
    told = MessageEnv("tests/Fork-v0", {"system_prompt": "Find the way: 1 is left."})
    assert told.reset(Task(0)).messages[0]["content"] == (
        "Find the way: 1 is left.\nAt most 9 turns. Call act with action: integer from 1 to 3."
    )
    assert told.remarks() == []
    none = MessageEnv("tests/Fork-v0", {"system_prompt": None}).reset(Task(0))  # as of a run whose text is taken back
    assert none.messages == env.reset(Task(0)).messages


@pytest.mark.parametrize("env_id", ["tests/Guide-v0", "tests/Plain-v0"])
def test_the_users_text_is_the_system_message_of_an_env_that_speaks_in_messages(env_id):
    """Whether the env takes it as an argument of its own or not."""
    env = MessageEnv(env_id, {"system_prompt": "Go north."})
    assert [message["content"] for message in env.reset(Task(0)).messages] == ["Go north.", "Where to?"]
    assert env.remarks() == []


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"action_mask": np.array([1, 0, 1], np.int8)}, ["legal actions: 1, 3"]),
        ({"mask": [False, False, False]}, ["legal actions: none"]),
        ({"valid_actions": np.array([False, True, True])}, ["legal actions: 2, 3"]),
        ({"legal_moves": iter(["e2e4", "g1f3"])}, ["legal actions: e2e4, g1f3"]),
        ({"admissible_commands": ["go north", "take key"]}, ["legal actions: go north, take key"]),
        ({"available_actions": range(100)}, [f"legal actions: {', '.join(map(str, range(64)))}, and 36 more"]),
        ({"invalid_action_mask": [1, 0, 1], "mask": [1, 0], "legal_moves": 3, "moves": [1]}, []),
    ],
)
def test_legal_actions_in_info_are_shown_below_the_observation(info, said):
    env = PlainEnv(Fork())
    env.unwrapped.given = info
    text, _ = env.reset(seed=0)
    assert text.splitlines() == ["0", *said]
    assert env.step("?")[0].splitlines()[2:] == []  # what cannot be read has its own hint


@pytest.mark.parametrize(
    ("info", "actions"), [({"mask": [False, True, False]}, {2}), ({"legal_moves": ["e2e4"]}, {1, 2, 3})]
)
def test_the_random_script_plays_legal_actions_where_it_can(info, actions):
    env = PlainEnv(Fork())
    env.unwrapped.given = info
    text, info = env.reset(seed=0)
    script = env.scripted_policies["random"](env, 0)
    calls = {script.act(text, info) for _ in range(40)}
    assert calls == {env.write_action(action) for action in actions}


class Lottery(Toll):
    """A lottery

    Three of six numbers
    are drawn. Name one of them

    Args:
        seed: Where the drawing begins.

    The prize is a car.
    """


class Mixed:
    """A part of many envs."""


def documented(doc, base=Toll):
    return type("Documented", (base,), {"__doc__": doc})


@pytest.mark.parametrize(
    ("env_class", "docs"),
    [
        (type("Bare", (gymnasium.Env,), {}), EnvDocs()),
        (Toll, EnvDocs("A road of five tolls. Each step costs 2; the end of the road is a success.")),
        (Lottery, EnvDocs("A lottery. Three of six numbers are drawn. Name one of them.")),
        # where a package has an env in several sizes, their classes often have no words of their own
        (type("Hard", (Mixed, Lottery), {"__doc__": None}), read_docs(Lottery)),
        (
            documented("Dice.\n\n## Description\nSix sides.\n\n- one\n\n## Action Space\n\nA number.\n- 0: Throw"),
            EnvDocs("Dice. Six sides.", actions={0: "Throw"}),
        ),
        (
            documented("## Observation Space\n| Num | What |\n|---|---|\n| 0 | `Pole` **Angle** |\n"),
            EnvDocs(observations={0: "Pole Angle"}),
        ),
        (
            documented(
                f"See [the paper](https://x.example) [<a href='#a'>1</a>].\n\n{'Long. ' * 90}\n\n{'Longer. ' * 90}"
            ),
            EnvDocs("See the paper. " + "Long. " * 88 + "Long."),
        ),
    ],
)
def test_what_a_docstring_says_of_its_env(env_class, docs):
    assert read_docs(env_class) == docs
