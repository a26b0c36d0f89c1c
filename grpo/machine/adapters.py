"""What an adapter may have: A and B of linear layers in the blocks, which alone are trained, merged and served alike.

The learner computes no adapter of the embedding or the vocabulary head. vLLM serves none with a bias, a magnitude
(DoRA), whole modules, or an initialisation for which peft changes the base model.
"""

import re
from pathlib import Path
from typing import Any

from grpo.errors import ConfigError, ModelError
from grpo.machine.models import names_in
from judges.common.files import read_json

ADAPTER_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
ADAPTER_FILES = (ADAPTER_CONFIG, _WEIGHTS)

_WEIGHT = re.compile(r".*\blayers\.\d+\..*\.lora_[AB]\.weight")
_PLAIN = re.compile(
    r"(auto_mapping|base_model_name_or_path|inference_mode|peft_version|revision|task_type|(target|exclude)_modules"
    r"|layers_(to_transform|pattern)|r|lora_alpha|use_rslora|(rank|alpha)_pattern|lora_dropout|(eva|lora_ga)_config"
    r"|megatron_core|qalora_group_size) = .*|peft_type = LORA|bias = none"
    r"|init_lora_weights = (True|gaussian|eva|orthogonal|mica|lora_ga)",
    re.DOTALL | re.IGNORECASE,
)
"""What a config may say; where a value is none, it may say anything."""


def read_adapter(folder: Path) -> dict[str, Any]:
    """The ``adapter_config.json`` of an adapter.

    Raises:
        ConfigError: A file is missing or cannot be read.
        ModelError: The adapter has something else.
    """
    if missing := [name for name in ADAPTER_FILES if not (folder / name).is_file()]:
        raise ConfigError(f"the adapter in {folder} lacks {' and '.join(missing)}; save it with save_pretrained()")
    try:
        config, names = read_json(folder / ADAPTER_CONFIG, "r"), names_in(folder / _WEIGHTS)
        if not (isinstance(rank := config["r"], int) and rank > 0):
            raise ValueError(f"r = {rank!r}")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} is no PEFT LoRA adapter ({type(error).__name__}: {error})") from error
    said = [f"{name} = {value}" for name, value in config.items() if value]
    others = [text for text in said if not _PLAIN.fullmatch(text)]
    others += [name for name in names if not _WEIGHT.fullmatch(name)]
    higher = {name: its for name, its in (config.get("rank_pattern") or {}).items() if its > rank}
    others += [f"rank_pattern = {higher}, above r = {rank}"] if higher else []
    if others:
        raise ModelError(
            f"the adapter in {folder} has {', '.join(others[:3])}; train one with LoRA on linear layers of the blocks "
            "alone, which are trained, merged and served alike"
        )
    return config


def check_adapter_of(adapter: Path, model: Path) -> None:
    """Refuse an adapter none of whose layers is in the model's files: vLLM would serve the model without it.

    Raises:
        ModelError: It is one.
    """
    layers = {name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in names_in(adapter / _WEIGHTS)}
    known = {name.removesuffix(".weight") for file in model.glob("*.safetensors") for name in names_in(file)}
    if known and not layers & known:
        one = min(layers, default="it has none")
        raise ModelError(
            f"the model in {model} has none of the adapter's layers (such as {one}); name the model that the adapter "
            "was trained on"
        )
