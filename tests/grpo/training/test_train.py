"""grpo-train as a user runs it: real env, real vLLM on the CPU, a judge over a real socket, SIGKILL, --resume."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from grpo.cli.train import train
from judges.common.files import read_jsonl
from tests import ROOT
from tests.support.commands import sets
from tests.support.judge_server import JudgeServer, score_by
from tests.support.sessions import family_of, processes_in, running, sessions_below
from tests.support.wait import wait_until

pytestmark = pytest.mark.vllm
START_SECONDS = 420.0


def arguments(run_dir: Path, judge_url: str, steps: int, *server: str) -> list[str]:
    return [
        *("--env", "EmailSearch-v0", "--recipe", "email-cpu", "--run-dir", str(run_dir), "--resume"),
        *("--steps", str(steps), *server, "--set", "warm_start.steps=1"),
        *sets("rollout.groups_per_step=2", "rollout.group_size=2", "eval.scenarios=2", "warm_start.batch=2"),
        *(*sets("eval.greedy=0", "rollout.max_turn_tokens=24"), "--env-kwargs", '{"max_turns": 3}'),
        *sets("rollout.concurrency=4", "eval.every=1", "eval.baselines=all", "show_every=1"),
        *("--set", 'optimizer={"learning_rate": 1e-4, "warmup_steps": 3, "final_lr_share": 1}'),
        *("--reward", "env+ruler", "--judge-model", "openai/o4-mini", "--judge-api-base", judge_url),
    ]


def by_length(messages):
    return min(1.0, sum(len(message["content"]) for message in messages) / 10_000), "longer is better here"


def test_a_killed_run_leaves_no_model_process_and_goes_on_with_resume(vllm_server, tmp_path):
    """It goes on with a server that runs already: another start of vLLM would show nothing new."""
    run_dir = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with JudgeServer(score_by(by_length)) as judge:
        log = (tmp_path / "first.log").open("w")
        small = sets("server.kv_cache_gib=0.25")  # starts sooner
        command = [sys.executable, "-m", "grpo", "train", *arguments(run_dir, judge.url, 50, *small)]
        trainer = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            wait_until(lambda: written(run_dir / "metrics.jsonl"), seconds=START_SECONDS, every=0.2, process=trainer)
            below = family_of(trainer.pid) - {trainer.pid}
            commands = [said for pid, said in processes_in(*sessions_below(trainer.pid)).items() if pid in below]
        finally:
            trainer.send_signal(signal.SIGKILL)
            trainer.wait()
            log.close()
        assert any("grpo.serving.vllm_main" in said for said in commands), commands
        assert any("EngineCore" in said for said in commands), commands
        assert not any("Worker" in said for said in commands), commands  # the engine has the model
        wait_until(lambda: not running(below), every=0.2)

        done = len(read_jsonl(run_dir / "metrics.jsonl"))
        server = ("--server", vllm_server.url)
        finished = CliRunner().invoke(train, arguments(run_dir, judge.url, done + 1, *server))
        assert finished.exit_code == 0, finished.output
        assert len(judge.requests) >= 1

    assert "resumed from step-" in finished.stdout
    records = read_jsonl(run_dir / "metrics.jsonl")
    assert [r["step"] for r in records] == list(range(1, done + 2))
    assert [r["lr"] for r in records] == pytest.approx([1e-4 * min(r["step"] / 4, 1.0) for r in records])
    last = records[-1]
    assert last["tokens/completion_mean"] > 0
    assert ("gap/mean_abs" in last) == (last["loss/grad_norm"] > 0), "an update measures the gap"
    assert 0.0 <= last.get("gap/mean_abs", 0.0) < 0.1
    before, after = (json.loads((run_dir / f"eval/{w}-sampled.json").read_text()) for w in ("before", "after"))
    assert (before["policy"], after["policy"]) == (0, done + 1)
    assert before["episodes"] == after["episodes"] == 2
    beside = {path.stem: json.loads(path.read_text()) for path in (run_dir / "eval").glob("*-baseline.json")}
    assert {label for label in beside if "model" in label} == {"base-model-baseline"}
    assert {"keyword-baseline", "oracle-baseline"} < beside.keys()
    assert beside["base-model-baseline"]["metrics"]["tokens/completion_mean"]["mean"] > 0
    assert "base model" in finished.stdout
    checkpoint = run_dir / "checkpoints" / f"step-{done + 1:04d}"
    adapter = json.loads((checkpoint / "adapter_config.json").read_text())
    assert (adapter["r"], adapter["base_model_name_or_path"]) == (16, "HuggingFaceTB/SmolLM2-135M-Instruct")
    card = (checkpoint / "README.md").read_text()
    assert "| before-sampled (split test" in card
    assert "| after-sampled (split test" in card
    between = [record for record in evaluations(run_dir) if record["label"].startswith("step-")]
    assert {record["split"] for record in between} == {"validation"}
    scores = {record["policy"]: record["metrics"]["reward/mean"]["mean"] for record in between}
    assert set(scores) == set(range(1, done + 2))
    best = json.loads((run_dir / "checkpoints" / "best.json").read_text())
    assert best["score"] == max(scores.values())
    assert (run_dir / "checkpoints" / best["checkpoint"]).is_dir()
    assert f"-- step {done + 1}, best episode" in finished.stdout
    assert "<svg" in (run_dir / "report.html").read_text()

    again = CliRunner().invoke(train, arguments(run_dir, "http://127.0.0.1:9/v1", done + 1, *server))
    assert again.exit_code == 0, again.output
    assert "is finished" in again.stdout


def evaluations(run_dir: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((run_dir / "eval").glob("*-sampled.json"))]


def written(path: Path) -> list[dict]:
    return read_jsonl(path) if path.exists() else []
