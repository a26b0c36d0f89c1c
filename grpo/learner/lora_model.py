"""A frozen base model with a LoRA adapter whose weights are float32, as the learner trains it.

The base model is in the dtype that the machine computes fast in. Adam's small steps would be lost in bfloat16 weights,
so the adapter's stay float32 whatever the base is.
"""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from grpo.devices.families import OTHERS
from grpo.devices.frozen_parts import has_experts
from grpo.devices.plan import CARD_ORDER
from grpo.devices.shape import (
    ATTENTION_LAYERS,
    MLP_LAYERS,
    SHARED_LAYERS,
    check_trainable,
    is_beside_images,
    rows_alone,
)
from grpo.errors import ConfigError, FullGpuError, ModelError
from grpo.learner.cpu import attention
from grpo.machine.adapters import ADAPTER_FILES, read_adapter
from grpo.machine.models import names_in
from judges.common.files import read_json

_IN_BLOCKS = re.compile(r"(?:model\.)?layers\.\d+\.")
_STAY = re.compile(r".*\.(linear_attn|mamba|conv|shared_expert)\.\w+|.*\.\w*gate")
"""Linear layers that are not trained: of state layers, of experts that all tokens pass through, and of routers."""
_CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Rank and scale of the adapter (LoRA, arXiv 2106.09685: the update is ``alpha / rank * B A``)."""

    rank: int = 16
    alpha: int = 32


def load_lora_model(
    model_path: Path, lora: LoraSpec, init_adapter: Path | None, dtype: torch.dtype, longest_row: int
) -> Any:
    """The model in ``model_path`` with a new adapter, or the one in ``init_adapter``, on the CPU, ready for training.

    It is in eval mode, as what is served: dropout of the model, or of an adapter from elsewhere, is none.

    Raises:
        ModelError: The model or the adapter cannot be loaded, they do not fit, or the learner cannot train them.
    """
    base = load_base(model_path, longest_row, dtype=dtype)
    model = _new_adapter(base, lora) if init_adapter is None else load_adapter(base, init_adapter)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model.eval()


def load_base(model_path: Path, longest_row: int | None = None, **options: Any) -> Any:
    """The model as transformers loads it; to the device ``meta``, from what its files say of themselves.

    With ``longest_row`` it is the learner's: it has its attention, and can be trained on rows of so many tokens.

    Raises:
        ModelError: Its files hold no whole model, or another than ``config.json`` says, or the learner cannot train it.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # what is missing is an error of ours
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    if longest_row is not None:
        check_trainable(model_path, longest_row)
        if not rows_alone(read_json(model_path / "config.json"), longest_row):
            options["attn_implementation"] = attention.register()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(str(model_path), **options)
    except Exception as error:  # whatever transformers, safetensors and torch's pickles meet in a foreign folder
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(f"the model in {model_path} could not be loaded: {said}") from error
    base, found = loaded
    _, others = trained_layers(base)
    tied = getattr(base.config, "tie_word_embeddings", False) and base.device.type != "meta"
    is_apart = tied and base.get_output_embeddings().weight is not base.get_input_embeddings().weight
    faults = {
        "lacks weights, in whose place random ones would be trained": found["missing_keys"],
        "has weights of other sizes than in config.json": [name for name, *_ in found["mismatched_keys"]],
        "has weights in blocks that config.json does not tell of": filter(_IN_BLOCKS.match, found["unexpected_keys"]),
        "has a vocabulary head that config.json ties to other values": ["lm_head.weight"] if is_apart else [],
        "has, in place of what would be trained, other layers": others if longest_row else (),
    }
    for fault, names in faults.items():
        if wrong := sorted(names):
            raise ModelError(
                f"the model in {model_path} {fault} ({len(wrong)}: {', '.join(wrong[:3])}); fetch it again; {OTHERS}"
            )
    return base


def trained_layers(base: Any) -> tuple[list[str], list[str]]:
    """The linear layers of a model that are trained, as peft names them, and those that no rule here knows.

    They are the projections of attention and of dense or shared MLPs, by their names. State layers, experts and
    routers stay as they are.
    """
    linears = [name for name, layer in base.named_modules() if isinstance(layer, torch.nn.Linear)]
    linears = [name for name in linears if _IN_BLOCKS.match(name)]
    beside_experts = has_experts(base.config.to_dict())
    names = [*ATTENTION_LAYERS, *(SHARED_LAYERS if beside_experts else (*MLP_LAYERS, *SHARED_LAYERS))]
    known = tuple(f".{name}" for name in (*ATTENTION_LAYERS, *MLP_LAYERS, *SHARED_LAYERS))
    trained = [name for name in names if any(layer.endswith(f".{name}") for layer in linears)]
    unknown = [layer for layer in linears if not (layer.endswith(known) or _STAY.fullmatch(layer))]
    return trained, unknown or ([] if trained else ["none of q_proj, k_proj, v_proj"])


def _new_adapter(base: Any, lora: LoraSpec) -> Any:
    from peft import LoraConfig, get_peft_model

    trained, _ = trained_layers(base)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=trained, lora_dropout=0.0, task_type="CAUSAL_LM"
    )
    return get_peft_model(base, config)


def load_adapter(base: Any, adapter: Path) -> Any:
    """The model with the adapter in this folder; on the device ``meta``, as the model is.

    Raises:
        ConfigError: The adapter is broken.
        ModelError: It has more than it may, or is of another model.
    """
    from peft import PeftModel

    read_adapter(adapter)
    try:
        with warnings.catch_warnings(action="ignore"):  # what is missing is an error of ours
            model: Any = PeftModel.from_pretrained(
                base, str(adapter), is_trainable=True, low_cpu_mem_usage=True, key_mapping={r"\.language_model\.": "."}
            )
        if alone := sorted(adapter_weights(model).keys() ^ {*names_in(adapter / ADAPTER_FILES[1])}):
            raise ValueError(f"{alone[0]} is in one of them alone")
        return model
    except (LookupError, OSError, RuntimeError, TypeError, ValueError) as error:  # as peft meets a foreign config
        first = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
        raise ModelError(
            f"the adapter {adapter} does not fit the model in {base.name_or_path} ({first}); start from an adapter of "
            "that model"
        ) from error


def adapter_weights(model: Any) -> dict[str, Any]:
    """The weights of an adapter by their names in its file, where peft does not name the adapter.

    Of a model that was published beside a part for images the file names the layers as the whole has them: vLLM looks
    for them there, and so does peft on the whole model.
    """
    whole = is_beside_images(read_json(Path(model.get_base_model().name_or_path) / "config.json"))
    blocks = ".model.language_model.layers." if whole else ".model.layers."
    named = ((name, weight) for name, weight in model.named_parameters() if ".lora_" in name)
    return {name.replace(".default.", ".").replace(".model.layers.", blocks): weight for name, weight in named}


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
