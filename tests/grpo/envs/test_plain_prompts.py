"""What plain envs say of themselves, and how those that break Gymnasium's API are named."""

from typing import ClassVar

import gymnasium
import pytest
from gymnasium import spaces

from grpo.envs.docstrings import EnvDocs, read_docs
from grpo.envs.message_env import MessageEnv
from grpo.errors import EnvError
from grpo.types import Task
from tests.grpo.envs.test_plain import Toll, call


class Ring(Toll):
    """Goes round for ever; gives what it was made with."""

    observation_space = spaces.Dict({"place": spaces.Discrete(6), "gate": spaces.Text(9)})

    def __init__(self, observation=None, reward=0.0, terminated=False, info=None):
        self.info = info or {}
        self.given = observation if observation is not None else {"place": 1, "gate": "open"}
        self.reward, self.terminated = reward, terminated

    def reset(self, *, seed=None, options=None):
        return self.given if self.given != "none" else None, {}

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


def test_the_colours_do_not_depend_on_what_was_played_before():
    fresh, used = MessageEnv("Taxi-v4", {}), MessageEnv("Taxi-v4", {})
    used.reset(Task(1))
    used.step(call(0))
    assert fresh.reset(Task(3)).messages == used.reset(Task(3)).messages


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
        (
            {"observation": {"place": 1}},
            "gives the observation .*'place': 1.*, which is not of its observation_space Dict",
        ),
        ({"observation": 7}, "gives the observation 7, which is not of"),
        ({"reward": None}, "gives the reward None at step"),
        ({"reward": "much"}, "gives the reward 'much' at step"),
        ({"info": {"is_success": "no"}}, r"gives info\['is_success'\] = 'no' at step"),
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
        if self.drawn == "not":
            raise NotImplementedError
        return self.drawn


class Stubborn(Sketch):
    def __init__(self):
        super().__init__()


gymnasium.register("tests/Sketch-v0", entry_point=Sketch)
gymnasium.register("tests/Stubborn-v0", entry_point=Stubborn)


@pytest.mark.parametrize("kwargs", [{"drawn": "not"}, {"drawn": None}, {"drawn": " "}, {"drawn": ["a"]}])
def test_an_env_that_says_it_draws_and_does_not_is_shown_by_its_numbers(kwargs):
    assert MessageEnv("tests/Sketch-v0", kwargs).reset(Task(0)).text == "gate: open\nplace: 1"
    assert MessageEnv("tests/Sketch-v0", {"drawn": "<o>\r\n"}).reset(Task(0)).text == "<o>"
    assert MessageEnv("tests/Stubborn-v0", {}).reset(Task(0)).text == "gate: open\nplace: 1"


class OldGym(Ring):
    def step(self, action):
        return self.given, 1.0, False, {}


gymnasium.register("tests/OldGym-v0", entry_point=OldGym)


def test_a_plain_env_of_the_old_gym_is_named_with_the_method_that_is_old():
    with pytest.raises(EnvError, match=r"^tests/OldGym-v0\.step\(\) does not return .* \(got 4\)$"):
        MessageEnv("tests/OldGym-v0", {}).reset(Task(0))


def test_a_docstring_without_sections_still_gives_its_first_paragraph():
    assert read_docs(Toll).summary.startswith("A road of five tolls.")
    assert read_docs(type("Bare", (gymnasium.Env,), {})) == EnvDocs()


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


@pytest.mark.parametrize("env_class", [Lottery, type("Hard", (Mixed, Lottery), {"__doc__": None})])
def test_an_env_is_told_by_its_class_or_the_env_that_it_is_made_from_and_not_by_its_title_alone(env_class):
    """Where a package has an env in several sizes, their classes often have no words of their own."""
    assert read_docs(env_class) == EnvDocs("A lottery. Three of six numbers are drawn. Name one of them.")


def test_a_title_is_not_followed_by_what_stands_below_a_heading():
    doc = "Dice.\n\n## Action Space\n\nThe action is a number.\n- 0: Throw"
    assert read_docs(type("Dice", (Toll,), {"__doc__": doc})) == EnvDocs("Dice.", actions={0: "Throw"})


def test_names_come_from_lists_and_from_tables():
    cart = read_docs(gymnasium.make("CartPole-v1").unwrapped.__class__)
    assert cart.actions == {0: "Push cart to the left", 1: "Push cart to the right"}
    assert cart.observations[3] == "Pole Angular Velocity"
    assert cart.summary.startswith("This environment corresponds to the version of the cart-pole problem")
    assert "](" not in cart.summary
