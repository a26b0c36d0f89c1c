"""mcp:COMMAND with servers that are written with the package mcp: 1.x (FastMCP) and 2.x (MCPServer)."""

import json
import shlex

import pytest

from grpo.envs.message_env import MessageEnv
from grpo.types import Task
from tests import ROOT
from tests.interop.commands import call, evaluated, trained
from tests.interop.interpreters import needs, program, version

HERE = ROOT / "tests" / "interop"
COLOURS = [("sky", "blue"), ("grass", "green"), ("coal", "black"), ("snow", "white")]


def written(folder, tasks):
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return str(path)


def named(environment, script, tasks):
    return ["--env", f"mcp:{shlex.join([program(environment), str(HERE / script)])}", "--tasks", tasks]


@needs("mcp1")
def test_a_server_of_mcp_1_is_evaluated_and_trained_on(tmp_path):
    assert version("mcp1", "mcp").startswith("1.")
    tasks = [
        {"id": thing, "prompt": f"What colour is {thing}?", "answer": colour, "split": split}
        for (thing, colour), split in zip(COLOURS, ["test", "test", "train", "train"], strict=True)
    ]
    env = named("mcp1", "mcp1_colours.py", written(tmp_path, tasks))

    def play(messages, tools):
        assert [tool["function"]["name"] for tool in tools] == ["look_up", "mix"]
        if messages[-1]["role"] == "tool":
            return {"content": messages[-1]["content"] if "grass" not in messages[0]["content"] else "red"}
        return {"calls": [("look_up", {"thing": messages[-1]["content"].split()[3].rstrip("?")})]}

    seen = [(row["scenario_id"], row["reward"], row["turns"]) for row in evaluated(tmp_path, play, *env)]
    assert seen == [("grass", 0.0, 2), ("sky", 1.0, 2)]

    def says(prompt, seed):
        thing, colour = COLOURS[2] if "coal" in prompt else COLOURS[3]
        if f"{colour}" not in prompt:
            return call("look_up", thing=thing)
        return colour if seed % 2 else "red"

    steps = trained(tmp_path, says, *env)
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["episodes/failed"] == 0.0 for step in steps)
    assert all(step["env/calls"] == 1.0 and step["env/turns"] == 2.0 for step in steps)
    assert all(0.0 <= step["reward/mean"] <= 1.0 for step in steps)
    assert any(step["groups/used"] == 1.0 and step["loss/grad_norm"] > 0.0 for step in steps)


@needs("mcp2")
def test_a_server_of_mcp_2_keeps_a_state_for_an_episode_alone(tmp_path):
    assert version("mcp2", "mcp").startswith("2.")
    tasks = [{"id": str(to), "prompt": f"Count to {to}.", "answer": str(to), "split": "test"} for to in (1, 2, 3)]
    env = named("mcp2", "mcp2_counter.py", written(tmp_path, tasks))

    def play(messages, _tools):
        wanted = messages[0]["content"].split()[-1].rstrip(".")
        said = [message["content"] for message in messages if message["role"] == "tool"]
        return {"content": wanted} if wanted in said else {"calls": [("count", {})]}

    seen = [(row["scenario_id"], row["reward"], row["turns"]) for row in evaluated(tmp_path, play, *env)]
    assert seen == [("1", 1.0, 2), ("2", 1.0, 3), ("3", 1.0, 4)], "each episode counts from 1"
    steps = trained(
        tmp_path,
        lambda prompt, seed: call("count", by=2) if "\n2" not in prompt else str(1 + seed % 3),
        *env,
        *("--set", "train_split=test"),
        *("--reward", "tests.interop.test_env_mcp:digits"),
    )
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["episodes/failed"] == 0.0 for step in steps)
    assert all(1.0 <= step["reward/mean"] <= 3.0 for step in steps), "the user's reward, not the env's"
    assert any(step["groups/used"] == 1.0 and step["loss/grad_norm"] > 0.0 for step in steps)


def digits(group):
    """A reward of the user's: the answer as a number."""
    return [float(episode.messages[-1]["content"]) for episode in group.episodes]


@needs("mcp2")
@pytest.mark.parametrize(
    ("turn", "said", "code"),
    [
        ('{"name": "count", "arguments": {"by": "many"}}', "Error: ", ""),
        ('{"name": "count", "arguments": {"by": -1}}', "Error: ", ""),
        ('{"name": "count", "arguments": {"to": 1}}', "Error: count has no argument 'to'.", "bad_args"),
    ],
)
def test_what_a_server_of_mcp_2_refuses_is_an_observation(tmp_path, turn, said, code):
    file = written(tmp_path, [{"prompt": "Count."}])
    env = MessageEnv(f"mcp:{shlex.join([program('mcp2'), str(HERE / 'mcp2_counter.py')])}", {"file": file})
    env.reset(Task(0, "1"))
    told = env.step(turn)
    assert told.text.startswith(said)
    assert told.info["error"] == code
    assert env.step('{"name": "count", "arguments": {}}').text == "1"
    env.close()
