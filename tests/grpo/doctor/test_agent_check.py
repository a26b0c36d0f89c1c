"""`grpo-doctor --agent`: the tree of an agent's calls, what would be learned of it, and why a history is not carried on."""

import json

import pytest
from click.testing import CliRunner

from grpo.cli.doctor import doctor
from tests.support.envs import SUMS_ENV
from tests.support.model_server import ModelServer, sums

pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")


def examined(agent, *more, env=SUMS_ENV):
    arguments = ["--env", env, "--agent", f"tests.support.agents:{agent}", "--quick", "--json", *more]
    ran = CliRunner().invoke(doctor, arguments)
    (result,) = [result for result in json.loads(ran.stdout) if result["name"] == "agent"]
    return result["status"], result["found"], ran.exit_code


def test_the_calls_of_two_episodes_are_drawn():
    with ModelServer(sums) as server:
        status, found, _ = examined("by_chat", "--warm-start-model", f"openai:m@{server.url}")
    assert status == "ok"
    head, first, root, on_root, second, *rest = found.splitlines()
    assert head.startswith("100% of ")
    assert first.startswith("  sum/")
    assert first.endswith(", answered, reward 1.00") or first.endswith(", answered, reward 0.00")
    assert root.strip().startswith("1 root: ")
    assert root.endswith("learned; temperature is not honoured")
    assert on_root.strip().startswith("2 on 1: ")
    assert second.split(",")[0] == first.split(",")[0]
    assert len(rest) == 2


def test_what_was_changed_in_a_history_is_shown_and_an_agent_that_asks_nobody_fails():
    with ModelServer(lambda messages, tools: {"content": "8"}) as server:
        model = f"openai:m@{server.url}"
        status, found, _ = examined("forgetful", "--warm-start-model", model)
    assert status == "ok"
    assert "1 root: 22 new, 2 sampled" in found, "so the turn, which differs, begins at the next"
    assert "a root from token 23 on, for message 2: " in found
    assert """: '["assistant", "nine", []]' instead of '["assistant", "8", []]'""" in found
    assert "temperature is not honoured" in found
    status, found, code = examined("by_tool", "--set", "warm_start.policy=oracle")
    assert (status, code) == ("failed", 1)
    assert "its model was asked nothing" in found


def test_a_script_shows_an_agent_how_as_it_would_play_itself():
    status, found, _ = examined("by_chat", "--recipe", "email-cpu", env="EmailSearch-v0")
    assert status == "ok"
    _, first, *calls = found.splitlines()
    assert ", answered, reward " in first, "searches, reads, answers: each by what the tool said before"
    assert [line.split(":")[0].strip() for line in calls[:3]] == ["1 root", "2 on 1", "3 on 2"]
    assert "1 after the end, answered with what ends an agent" in calls[3]
