"""grpo-train --agent: somebody's agent, unmodified, with the policy in training as its model; a tiny policy that cannot speak."""

import json
import sys

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")
pytest.importorskip("mcp", reason="programs as agents need the extra 'eval'")

from grpo.cli.train import train as command
from judges.common.files import read_jsonl
from tests.support.commands import sets
from tests.support.envs import SUMS_ENV
from tests.support.model_server import ModelServer, sums
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch

PROGRAM = """
import json, os, urllib.request
task = json.load(open(os.environ["AGENT_TASK_FILE"]))
body = {"model": "m", "messages": [{"role": "user", "content": task["question"]}], "tools": task["tools"]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode())
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print("said", json.load(opener.open(request))["choices"][0]["message"]["content"])
"""


def train(folder, agent, *more, steps=1):
    model = tiny_chat_model_folder(folder / "model")
    with TinyPolicyServer(model) as policy:
        settings = {
            "server.urls": [policy.url],
            "rollout.max_tokens": 2000,
            "rollout.max_turn_tokens": 12,
            "loss.max_gap": 5,
            "dtype": "float32",
            "eval.baselines": "none",
        }
        arguments = ["--env", SUMS_ENV, "--run-dir", str(folder / "run"), "--model", str(model), "--agent", agent]
        arguments += ["--reward", "tests.support.policies:by_place", "--steps", str(steps)]
        arguments += sets("threads=1", "rollout.groups_per_step=2", "rollout.group_size=3", "eval.scenarios=2")
        arguments += sets(*(f"{name}={json.dumps(value)}" for name, value in settings.items()))
        return CliRunner().invoke(command, [*arguments, *more])


def test_an_agent_is_trained_on_what_its_model_sampled_and_evaluated_as_it_is_trained(tmp_path):
    ran = train(tmp_path, "tests.support.agents:by_chat")
    assert ran.exit_code == 0, ran.output
    (step,) = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert (step["groups/used"], step["episodes/failed"]) == (2.0, 0.0)
    assert step["loss/grad_norm"] > 0
    assert (
        "step 1: the agent made 6 calls in 6 episodes: 6 begin a row, the others carry one on; not learned"
        in ran.output
    )
    assert ran.output.index("the agent made 2 calls in 2 episodes") < ran.output.index("step 1: "), "before GRPO"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "behind tests.support.agents:by_chat" in page
    for part in ("asked for and not honoured", "root: ", "sampled: learned; temperature is not honoured"):
        assert part in ran.output, "the calls of one episode"
        assert part in page
    assert step["gap/mean_abs"] < 1e-4, "as small as the built-in policy's"
    for path in (
        tmp_path / "run" / "trajectories" / "step-0001.jsonl",
        tmp_path / "run" / "eval" / "after-greedy.jsonl",
    ):
        for episode in map(json.loads, path.read_text().splitlines()):
            call = episode["calls"][0]
            assert call["messages"][0]["content"].startswith("You add.\n\nWhat is"), "the agent's own prompt"
            assert len(call["sampled_ids"]) == call["completion_tokens"] > 0
            assert call["finish_reason"] in ("stop", "length")


def test_a_program_is_trained_too(tmp_path):
    (tmp_path / "agent.py").write_text(PROGRAM)
    ran = train(tmp_path, f"cmd:{sys.executable} {tmp_path / 'agent.py'}", "--set", "eval.scenarios=0")
    assert ran.exit_code == 0, ran.output
    (step,) = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert (step["groups/used"], step["env/answered"]) == (2.0, 1.0)


@pytest.mark.parametrize("teacher", ["script", "model"])
def test_its_warm_start_imitates_who_can_in_the_agents_own_prompts(tmp_path, teacher):
    with ModelServer(sums) as server:
        who = (
            ["--warm-start-model", f"openai:m@{server.url}"]
            if teacher == "model"
            else ["--set", "warm_start.policy=oracle"]
        )
        warm = sets("warm_start.steps=2", "warm_start.batch=2", "warm_start.keep=all", "eval.scenarios=0")
        ran = train(tmp_path, "tests.support.agents:by_chat", *who, *warm)
        assert ran.exit_code == 0, ran.output
        assert bool(server.requests) is (teacher == "model")
    steps = list(read_jsonl(tmp_path / "run" / "warmstart.jsonl"))
    assert [step["step"] for step in steps] == [1, 2]
    assert "steps on demonstrations of" in ran.output


def test_an_agent_that_does_not_ask_its_model_is_no_agent_to_train(tmp_path):
    ran = train(tmp_path, "tests.support.agents:by_tool", "--set", "eval.scenarios=0")
    assert ran.exit_code == 1
    assert "the agent has got no turn from its model in 6 episodes" in " ".join(ran.output.split())


def test_a_run_whose_agent_crashed_in_all_episodes_of_a_step_goes_on_once_it_is_mended(tmp_path):
    (tmp_path / "agent.py").write_text(
        f"import os, sys\nif os.path.exists({str(tmp_path / 'broken')!r}): sys.exit(3)\n{PROGRAM}"
    )
    (tmp_path / "broken").touch()
    command = f"cmd:{sys.executable} {tmp_path / 'agent.py'}", "--set", "eval.scenarios=0"
    ran = train(tmp_path, *command)
    assert ran.exit_code == 1
    assert "got no turn from its model" in ran.output
    (tmp_path / "broken").unlink()
    ran = train(tmp_path, *command, "--resume")
    assert ran.exit_code == 0, ran.output
    (step,) = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert step["groups/used"] == 2.0


def test_what_cannot_be_is_refused_before_anything_starts(tmp_path):
    ran = train(tmp_path, "tests.support.agents:nobody")
    assert ran.exit_code == 1
    assert "nobody" in ran.output
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
