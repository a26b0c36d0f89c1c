"""Agents of real frameworks, in an environment of their own, play the same five episodes through their own loops.

`scripts/test` makes that environment (.venv-agents): the evaluators' install (extra `eval`) and the frameworks, no torch.
`AGENTS_PYTHON` names another one's interpreter.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import gymnasium
import pytest

import email_env  # noqa: F401
from tests import ROOT
from tests.support.evaluations import rows
from tests.support.model_server import ModelServer

PYTHON = Path(os.environ.get("AGENTS_PYTHON", ROOT / ".venv-agents" / "bin" / "python"))
EXAMPLES = sorted(path for path in (ROOT / "examples" / "agents").glob("[!_]*.py"))
EPISODES = 5

needs_frameworks = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"no environment with the frameworks at {PYTHON}; scripts/test makes one"
)


@pytest.fixture(scope="module")
def play():
    """A model that searches wrongly, searches, reads, answers with the tool and then says that it is done."""
    env = gymnasium.make("EmailSearch-v0", split="test").unwrapped
    scenarios = {scenario.question: scenario for scenario in env.catalog.of("test").values()}

    def turn(messages, tools):
        names = [(tool.get("function") or tool)["name"] for tool in tools]
        assert {"search_inbox", "read_email", "return_final_answer"} <= set(names)
        said = " ".join(message.get("content") or "" for message in messages if message["role"] == "user")
        (scenario,) = [scenario for question, scenario in scenarios.items() if question in said]
        results = [m for m in messages if m["role"] == "tool" or _is_observation(m)]
        searches = [words for tool, words in scenario.plan if tool == "search"] or [("budget",)]
        answer = scenario.answer if scenario.answerable else "I don't know"
        script = [
            {"calls": [("search_inbox", {"keywords": ["xyzzy"], "max_results": 3})]},
            {"calls": [("search_inbox", {"keywords": list(searches[0])})]},
            *({"calls": [("read_email", {"message_id": name})]} for name in scenario.message_ids[:1]),
            {"calls": [("return_final_answer", {"answer": answer, "sources": list(scenario.message_ids)})]},
        ]
        if len(results) < len(script):
            return script[len(results)]
        return {"calls": [("final_answer", {"answer": "done"})]} if "final_answer" in names else {"content": "done"}

    return turn


def _is_observation(message):
    """Whether it is a tool's result as smolagents tells it."""
    return message["role"] == "user" and message["content"].startswith("Observation:")


def evaluated(folder, server, agent, *more):
    """``grpo-eval`` in the environment of the frameworks; its output and its rows."""
    command = [PYTHON, "-m", "grpo", "eval", "--agent", f"examples.agents.{agent}:agent", "--out", folder / "run"]
    command += ["--model", f"openai:m@{server.url}", *map(str, more)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, rows(folder / "run")


@needs_frameworks
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_framework_plays_the_five_episodes(example, play, tmp_path):
    with ModelServer(play) as server:
        env = ("--env", "email_env:EmailSearch-v0", "--limit", EPISODES)
        printed, found = evaluated(tmp_path, server, example.stem, *env, "--json")
    assert [(row["ending"], row["correct"], row["error"]) for row in found] == [("answered", True, "")] * EPISODES
    for row in found:
        assert row["metrics"]["invalid_calls"] == 0
        assert not row["implicit"]
        searched = [json.loads(m["content"])["name"] for m in row["messages"] if m["role"] == "assistant"]
        assert searched[:2] == ["search_inbox", "search_inbox"]
        assert searched[-1] == "return_final_answer"
        assert (row["model_calls"], row["late_calls"]) == (len(searched), 1)
    summary = json.loads(printed)
    assert summary["tokens"]["prompt"] == 100 * sum(row["model_calls"] for row in found)


SHOP = """
import gymnasium
from gymnasium import spaces

class Shop(gymnasium.Env):
    observation_space = spaces.Text(9)
    action_space = spaces.Dict({"item": spaces.Discrete(3), "size": spaces.Dict({"cm": spaces.Discrete(90)})})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Buy one", {}

    def step(self, action):
        return "Bought", float(action["item"] + action["size"]["cm"]), True, False, {}

gymnasium.register("Shop-v0", entry_point=Shop)
"""


@needs_frameworks
def test_a_framework_plays_an_env_whose_actions_are_objects(tmp_path):
    """The OpenAI Agents SDK takes no dict of unknown keys; and a model can only know the keys that a schema has."""
    (tmp_path / "shop.py").write_text(SHOP)

    def play(messages, tools):
        (tool,) = tools
        assert '"cm"' in json.dumps(tool)
        if any(message["role"] == "tool" for message in messages):
            return {"content": "done"}
        return {"calls": [("act", {"action": {"item": 2, "size": {"cm": 40}}})]}

    with ModelServer(play) as server:
        shop = ("--env-import", tmp_path / "shop.py", "--env", "Shop-v0", "--limit", 1, "--timeout", 60)
        _, found = evaluated(tmp_path, server, "openai_agents_agent", *shop)
    assert [(row["reward"], row["ending"], row["error"]) for row in found] == [(42.0, "answered", "")]


@needs_frameworks
def test_the_evaluators_install_has_no_torch():
    code = "import importlib.util as u; print([m for m in ('torch', 'transformers', 'vllm') if u.find_spec(m)])"
    assert subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_it_is_run(example):
    source = example.read_text(encoding="utf-8")
    assert f"--agent examples.agents.{example.stem}:agent" in source
    assert 10 <= len(source.splitlines()) <= 25


def test_there_are_examples_for_four_frameworks():
    imported = {
        name for path in EXAMPLES for name in re.findall(r"^from (\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    assert {"langgraph", "agents", "smolagents", "pydantic_ai"} <= imported
