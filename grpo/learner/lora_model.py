"""A frozen base model with a LoRA adapter whose weights are float32, as the learner trains it.

The base model is in the dtype that the machine computes fast in. Adam's small steps would be lost in bfloat16 weights,
so the adapter's stay float32 whatever the base is.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from grpo.devices.plan import CARD_ORDER
from grpo.errors import ConfigError, FullGpuError, ModelError
from grpo.learner.cpu import attention

LINEAR_LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LOGIT_CHANGES = (
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
    "lm_head_multiplier",
    "output_multiplier",
)
"""What some models' configs name that they do to logits."""

_CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Rank and scale of the adapter (LoRA, arXiv 2106.09685: the update is ``alpha / rank * B A``)."""

    rank: int = 16
    alpha: int = 32


def load_lora_model(model_path: Path, lora: LoraSpec, init_adapter: Path | None, dtype: torch.dtype) -> Any:
    """The model in ``model_path`` with a new adapter, or the one in ``init_adapter``, on the CPU, ready for training.

    Raises:
        ModelError: The model or the adapter cannot be loaded, they do not fit, or the learner does not compute them.
    """
    base = _load_base(model_path, dtype)
    model = _new_adapter(base, lora) if init_adapter is None else _load_adapter(base, init_adapter, model_path)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    _check_logits(model.get_base_model())
    return model.train()


def _load_base(model_path: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        return AutoModelForCausalLM.from_pretrained(
            str(model_path), dtype=dtype, attn_implementation=attention.register()
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"the model in {model_path} could not be loaded: {error}") from error


def _new_adapter(base: Any, lora: LoraSpec) -> Any:
    from peft import LoraConfig, get_peft_model

    _check_layers(base)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=LINEAR_LAYERS, lora_dropout=0.0, task_type="CAUSAL_LM"
    )
    return get_peft_model(base, config)


def _check_layers(base: Any) -> None:
    """peft adapts the layers that it finds and says nothing of the others: fused projections, experts of a mixture."""
    for block in getattr(getattr(base, "model", base), "layers", [base]):
        modules = block.named_modules()
        linear = Counter(name.rpartition(".")[2] for name, module in modules if isinstance(module, torch.nn.Linear))
        if missing := [name for name in LINEAR_LAYERS if name not in linear]:
            raise ModelError(
                f"{type(base).__name__} has no linear layers {', '.join(missing)} (its linear layers: "
                f"{', '.join(linear)}); the adapter goes on all of q, k, v, o, gate, up and down of every block. Train "
                "a model that has them apart, such as Llama, Qwen2.5 or SmolLM2"
            )
        experts = [name for name, weight in block.named_parameters() if weight.ndim > 2]
        if experts := experts or [name for name in LINEAR_LAYERS if linear[name] > 1]:
            raise ModelError(
                f"{type(base).__name__} is a mixture of experts ({', '.join(experts)}), and the adapter would miss "
                "some of them; train a dense model, such as Llama, Qwen2.5 or SmolLM2"
            )


def _load_adapter(base: Any, adapter: Path, model_path: Path) -> Any:
    from peft import PeftModel
    from safetensors import SafetensorError

    try:
        return PeftModel.from_pretrained(base, str(adapter), is_trainable=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        first = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
        raise ModelError(
            f"the adapter {adapter} does not fit the model in {model_path}, or is damaged ({first}); start from an "
            "adapter of that model"
        ) from error


def _check_logits(base: Any) -> None:
    """The learner computes logits as ``lm_head`` of the last hidden state, with nothing before or after."""
    if base.lm_head.weight.requires_grad or base.lm_head.bias is not None:
        raise ModelError("the vocabulary projection must be frozen and without bias for LoRA training here")
    changed = [name for name in LOGIT_CHANGES if getattr(base.config, name, None) not in (None, 1)]
    if changed:
        raise ModelError(
            f"the model changes its logits ({changed[0]} = {getattr(base.config, changed[0])}), which the learner "
            "does not compute; train a model with plain logits, for example Llama, Qwen2.5 or SmolLM2"
        )


@contextmanager
def explained_where_full() -> Iterator[None]:
    """Say what to lower where the GPU has no room.

    Raises:
        FullGpuError: torch or CUDA found none.
    """
    try:
        yield
    except (torch.OutOfMemoryError, torch.AcceleratorError) as error:
        if getattr(error, "error_code", _CUDA_OUT_OF_MEMORY) != _CUDA_OUT_OF_MEMORY:
            raise
        raise FullGpuError(
            f"the GPU's memory is full ({next(iter(str(error).splitlines()), '')}); lower its use with "
            "--set learner.token_budget=N or --set learner.gradient_checkpointing=true"
        ) from error


def usable_device(name: str) -> torch.device:
    """The device of this name, a GPU with its number: ``cuda`` is ``cuda:0``. Nothing is put on a card.

    Raises:
        ConfigError: It is a GPU, and torch sees none.
    """
    if name != "cpu":
        os.environ.update(CARD_ORDER)  # before CUDA is there: a plan numbers the GPUs as nvidia-smi does
    if name != "cpu" and not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise ConfigError(
            f"device = {name!r}, but torch {torch.__version__} sees no GPU"
            + ("" if visible is None else f" (CUDA_VISIBLE_DEVICES = {visible!r})")
            + "; train with --cpu, or let grpo-doctor --cuda say what is missing"
        )
    device = torch.device(name)
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


class WaitingWeights:
    """The frozen weights of a model in the host's memory, and on a GPU only while they are computed with.

    They never change, so the copy on the host is made once, and the one on the GPU is dropped without a look at it. It
    is in ordinary memory: torch gives page-locked memory out in powers of two, so up to twice as much of it, for a copy
    that takes seconds of a step of minutes. The other parameters and the buffers, which are small, stay on the device.
    """

    def __init__(self, model: Any, device: torch.device):
        """Bring what is not frozen to ``device``; the model is on the CPU, and computes nothing before ``load``."""
        self._device = device
        self._host = [(weight, weight.data) for weight in model.parameters() if not weight.requires_grad]
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data = weight.data.to(device)
        for module in model.modules():
            for name, buffer in module.named_buffers(recurse=False):
                setattr(module, name, buffer.to(device))

    def load(self) -> None:
        """Copy them to the device."""
        for weight, host in self._host:
            weight.data = host.to(self._device, copy=True)

    def unload(self) -> None:
        """Give their memory on the device back to it, for other processes, too."""
        for weight, host in self._host:
            weight.data = host
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
