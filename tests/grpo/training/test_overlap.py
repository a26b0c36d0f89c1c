"""Whole runs in which the next step is played while this one is learned."""

import json
from collections import Counter

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from click.testing import CliRunner

from grpo.cli.train import train
from judges.common.files import read_jsonl
from tests.support.commands import sets
from tests.support.envs import LETTER_ENV
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch
SETTINGS = {
    "dtype": "float32",
    "rollout": {"max_turn_tokens": 8, "max_tokens": 400, "oversample": 1},
    "optimizer.learning_rate": 1e-2,
    "loss.max_gap": 5.0,
    "eval.scenarios": 0,
}


def run(model, run_dir, url, *more):
    flags = [flag for key, value in SETTINGS.items() for flag in ("--set", f"{key}={json.dumps(value)}")]
    size = sets("rollout.groups_per_step=2", "rollout.group_size=3", "warm_start.steps=2", "threads=1")
    overlapped = sets("rollout.max_staleness=1")
    command = ["--env", LETTER_ENV, "--model", str(model), "--server", url, *overlapped, *size, *flags]
    result = CliRunner().invoke(train, [*command, *more, "--run-dir", str(run_dir)])
    assert result.exit_code == 0, result.output


def test_a_run_with_staleness_learns_from_the_policy_before_and_goes_on_where_it_was(tmp_path):
    model, folder = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "run"
    with TinyPolicyServer(model) as server:
        run(model, folder, server.url, "--steps", "2")
        state = json.loads((folder / "checkpoints/step-0002/state.json").read_text())
        run(model, folder, server.url, "--steps", "4", "--resume")
    steps = [read_jsonl(folder / "trajectories" / f"step-{step:04d}.jsonl") for step in (1, 2, 3, 4)]
    assert [{call["version"] for t in step for call in t["calls"]} for step in steps] == [{0}, {0}, {2}, {2}], (
        "3 is the first of its run"
    )
    assert {t["error"] for step in steps for t in step} == {""}
    records = read_jsonl(folder / "metrics.jsonl")
    assert {record.get("staleness", age) == age for record, age in zip(records, (0, 1, 0, 1), strict=True)} == {True}
    played = Counter((t["scenario_id"], t["env_seed"]) for step in steps for t in step)
    assert set(played.values()) == {3}, "no task is learned from twice"
    assert len(played) == 8
    handed_out = state["task_position"]
    assert handed_out == 2 * 2 + len(state["open_tasks"])
    assert not list((folder / "partial").iterdir())
