"""What a model's files tell of it before anything is loaded: whether the learner can train it."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo.devices.shape import QWEN_MODELS, ModelShape, check_trainable
from grpo.errors import ModelError
from judges.common.files import DamagedFileError

SIZES = QWEN_MODELS["Qwen/Qwen2.5-0.5B-Instruct"].to_config() | {"num_hidden_layers": 2, "architectures": ["Some"]}
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def model(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(SIZES | config))
    return folder


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"num_experts": 0, "num_local_experts": 1, "output_router_logits": False},
        {"layer_types": [FULL, FULL], "max_window_layers": 2, "no_rope_layers": [1, 0]},
        {"sliding_window": 4096, "use_sliding_window": False},
        {"sliding_window": 4096, "layer_types": [FULL, FULL]},
        {"sliding_window": 8192, "layer_types": [SLIDING, FULL]},
        {"sliding_window": None, "quantization_config": None, "conversation_template": "chatml"},
        {"quantization_config": {}, "conv_bias": False, "final_logit_softcapping": None},
    ],
)
def test_a_dense_model_with_plain_attention_can_be_trained(tmp_path: Path, config: dict[str, Any]):
    check_trainable(model(tmp_path, config), 8192)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"num_experts": 64, "num_experts_per_tok": 8}, "it is a mixture of experts (num_experts = 64)"),
        ({"n_routed_experts": 72, "mlp_layer_types": ["dense", "sparse"]}, "a mixture of experts (n_routed_experts = 72)"),
        ({"moe_num_experts": [48, 48]}, "it is a mixture of experts (moe_num_experts = ['48'])"),
        ({"ffn_config": {"moe_num_experts": 12}}, "it is a mixture of experts (moe_num_experts = 12)"),
        ({"text_config": {"num_local_experts": 24}}, "it is a mixture of experts (num_local_experts = 24)"),
        ({"layer_types": [LINEAR, FULL]}, "other layers than plain attention (layer_types = ['full_attention', 'linear"),
        ({"block_types": ["recurrent", "attention"]}, "other layers than plain attention (block_types = "),
        ({"layers_block_type": ["attention", "hybrid"]}, "other layers than plain attention (layers_block_type = "),
        ({"layer_types": ["conv", FULL]}, "other layers than plain attention (layer_types = ['conv'"),
        ({"mamba_d_state": 96}, "it has other layers than plain attention (mamba_d_state = 96)"),
        ({"attn_logit_softcapping": 50.0}, "other layers than plain attention (attn_logit_softcapping = 50.0)"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "quantised (quantization_config = {'quant_method': 'awq'"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "its weights are quantised (quantization = {'group_size': 64"),
        ({"sliding_window": 2048}, "its sliding window of 2048 tokens is shorter than an episode (rollout.max_tokens = 8192)"),
        ({"sliding_window": 2048, "layer_types": [SLIDING, FULL]}, "its sliding window of 2048 tokens"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_by_name(tmp_path: Path, config: dict[str, Any], why: str):
    with pytest.raises(ModelError) as caught:
        check_trainable(model(tmp_path, config), 8192)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path} cannot be trained: ")
    assert why in said
    assert said.endswith("; take a dense model with plain causal attention, such as Llama, Qwen2.5 or SmolLM2")


@pytest.mark.parametrize("size", [0, -1, None, 2.0, "2", [2]])
def test_a_size_that_is_none_is_named(tmp_path: Path, size: Any):
    with pytest.raises(ModelError, match=r"^config.json has no num_hidden_layers, vocab_size, so the memory"):
        check_trainable(model(tmp_path, {"num_hidden_layers": size, "vocab_size": size}), 8192)


@pytest.mark.parametrize("content", ["", "{", "[]", "version https://git-lfs.github.com/spec/v1"])
def test_a_config_that_is_none_is_named(tmp_path: Path, content: str):
    (tmp_path / "config.json").write_text(content)
    for reader in (ModelShape.read, lambda folder: check_trainable(folder, 8192)):
        with pytest.raises(DamagedFileError, match=rf"^{tmp_path}/config.json is not (a )?JSON"):
            reader(tmp_path)
