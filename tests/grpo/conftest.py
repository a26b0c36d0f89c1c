"""Shared by the tests of grpo: chat formats, random adapters, a stand-in for vLLM, and GPUs that are not there."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo.chat import Chat
from grpo.machine import hardware
from tests.grpo.chat.templates import FAMILIES, Family
from tests.grpo.serving.fake_vllm import write_fake_vllm


@pytest.fixture(scope="session")
def chats(model_dir: Path) -> Callable[..., Chat]:
    """The chat format of a family, made once: ``chats(family, history)``."""

    @functools.cache
    def chat_of(number: int, history: str) -> Chat:
        return FAMILIES[number].chat(model_dir, history)

    def chat(family: Family, history: str = "fork") -> Chat:
        return chat_of(FAMILIES.index(family), history)

    return chat


@pytest.fixture(scope="session")
def save_random_adapter(model_dir: Path) -> Callable[[Path, int], None]:
    """Write a rank-8 adapter on all linear layers whose B is not zero: ``save(folder, seed)``."""

    @functools.cache
    def adapted() -> Any:
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(model_dir, dtype="bfloat16")
        return get_peft_model(model, LoraConfig(r=8, lora_alpha=24, target_modules="all-linear", lora_dropout=0.0))

    def save(folder: Path, seed: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        for name, parameter in adapted().named_parameters():
            if "lora_" in name:
                parameter.data.normal_(0.0, 0.03, generator=generator)
        adapted().save_pretrained(folder)

    return save


@pytest.fixture
def fake_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(write_fake_vllm(tmp_path))
    monkeypatch.syspath_prepend(path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([path, os.getcwd()]))
    return path


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend GPUs of so many MiB each: a program of nvidia-smi's name lists them, with their ``capability``."""
    monkeypatch.setattr(hardware, "nvidia_smi", hardware.nvidia_smi.__wrapped__)  # asked anew each time

    def pretend(*mebibytes: int, capability: float = 9.0, used: int = 0) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir(exist_ok=True)
        rows = "".join(
            f"{card}, GPU-{card}, a card, {memory}, {capability}, Disabled, {used}, Default\n"
            for card, memory in enumerate(mebibytes)
        )
        program.write_text(f"#!/bin/sh\ncat <<'ROWS'\n{rows}ROWS\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return pretend
