"""`--agent-python`: a function in an interpreter of its own, with its tools, its model, its crashes and its end."""

import os
import sys
import venv

import pytest

from tests import ROOT
from tests.support.evaluations import evaluated, run
from tests.support.model_server import ModelServer, sums
from tests.support.sessions import family_of

AGENT = """
import asyncio, os, sys

def by_tool(task, tools, model):
    assert "torch" not in sys.modules and "EMAIL_ENV_SECRET" not in os.environ
    print("a line of the agent's own")
    number = int(task.question.split()[2])
    tools[1](answer=tools[0](number=number), sources=["s1"])

async def in_a_loop(task, tools, model):
    from grpo.eval import Answer
    await asyncio.sleep(0)
    return Answer(await asyncio.to_thread(tools[0], int(task.question.split()[2])), ("s2",))

def by_model(task, tools, model):
    import json, urllib.request
    body = {"messages": [{"role": "user", "content": str(task)}], "tools": []}
    request = urllib.request.Request(model.base_url + "/chat/completions", json.dumps(body).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    call = json.load(opener.open(request))["choices"][0]["message"]["tool_calls"][0]["function"]
    return tools[0](**json.loads(call["arguments"]))

def failing(task, tools, model):
    raise LookupError("no idea")

def dying(task, tools, model):
    if " 1 " in task.question:
        os._exit(7)
    return "0"

def hanging(task, tools, model):
    import time
    time.sleep(600)
"""


@pytest.fixture
def python(tmp_path, monkeypatch):
    """An interpreter that has no packages at all."""
    monkeypatch.setenv("EMAIL_ENV_SECRET", "x")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "their_agent.py").write_text(AGENT)
    venv.create(tmp_path / "their", with_pip=False, symlinks=True)
    return str(tmp_path / "their" / "bin" / "python")


def played(tmp_path, python, name, *arguments, count=2):
    agent = ("--agent", f"their_agent:{name}", "--agent-python", python)
    return evaluated(tmp_path / "run", *agent, *arguments, count=count)


def test_a_function_plays_in_another_interpreter_as_it_does_here(tmp_path, python):
    before = family_of(os.getpid())
    found, shown = played(tmp_path, python, "by_tool")
    assert [(row["answer"], row["sources"], row["implicit"]) for row in found] == [
        ("0", ["s1"], False),
        ("2", ["s1"], False),
    ]
    assert "a line of the agent's own" not in shown.stdout
    found, _ = played(tmp_path / "b", python, "in_a_loop")
    assert [(row["answer"], row["sources"]) for row in found] == [("0", ["s2"]), ("2", ["s2"])]
    assert family_of(os.getpid()) == before


def test_its_model_is_the_one_that_was_named(tmp_path, python):
    with ModelServer(sums) as server:
        found, _ = played(tmp_path, python, "by_model", "--model", f"openai:m@{server.url}")
    assert [(row["answer"], row["model_calls"]) for row in found] == [("0", 1), ("2", 1)]


def test_what_it_raises_is_its_crash_and_a_process_that_ends_is_started_again(tmp_path, python):
    found, _ = played(tmp_path, python, "failing", count=1)
    assert (found[0]["ending"], "LookupError: no idea (their_agent.py:" in found[0]["error"]) == ("agent_crash", True)
    found, _ = played(tmp_path / "b", python, "dying", "--concurrency", "1", count=3)
    assert sorted((row["ending"], row["answer"]) for row in found) == [
        ("agent_crash", None), ("answered", "0"), ("answered", "0"),
    ]  # fmt: skip
    assert "has ended with status 7" in next(row["error"] for row in found if row["ending"] == "agent_crash")


def test_one_that_hangs_is_left_at_its_time_limit(tmp_path, python):
    before = family_of(os.getpid())
    found, _ = played(tmp_path, python, "hanging", "--timeout", "1", count=1)
    assert found[0]["ending"] == "timeout"
    assert family_of(os.getpid()) == before


@pytest.mark.parametrize(
    ("python", "agent", "said"),
    [
        ("/nowhere/python", "tests.support.agents:by_tool", "--agent-python /nowhere/python: there is no program"),
        (sys.executable, "tests.support.agents:nobody", "tests.support.agents:nobody cannot be called by"),
        (sys.executable, "cmd:true", "is for functions; a program names its own"),
    ],
)
def test_what_cannot_be_called_is_said_and_nothing_is_played(tmp_path, monkeypatch, python, agent, said):
    monkeypatch.chdir(ROOT)
    shown = run("--agent", agent, "--agent-python", python, "--out", str(tmp_path / "run"))
    assert (shown.exit_code, said in shown.output) == (1, True), shown.output
