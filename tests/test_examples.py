"""The examples, as a user would take them."""

import ast
import importlib
import json
import sys

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from examples.brevity import brevity
from grpo.envs.message_env import MessageEnv
from grpo.types import Episode, Group, ModelCall, Task
from tests import ROOT, documents

EXAMPLES = ROOT / "examples"
DOCUMENTS = documents()


@pytest.fixture(autouse=True)
def _not_yet_registered():
    """Another test may have taken the example by its path, under another module name."""
    gymnasium.registry.pop("GuessNumber-v0", None)
    for name in ("examples.guess_number", "guess_number"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_every_example_says_how_it_is_run_and_is_in_the_documents(path):
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert "\ngrpo-train " in said or f"\npython -m examples.{path.stem}\n" in said
    assert path.stem in DOCUMENTS


def test_the_example_env_imports_nothing_of_ours_and_passes_gymnasiums_check():
    source = (EXAMPLES / "guess_number.py").read_text(encoding="utf-8")
    assert {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))} == {
        "re",
        "string",
        "gymnasium",
    }
    importlib.import_module("examples.guess_number")
    check_env(gymnasium.make("GuessNumber-v0").unwrapped)


def test_the_example_env_is_won_by_halving():
    env = MessageEnv("examples.guess_number:GuessNumber-v0", {})
    assert env.reset(Task(5)).tools[0]["function"]["name"] == "guess"
    assert env.step("I don't know").info["error"] == "no_tool_call"
    low, high = 1, 20
    turns = 1
    while True:
        turns += 1
        middle = (low + high) // 2
        seen = env.step(f'{{"name": "guess", "arguments": {{"number": {middle}}}}}')
        if seen.terminated:
            break
        low, high = (middle + 1, high) if seen.text == "higher" else (low, middle - 1)
    assert seen.terminated
    assert seen.reward == pytest.approx(1.1 - 0.1 * turns)
    assert seen.metrics == {"success": 1.0, "guesses": float(turns)}


def test_the_example_env_reads_a_call_in_openais_form_and_not_its_id():
    env = MessageEnv("examples.guess_number:GuessNumber-v0", {})
    env.reset(Task(5))
    number = env.env.unwrapped.number
    call = {"id": "call_3", "type": "function", "function": {"name": "guess", "arguments": f'{{"number": {number}}}'}}
    assert env.step(json.dumps({"role": "assistant", "content": None, "tool_calls": [call]})).terminated


def test_the_example_reward_prefers_the_shorter_of_two_equal_answers():
    long, short = (Episode("E", Task(0), calls=[ModelCall(completion_tokens=n)], reward=1.0) for n in (300, 100))
    assert brevity(Group(Task(0), [long, short])) == [0.7, 0.9]
