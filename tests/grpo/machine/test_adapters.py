"""What an adapter may have, and what is refused wherever it comes in."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from grpo.config import load_config
from grpo.errors import ConfigError, ModelError
from grpo.machine.adapters import check_adapter_of, read_adapter
from grpo.runs.trained_policy import find_policy, init_adapter
from tests.support.runs import weights_file, write_adapter

BLOCK = "base_model.model.model.layers.11"
PLAIN = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16, "bias": "none", "fan_in_fan_out": False,
    "init_lora_weights": True, "modules_to_save": None, "use_dora": False, "lora_bias": False, "loftq_config": {},
    "megatron_core": "megatron.core", "qalora_group_size": 16, "target_modules": ["q_proj"], "inference_mode": True,
    "layer_replication": None, "trainable_token_indices": None, "peft_version": "0.21.2", "lora_dropout": 0.1,
}  # fmt: skip
"""As peft saves an adapter of its defaults."""


def adapter(folder: Path, said: dict[str, Any], tensor: str = f"{BLOCK}.self_attn.q_proj.lora_B.weight") -> Path:
    write_adapter(folder)
    base = {"base_model_name_or_path": "org/base"}
    (folder / "adapter_config.json").write_text(json.dumps(PLAIN | base | said))
    (folder / "adapter_model.safetensors").write_bytes(weights_file(name=tensor))
    return folder


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"use_rslora": True, "rank_pattern": {"q_proj": 4}, "alpha_pattern": {"v_proj": 3}},
        {"target_modules": "all-linear", "exclude_modules": ["lm_head"], "layers_to_transform": [1, 2]},
        {"init_lora_weights": "gaussian", "eva_config": {"rho": 2.0}},
        {"auto_mapping": {"base_model_class": "LlamaForCausalLM"}, "revision": "main"},
    ],
)
def test_lora_on_linear_layers_is_taken_in_every_form_that_peft_saves(tmp_path: Path, said: dict[str, Any]):
    folder = adapter(tmp_path / "a", said)
    assert read_adapter(folder)["r"] == 8
    assert find_policy(folder).rank == 8


@pytest.mark.parametrize(
    ("said", "tensor", "named"),
    [
        ({"modules_to_save": ["lm_head"]}, "", "modules_to_save = ['lm_head']"),
        ({"use_dora": True}, "", "use_dora = True"),
        ({"lora_bias": True}, "", "lora_bias = True"),
        ({"bias": "all"}, "", "bias = all"),
        ({"init_lora_weights": "pissa_niter_16"}, "", "init_lora_weights = pissa_niter_16"),
        ({"trainable_token_indices": [5]}, "", "trainable_token_indices = [5]"),
        ({"alora_invocation_tokens": [5]}, "", "alora_invocation_tokens = [5]"),
        ({"target_parameters": ["experts.gate"]}, "", "target_parameters = ['experts.gate']"),
        ({"rank_pattern": {"q_proj": 8, "v_proj": 16}}, "", "rank_pattern = {'v_proj': 16}, above r = 8"),
        ({"peft_type": "LOHA"}, "", "peft_type = LOHA"),
        ({"of_next_year": {"a": 1}}, "", "of_next_year = {'a': 1}"),
        ({}, "base_model.model.lm_head.lora_A.weight", "base_model.model.lm_head.lora_A.weight"),
        ({}, "base_model.model.lm_head.weight", "base_model.model.lm_head.weight"),
        ({}, "base_model.model.model.embed_tokens.lora_embedding_A", "embed_tokens.lora_embedding_A"),
        ({}, f"{BLOCK}.mlp.up_proj.lora_B.bias", "mlp.up_proj.lora_B.bias"),
        ({}, f"{BLOCK}.mlp.up_proj.lora_magnitude_vector", "mlp.up_proj.lora_magnitude_vector"),
        ({}, f"{BLOCK}.input_layernorm.weight", "input_layernorm.weight"),
    ],
)
def test_what_is_more_than_that_is_refused_by_name_wherever_it_comes_in(tmp_path, said, tensor, named):
    folder = adapter(tmp_path / "a", said, *([tensor] if tensor else []))
    config = load_config(None, {"env": "E", "init_adapter": str(folder), "lora.rank": 8, "lora.alpha": 16})
    for reader in (lambda: read_adapter(folder), lambda: find_policy(folder), lambda: init_adapter(config)):
        with pytest.raises(ModelError) as caught:
            reader()
        assert f"the adapter in {folder} has " in str(caught.value)
        assert named in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"damaged", weights_file(b"w" * 64)[:-9]])
def test_an_adapter_that_is_not_whole_is_named(tmp_path: Path, content: bytes):
    folder = write_adapter(tmp_path / "a")
    (folder / "adapter_model.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{folder} is no PEFT LoRA adapter .*is no whole safetensors file"):
        find_policy(folder)


@pytest.mark.parametrize("rank", [0, -8, None, "8", 8.0, [8]])
def test_a_rank_that_is_none_is_named(tmp_path: Path, rank: Any):
    with pytest.raises(ConfigError, match=re.escape(f"is no PEFT LoRA adapter (ValueError: r = {rank!r})")):
        find_policy(adapter(tmp_path / "a", {"r": rank}))


@pytest.mark.parametrize("whole", ["", "language_model."])
def test_an_adapter_none_of_whose_layers_the_model_has_is_refused(tmp_path: Path, whole: str):
    mine = adapter(tmp_path / "mine", {}, f"base_model.model.model.{whole}layers.1.self_attn.q_proj.lora_B.weight")
    for of in ("", "language_model.", "other."):
        model = tmp_path / f"model{of}"
        model.mkdir()
        check_adapter_of(mine, model)  # weights of the older form name nothing
        (model / "model.safetensors").write_bytes(weights_file(name=f"model.{of}layers.1.self_attn.q_proj.weight"))
        if of == whole:
            check_adapter_of(mine, model)
        else:
            said = f"the model in {model} has none of the adapter's layers (such as model.{whole}layers.1.self_attn.q_proj)"
            with pytest.raises(ModelError, match=re.escape(said)):
                check_adapter_of(mine, model)
