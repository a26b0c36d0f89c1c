"""The file ``config.json`` of a model of a given shape."""

from typing import Any

from grpo.devices.shape import ModelShape


def config_of(shape: ModelShape) -> dict[str, Any]:
    """The sizes by their names in ``config.json``."""
    return {
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
    }
