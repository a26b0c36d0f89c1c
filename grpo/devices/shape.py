"""The shape of a model as its ``config.json`` says it, and what follows from it: counts of weights, bytes of a token.

No weights are read and no torch is loaded. Shapes: D hidden, I intermediate, Q = heads x head size, K = key/value heads
x head size, V vocabulary, r rank of the adapter.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from grpo.devices.families import OTHERS, family_of
from grpo.devices.frozen_parts import ATTENTION, NOTHING, FrozenParts, has_experts, layer_kinds
from grpo.errors import ModelError
from grpo.machine.models import EMBEDDED_MODEL, config_at_hand
from grpo.machine.probe import Dtype
from judges.common.files import read_json

DTYPE_BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2}

LINEAR_LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""What is trained of every block of a dense model such as Llama."""

ATTENTION_LAYERS = [*LINEAR_LAYERS[:4], "self_attn.out_proj"]
MLP_LAYERS = [*LINEAR_LAYERS[4:], "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"]
SHARED_LAYERS = ["shared_mlp.input_linear", "shared_mlp.output_linear"]
"""Names of the linear layers that are trained: of attention, of a dense MLP, and of one that stands beside experts. In
a model with experts peft takes the names of ``MLP_LAYERS`` for the experts', so there they stay as they are."""

_UNTRAINABLE = {
    "it is a mixture of experts of an unknown form": re.compile(
        r"(?!num_(local_)?experts = |num_experts_per_tok)\w*experts\w* = \[?'?([2-9]|\d\d)"
    ),
    "it caps scores or logits": re.compile(r"\w*softcap\w* = (?!None|False|0|\[\])"),
    "its weights are quantised": re.compile(r"\w*(quantization|compression)\w* = (?!None|False|\{\})"),
}
"""What a config has besides what is computed here, in the words in which transformers' configs say it."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a decoder with gated MLPs (Llama, Qwen2, Qwen3, SmolLM2), and of what else it has.

    Attributes:
        layers: Blocks.
        hidden: D.
        intermediate: I; in a model with experts, of all the MLPs that a token passes through.
        heads: Query heads.
        kv_heads: Key/value heads.
        head_dim: Values of a head.
        vocab: V.
        tied: Whether the vocabulary projection is the embedding.
        shared: Width of an MLP beside experts that is trained; 0: none.
        gated: Whether the query projection has a gate of the same width beside it.
        frozen: State layers and experts.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    shared: int = 0
    gated: bool = False
    frozen: FrozenParts = NOTHING

    @classmethod
    def read(cls, model_path: Path) -> Self:
        """The shape of the model in a folder.

        Raises:
            ModelError: ``config.json`` lacks a size.
        """
        return cls.of(read_json(model_path / "config.json"))

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """The shape that a ``config.json`` describes.

        Raises:
            ModelError: A size is missing.
        """
        config = decoder_config(config)
        needed = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
        if missing := [name for name in needed if not (isinstance(size := config.get(name), int) and size > 0)]:
            raise ModelError(
                f"config.json has no {', '.join(missing)}, so the memory of the model cannot be computed; "
                "train a model such as Llama, Qwen2.5 or SmolLM2"
            )
        layers, hidden, intermediate, heads, vocab = (config[name] for name in needed)
        kv_heads, head_dim = config.get("num_key_value_heads") or heads, config.get("head_dim") or hidden // heads
        shared = config.get("shared_intermediate_size") or 0
        if has_experts(config):
            width = config.get("moe_intermediate_size") or intermediate
            beside = shared or config.get("shared_expert_intermediate_size") or 0
            intermediate = (config.get("num_experts_per_tok") or 1) * width + beside
        else:
            intermediate, shared = shared or _adjusted(config, intermediate), 0
        return cls(
            layers,
            hidden,
            intermediate,
            heads,
            kv_heads,
            head_dim,
            vocab,
            bool(config.get("tie_word_embeddings", config.get("tie_embedding", "conv_L_cache" in config))),
            shared,
            "linear_num_key_heads" in config,
            FrozenParts.of(config),
        )

    def to_config(self) -> dict[str, Any]:
        """The sizes by their names in ``config.json``."""
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "tie_word_embeddings": self.tied,
        }

    @property
    def query_width(self) -> int:
        """Q."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """K."""
        return self.kv_heads * self.head_dim

    @property
    def trained(self) -> tuple[tuple[int, int, int], ...]:
        """(in, out, blocks) of each linear layer that is trained: q, k, v and o, then gate, up and down."""
        d, i, q, k = self.hidden, self.intermediate, self.query_width, self.kv_width
        attentions, mlps = self.layers - self.frozen.state_layers, self.layers - self.frozen.untrained_mlps
        found = [(d, q * (1 + self.gated)), (d, k), (d, k), (q, d)], [(d, i), (d, i), (i, d)]
        beside = [(d, 2 * self.shared), (self.shared, d)] if self.shared else []
        counted = (attentions, found[0]), (mlps, found[1]), (self.layers, beside)
        return tuple((rows, columns, blocks) for blocks, layers in counted if blocks for rows, columns in layers)

    @property
    def parameters(self) -> int:
        """All weights of the model; biases and norms of heads, a ten-thousandth, are left out."""
        vocabulary = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layers * self.block_parameters + self.hidden + vocabulary

    @property
    def block_parameters(self) -> int:
        """Those of a block, on average."""
        trained = sum(rows * columns * blocks for rows, columns, blocks in self.trained)
        return (trained + self.frozen.weights) // self.layers + 2 * self.hidden

    def adapter_parameters(self, rank: int) -> int:
        """Weights of an adapter on what is trained: r (in + out) of each layer (LoRA, arXiv 2106.09685)."""
        return rank * sum((rows + columns) * blocks for rows, columns, blocks in self.trained)

    def kv_bytes(self, dtype: Dtype) -> int:
        """Bytes of a token in the KV cache: keys and values of every layer with attention."""
        return 2 * (self.layers - self.frozen.state_layers) * self.kv_width * DTYPE_BYTES[dtype]

    @property
    def state_bytes(self) -> int:
        """Bytes of a sequence beside the KV cache, however long it is; in float32 at most."""
        return self.frozen.state * DTYPE_BYTES["float32"]


def decoder_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a config that tells of the model of language, where it tells of one for images, too."""
    decoder = {**config, **(config.get("text_config") or {})}
    return {"intermediate_size": decoder.get("moe_intermediate_size")} | decoder


def is_beside_images(config: Mapping[str, Any]) -> bool:
    """Whether a config tells of a model of language beside a part for images, which is neither trained nor served."""
    return "text_config" in config


def _adjusted(config: Mapping[str, Any], intermediate: int) -> int:
    """The width of an MLP of LFM2, whose config asks for two thirds of it, in whole multiples."""
    intermediate = config.get("block_ff_dim", intermediate)
    if "block_multiple_of" not in config or not config.get("block_auto_adjust_ff_dim", True):
        return intermediate
    wanted, multiple = (
        int(config.get("block_ffn_dim_multiplier", 1) * int(2 * intermediate / 3)),
        config["block_multiple_of"],
    )
    return multiple * math.ceil(wanted / multiple)


def shape_at_hand(model: str) -> ModelShape | None:
    """The shape of a model that is here or in a bundled recipe; None before it is fetched.

    Raises:
        ModelError: ``config.json`` lacks a size.
    """
    config = config_at_hand(model)
    return RECIPES_MODELS.get(model) if config is None else ModelShape.read(config.parent)


def check_trainable(folder: Path, longest_row: int) -> None:
    """Refuse what cannot be trained, as far as ``config.json`` tells it.

    Raises:
        ModelError: It caps scores, has quantised weights, experts or layers of an unknown form, or a window that is
            shorter than rows of so many tokens and of which it is not known whether it is looked back through; or a
            size is missing.
    """
    config = read_json(folder / "config.json")
    found = [
        f"{what} ({text:.80})" for what, words in _UNTRAINABLE.items() for text in filter(words.match, _said(config))
    ]
    family = family_of(config)
    if _window_below(config, longest_row) and not (family and family.windowed):
        window = decoder_config(config)["sliding_window"]
        found.append(
            f"its sliding window of {window} tokens is shorter than an episode (rollout.max_tokens = {longest_row})"
        )
    if found:
        raise ModelError(f"{folder} cannot be trained: {found[0]}; {OTHERS}")
    ModelShape.of(config)


def rows_alone(config: Mapping[str, Any], longest_row: int) -> bool:
    """Whether rows of so many tokens are each computed alone, by transformers' own attention.

    They are where a token sees others by something else than plain causal attention: a state that is carried from token
    to token, or a window that is shorter than a row.
    """
    return carries_state(config) or _window_below(config, longest_row)


def carries_state(config: Mapping[str, Any]) -> bool:
    """Whether a layer of the model carries a state from token to token."""
    return not {*layer_kinds(decoder_config(config))} <= {*ATTENTION}


def _window_below(config: Mapping[str, Any], longest_row: int) -> bool:
    config = decoder_config(config)
    window, kinds = config.get("sliding_window"), config.get("layer_types") or ["sliding_attention"]
    slides = "sliding_attention" in kinds and config.get("use_sliding_window", True)
    return isinstance(window, int) and window < longest_row and slides


def _said(config: Mapping[str, Any]) -> list[str]:
    """What a config says, and its parts, as text."""
    nested = [pair for value in config.values() if isinstance(value, dict) for pair in value.items()]
    return [
        f"{name} = {sorted({*map(str, value)}) if isinstance(value, list) else value!r}"
        for name, value in (*config.items(), *nested)
    ]


RECIPES_MODELS = {
    EMBEDDED_MODEL: ModelShape(30, 576, 1536, 9, 3, 64, 49152, tied=True),
    "Qwen/Qwen2.5-0.5B-Instruct": ModelShape(24, 896, 4864, 14, 2, 64, 151936, tied=True),
    "Qwen/Qwen2.5-7B-Instruct": ModelShape(28, 3584, 18944, 28, 4, 128, 152064, tied=False),
    "Qwen/Qwen2.5-14B-Instruct": ModelShape(48, 5120, 13824, 40, 8, 128, 152064, tied=False),
}
"""The models of the bundled recipes, so that a run can be planned before its model is fetched."""
