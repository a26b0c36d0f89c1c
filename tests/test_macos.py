"""The env, judges and evaluation need nothing that only Linux has; training says that it does. No Mac takes part."""

import os
import subprocess
import sys

import pytest

from grpo.machine import processes
from tests import ROOT
from tests.support.judge_server import JudgeServer, score_by

MACOS = ROOT / "tests" / "support" / "macos"
PLAYED = """
import sys
import gymnasium as gym
import email_env

assert sys.platform == "darwin"
env = gym.make("EmailSearch-v0", split="test")
question, info = env.reset(seed=2)
env.step('{"name": "search_inbox", "arguments": {"keywords": ["laptops", "Austin", "order"]}}')
*_, info = env.step('{"name": "return_final_answer", "arguments": {"answer": "PO-5746", "sources": ["m3007"]}}')
assert not {"fcntl", "resource"} & set(sys.modules)
print(question, info["metrics"]["success"])
"""
JUDGED = """
import sys
from judges import score

def answered(text):
    return [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": text}]

print([found.score for found in score([answered("4"), answered("5")], "openai/judge", api_base=sys.argv[1])])
"""
AGENT = """
def agent(task, tools, model):
    search_inbox, *_ = tools
    search_inbox(keywords=["order"])
    return "I don't know"
"""


def there(tmp_path, *arguments, code=0):
    environment = os.environ | {"PYTHONPATH": f"{MACOS}{os.pathsep}{ROOT}", "EMAIL_ENV_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_an_episode_is_played_and_the_bundled_mail_is_built(tmp_path, monkeypatch):
    monkeypatch.delenv("EMAIL_ENV_DB", raising=False)
    assert there(tmp_path, "-c", PLAYED) == "What is the order number of the laptops for Austin? 1.0\n"
    assert list((tmp_path / "cache").glob("demo-*.db"))


def test_agents_are_evaluated_and_compared(tmp_path):
    pytest.importorskip("uvicorn", reason="an agent that is a function needs the extra 'eval'")
    (tmp_path / "mine.py").write_text(AGENT)
    play = ("-m", "grpo", "eval", "--env", "EmailSearch-v0", "--limit", "6", "--agent")
    there(tmp_path, *play, "keyword", "--out", "script")
    there(tmp_path, *play, "mine:agent", "--out", "function", "--env-workers", "1")
    assert "paired over 6 scenarios" in there(tmp_path, "-m", "grpo", "compare", "script", "function")
    there(tmp_path, "-m", "grpo", "view", "script", "function")


def test_a_judge_scores_a_group(tmp_path):
    pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")
    with JudgeServer(score_by(lambda messages: (float(messages[-1]["content"] == "4"), "arithmetic"))) as server:
        assert there(tmp_path, "-c", JUDGED, server.url).endswith("[1.0, 0.0]\n")


@pytest.mark.parametrize(
    "arguments", [("train", "--env", "FrozenLake-v1"), ("sft", "--data", "x.jsonl", "--out", "x"), ("doctor", "--cpu")]
)
def test_training_says_what_it_needs_and_what_works_here(tmp_path, arguments):
    (tmp_path / "x.jsonl").touch()
    said = there(tmp_path, "-m", "grpo", *arguments, *["--quick"] * (arguments[0] == "doctor"), code=1)
    assert "training needs Linux, and this is darwin; envs, judges and the evaluation of agents work here" in said


def test_a_limit_of_files_that_is_called_infinite_is_raised_as_far_as_macos_does(monkeypatch):
    class Resource:
        RLIMIT_NOFILE, now = 7, (256, sys.maxsize)

        @classmethod
        def getrlimit(cls, _which):
            return cls.now

        @classmethod
        def setrlimit(cls, _which, limits):
            if limits[0] > 10_240:
                raise ValueError("current limit exceeds maximum limit")
            cls.now = limits

    monkeypatch.setattr(processes, "resource", Resource)
    processes.allow_many_files()
    assert Resource.now == (10_240, sys.maxsize)
