"""Inspect's command plays our task, its bridge lends the model to an agent, and a judge scores its log."""

import json
import re

import pytest

from tests.interop.interpreters import needs, plays, program, ran, version
from tests.support.judge_server import JudgeServer, score_by
from tests.support.model_server import ModelServer, in_order
from tests.support.scripted import scripted

pytestmark = needs("inspect")

BRIDGED = """
import json

from inspect_ai import Task, task
from openai import AsyncOpenAI

from email_env.adapters.inspect_task import message_env, play_agent


async def agent(messages, tools):
    by_name = {tool.__name__: tool for tool in tools}
    schemas = [
        {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": {"type": "object"}}}
        for name, tool in by_name.items()
    ]
    client, messages = AsyncOpenAI(), list(messages)
    while True:
        reply = await client.chat.completions.create(model="inspect", messages=messages, tools=schemas)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return None if message.content == "That is all." else message.content
        for call in message.tool_calls:
            said = by_name[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})


@task
def bridged():
    made = message_env(split="test")
    return Task(made.dataset, solver=play_agent(agent), scorer=made.scorer)
"""

JUDGED = """
import sys
import judges

judges.score_inspect_log(sys.argv[1], "openai/o4-mini", api_base=sys.argv[2], max_retries=0)
"""


def evaluated(folder, url, task, *more):
    """The log of `inspect eval`, and its path."""
    command = [program("inspect", "inspect"), "eval", task, "--model", "openai-api/scripted/m", "--model-base-url", url]
    command += ["--display", "plain", "--log-dir", folder / "logs", "--log-format", "json", *more]
    ran(command, folder, SCRIPTED_API_KEY="none", OPENAI_API_KEY="none")
    (path,) = (folder / "logs").glob("*.json")
    return json.loads(path.read_text()), path


def rewards(log):
    """By sample; Inspect puts the package before the scorer's name where a task of another file uses it."""
    named = {
        sample["id"]: {name.rpartition("/")[2]: s for name, s in sample["scores"].items()} for sample in log["samples"]
    }
    return {sample_id: scores["env_reward"]["value"] for sample_id, scores in named.items()}


def test_this_version_was_tested():
    assert version("inspect", "inspect-ai") == "0.3.285"


@pytest.mark.parametrize("policy", ["oracle", "keyword", "random"])
def test_inspect_eval_gets_gymnasiums_rewards_to_the_digit(policy, tmp_path):
    episodes = list(scripted((policy,), limit=20))
    with ModelServer(plays(episodes)) as server:
        log, _ = evaluated(tmp_path, server.url, "email_env/message_env", "-T", "split=test", "--limit", 20)
        offered = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
    assert log["status"] == "success"
    assert rewards(log) == {episode.scenario_id: episode.reward for episode in episodes}
    answers = {sample["id"]: sample["scores"]["env_reward"]["answer"] for sample in log["samples"]}
    assert answers == {episode.scenario_id: episode.ending for episode in episodes}
    (scores,) = log["results"]["scores"]
    assert scores["metrics"]["mean"]["value"] == pytest.approx(sum(rewards(log).values()) / 20)
    assert offered == {"search_inbox", "read_email", "return_final_answer"}


def test_an_agent_of_ones_own_plays_over_the_bridge(tmp_path):
    episodes = list(scripted(("oracle",), limit=5))
    (tmp_path / "bridged.py").write_text(BRIDGED)
    with ModelServer(plays(episodes)) as server:
        log, _ = evaluated(tmp_path, server.url, "bridged.py", "--limit", 5)
    assert rewards(log) == {episode.scenario_id: episode.reward for episode in episodes}
    assert all(sample["model_usage"] for sample in log["samples"]), "Inspect's own model was asked"


def test_a_sample_that_a_limit_ends_has_no_score(tmp_path):
    search = {"calls": [("search_inbox", {"keywords": ["budget"]})]}
    with ModelServer(in_order(search)) as server:
        log, _ = evaluated(tmp_path, server.url, "email_env/message_env", "--limit", 1, "--message-limit", 6)
    (sample,) = log["samples"]
    assert sample["limit"]["type"] == "message"
    assert re.fullmatch("nan|None", str(sample["scores"]["env_reward"]["value"]))
    assert log["results"]["scores"][0]["unscored_samples"] == 1


def test_a_judge_scores_the_epochs_of_a_sample_in_the_log(tmp_path):
    def worth(messages):
        (said,) = [message["content"] for message in messages if message["role"] == "assistant"]
        return float("5" in said), f"it says {said}"

    by_answer = score_by(worth)
    answers = iter(["I don't know", "It was Ann.", "The answer is 5.", "It is 5."])
    with ModelServer(lambda messages, tools: {"content": next(answers)}) as server:
        more = ["-T", "split=test", "--limit", 2, "--epochs", 2]
        before, path = evaluated(tmp_path, server.url, "email_env/message_env", *more)
    (tmp_path / "judged.py").write_text(JUDGED)
    with JudgeServer(by_answer) as judge:
        found = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}
        ran([program("inspect"), "judged.py", path, judge.url], tmp_path, **found)
        assert len(judge.requests) == 2, "a group for each sample"
    log = json.loads(path.read_text())
    assert len(log["samples"]) == 4
    for sample in log["samples"]:
        (said,) = [message["content"] for message in sample["messages"] if message["role"] == "assistant"]
        said = said if isinstance(said, str) else said[0]["text"]
        ruler = sample["scores"]["ruler"]
        assert (ruler["value"], ruler["explanation"]) == (float("5" in said), f"it says {said}")
    assert sorted(rewards(log).items()) == sorted(rewards(before).items())
    assert {score["name"] for score in log["results"]["scores"]} >= {"env_reward", "ruler"}
