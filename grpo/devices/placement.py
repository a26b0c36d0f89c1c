"""Which of the visible GPUs serve and which train: servers take them from the front, learners from the back.

Where there are enough, nothing is shared; with one GPU both are on it. It is arithmetic on numbers of GPUs, in the
order in which ``CUDA_VISIBLE_DEVICES`` shows them. Not every GPU can serve, or train in bfloat16.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from grpo.errors import ConfigError
from grpo.machine.dtype import Dtype
from grpo.machine.hardware import LEAST_CAPABILITY, Gpu

CARD_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""CUDA's own order is by speed, nvidia-smi's by bus. With this variable both number the GPUs alike."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Numbers of GPUs: those of each server, and that of each learner process."""

    servers: tuple[tuple[int, ...], ...]
    learners: tuple[int, ...]

    @property
    def shared(self) -> bool:
        """Whether a learner is on a server's GPU."""
        return not set(self.learners).isdisjoint(card for cards in self.servers for card in cards)


def place(cards: int, *, servers: int = 1, tensor_parallel: int = 1, learners: int = 1) -> Placement:
    """Give ``cards`` GPUs to servers and learner processes.

    Args:
        cards: GPUs that are visible.
        servers: vLLM processes of ours.
        tensor_parallel: GPUs of each server.
        learners: Processes that train, one GPU each.

    Raises:
        ConfigError: There are fewer than the servers, or the learners, need.
    """
    if cards == 0:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise ConfigError(
            "device = 'cuda', but nvidia-smi shows no GPU"
            + ("" if shown is None else f" (CUDA_VISIBLE_DEVICES = {shown!r})")
            + ("; a part of a GPU (MIG) is not planned for: show a whole one" if "MIG-" in (shown or "") else "")
            + "; train with --cpu, or let grpo-doctor --cuda say what is missing"
        )
    served = servers * tensor_parallel
    if cards < max(served, learners):
        parts = [f"{servers} vLLM server(s) x server.tensor_parallel = {tensor_parallel}"] if served else []
        parts += [f"{learners} learner process(es)"] if learners else []
        raise ConfigError(
            f"device = 'cuda' with {' and '.join(parts)}, but {cards} GPU(s) are visible; ask for fewer, show more "
            "(CUDA_VISIBLE_DEVICES), or train with --cpu"
        )
    of_server = tuple(tuple(range(n * tensor_parallel, (n + 1) * tensor_parallel)) for n in range(servers))
    return Placement(of_server, tuple(range(cards - learners, cards)))


def check_whole(gpus: Iterable[Gpu]) -> None:
    """Memory is planned for whole GPUs.

    Raises:
        ConfigError: One is divided.
    """
    for gpu in gpus:
        if gpu.divided:
            raise ConfigError(
                f"GPU {gpu.id} ({gpu.name}) is divided into parts (MIG), which are not planned for; show a whole one "
                "with CUDA_VISIBLE_DEVICES, or train with --cpu"
            )


def check_serving(gpus: Iterable[Gpu]) -> None:
    """vLLM computes on these GPUs; it would say so itself after it has loaded the model, and in many lines.

    Raises:
        ConfigError: One has no bfloat16.
    """
    for gpu in gpus:
        if gpu.capability is not None and gpu.capability < LEAST_CAPABILITY:
            raise ConfigError(
                f"GPU {gpu.id} ({gpu.name}) has compute capability {gpu.capability}, and vLLM computes in bfloat16 "
                f"from {LEAST_CAPABILITY} (Ampere, such as A10 or RTX 30) on alone; show other GPUs with "
                "CUDA_VISIBLE_DEVICES, sample on another machine (--server URL) and train here with "
                "--set dtype=float32, or use --cpu"
            )


def check_training(gpus: Iterable[Gpu], dtype: Dtype) -> None:
    """torch has an attention there that keeps no scores of all pairs of tokens, which no plan has room for.

    Raises:
        ConfigError: ``dtype`` is bfloat16, and on one torch has for it the plain form alone.
    """
    for gpu in gpus:
        if dtype == "bfloat16" and gpu.capability is not None and gpu.capability < LEAST_CAPABILITY:
            raise ConfigError(
                f"GPU {gpu.id} ({gpu.name}) has compute capability {gpu.capability}, and below {LEAST_CAPABILITY} "
                "torch's attention in bfloat16 keeps the scores of all pairs of tokens; train there with "
                "--set dtype=float32 (and vLLM on another machine: --server URL), show other GPUs with "
                "CUDA_VISIBLE_DEVICES, or use --cpu"
            )
