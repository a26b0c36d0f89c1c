"""What blocks have besides attention and dense MLPs: layers that carry a state, and experts. None of it is trained.

A layer that carries a state reads a row token by token, so rows cannot be packed, nor share a beginning. Experts are
counted all, whether a token reaches them or not: all must be in memory.

Sources: transformers' modules of the families in `grpo.devices.families`; a test compares the counts.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo.devices.families import OTHERS
from grpo.errors import ModelError

ATTENTION = ("full_attention", "sliding_attention")
_KINDS = ("layer_types", "layers_block_type", "block_types")
_STATE = re.compile(r"mamba|ssm_|conv_|conv1d|recurrent")


@dataclass(frozen=True, slots=True)
class FrozenParts:
    """What of a model is not trained, beside embedding and norms.

    Attributes:
        weights: Of all state layers, experts, routers, and MLPs in a model with experts.
        state: Values that all state layers keep of a sequence.
        state_layers: Blocks without attention.
        untrained_mlps: Blocks without a dense MLP that is trained.
    """

    weights: int = 0
    state: int = 0
    state_layers: int = 0
    untrained_mlps: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "FrozenParts":
        """Of the decoder that a config describes.

        Raises:
            ModelError: It has a kind of layer whose sizes are not known.
        """
        layers = [_state_layer(config, kind) for kind in layer_kinds(config) if kind not in ATTENTION]
        experts = _experts(config)
        weights = sum(weights for weights, _ in layers) + sum(experts)
        return cls(weights, sum(state for _, state in layers), len(layers), len(experts))


NOTHING = FrozenParts()
"""Of a dense model with attention in every block."""


def layer_kinds(config: Mapping[str, Any]) -> Sequence[str]:
    """What mixes the tokens of each block, in the words of its config; full attention where it says nothing."""
    count = config.get("num_hidden_layers", 0)
    if kinds := next((config[name] for name in _KINDS if config.get(name)), None):
        return ["full_attention" if kind == "attention" else kind for kind in kinds]
    if "full_attn_idxs" in config:
        return ["full_attention" if at in config["full_attn_idxs"] else "conv" for at in range(count)]
    if "linear_num_key_heads" in config:
        every = config.get("full_attention_interval", 4)
        return ["linear_attention" if (at + 1) % every else "full_attention" for at in range(count)]
    if carried := [name for name, value in config.items() if value and _STATE.match(name)]:
        raise ModelError(_unknown(carried[0]))
    return ["full_attention"] * count


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether tokens choose among MLPs."""
    return _expert_count(config) > 1


def _expert_count(config: Mapping[str, Any]) -> int:
    return config.get("num_experts") or config.get("num_local_experts") or 0


def _state_layer(config: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """Its weights, and the values of its state: gated delta rule (arXiv 2412.06464) as Qwen3-Next has it, short
    convolution (LFM2), Mamba 2 (arXiv 2405.21060) as Granite 4 has it."""
    hidden = config["hidden_size"]
    is_known = kind in ("linear_attention", "conv", "mamba")
    if is_known and "linear_num_key_heads" in config:
        heads, size = config["linear_num_value_heads"], config["linear_key_head_dim"]
        keys, values = config["linear_num_key_heads"] * size, heads * config["linear_value_head_dim"]
        mixed, kernel = 2 * keys + values, config["linear_conv_kernel_dim"]
        return hidden * (mixed + 2 * values + 2 * heads) + mixed * kernel, mixed * (kernel - 1) + values * size
    if is_known and "conv_L_cache" in config:
        kernel = config["conv_L_cache"]
        return hidden * (4 * hidden + kernel), hidden * (kernel - 1)
    if is_known and "mamba_n_heads" in config:
        heads, size, inner = config["mamba_n_heads"], config["mamba_d_state"], config["mamba_expand"] * hidden
        mixed, kernel = inner + 2 * config["mamba_n_groups"] * size, config["mamba_d_conv"]
        return hidden * (2 * inner + mixed + heads) + mixed * kernel, mixed * (kernel - 1) + inner * size
    raise ModelError(_unknown(kind))


def _experts(config: Mapping[str, Any]) -> list[int]:
    """In a model with experts, the weights of each block's MLPs but those that are trained."""
    if not has_experts(config):
        return []
    hidden, count, dense = config["hidden_size"], _expert_count(config), 3 * config["hidden_size"]
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    shared = config.get("shared_expert_intermediate_size") or 0
    mixture = count * (dense * width + hidden) + dense * shared
    step, alone = config.get("decoder_sparse_step") or 1, config.get("mlp_only_layers") or ()
    first = config.get("num_dense_layers") or 0
    return [
        dense * config["intermediate_size"] if at in alone or (at + 1) % step or at < first else mixture
        for at in range(config["num_hidden_layers"])
    ]


def _unknown(what: str) -> str:
    return (
        f"config.json has layers of a kind that is not known ({what}), so the model can neither be computed nor its "
        f"memory planned; {OTHERS}"
    )
