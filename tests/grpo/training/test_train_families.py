"""Two steps of a run, with real vLLM, of tiny random models that have more than attention."""

import pytest
from click.testing import CliRunner

from grpo.cli.train import train
from grpo.machine.hardware import has_amx
from judges.common.files import read_jsonl
from tests.support.commands import sets
from tests.support.envs import LETTER_ENV
from tests.support.families import SERVED, tiny_family

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("kind", SERVED)
def test_two_steps_are_trained_and_served(tmp_path, kind):
    dtype, rounding = ("bfloat16", 0.1) if kind.startswith("qwen3_5") else ("float32", 1e-3)
    if kind.startswith("qwen3_5"):
        if not has_amx():
            pytest.skip("vLLM computes linear attention on a CPU with AMX alone")
        pytest.importorskip("torchvision", reason="vLLM needs it for Qwen3.5, and no CPU build of it may be here")
    model, run_dir = tiny_family(tmp_path / kind, kind, **SERVED[kind]), tmp_path / "run"
    settings = sets(
        *(f"dtype={dtype}", "rollout.max_tokens=256", "rollout.max_turn_tokens=16", "rollout.groups_per_step=2"),
        *("rollout.group_size=3", "rollout.concurrency=6", "eval.scenarios=0", "warm_start.steps=0", "lora.rank=8"),
        *("server.kv_cache_gib=0.25", "optimizer.learning_rate=0.01", "threads=2"),
    )
    command = ["--env", LETTER_ENV, "--model", str(model), "--run-dir", str(run_dir), "--steps", "2", *settings]
    ran = CliRunner().invoke(train, command)
    assert ran.exit_code == 0, ran.output
    steps = list(read_jsonl(run_dir / "metrics.jsonl"))
    assert [step["step"] for step in steps] == [1, 2]
    for step in steps:
        assert step["groups/used"] == 2.0
        assert step["gap/mean_abs"] < rounding, "vLLM samples what is trained, with the adapter of the step before"
        assert step["loss/grad_norm"] > 0
