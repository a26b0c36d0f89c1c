"""grpo-train --answer-judge: the recipe `email-cpu` on the bundled mail, its judge over a real socket, a tiny policy.

The policy is small and random, and repeats itself to the bit (`tests.support.policy_server`), so a run can be made again. With
vLLM and a policy that can speak: `test_train_judged`.
"""

import json
import shutil
from pathlib import Path

import gymnasium
import pytest
from click.testing import CliRunner, Result
from gymnasium import spaces

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")

from grpo.cli.train import train as command
from judges.common.files import read_jsonl
from judges.llm.record import read_judgements
from tests.support.commands import sets
from tests.support.judge_server import ASKED, JudgeServer, shown
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")


def likes(said: str) -> bool:
    return len(said) % 2 == 0


def judge(messages):
    *_, said = shown(messages)
    return json.dumps({"answer_id": ASKED, "reasoning": f"It has {len(said)} characters.", "accept": likes(said)})


def train(run_dir: Path, model: Path, policy_url: str, judge_url: str, *more: str) -> Result:
    settings = {
        "server.urls": [policy_url],
        "rollout.max_tokens": 4000,
        "rollout.max_turn_tokens": 12,
        "loss.max_gap": 5,
        "dtype": "float32",
    }
    arguments = [
        *("--env", "EmailSearch-v0", "--recipe", "email-cpu", "--run-dir", str(run_dir), "--model", str(model)),
        *("--resume", *sets("warm_start.steps=0", "threads=1", "rollout.groups_per_step=2", "rollout.group_size=4")),
        *sets(
            "eval.scenarios=2", "eval.greedy=3", *(f"{name}={json.dumps(value)}" for name, value in settings.items())
        ),
        *("--answer-judge", "openai/o4-mini", "--answer-judge-api-base", judge_url, *more),
    ]
    ran = CliRunner().invoke(command, arguments)
    assert ran.exit_code == 0, ran.output
    return ran


def test_a_run_is_trained_on_what_the_judge_says_and_pays_for_no_verdict_twice(tmp_path):
    model, run_dir = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "run"
    with TinyPolicyServer(model) as policy, JudgeServer(judge) as server:
        train(run_dir, model, policy.url, server.url, "--steps", "1")
        (paid,) = read_jsonl(run_dir / "metrics.jsonl")
        for name in ("checkpoints", "trajectories", "eval", "adapters", "metrics.jsonl"):
            path = run_dir / name  # of all that the run did, only what it paid for is left
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        finished = train(run_dir, model, policy.url, server.url, "--steps", "2")
    asked = [request.body["messages"][1]["content"] for request in server.requests]
    verdicts = [content for content in asked if "How many days does a week have?" not in content]
    assert "the answer judge openai/o4-mini gives verdicts" in finished.stdout
    assert len(asked) - len(verdicts) == 2, "one real verdict at every start"
    assert verdicts
    assert "How many days" in asked[0], "before anything else"
    assert len(verdicts) == len(set(verdicts)), "no verdict is paid for twice"

    steps = read_jsonl(run_dir / "metrics.jsonl")
    assert [step["step"] for step in steps] == [1, 2]
    assert paid["answer/cost_usd"] > steps[0]["answer/cost_usd"] == 0.0
    assert (paid["reward/mean"], paid["answer/by_judge"]) == (steps[0]["reward/mean"], steps[0]["answer/by_judge"])
    for step in steps:
        assert step["answer/by_judge"] > 0
        assert step["answer/by_rule"] + step["answer/by_judge"] + step["answer/undecided"] == pytest.approx(1)
        assert step["answer/undecided"] == step["judge/failures"] == 0.0
        assert step["groups/used"] + step["groups/dropped"] == 2.0

    episodes = [e for path in sorted(run_dir.glob("*/*.jsonl")) for e in read_jsonl(path)]
    assert len(episodes) == 2 * 2 * 4 + 2 * (2 + 3 * 2) + 6 * 6, (
        "of steps, evaluations (greedily three times as many), scripts"
    )
    assert all("answer_key" not in episode for episode in episodes)
    marked = [e for e in episodes if e["verdict"] and e["verdict"]["decided_by"] == "judge"]
    assert {e["verdict"]["accept"] for e in marked} == {True, False}
    for episode in marked:
        metrics, right = episode["metrics"], episode["verdict"]["accept"]
        assert (metrics["success"], metrics["undecided"]) == (float(right), 0.0)
        assert episode["reward"] == pytest.approx(metrics["reward"])
        assert metrics["reward_tier"] == (1.0 if right else -0.2), "the recipe's own tiers"

    kept = [record for record in read_judgements(run_dir) if record["kind"] == "answer"]
    assert {record["verdict"]["decided_by"] for record in kept} == {"judge"}
    assert "by judge. It has" in (run_dir / "report.html").read_text()
    for path in run_dir.rglob("*"):
        assert path.is_dir() or b"sk-of-the-tests" not in path.read_bytes()


class LooseEnv(gymnasium.Env):
    """Takes every answer for right: a rule that a policy can use."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)

    def __init__(self, **of_the_recipe):
        pass

    def scenario_ids(self):
        return ["one", "two", "three"]

    def answer_key(self):
        return {"question": f"What is {self.scenario}?", "references": ["a number"]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.scenario = (options or {}).get("scenario_id") or "one"
        messages = [{"role": "user", "content": self.scenario}]
        return "", {"messages": messages, "tools": [], "metrics": {"success": 0.0}}

    def step(self, action):
        return "", 1.0, True, False, {"messages": [], "metrics": {"success": 1.0}}


if "Loose-v0" not in gymnasium.registry:
    gymnasium.register("Loose-v0", entry_point="tests.grpo.training.test_train_marked:LooseEnv")


def test_a_policy_that_uses_a_loose_rule_is_found_out_by_the_audit(tmp_path):
    def refuses(messages):
        return json.dumps({"answer_id": ASKED, "reasoning": "That is no number.", "accept": False})

    model, run_dir = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "run"
    with TinyPolicyServer(model) as policy, JudgeServer(refuses) as server:
        loose = ("--env", "tests.grpo.training.test_train_marked:Loose-v0", "--set", "answer_judge.audit_share=1")
        finished = train(run_dir, model, policy.url, server.url, *loose, "--steps", "1")
    (step,) = read_jsonl(run_dir / "metrics.jsonl")
    assert step["answer/audited"] == 8
    assert step["answer/audit_disagreement"] == 1.0
    assert step["reward/mean"] == step["env/success"] == 1.0, "an audit changes no reward"
    assert f"step 1: Warning: the answer judge refuses {step['answer/audited']:.0f} of" in finished.stdout
    assert "the policy may be exploiting the rule" in finished.stdout
    page = (run_dir / "report.html").read_text()
    assert "the policy may be exploiting the rule" in page
    assert "That is no number.</td>" in page
