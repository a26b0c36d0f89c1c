"""Training and sampling on a real server of the Tinker API: SkyRL's jax backend on the CPU (scripts/test_tinker)."""

import asyncio
import json
import math
from dataclasses import replace

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file  # noqa: E402

from grpo.cli.train import train  # noqa: E402
from grpo.devices.shape import LINEAR_LAYERS  # noqa: E402
from grpo.errors import AdapterError, CheckpointError, ConfigError, ServerError  # noqa: E402
from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.local_engine import LocalEngine  # noqa: E402
from grpo.learner.lora_model import LoraSpec  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.serving.policy import SamplingParams  # noqa: E402
from grpo.tinker.connection import connect  # noqa: E402
from grpo.tinker.engine import TinkerEngine  # noqa: E402
from grpo.tinker.sampler import TinkerSampler, TinkerServer  # noqa: E402
from judges.common.files import read_jsonl  # noqa: E402
from tests.grpo.learner.engine_runs import LOSSES  # noqa: E402
from tests.support.commands import sets  # noqa: E402
from tests.support.envs import LETTER_ENV  # noqa: E402
from tests.support.tinker_server import TinkerServerProcess, why_not  # noqa: E402
from tests.support.tiny_model import save_state, tiny_chat_model_folder  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.skipif(bool(why_not()), reason=why_not())]
LORA = LoraSpec(4, 32)
PROMPT = [5, 9, 11, 40]
PLAIN_LOSSES = [loss for loss in LOSSES if loss.old_policy == "current"]
PLAIN_LOSSES += [LossSpec(kind, old_policy="sampler") for kind in ("dapo", "gspo", "cispo")]


def some_rows():
    """At most 31 ids each, so that the server compiles one shape."""
    generator = torch.Generator().manual_seed(7)
    rows = []
    for number in range(6):
        ids = PROMPT + torch.randint(0, 260, (8 + 3 * number,), generator=generator).tolist()
        mask = [at >= 4 and at % 4 != 0 for at in range(len(ids) - 1)] + [True]
        rows.append(Segment(ids, mask, [-5.6 * acts for acts in mask], 0.4 * (number % 3) - 0.5))
    return rows


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tinker")
    with TinkerServerProcess(tiny_chat_model_folder(folder / "model"), folder) as running:
        yield running


@pytest.fixture(scope="module")
def engine(server):
    """One adapter, trained by all tests."""
    return TinkerEngine(connect(server.url, str(server.model)), LORA, 3, server.model)


@pytest.fixture(scope="module")
def sampler(server, tmp_path_factory):
    return TinkerSampler(TinkerServer(server.url, str(server.model)), tmp_path_factory.mktemp("adapters"), [2], 8)


def local_copy(engine, folder):
    """The local engine with the policy that the server has."""
    engine.save_adapter(folder)
    return LocalEngine(engine._model_path, LORA, seed=0, init_adapter=folder, kernels=())


def sampled(sampler, version, tokens=8, seed=1):
    async def sample():
        async with sampler.policy(version) as policy:
            return await policy.sample(PROMPT, SamplingParams(1.0), max_tokens=tokens, seed=seed)

    return asyncio.run(sample())


def row_of(turn):
    ids = PROMPT + turn.ids
    return Segment(ids, [False] * len(PROMPT) + [True] * len(turn.ids), [0.0] * len(PROMPT) + turn.logprobs, 1.0)


def test_the_adapter_is_whole_for_peft(engine, tmp_path):
    engine.save_adapter(tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], sorted(config["target_modules"])) == (4, 32, sorted(LINEAR_LAYERS))
    assert len(load_file(tmp_path / "adapter_model.safetensors")) == 2 * 7 * 2


@pytest.mark.parametrize("loss", PLAIN_LOSSES, ids=lambda loss: f"{loss.kind}-{loss.old_policy}")
def test_a_step_is_that_of_torch(engine, tmp_path, loss):
    loss = replace(loss, normalizer=40.0)
    rows = some_rows()
    engine.reset_optimizer()
    local = local_copy(engine, tmp_path / "before")
    found = [*engine.forward_backward(rows[:2], loss), *engine.forward_backward(rows[2:], loss)]
    expected = local.forward_backward(rows, loss)
    for row, other in zip(found, expected, strict=True):
        assert row.loss == pytest.approx(other.loss, abs=1e-6)
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert engine.optim_step(1e-3, math.inf) == pytest.approx(local.optim_step(1e-3, math.inf), rel=1e-4)
    engine.save_adapter(tmp_path / "after")
    local.save_adapter(tmp_path / "expected")
    before, after, reference = (
        load_file(tmp_path / name / "adapter_model.safetensors") for name in ("before", "after", "expected")
    )
    assert before.keys() == after.keys() == reference.keys()
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before])
    meant = torch.cat([(reference[name] - before[name]).flatten() for name in before])
    assert float(meant.abs().max()) == pytest.approx(1e-3, rel=0.01)
    assert float(torch.dot(moved, meant) / moved.norm() / meant.norm()) > 0.999
    assert float((moved - meant).abs().mean()) < 1e-5


def test_what_is_sampled_is_what_is_trained_and_a_step_raises_it(engine, sampler):
    sampler.publish(engine.save_adapter, 0)
    row = row_of(turn := sampled(sampler, 0))
    assert len(turn.ids) == len(turn.logprobs) > 0
    (forward,) = engine.logprobs([row])
    assert turn.logprobs == pytest.approx(forward, abs=1e-4)
    engine.reset_optimizer()
    engine.forward_backward([row], LossSpec("imitation", normalizer=row.num_actions))
    engine.optim_step(1e-2, math.inf)
    (raised,) = engine.logprobs([row])
    assert sum(raised) > sum(forward) + 0.5


def test_publishing_changes_the_sampler(engine, sampler):
    sampler.publish(engine.save_adapter, 1)
    before = sampled(sampler, 1)
    for _ in range(3):
        engine.forward_backward([row_of(before)], LossSpec("imitation", normalizer=-10.0))
        engine.optim_step(1e-2, math.inf)
    (now,) = engine.logprobs([row_of(before)])
    sampler.publish(engine.save_adapter, 2)
    after = sampled(sampler, 2)
    assert after.ids != before.ids or after.logprobs != before.logprobs
    assert after.logprobs == pytest.approx(engine.logprobs([row_of(after)])[0], abs=1e-4)
    assert engine.logprobs([row_of(before)])[0] == pytest.approx(now, abs=1e-5), "sampling leaves the training alone"
    with pytest.raises(AdapterError, match="version 1 is not served; a Tinker server has the newest, 2"):
        sampled(sampler, 1)


def test_a_loaded_state_goes_on_with_its_moments_and_a_reset_forgets_them(engine, tmp_path):
    def steps(count):
        for _ in range(count):
            engine.forward_backward(some_rows(), LossSpec(normalizer=40.0))
            engine.optim_step(1e-3, math.inf)
        return torch.tensor([value for row in engine.logprobs(some_rows()) for value in row])

    steps(2)
    save_state(engine, tmp_path / "state")
    whole = steps(2)
    engine.load_state(tmp_path / "state")
    assert torch.allclose(steps(2), whole, atol=1e-5)
    engine.load_state(tmp_path / "state")
    engine.reset_optimizer()
    assert float((steps(2) - whole).abs().max()) > 1e-3
    with pytest.raises(CheckpointError, match=r"is not of a Tinker server \(tinker.json"):
        engine.load_state(tmp_path)


def test_an_adapter_that_the_server_would_not_make_is_refused(server):
    with pytest.raises(ConfigError, match=r"rank 4 and alpha 32, this run 4 and 16; add --set lora.rank=4"):
        TinkerEngine(connect(server.url, "any"), LoraSpec(4, 16), 0, server.model)
    with pytest.raises(ServerError, match="could not make an adapter of rank 64"):
        TinkerEngine(connect(server.url, "any"), LoraSpec(64, 32), 0, server.model)


def test_a_run_trains_on_the_server_and_goes_on(server, tmp_path):
    def run(steps):
        given = ["--env", LETTER_ENV, "--model", str(server.model), "--run-dir", str(tmp_path / "run"), "--resume"]
        given += ["--engine", "tinker", "--tinker-url", server.url, "--steps", str(steps), "--set", "eval.scenarios=1"]
        given += sets("rollout.groups_per_step=2", "rollout.group_size=3", "warm_start.steps=1", "lora.rank=8")
        for setting in ("rollout.max_turn_tokens=8", "rollout.max_tokens=400", "optimizer.max_grad_norm=null"):
            given += ["--set", setting]
        return CliRunner().invoke(train, [*given, "--set", "warm_start.batch=2"], catch_exceptions=False)

    result = run(1)
    assert result.exit_code == 0, result.output
    assert "resumed" not in result.output
    result = run(2)
    assert result.exit_code == 0, result.output
    assert "resumed from step-0001" in result.output
    steps = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["gap/max"] < 1e-3 for step in steps if "gap/max" in step)
    assert {"adapter_model.safetensors", "tinker.json"} <= {
        path.name for path in (tmp_path / "run" / "checkpoints" / "step-0002").iterdir()
    }
