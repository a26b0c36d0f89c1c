"""The same calls on every engine, in as many processes as it has: what the tests of the engines compare."""

import os
from pathlib import Path

import torch

from grpo.config import load_config
from grpo.learner.engine import LossSpec
from grpo.learner.segments import Segment
from grpo.learner.torchrun_engine import met
from grpo.machine.processes import torchrun_rank
from grpo.serving.vllm import free_port
from grpo.training.engines import backend_of
from tests.support import processes
from tests.support.tiny_model import tiny_chat_model_folder, tiny_engine

PROCESSES = 2
SHARDED = {"learner.shard": True, "learner.gradient_checkpointing": True}
"""As on GPUs, where activations are computed again by default."""
ENGINES = {"local": {}, "torchrun": {}, "torchrun-sharded": SHARDED}
LOSSES = [LossSpec(kind) for kind in ("dapo", "bnpo", "dr_grpo", "grpo", "gspo", "cispo", "imitation")]
LOSSES += [LossSpec(loss.kind, old_policy="sampler", kl_coef=0.1, temperature=0.8) for loss in LOSSES[:-1]]


def rows_of_groups():
    """Three groups that share their prompts; the later a row, the longer."""
    generator = torch.Generator().manual_seed(7)
    rows = []
    for number in range(9):
        prompt = [(31 * (number // 3) + at) % 250 for at in range(15)]
        ids = prompt + torch.randint(0, 260, (8 + 5 * number,), generator=generator).tolist()
        mask = [at >= 15 and at % 4 != 0 for at in range(len(ids) - 1)] + [True]
        rows.append(Segment(ids, mask, [-5.6 * acts for acts in mask], 0.4 * (number % 3) - 0.5))
    return rows


def config_of(engine, folder, **settings):
    given = {"env": "E", "model": str(folder), "dtype": "float32", "threads": 1, "learner.token_budget": 64}
    return load_config(None, given | ENGINES[engine] | settings)


def model_and_adapter(folder):
    """A tiny model, and an adapter on it whose B is not zero."""
    model = tiny_chat_model_folder(folder / "model")
    tiny_engine(model).save_adapter(folder / "adapter")
    return model


def run(engine, calls, folder, *arguments, **settings):
    """What ``calls(engine, *arguments)`` returns, over the model and the adapter in ``folder``."""
    config = config_of(engine, folder / "model", **settings)
    if engine == "local":
        return calls(backend_of(config).engine(folder / "model", folder / "adapter"), *arguments)
    out = folder / "returned.pt"
    out.unlink(missing_ok=True)
    port = free_port("127.0.0.1", 0)
    workers = [
        processes.start(_process, rank, port, config, folder, calls, arguments, out) for rank in range(PROCESSES)
    ]
    for process in workers:
        process.join(300)
    assert [process.exitcode for process in workers] == [0] * PROCESSES
    return torch.load(out, weights_only=False)


def as_rank(rank, port):
    """Tell this process what torchrun would."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(PROCESSES), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _process(rank, port, config, folder: Path, calls, arguments, out):
    as_rank(rank, port)
    with met(torchrun_rank()) as drives:
        assert drives == (rank == 0)
        if drives:
            torch.save(calls(backend_of(config).engine(folder / "model", folder / "adapter"), *arguments), out)
