"""What vLLM is told of models that have more than attention, and what it is not started with."""

import json

import pytest

from grpo.config import load_config
from grpo.errors import ConfigError
from grpo.serving import vllm_options
from grpo.serving.vllm_options import ServerOptions, server_options

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
STATE = {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3}


def folder(path, config):
    (path / "config.json").write_text(json.dumps(SIZES | config))
    return path


@pytest.mark.parametrize(("config", "caches", "guesses"), [({}, True, 15), (STATE, False, 0)])
def test_with_a_state_nothing_is_cached_and_nothing_is_guessed(tmp_path, config, caches, guesses):
    (options,) = server_options(load_config(None, {"env": "E", "dtype": "float32"}), folder(tmp_path, config), None)
    assert (options.prefix_caching, options.draft_tokens) == (caches, guesses)
    arguments = options.arguments(tmp_path, "base", 1)
    assert ("--enable-prefix-caching" in arguments) is caches
    assert ("--no-enable-prefix-caching" in arguments) is not caches
    assert ("--speculative-config" in arguments) is caches
    assert "--language-model-only" not in arguments


def test_a_part_for_images_stays_out_of_memory(tmp_path):
    config = folder(tmp_path, {"text_config": SIZES | STATE})
    (options,) = server_options(load_config(None, {"env": "E", "dtype": "float32"}), config, None)
    assert "--language-model-only" in options.arguments(tmp_path, "base", 1)
    assert not options.prefix_caching


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_experts": 4}, "has experts, which vLLM computes with LoRA on GPUs alone; sample on a GPU"),
        ({"linear_num_key_heads": 2}, "alone; dtype is float32, and this CPU has AMX: --set dtype=bfloat16, sample on"),
        ({"max_position_embeddings": 100}, "was made for 100: choose shorter episodes"),
        ({"text_config": {"max_position_embeddings": 100}}, "was made for 100: choose shorter episodes"),
    ],
)
def test_what_vllm_does_not_serve_on_a_cpu_is_refused_by_name(tmp_path, monkeypatch, config, said):
    monkeypatch.setattr(vllm_options, "has_amx", lambda: True)
    with pytest.raises(ConfigError, match=said):
        ServerOptions(dtype="float32").check_model(folder(tmp_path, config))
    if "position" not in str(config):
        ServerOptions(device="cuda").check_model(tmp_path)


def test_linear_attention_needs_amx(tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_options, "has_amx", lambda: False)
    with pytest.raises(ConfigError, match="dtype is bfloat16, and this CPU has no AMX, sample on a GPU"):
        ServerOptions(dtype="bfloat16").check_model(folder(tmp_path, {"linear_num_key_heads": 2}))


def test_qwen_3_5_needs_torchvision(tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_options, "has_amx", lambda: True)
    import importlib.util

    config = folder(tmp_path, {"model_type": "qwen3_5", "linear_num_key_heads": 2})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^vLLM needs torchvision for Qwen3\.5, also for text alone"):
        ServerOptions(dtype="bfloat16").check_model(config)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    ServerOptions(dtype="bfloat16").check_model(config)
