"""mcp:COMMAND with a program of our own that speaks MCP for real: tools, answers, processes, faults."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from grpo.cli.doctor import doctor
from grpo.cli.evaluate import evaluate
from grpo.cli.play import play
from grpo.cli.train import train
from grpo.elsewhere import mcp_process
from grpo.envs.message_env import MessageEnv
from grpo.errors import EnvError
from grpo.types import Task
from tests import ROOT
from tests.support.evaluations import rows
from tests.support.model_server import ModelServer
from tests.support.sessions import family_of

COMMAND = shlex.join([sys.executable, str(ROOT / "tests/support/mcp_server.py")])
TASKS = [
    {"id": f"q{number}", "prompt": f"What is {number} + 1?", "answer": [str(number + 1)], "split": split}
    for number, split in ((1, "test"), (2, "test"), (3, "train"), (4, "train"))
]


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return str(path)


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def servers():
    return {pid for pid in family_of(os.getpid()) if b"mcp_server.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_a_task_is_asked_with_the_tools_of_all_pages_and_prose_is_the_answer(tasks):
    env = MessageEnv(f"mcp:{COMMAND}", {"file": tasks, "split": "test"})
    assert env.scenario_ids() == ["q1", "q2"]
    begun = env.reset(Task(0, "q2"))
    assert begun.messages == [{"role": "user", "content": "What is 2 + 1?"}]
    assert [tool["function"]["name"] for tool in begun.tools] == ["count", "add", "break", "draw"]
    assert env.step(call("add", a=2, b=1)).text == '{"sum": 3}'
    assert env.step(call("draw")).text == "a house\n[image]"
    ended = env.step("<think>3</think> 3")
    assert (ended.reward, ended.terminated) == (1.0, True)
    assert ended.metrics == {"turns": 3.0, "calls": 2.0, "faults": 0.0, "answered": 1.0, "success": 1.0}
    key = env.answered("3")
    assert (key.question, key.references, key.outcomes[False].reward) == ("What is 2 + 1?", ("3",), 0.0)
    env.close()


def test_what_a_tool_refuses_is_an_observation(tasks):
    env = MessageEnv(f"mcp:{COMMAND}", {"file": tasks})
    env.reset(Task(0, "q1"))
    failed = env.step(call("add", a="1", b=1))
    assert (failed.text, failed.reward, failed.info["error"]) == ("Error: a and b are integers", 0.0, "")
    refused = env.step(call("add", a=13, b=1))
    assert (refused.text, refused.reward, refused.info["error"]) == ("Error: 13 is unlucky.", -0.1, "bad_args")
    both = [
        {"id": "x", "function": {"name": "add", "arguments": '{"a": 1}'}},
        {"id": "y", "function": {"name": "count"}},
    ]
    unsound = env.step(json.dumps({"role": "assistant", "content": None, "tool_calls": both}))
    assert [(m["tool_call_id"], m["content"]) for m in unsound.messages] == [
        ("x", "Error: add needs the argument 'b'."),
        ("y", "Not run."),
    ]
    assert env.step(call("count")).text == "1", "a turn with a wrong call runs nothing"
    assert env.step("5").reward == 0.0
    assert env.answered("5").outcomes[True].reward == pytest.approx(0.8), "two faults"
    env.close()


def test_an_episode_has_a_process_of_its_own_and_the_next_one_is_warm(tasks):
    env = MessageEnv(f"mcp:{COMMAND}", {"file": tasks})
    env.reset(Task(0, "q1"))
    first = servers()
    assert env.step(call("count")).text + env.step(call("count")).text == "12"
    env.step("2")
    warm = servers()
    assert len(first) == len(warm) == 1
    assert first != warm
    env.reset(Task(0, "q1"))
    assert servers() == warm, "the one that was started meanwhile"
    assert env.step(call("count")).text == "1"
    env.close()
    assert servers() == set()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{COMMAND} dead", "has ended: no licence"),
        (f"{COMMAND} chatty", "wrote a line that is no message, b'Welcome!'"),
        (f"{COMMAND} mute", "said nothing for 0.5 s: serving"),
        ("no-such-program --at-all", "mcp:no-such-program --at-all cannot be started"),
        ("'unbalanced", "cannot be started: No closing quotation"),
    ],
)
def test_a_program_that_does_not_serve_is_named(tasks, command, said, monkeypatch):
    if "mute" in command:
        monkeypatch.setattr(mcp_process, "REPLY_SECONDS", 0.5)
    env = MessageEnv(f"mcp:{command}", {"file": tasks})
    with pytest.raises(EnvError, match=said):
        env.reset(Task(0, "q1"))
    monkeypatch.undo()
    env.close()


def test_a_program_that_ends_amid_an_episode_fails_it(tasks):
    env = MessageEnv(f"mcp:{COMMAND}", {"file": tasks})
    env.reset(Task(0, "q1"))
    with pytest.raises(EnvError, match="has ended: serving"):
        env.step(call("break"))
    env.close()
    assert servers() == set()


def adds(messages, _tools):
    if messages[-1]["role"] == "tool":
        return {"content": str(json.loads(messages[-1]["content"])["sum"])}
    return {"calls": [("add", {"a": int(messages[-1]["content"].split()[2]), "b": 1})]}


def test_all_commands_take_it(tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = ["--env", f"mcp:{COMMAND}", "--tasks", tasks]
    with ModelServer(adds) as server:
        ran = CliRunner().invoke(evaluate, [*named, "--agent", f"openai:m@{server.url}", "--out", "run"])
    assert ran.exit_code == 0, ran.output
    assert sorted((row["scenario_id"], row["reward"], row["correct"]) for row in rows(tmp_path / "run")) == [
        ("q1", 1.0, True),
        ("q2", 1.0, True),
    ]
    played = CliRunner().invoke(play, [*named, "--scenario", "q2"], input="add(a=2, b=1)\n3\n")
    assert (played.exit_code, '{"sum": 3}' in played.output, "reward 1.000" in played.output) == (0, True, True)
    checked = CliRunner().invoke(doctor, [*named, "--quick", "--disk-gib", "0"])
    assert "env: mcp:" in checked.output
    assert "2 scenarios; an episode of plain words ended after 1 turns" in checked.output
    dry = CliRunner().invoke(train, [*named, "--dry-run", "--set", "warm_start.steps=0", "--set", "eval.scenarios=2"])
    assert dry.exit_code == 0, dry.output
    lacking = CliRunner().invoke(evaluate, [*named[:2], "--agent", "file:x"])
    assert "tools need questions; give a file of them with --tasks" in lacking.output


def test_an_env_without_tasks_says_so(tasks):
    refused = CliRunner().invoke(evaluate, ["--env", "CartPole-v1", "--tasks", tasks, "--agent", "random"])
    assert "CartPole-v1 refused the arguments" in refused.output
