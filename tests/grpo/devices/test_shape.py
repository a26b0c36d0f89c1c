"""What a model's files tell of it before anything is loaded: whether the learner can train it."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo.devices.shape import RECIPES_MODELS, ModelShape, check_trainable, rows_alone
from grpo.errors import ModelError
from grpo.machine.models import EMBEDDED_MODEL
from judges.common.files import DamagedFileError

SIZES = RECIPES_MODELS["Qwen/Qwen2.5-0.5B-Instruct"].to_config() | {"num_hidden_layers": 2, "architectures": ["Some"]}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
}
DELTA = {
    f"linear_{name}": 4
    for name in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel_dim")
}
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def model(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(SIZES | config))
    return folder


@pytest.mark.parametrize(
    ("config", "alone"),
    [
        ({}, False),
        ({"num_experts": 0, "num_local_experts": 1, "output_router_logits": False}, False),
        ({"num_experts": 64, "num_experts_per_tok": 8}, False),
        ({"text_config": {"num_local_experts": 24}}, False),
        ({"layer_types": [FULL, FULL], "max_window_layers": 2, "no_rope_layers": [1, 0]}, False),
        ({"sliding_window": 4096, "use_sliding_window": False}, False),
        ({"sliding_window": 4096, "layer_types": [FULL, FULL]}, False),
        ({"sliding_window": 8192, "layer_types": [SLIDING, FULL]}, False),
        ({"sliding_window": None, "quantization_config": None, "conversation_template": "chatml"}, False),
        ({"quantization_config": {}, "conv_bias": False, "final_logit_softcapping": None}, False),
        ({"model_type": "mistral", "sliding_window": 2048}, True),
        ({"model_type": "gpt_oss", "sliding_window": 2048, "layer_types": [SLIDING, FULL]}, True),
        ({"layers_block_type": ["mamba", "attention"], **MAMBA}, True),
        ({"layer_types": [FULL, FULL], **MAMBA}, False),
        ({"full_attn_idxs": [1], "conv_L_cache": 3}, True),
        ({"full_attention_interval": 2, **DELTA}, True),
    ],
)
def test_rows_are_computed_alone_where_a_state_or_a_window_says_what_a_token_sees(
    tmp_path: Path, config: dict[str, Any], alone: bool
):
    check_trainable(model(tmp_path, config), 8192)
    assert rows_alone(SIZES | config, 8192) is alone


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"n_routed_experts": 72, "mlp_layer_types": ["dense", "sparse"]}, "a mixture of experts of an unknown form (n_routed_experts = 72)"),
        ({"moe_num_experts": [48, 48]}, "a mixture of experts of an unknown form (moe_num_experts = ['48'])"),
        ({"ffn_config": {"moe_num_experts": 12}}, "a mixture of experts of an unknown form (moe_num_experts = 12)"),
        ({"attn_logit_softcapping": 50.0}, "it caps scores or logits (attn_logit_softcapping = 50.0)"),
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
    assert said.endswith("; docs/models.md has those that can be trained, such as Llama, Qwen2.5 or SmolLM2")


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"layer_types": [LINEAR, FULL]}, LINEAR),
        ({"block_types": ["recurrent", "attention"]}, "recurrent"),
        ({"layers_block_type": ["attention", "hybrid"], **MAMBA}, "hybrid"),
        ({"layer_types": ["chunked_attention", FULL]}, "chunked_attention"),
        ({"mamba_d_state": 96}, "mamba_d_state"),
        ({"ssm_cfg": {"layer": "Mamba2"}}, "ssm_cfg"),
    ],
)
def test_layers_that_nobody_knows_are_named(tmp_path: Path, config: dict[str, Any], kind: str):
    with pytest.raises(ModelError, match=rf"^config.json has layers of a kind that is not known \({kind}\), so the"):
        check_trainable(model(tmp_path, config), 8192)


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


def test_the_embedded_model_is_planned_before_it_is_converted(model_dir: Path):
    assert RECIPES_MODELS[EMBEDDED_MODEL] == ModelShape.read(model_dir)
