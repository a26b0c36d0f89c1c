"""Whole runs in which the next step is played while this one is learned."""

import json
from collections import Counter

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.cli.train import run_training
from judges.common.files import read_jsonl
from tests.support.policy_server import TinyPolicyServer, tiny_run
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch


def test_a_run_with_staleness_learns_from_the_policy_before_and_goes_on_where_it_was(tmp_path):
    model, folder = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "run"
    with TinyPolicyServer(model) as server:
        overlapped = tiny_run(model, server.url, **{"steps": 2, "rollout.max_staleness": 1, "rollout.oversample": 1})
        run_training(overlapped, folder, resume=False, quiet=True)
        state = json.loads((folder / "checkpoints/step-0002/state.json").read_text())
        run_training(overlapped.model_copy(update={"steps": 4}), folder, resume=True, quiet=True)
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
