"""The shape of a model as its ``config.json`` says it, and what follows from it: counts of weights, bytes of a token.

No weights are read and no torch is loaded. Shapes: D hidden, I intermediate, Q = heads x head size, K = key/value heads
x head size, V vocabulary, r rank of the adapter.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from grpo.errors import ModelError
from grpo.machine.models import config_at_hand
from grpo.machine.probe import Dtype
from judges.common.files import read_json

DTYPE_BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2}

LINEAR_LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""What is trained of every block."""

_UNTRAINABLE = {
    "it is a mixture of experts": re.compile(r"\w*experts\w* = \[?'?([2-9]|\d\d)"),
    "it has other layers than plain attention": re.compile(
        r"\w*(mamba|ssm_|conv_|conv1d|recurrent|softcap)\w* = (?!None|False|0|\[\])"
        r"|\w*(layer|block)\w* = \[(.*, )?'(?!((full|sliding)_)?attention'|dense'|\d)"
    ),
    "its weights are quantised": re.compile(r"\w*(quantization|compression)\w* = (?!None|False|\{\})"),
}
"""What a config has besides the parts of a ``ModelShape``, in the words in which transformers' configs say it."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a decoder with gated MLPs (Llama, Qwen2, Qwen3, SmolLM2).

    Attributes:
        layers: Blocks.
        hidden: D.
        intermediate: I.
        heads: Query heads.
        kv_heads: Key/value heads.
        head_dim: Values of a head.
        vocab: V.
        tied: Whether the vocabulary projection is the embedding.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool

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
        needed = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
        if missing := [name for name in needed if not (isinstance(size := config.get(name), int) and size > 0)]:
            raise ModelError(
                f"config.json has no {', '.join(missing)}, so the memory of the model cannot be computed; "
                "train a model such as Llama, Qwen2.5 or SmolLM2"
            )
        layers, hidden, intermediate, heads, vocab = (config[name] for name in needed)
        kv_heads, head_dim = config.get("num_key_value_heads") or heads, config.get("head_dim") or hidden // heads
        return cls(
            layers, hidden, intermediate, heads, kv_heads, head_dim, vocab, bool(config.get("tie_word_embeddings"))
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
    def linears(self) -> tuple[tuple[int, int], ...]:
        """(in, out) of q, k, v, o, gate, up and down of a block."""
        d, i, q, k = self.hidden, self.intermediate, self.query_width, self.kv_width
        return ((d, q), (d, k), (d, k), (q, d), (d, i), (d, i), (i, d))

    @property
    def parameters(self) -> int:
        """Weights of the model; biases and norms of heads, a ten-thousandth, are left out."""
        vocabulary = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layers * self.block_parameters + self.hidden + vocabulary

    @property
    def block_parameters(self) -> int:
        """Those of a block."""
        return sum(rows * columns for rows, columns in self.linears) + 2 * self.hidden

    def adapter_parameters(self, rank: int) -> int:
        """Weights of an adapter on all linear layers: r (in + out) of each (LoRA, arXiv 2106.09685)."""
        return self.layers * rank * sum(rows + columns for rows, columns in self.linears)

    def kv_bytes(self, dtype: Dtype) -> int:
        """Bytes of a token in the KV cache: keys and values of every layer."""
        return 2 * self.layers * self.kv_width * DTYPE_BYTES[dtype]


def shape_at_hand(model: str) -> ModelShape | None:
    """The shape of a model that is here or in a bundled recipe; None before it is fetched.

    Raises:
        ModelError: ``config.json`` lacks a size.
    """
    config = config_at_hand(model)
    return QWEN_MODELS.get(model) if config is None else ModelShape.read(config.parent)


def check_trainable(folder: Path, longest_row: int) -> None:
    """Refuse what cannot be trained, as far as ``config.json`` tells it.

    Raises:
        ModelError: It is a mixture of experts, has layers without attention, quantised weights, or a sliding
            window that is shorter than rows of so many tokens; or a size is missing.
    """
    config = read_json(folder / "config.json")
    for why in _besides(config, longest_row):
        raise ModelError(
            f"{folder} cannot be trained: {why}; take a dense model with plain causal attention, such as Llama, "
            "Qwen2.5 or SmolLM2"
        )
    ModelShape.of(config)


def _besides(config: Mapping[str, Any], longest_row: int) -> Iterator[str]:
    """What a config has of ``_UNTRAINABLE``, and a window that hides what rows have."""
    nested = [pair for value in config.values() if isinstance(value, dict) for pair in value.items()]
    said = [
        f"{name} = {sorted({*map(str, value)}) if isinstance(value, list) else value!r}"
        for name, value in (*config.items(), *nested)
    ]
    yield from (f"{what} ({text:.80})" for what, words in _UNTRAINABLE.items() for text in filter(words.match, said))
    window, kinds = config.get("sliding_window"), config.get("layer_types") or ["sliding_attention"]
    slides = "sliding_attention" in kinds and config.get("use_sliding_window", True)
    if isinstance(window, int) and window < longest_row and slides:
        yield f"its sliding window of {window} tokens is shorter than an episode (rollout.max_tokens = {longest_row})"


QWEN_MODELS = {
    "Qwen/Qwen2.5-0.5B-Instruct": ModelShape(24, 896, 4864, 14, 2, 64, 151936, tied=True),
    "Qwen/Qwen2.5-7B-Instruct": ModelShape(28, 3584, 18944, 28, 4, 128, 152064, tied=False),
    "Qwen/Qwen2.5-14B-Instruct": ModelShape(48, 5120, 13824, 40, 8, 128, 152064, tied=False),
}
"""The models of the bundled recipes, so that a run can be planned before its model is fetched."""
