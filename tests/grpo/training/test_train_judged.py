"""grpo-train with judges over a real socket: real env, real vLLM; RULER that stops giving verdicts half-way."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grpo.cli.train import train as command
from grpo.runs.checkpoint import newest_checkpoint
from judges.common.files import read_jsonl
from judges.llm.record import read_judgements
from tests.support.commands import sets
from tests.support.judge_server import ASKED, JudgeServer, score_by, shown

pytestmark = pytest.mark.vllm


def train(run_dir: Path, policy_url: str, *more: str) -> Result:
    return CliRunner().invoke(
        command,
        [
            *("--env", "EmailSearch-v0", "--recipe", "email-cpu", "--run-dir", str(run_dir), "--resume"),
            *sets("warm_start.steps=0", "eval.scenarios=0", "rollout.groups_per_step=2"),
            *sets("rollout.max_tokens=900", "rollout.max_turn_tokens=48"),
            *("--set", f'server.urls=["{policy_url}"]', "--env-kwargs", '{"max_turns": 2}'),
            *more,
        ],
    )


def ruler(url: str) -> tuple[str, ...]:
    judge = ("--reward", "ruler", "--judge-model", "openai/o4-mini", "--judge-api-base", url)
    return ("--steps", "2", *sets("rollout.group_size=2"), *judge)


def by_length(messages):
    return min(1.0, sum(len(message["content"]) for message in messages) / 4000), "longer is better here"


def test_a_run_on_verdicts_alone_stops_where_they_fail_and_goes_on_from_its_checkpoint(vllm_server, tmp_path):
    run_dir = tmp_path / "run"
    judged = score_by(by_length)
    sound = iter([True, True, True])  # the first is asked before the start; the two groups of the first step

    def judge(messages):
        return judged(messages) if next(sound, False) else "I would rather not say."

    with JudgeServer(judge) as server:
        stopped = train(run_dir, vllm_server.url, *ruler(server.url), *sets("judge.max_failures=0.2"))
    assert stopped.exit_code == 1, stopped.output
    assert "2 of the newest 4 groups have no rewards" in stopped.stderr
    assert "I would rather not say." in stopped.stderr
    assert "--resume" in stopped.stderr
    _, state = newest_checkpoint(run_dir / "checkpoints")
    assert state.step == 1
    (first,) = read_jsonl(run_dir / "metrics.jsonl")

    with JudgeServer(judged) as server:
        finished = train(run_dir, vllm_server.url, *ruler(server.url), *sets("judge.max_failures=0.2"))
    assert finished.exit_code == 0, finished.output
    assert "resumed from step-0001" in finished.stdout
    steps = read_jsonl(run_dir / "metrics.jsonl")
    assert [step["step"] for step in steps] == [1, 2]
    assert steps[0] == first
    for step in steps:
        assert step["reward/mean"] == step["judge/score"] > 0
        assert (step["judge/failures"], step["groups/used"] + step["groups/dropped"]) == (0.0, 2.0)
        assert step["judge/cost_usd"] > 0
        assert -5 < step["reward/env"] < 3
    transcripts = [json.loads(line) for line in (run_dir / "trajectories" / "step-0002.jsonl").read_text().splitlines()]
    assert {t["explanation"] for t in transcripts} == {"longer is better here"}

    records = list(read_judgements(run_dir))
    assert [bool(record["scores"]) for record in records] == [True, True, False, False, True, True]
    assert all(
        "I would rather not say." in answer for r in records[2:4] for v in r["verdicts"] for answer in v["answers"]
    )


def test_answers_in_other_words_are_marked_while_vllm_samples(vllm_server, tmp_path):
    """The model without a warm start mostly answers in prose at once, and no rule can tell what it says."""

    def judge(messages):
        *_, said = shown(messages)
        return json.dumps({"answer_id": ASKED, "reasoning": "by its length", "accept": len(said) % 2 == 0})

    run_dir = tmp_path / "run"
    with JudgeServer(judge) as server:
        named = ("--answer-judge", "openai/o4-mini", "--answer-judge-api-base", server.url)
        finished = train(run_dir, vllm_server.url, "--steps", "1", *sets("rollout.group_size=4"), *named)
    assert finished.exit_code == 0, finished.output
    (step,) = read_jsonl(run_dir / "metrics.jsonl")
    assert step.get("answer/undecided", 0.0) == step["judge/failures"] == 0.0
    episodes = read_jsonl(run_dir / "trajectories" / "step-0001.jsonl")
    marked = [e for e in episodes if "answer_by_judge" in e["metrics"]]  # "I don't know" is, and needs no verdict
    judged = [e for e in marked if e["verdict"] and e["verdict"]["decided_by"] == "judge"]
    assert step.get("answer/by_judge", 0.0) == pytest.approx(len(judged) / max(len(marked), 1))
    assert len(server.requests) <= len(judged) + 1, "one before the start, and one for every answer"
    for episode in judged:
        assert episode["metrics"]["success"] == float(episode["verdict"]["accept"])
        assert episode["metrics"]["reward_tier"] == (1.0 if episode["verdict"]["accept"] else -0.2)
