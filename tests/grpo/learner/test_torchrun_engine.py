"""The processes of torchrun: states that any number of them reads, a base in bfloat16, and ends of all kinds."""

import os

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file  # noqa: E402

from grpo.errors import TrainingError  # noqa: E402
from grpo.learner.distributed import RankEngine  # noqa: E402
from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.torchrun_engine import met  # noqa: E402
from grpo.machine.processes import torchrun_rank  # noqa: E402
from grpo.serving.vllm import free_port  # noqa: E402
from grpo.training.engines import backend_of  # noqa: E402
from tests.grpo.learner import engine_runs  # noqa: E402
from tests.grpo.learner.engine_runs import PROCESSES, config_of, rows_of_groups  # noqa: E402
from tests.support import processes  # noqa: E402
from tests.support.tiny_model import save_state  # noqa: E402

pytestmark = pytest.mark.torch
END_SECONDS = 300.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    engine_runs.model_and_adapter(folder)
    return folder


def steps(engine, load, save, count):
    if load is not None:
        engine.load_state(load)
    norms = []
    for _ in range(count):
        engine.forward_backward(rows_of_groups(), LossSpec("gspo", normalizer=9.0, kl_coef=0.1))
        norms.append(engine.optim_step(1e-3, 0.5))
    save_state(engine, save)
    return norms


def test_a_state_is_read_by_any_number_of_processes(folder, tmp_path):
    straight = engine_runs.run("local", steps, folder, None, tmp_path / "straight", 3)
    norms = []
    for number, engine in enumerate(("torchrun-sharded", "local", "torchrun")):
        load = tmp_path / str(number - 1) if number else None
        norms += engine_runs.run(engine, steps, folder, load, tmp_path / str(number), 1)
    assert norms == pytest.approx(straight, rel=1e-6)
    folders = [tmp_path / "straight", tmp_path / "2"]
    weights, others = (load_file(path / "adapter_model.safetensors") for path in folders)
    assert weights.keys() == others.keys()
    assert all(torch.allclose(weights[name], others[name], atol=1e-6, rtol=0) for name in weights)
    states = [torch.load(path / "engine.pt") for path in folders]
    moments, others = (state["optimizer"]["state"] for state in states)
    for number in moments:
        assert float(others[number]["step"]) == 3.0
        for name in ("exp_avg", "exp_avg_sq"):
            difference = torch.linalg.norm(moments[number][name] - others[number][name])
            assert difference <= 1e-5 * torch.linalg.norm(moments[number][name])


def dtypes_and_logprobs(engine):
    model = engine._mine.model if hasattr(engine, "_mine") else engine.model
    layers = model.get_base_model().model.layers
    engine.forward_backward(rows_of_groups(), LossSpec(normalizer=40.0, kl_coef=0.1))
    norm = engine.optim_step(0.0, 0.5)
    kinds = {(type(p).__name__, p.dtype, p.requires_grad) for p in layers.parameters()}
    return kinds, [value for values in engine.logprobs(rows_of_groups()) for value in values], norm


def test_a_sharded_base_in_bfloat16_goes_with_a_whole_adapter_in_float32(folder):
    _, expected, expected_norm = engine_runs.run("local", dtypes_and_logprobs, folder, dtype="bfloat16")
    kinds, found, norm = engine_runs.run("torchrun-sharded", dtypes_and_logprobs, folder, dtype="bfloat16")
    assert kinds == {("DTensor", torch.bfloat16, False), ("Parameter", torch.float32, True)}
    assert found == pytest.approx(expected, abs=0.05)  # bfloat16 rounds at 0.4 %; a logprob is about -5.6 here
    assert norm == pytest.approx(expected_norm, rel=0.02)


def drive_until(what, rank, port, config, folder, out):
    engine_runs.as_rank(rank, port)
    if what == "the other dies" and rank == 1:
        RankEngine.optim_step = lambda *_: os._exit(3)
    with met(torchrun_rank()) as drives:
        if not drives:
            return
        engine = backend_of(config).engine(folder / "model", folder / "adapter")
        engine.forward_backward(rows_of_groups(), LossSpec())
        if what == "ctrl-c":
            raise KeyboardInterrupt
        try:
            engine.optim_step(1e-3, 0.5)
        except TrainingError as error:
            out.write_text(str(error))
            raise


def ended(what, engine, folder, out):
    port, config = free_port("127.0.0.1", 0), config_of(engine, folder / "model")
    started = [processes.start(drive_until, what, rank, port, config, folder, out) for rank in range(PROCESSES)]
    for process in started:
        process.join(END_SECONDS)
    return [process.exitcode for process in started]


@pytest.mark.parametrize("engine", ["torchrun", "torchrun-sharded"])
def test_a_process_that_dies_within_a_call_ends_the_first_with_the_reason(folder, tmp_path, engine):
    assert ended("the other dies", engine, folder, tmp_path / "said") == [1, 3]
    said = (tmp_path / "said").read_text()
    assert said.startswith("process 0 of 2: another one has ended; its own output says why")


def test_whatever_ends_the_first_process_between_two_calls_the_others_stop_in_order(folder, tmp_path):
    assert ended("ctrl-c", "torchrun", folder, tmp_path / "said") == [1, 0]
