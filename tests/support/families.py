"""Tiny random models of the families that transformers knows and `grpo.devices.families` tells of."""

from pathlib import Path
from typing import Any

from tests.support.tiny_model import tiny_chat_model_folder, tiny_kind

_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_DELTA = {
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"] * 2,
}
_CONVOLUTIONS = {"layer_types": ["conv", "full_attention"] * 2, "conv_dim": 32, "conv_dim_out": 32}
_MAMBA = {
    "layer_types": ["mamba", "attention"] * 2,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_chunk_size": 16,
    "shared_intermediate_size": 32,
    "position_embedding_type": "nope",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "logits_scaling": 4.0,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.5,
}

TINY: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "smollm3": {},
    "mistral": {"sliding_window": None},
    "granite": {"logits_scaling": 4.0, "embedding_multiplier": 3.0},
    "qwen3_next": _DELTA | _EXPERTS | {"shared_expert_intermediate_size": 16},
    "qwen3_5": _DELTA,
    "qwen3_5_text": _DELTA,
    "qwen3_5_moe": _DELTA | _EXPERTS | {"shared_expert_intermediate_size": 16},
    "qwen3_5_moe_text": _DELTA | _EXPERTS | {"shared_expert_intermediate_size": 16},
    "granitemoehybrid": _MAMBA,
    "lfm2": _CONVOLUTIONS | {"block_auto_adjust_ff_dim": False},
    "lfm2_moe": _CONVOLUTIONS | _EXPERTS | {"num_dense_layers": 1},
    "qwen3_moe": _EXPERTS | {"mlp_only_layers": [0]},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16},
}
"""Settings of a tiny model by its ``model_type``."""

IMAGES = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "num_position_embeddings": 16}
"""Settings of the part for images of kinds that are published with one."""

_QWEN = {"hidden_size": 128, "head_dim": 64, "linear_key_head_dim": 128, "linear_value_head_dim": 128}

_PLAIN = {"hidden_size": 128, "head_dim": 32}

SERVED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("qwen2", "qwen3", "smollm3", "mistral", "granite"), _PLAIN),
    "qwen3_5": _QWEN,
    "qwen3_5_text": _QWEN,
    "lfm2": _PLAIN | {"block_dim": 128, "conv_dim": 128, "conv_dim_out": 128},
    "granitemoehybrid": _PLAIN | {"mamba_n_heads": 32, "num_local_experts": 0},
}
"""Families whose tiny models vLLM's CPU build serves, and what it asks of their sizes."""


def tiny_family(folder: Path, kind: str, **settings: Any) -> Path:
    """A random model of a family with four blocks, ids of bytes and ChatML's marks; norms are no ones."""
    import torch
    from safetensors.torch import load_file, save_file

    tiny_chat_model_folder(folder)
    images = None if kind not in ("qwen3_5", "qwen3_5_moe") else IMAGES
    tiny_kind(folder, kind, images, **{"num_hidden_layers": 4, "num_key_value_heads": 2, **TINY[kind], **settings})
    path = folder / "model.safetensors"
    generator = torch.Generator().manual_seed(7)
    weights = load_file(path)
    for name, weight in weights.items():
        if "norm" in name or "sinks" in name:
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    save_file(weights, path, {"format": "pt"})
    return folder
