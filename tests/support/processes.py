"""Child processes that have torch, transformers, peft and the trainer imported when they begin."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

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
