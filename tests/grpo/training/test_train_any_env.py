"""grpo-train on envs that know nothing of it: a batch of each plain env, and real training through real vLLM."""

import asyncio
import json
import random

import pytest
from click.testing import CliRunner

from grpo.agents.playing import PolicyAgents
from grpo.cli.train import train
from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.envs.pool import EnvPool
from grpo.episodes.tasks import TaskStream
from grpo.serving.policy import Policy
from grpo.training.batches import Batches
from grpo.training.rewards import EnvReward
from grpo.types import SampledTurn
from judges.common.files import read_jsonl
from tests import ROOT
from tests.support.batches import unfinished_step
from tests.support.commands import sets
from tests.support.policies import ByteChat, always
from tests.support.tiny_model import tiny_chat_model_folder

EXAMPLE = ROOT / "examples" / "guess_number.py"


class Player(Policy):
    """Calls ``act`` with 0 or 1 by its seed, and now and then says something else."""

    version = 0

    async def sample(self, prompt_ids, params, *, max_tokens, seed):
        dice = random.Random(seed)
        call = f'{{"name": "act", "arguments": {{"action": {dice.randint(0, 1)}}}}}'
        ids = [*ByteChat().encode("let me think" if dice.random() < 0.2 else call), ByteChat.END]
        return SampledTurn(ids, [-0.5] * len(ids), "stop")


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1", "CliffWalking-v1", "CartPole-v1", "Pendulum-v1"])
def test_a_plain_env_gives_a_batch_to_train_on(env):
    kwargs = {"max_episode_steps": 8}
    rollout = {"groups_per_step": 4, "group_size": 4, "max_tokens": 20_000}
    config = load_config(None, {"env": env, "env_kwargs": kwargs, "rollout": rollout})
    pool = EnvPool(env, kwargs)
    batches = Batches(
        config,
        pool,
        ByteChat(),
        PolicyAgents(config.rollout),
        TaskStream(None, 0),
        EnvReward(),
        Display(quiet=True),
        unfinished_step(),
    )
    batch = asyncio.run(batches.next(0, always(Player())))
    pool.close()
    metrics = batch.metrics()
    assert len(batch.groups) >= 1
    assert metrics["groups/used"] + metrics["groups/dropped"] == 4.0
    assert metrics["episodes/failed"] == 0.0
    assert metrics["env/return"] == pytest.approx(metrics["reward/mean"])
    assert 0.0 < metrics["env/invalid_calls"] < metrics["env/length"] <= 8.0
    for trajectory in batch.sampled:
        wrong = [error for error in trajectory.turn_errors if error]
        assert set(wrong) <= {"no_tool_call"}
        assert len(wrong) == trajectory.metrics["invalid_calls"]
    assert sum(segment.advantage for segment in batch.segments) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.torch
def test_a_run_whose_groups_are_equal_ends_well_and_says_what_happened_and_what_helps(tmp_path):
    """A random tiny model writes no valid call, so all episodes are wrong in the same five turns."""
    pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    from tests.support.policy_server import TinyPolicyServer

    model = tiny_chat_model_folder(tmp_path / "model")
    with TinyPolicyServer(model) as server:
        size = sets("rollout.max_turn_tokens=8", "rollout.max_tokens=2000", "rollout.group_size=2", "eval.scenarios=1")
        result = run(
            server, tmp_path / "run", "--env", "FrozenLake-v1", "--model", str(model), *sets("threads=1"), *size
        )
    assert "== Evaluation before GRPO: 1 episode; beside it random\n" in result.output
    assert "split" not in result.output
    assert "step 1: no update, for there is nothing to compare: of 1 group, 1 had equal rewards. What helps:" in (
        result.output
    )
    assert "\nGRPO changed nothing: no group of the step had rewards that differ. Held-out reward" in result.output
    first, last = ((tmp_path / f"run/checkpoints/step-000{step}/adapter_model.safetensors") for step in (0, 1))
    assert first.read_bytes() == last.read_bytes()


def run(server, run_dir, *arguments):
    """One step of one group on a server that runs already."""
    size = ["--steps", "1", *sets("rollout.groups_per_step=1", "eval.greedy=0")]
    result = CliRunner().invoke(train, [*size, *arguments, "--server", server.url, "--run-dir", str(run_dir)])
    assert result.exit_code == 0, result.output
    return result


def run_with_vllm(vllm_server, run_dir, *arguments):
    size = sets("rollout.max_turn_tokens=24", "rollout.max_tokens=1000", "rollout.group_size=4")
    run(vllm_server, run_dir, *arguments, *size)
    (metrics,) = read_jsonl(run_dir / "metrics.jsonl")
    return metrics, read_jsonl(run_dir / "trajectories" / "step-0001.jsonl")


def check_update(metrics, trajectories):
    """An update happened where the rewards of the step's one group differ, and none where they are equal."""
    spreads = len({trajectory["reward"] for trajectory in trajectories}) > 1
    assert (metrics["groups/used"], metrics["groups/dropped"]) == ((1.0, 0.0) if spreads else (0.0, 1.0))
    assert (metrics["loss/grad_norm"] > 0) == spreads
    assert ("gap/mean_abs" in metrics) == spreads
    assert 0.0 <= metrics.get("gap/mean_abs", 0.0) < 0.1


@pytest.mark.vllm
def test_frozen_lake_trains(vllm_server, tmp_path):
    metrics, trajectories = run_with_vllm(
        vllm_server,
        tmp_path / "run",
        *("--env", "FrozenLake-v1", "--env-kwargs", '{"max_episode_steps": 3}'),
        *("--reward", "tests.support.policies:by_place", "--set", "eval.scenarios=1"),
    )
    assert metrics["episodes/failed"] == 0.0
    assert [trajectory["reward"] for trajectory in trajectories] == [0.0, 1.0, 2.0, 3.0]
    check_update(metrics, trajectories)
    (adapter,) = (tmp_path / "run" / "adapters").iterdir()
    assert "-0001." in adapter.name, "the version after the step is what is served"
    assert trajectories[0]["messages"][1]["content"] == "[S]FFF\nFHFH\nFFFH\nHFFG"
    for trajectory in trajectories:
        assert trajectory["metrics"]["independent_reward"] == pytest.approx(trajectory["metrics"]["return"])
    evaluation = json.loads((tmp_path / "run" / "eval" / "after-sampled.json").read_text())
    assert {"env/return", "env/length", "env/invalid_calls"} <= evaluation["metrics"].keys()


@pytest.mark.vllm
def test_a_third_partys_text_env_trains_with_a_reward_of_ones_own(vllm_server, tmp_path):
    metrics, trajectories = run_with_vllm(
        vllm_server,
        tmp_path / "run",
        *("--env-import", str(EXAMPLE), "--env", "GuessNumber-v0", "--reward", "examples.brevity:brevity"),
        *("--env-kwargs", '{"max_episode_steps": 3}'),
        *("--set", "eval.scenarios=0"),
    )
    check_update(metrics, trajectories)
    assert metrics["reward/mean"] == pytest.approx(metrics["reward/env"] - 0.001 * metrics["tokens/completion_mean"])
    for trajectory in trajectories:
        spent = trajectory["metrics"]["independent_reward"] - trajectory["reward"]
        assert spent == pytest.approx(0.001 * trajectory["completion_tokens"])
