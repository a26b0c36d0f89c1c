"""Whether the memory that is free here is enough for a run on the CPU: said before it starts, not by the kernel later.

What learner and server need is computed from the model's shape (``grpo.devices.memory``). The learner's kernels for the
CPU keep less than that, attention above all; the C library keeps more, because freed blocks of ever other sizes fit
nothing: ``CPU_SLACK``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from grpo.config import TrainConfig
from grpo.devices.memory import GIB, ROWS_BUDGET, learner_memory, server_memory
from grpo.devices.plan import served_adapters
from grpo.devices.shape import ModelShape
from grpo.doctor.checks import Trouble
from grpo.errors import ModelError
from grpo.machine.dtype import Dtype
from grpo.machine.torchrun import place
from grpo.serving.cpu.drafts import MOST_LOGITS
from grpo.serving.vllm_options import CPU_KV_CACHE_GIB
from grpo.settings import KERNELS

CPU_SLACK = 1.2
"""Of the learner's activations: a little more than was measured over the computed ones (docs/performance.md)."""

SMALLER_BUDGET = 1024
LOGIT_CHUNK_TOKENS = 512
"""At least as many as the learner takes, whose module would load torch."""


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """What a run on the CPU needs, in GiB.

    Attributes:
        trainer: At its highest; under torchrun, all learners of this machine.
        server: Of a vLLM of its own; 0 where the user names one.
        least: Without what one can lower: below it nothing works.
        with_smaller_budget: Of trainer and server with ``SMALLER_BUDGET`` tokens a forward pass.
    """

    trainer: float
    server: float
    least: float
    with_smaller_budget: float

    @property
    def total(self) -> float:
        """Of trainer and server."""
        return self.trainer + self.server

    def __str__(self) -> str:
        """For example ``about 8.7 GiB of memory (trainer 3.4, vLLM 5.3)``."""
        server = f", vLLM {self.server:.1f}" if self.server else ""
        return f"about {self.total:.1f} GiB of memory (trainer {self.trainer:.1f}{server})"

    def advice(self) -> str:
        """What one can lower."""
        smaller = (
            f"lower it with --set learner.token_budget={SMALLER_BUDGET} (about {self.with_smaller_budget:.1f} GiB)"
        )
        return f"end other programs, {smaller if self.with_smaller_budget < self.total else 'or take a smaller model'}"


def memory_needs(config: TrainConfig, model_path: Path) -> MemoryNeeds | None:
    """What a run with these settings needs; None on a GPU or a Tinker server, and for unknown models."""
    if config.device != "cpu" or config.engine == "tinker":
        return None
    try:
        shape = ModelShape.read(model_path)
    except ModelError:
        return None
    dtype = cast("Dtype", config.dtype)
    here = place()
    learners = here.local_size if here else 1  # each reads the whole model, also where they share its layers later

    kernels = KERNELS if config.learner.kernels is None else config.learner.kernels
    rows_per_token = 1.0 if "attention" in kernels else ROWS_BUDGET  # torch's attention works on whole rows

    def trainer(tokens: int) -> tuple[float, float]:
        memory = learner_memory(
            shape, config.lora.rank, dtype, tokens=tokens, rows_per_token=rows_per_token,
            gradient_checkpointing=config.learner.gradient_checkpointing is True, logit_chunk_tokens=LOGIT_CHUNK_TOKENS,
        )  # fmt: skip
        fixed = memory.total - memory.activations
        return learners * (fixed + CPU_SLACK * memory.activations) / GIB, learners * fixed / GIB

    guessed = MOST_LOGITS // shape.vocab if config.server.draft_tokens else 0
    server = server_memory(
        shape, config.lora.rank, dtype, adapters=served_adapters(config),
        sampled_tokens=config.rollout.concurrency + guessed,
        kv_cache=int((config.server.kv_cache_gib or CPU_KV_CACHE_GIB) * GIB),
    )  # fmt: skip
    served = 0.0 if config.server.urls else config.server.replicas * server.total / GIB
    (whole, fixed), (smaller, _) = trainer(config.learner.token_budget), trainer(SMALLER_BUDGET)
    return MemoryNeeds(whole, served, fixed + served, smaller + served)


def check_memory(config: TrainConfig, model_path: Path, available: float | None) -> str:
    """What a run needs and what is free, in a line; "" where either is not known.

    Raises:
        Trouble: It is not enough.
    """
    needs = memory_needs(config, model_path)
    if needs is None or available is None:
        return ""
    if available < needs.total:
        raise Trouble(f"only {available:.1f} GiB of memory are free, and the run needs {needs}", needs.advice())
    return f"{available:.1f} GiB of memory are free, and the run needs {needs}"
