"""Child processes that have torch, transformers, peft and the trainer imported when they begin; what torchrun says to one."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

PRELOADED = [
    *("torch", "peft", "transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("transformers.models.llama.modeling_llama", "grpo.cli.train", "grpo.learner.local_engine", "grpo.report"),
    "grpo.training.trainer",
]


def start(target: Callable[..., None], *args: Any) -> Any:
    """Start ``target`` (of an importable module) in a process forked from one that never ran a model."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=target, args=args)
    process.start()
    return process


def under_torchrun(monkeypatch: pytest.MonkeyPatch, rank: int, size: int, here: int | None = None) -> None:
    """Tell this process what torchrun tells one of ``size``, of which ``here`` (all, unless given) are on this machine."""
    told = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": here or size}
    for name, value in (told | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}).items():
        monkeypatch.setenv(name, str(value))
