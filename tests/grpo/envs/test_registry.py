"""How an env is found by its id, and what of it is known before it is made."""

import sys
from pathlib import Path

import gymnasium
import pytest

from grpo.envs.message_env import MessageEnv
from grpo.envs.registry import takes_split
from grpo.errors import EnvError
from grpo.types import Task
from tests import ROOT
from tests.support.envs import WORD_ENV, WordEnv


class Counted(WordEnv):
    made = 0

    def __init__(self, split="train"):
        type(self).made += 1


def make_counted(**kwargs):
    return Counted(**kwargs)


def __getattr__(name):
    """What a module of an env does that lacks a package, as Gymnasium's own do, or that ends the process."""
    if name == "Lander":
        raise gymnasium.error.DependencyNotInstalled('Box2D is not installed, run `pip install "gymnasium[box2d]"`')
    if name == "Leaver":
        sys.exit("no display")
    raise AttributeError(name)


gymnasium.register("tests/NotInstalled-v0", entry_point=f"{__name__}:Lander")
gymnasium.register("tests/Leaving-v0", entry_point=f"{__name__}:Leaver")
gymnasium.register("tests/Counted-v0", entry_point=Counted)
gymnasium.register("tests/Factory-v0", entry_point=make_counted)
gymnasium.register("tests/Lost-v0", entry_point="no_such_module:Env")


class Meta(WordEnv):
    def __init__(self, **given):
        self.given = given


gymnasium.register("tests/Meta-v0", entry_point=Meta)


def test_an_env_may_have_arguments_of_any_name():
    env = MessageEnv("tests/Meta-v0", {"env_id": "a", "name": "b"})
    assert env.env.unwrapped.given == {"env_id": "a", "name": "b"}


def test_split_support_is_found_without_making_an_env():
    assert takes_split(WORD_ENV)
    assert takes_split("tests/Counted-v0")
    assert not takes_split("CartPole-v1")
    assert not takes_split("tests/Factory-v0")
    assert takes_split("EmailSearch-v0")
    assert Counted.made == 0
    with pytest.raises(EnvError, match=r"^tests/Lost-v0 cannot be loaded: ModuleNotFoundError: .*'no_such_module'"):
        takes_split("tests/Lost-v0")
    with pytest.raises(
        EnvError, match=r"cannot be loaded: DependencyNotInstalled: Box2D is not installed, .*pip install"
    ):
        takes_split("tests/NotInstalled-v0")
    with pytest.raises(EnvError, match=r"cannot be loaded: SystemExit: no display"):
        takes_split("tests/Leaving-v0")


def test_an_id_is_found_through_a_module_or_a_file_of_the_current_directory(tmp_path, monkeypatch):
    source = (ROOT / "examples" / "guess_number.py").read_text()
    (tmp_path / "my_guess_env.py").write_text(source.replace("GuessNumber-v0", "MyGuess-v0"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p) != tmp_path])
    assert MessageEnv("my_guess_env:MyGuess-v0", {}).reset(Task(0)).text == "Your first guess?"
    assert MessageEnv("my_guess_env.py:MyGuess-v0", {}).reset(Task(0)).text == "Your first guess?"
