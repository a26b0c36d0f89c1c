"""What every engine must do, asked of each: one process, two of torchrun, and two that share the model's layers."""

import functools
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file  # noqa: E402

from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.local_engine import LocalEngine  # noqa: E402
from grpo.learner.lora_model import LoraSpec  # noqa: E402
from tests.grpo.learner import engine_runs  # noqa: E402
from tests.grpo.learner.engine_runs import ENGINES, LOSSES, PROCESSES, rows_of_groups  # noqa: E402
from tests.support.tiny_model import save_state  # noqa: E402

pytestmark = pytest.mark.torch


def weights(engine, folder):
    engine.save_adapter(folder)
    return load_file(folder / "adapter_model.safetensors")


def optimizer_steps(engine, count=1):
    for _ in range(count):
        engine.forward_backward(rows_of_groups(), LossSpec(normalizer=40.0))
        engine.optim_step(1e-3, 0.5)


def calls(engine, folder):
    """One session with an engine, and what it answered; it begins and ends with a state of its own."""
    rows, done, found = rows_of_groups(), [], {}
    if hasattr(engine, "_mine"):
        found["parameters"] = [
            (type(p).__name__, p.numel(), p.to_local().numel() if type(p).__name__ == "DTensor" else p.numel())
            for p in engine._mine.model.get_base_model().model.layers.parameters()
            if not p.requires_grad
        ]
        found["processes"] = torch.distributed.get_world_size()
    found["before"] = engine.logprobs(rows[::-1]), engine.logprobs([])
    save_state(engine, folder / "begin")
    for number, loss in enumerate(LOSSES):
        statistics = engine.forward_backward(rows[::-1], replace(loss, normalizer=40.0), done.append)
        norm = engine.optim_step(1e-3, 0.5)
        found[loss] = statistics, norm, weights(engine, folder / f"after-{number}")
        engine.load_state(folder / "begin")
    found["done"] = done
    optimizer_steps(engine, 2)
    save_state(engine, folder / "middle")
    optimizer_steps(engine, 2)
    found["four steps"] = weights(engine, folder / "end")
    engine.load_state(folder / "middle")
    optimizer_steps(engine, 2)
    found["resumed"] = weights(engine, folder / "again")
    engine.load_state(folder / "middle")
    engine.reset_optimizer()
    optimizer_steps(engine)
    found["forgot"] = weights(engine, folder / "forgot")
    engine.load_state(folder / "begin")
    for part in (rows[:1], rows[1:]):  # the first leaves a process without a row
        engine.forward_backward(part, LossSpec("gspo", normalizer=40.0, kl_coef=0.1))
    found["in parts"] = engine.optim_step(1e-3, 0.5), weights(engine, folder / "parts")
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What an engine answered, asked once; ``plain`` is one process without any fast path."""

    @functools.cache
    def ask(engine):
        folder = tmp_path_factory.mktemp(engine)
        model = engine_runs.model_and_adapter(folder)
        if engine == "plain":
            adapter = folder / "adapter"
            lora = LoraSpec(4, 8)
            return calls(LocalEngine(model, lora, seed=0, token_budget=64, init_adapter=adapter, kernels=()), folder)
        return engine_runs.run(engine, calls, folder, folder)

    return ask


every_engine = pytest.mark.parametrize("engine", ENGINES)


@every_engine
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.kind}-{loss.old_policy}-kl{loss.kl_coef}")
def test_loss_gradient_norm_and_weights_are_those_of_one_plain_process(answers, engine, loss):
    statistics, norm, after = answers(engine)[loss]
    expected, expected_norm, expected_after = answers("plain")[loss]
    assert norm == pytest.approx(expected_norm, rel=1e-6)
    assert sum(row.loss for row in statistics) == pytest.approx(sum(row.loss for row in expected), abs=1e-6)
    for row, other in zip(statistics, expected, strict=True):
        assert row.loss == pytest.approx(other.loss, abs=1e-6)
        assert row.logprobs == pytest.approx(other.logprobs, abs=2e-6)
        assert row.entropies == pytest.approx(other.entropies, abs=2e-6)
        assert row.reference_logprobs == pytest.approx(other.reference_logprobs, abs=2e-6)
        assert len(row.reference_logprobs) == (len(row.logprobs) if loss.kl_coef else 0)
    # Adam's first step lets rounding through where a gradient is tiny
    assert difference(after, answers("local")[loss][2]) < 3e-6
    assert difference(after, expected_after) < 1e-5
    assert difference(after, answers("plain")["four steps"]) > 1e-4


def difference(one, other):
    """The largest between the weights of two adapters."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@every_engine
def test_logprobs_come_in_the_order_of_the_rows(answers, engine):
    found, nothing = answers(engine)["before"]
    expected, _ = answers("plain")["before"]
    assert nothing == []
    assert [len(values) for values in found] == [row.num_actions for row in rows_of_groups()[::-1]]
    for values, other in zip(found, expected, strict=True):
        assert values == pytest.approx(other, abs=2e-6)


@every_engine
def test_every_row_is_heard_of_once(answers, engine):
    assert sum(answers(engine)["done"]) == len(LOSSES) * len(rows_of_groups())


@every_engine
def test_a_loaded_state_goes_on_to_the_bit_and_a_reset_forgets_the_moments(answers, engine):
    found = answers(engine)
    assert difference(found["resumed"], found["four steps"]) == 0.0
    assert difference(found["forgot"], answers("local")["forgot"]) < 3e-6  # Adam's first step: see above
    assert difference(found["forgot"], answers("plain")["forgot"]) < 1e-5
    assert difference(found["forgot"], found["four steps"]) > 1e-4


@every_engine
def test_gradients_of_calls_add_up_also_where_a_process_has_no_row(answers, engine):
    norm, after = answers(engine)["in parts"]
    expected_norm, expected_after = answers("plain")["in parts"]
    assert norm == pytest.approx(expected_norm, rel=1e-6)
    assert difference(after, expected_after) < 1e-6


def test_two_processes_are_two_and_a_sharded_model_is_halved(answers):
    assert "processes" not in answers("local")
    assert answers("torchrun")["processes"] == answers("torchrun-sharded")["processes"] == PROCESSES
    assert all(kind == "Parameter" for kind, _, _ in answers("torchrun")["parameters"])
    sharded = answers("torchrun-sharded")["parameters"]
    assert len(sharded) == 2 * 9  # seven linear layers and two norms in each of two layers
    assert all(kind == "DTensor" and here == whole / 2 for kind, whole, here in sharded)
