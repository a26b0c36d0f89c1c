"""What is computed is what is served: models and adapters that are, or are not, whatever they are called."""

import json

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.config import load_config  # noqa: E402
from grpo.errors import ModelError  # noqa: E402
from grpo.learner.load_check import gap_above_rounding  # noqa: E402
from grpo.learner.local_engine import LocalEngine  # noqa: E402
from grpo.learner.lora_model import LoraSpec  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.training.first_look import check_before_start  # noqa: E402
from tests.support.tiny_model import edit_weights, tiny_adapter, tiny_chat_model_folder, tiny_kind  # noqa: E402

pytestmark = pytest.mark.torch


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **more}}


LONG = rope("longrope", short_factor=[1.0] * 4, long_factor=[4.0] * 4, original_max_position_embeddings=64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "settings", "options", "why"),
    [
        ("stablelm", {}, {}, "a row alone and beside another (they see each other)"),
        ("cohere", {}, {}, "by the learner and by transformers (logits are scaled"),
        (
            "llama",
            rope("dynamic") | {"max_position_embeddings": 16, "initializer_range": 0.4},
            {},
            "or positions, by the longest row)",
        ),
        ("llama", {"is_causal": False}, {}, "by the learner and by transformers"),
        ("llama", LONG, {"longest_row": 65}, "or positions, by the longest row)"),
        ("seed_oss", {"residual_dropout": 0.3}, {"trains": True}, "the same rows twice (part of it is random"),
    ],
)
def test_a_model_that_is_computed_otherwise_than_it_is_served_is_refused(
    tmp_path, monkeypatch, kind, settings, options, why, dtype
):
    if "trains" in options:  # as a model would be whose dropout eval mode does not end
        monkeypatch.setattr(torch.nn.Module, "eval", lambda module: module.train())
    folder, rows = tiny_kind(tmp_path / kind, kind, **settings), options.get("longest_row")
    with pytest.raises(ModelError) as caught:
        LocalEngine(folder, LoraSpec(4, 8), seed=1, longest_row=rows, dtype=dtype)
    assert f"{tmp_path / kind} is not computed as it is served" in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    ("kind", "settings", "adapter"),
    [
        ("llama", {}, {"lora_dropout": 0.3}),
        ("llama", {"attention_dropout": 0.3}, {}),
        ("seed_oss", {"residual_dropout": 0.3}, {}),
        ("llama", LONG, {}),
        ("llama", rope("yarn", original_max_position_embeddings=64), {}),
        ("qwen3", {}, {"use_rslora": True, "target_modules": ["q_proj", "down_proj"]}),
        ("gemma", {}, {"rank_pattern": {"q_proj": 2}}),
    ],
)
def test_logprobs_are_those_of_transformers_in_eval_mode_whatever_dropout_was_saved(
    tmp_path, kind, settings, adapter, checkpointing
):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = tiny_kind(tmp_path / kind, kind, **settings)
    folder = tiny_adapter(base, tmp_path / "adapter", **adapter)
    options = {"longest_row": 64, "gradient_checkpointing": checkpointing}
    engine = LocalEngine(base, LoraSpec(4, 8), seed=1, init_adapter=folder, **options)
    ids = [[3, *range(20, 20 + count), *range(90, 120)] for count in (5, 12)]
    rows = [Segment(row, [False] + [True] * (len(row) - 1), [0.0] * len(row), 1.0) for row in ids]
    found = engine.logprobs(rows)
    assert engine.logprobs(rows) == found
    plain = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), str(folder))
    for row, values in zip(ids, found, strict=True):
        with torch.no_grad():
            logprobs = plain.eval()(torch.tensor([row])).logits[0, :-1].log_softmax(-1)
        assert values == pytest.approx([float(logprobs[at, token]) for at, token in enumerate(row[1:])], abs=1e-5)
    layers = [module for module in engine.model.modules() if module.training]
    assert any("Layer" in type(layer).__name__ for layer in layers) is checkpointing
    assert not any(isinstance(layer, torch.nn.Dropout) for layer in layers)


def test_a_model_that_sleeps_is_tried_when_it_wakes_up_first(tmp_path):
    engine = LocalEngine(tiny_kind(tmp_path / "m", "cohere"), LoraSpec(4, 8), seed=1, sleeps=True)
    with pytest.raises(ModelError, match="is not computed as it is served"):
        engine.wake_up()


def test_a_single_token_that_rounding_moves_far_is_no_fault():
    expected = torch.linspace(-6.0, -1.0, 17)
    moved = expected + torch.where(torch.arange(17) == 3, 8.0, 0.02)
    assert gap_above_rounding(moved, expected, torch.bfloat16) == 0.0
    assert gap_above_rounding(moved, expected, torch.float32) == pytest.approx(0.02)
    moved = expected + torch.where(torch.arange(17) < 9, 0.2, 0.0)
    assert gap_above_rounding(moved, expected, torch.bfloat16) == pytest.approx(0.2), "most tokens"


def refused(folder, init_adapter=None) -> set[str]:
    """What is said before anything starts, and when the model is loaded."""
    said = set[str]()
    settings = {"env": "E", "untested_model": True, "rollout.max_tokens": 64, "lora.rank": 8, "lora.alpha": 8}
    config = load_config(None, settings | {"init_adapter": init_adapter and str(init_adapter)})
    for use in (
        lambda: check_before_start(config, folder),
        lambda: LocalEngine(folder, LoraSpec(4, 8), seed=1, longest_row=64, init_adapter=init_adapter),
    ):
        with pytest.raises(ModelError) as caught:
            use()
        said.add(str(caught.value))
    return said


LACKS = "lacks weights, in whose place random ones would be trained"
NO_PLACE = "has weights in blocks that config.json does not tell of"
Q_PROJ = "model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("edited", "config", "said"),
    [
        ({"model.norm.weight": None}, {}, f"{LACKS} (1: model.norm.weight)"),
        ({"model.layers.1.input_layernorm.weight": None}, {}, f"{LACKS} (1: model.layers.1.input_layernorm.weight)"),
        ({}, {"tie_word_embeddings": False}, f"{LACKS} (1: lm_head.weight)"),
        ({}, {"attention_bias": True}, f"{LACKS} (8: model.layers.0.self_attn.k_proj.bias, "),
        ({}, {"num_hidden_layers": 3}, f"{LACKS} (9: model.layers.2.input_layernorm.weight, "),
        ({}, {"num_hidden_layers": 1}, f"{NO_PLACE} (9: model.layers.1.input_layernorm.weight, "),
        ({f"{Q_PROJ}.weight_scale": [1.0]}, {}, f"{NO_PLACE} (1: {Q_PROJ}.weight_scale)"),
        ({f"{Q_PROJ}.bias": [0.0] * 32}, {}, f"{NO_PLACE} (1: {Q_PROJ}.bias)"),
        ({}, {"vocab_size": 300}, "has weights of other sizes than in config.json (1: model.embed_tokens.weight)"),
        ({f"{Q_PROJ}.weight": [0.0]}, {}, f"has weights of other sizes than in config.json (1: {Q_PROJ}.weight)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("pickled", [False, True])
def test_files_that_hold_another_model_than_the_config_says_are_refused(tmp_path, edited, config, said, pickled):
    folder = tiny_chat_model_folder(tmp_path / "model")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    edit_weights(folder / "model.safetensors", edited, pickled=pickled)
    (only,) = refused(folder)
    assert only.startswith(f"the model in {folder} {said}")
    assert only.endswith(
        "; fetch it again; docs/models.md has those that can be trained, such as Llama, Qwen2.5 or SmolLM2"
    )


@pytest.mark.parametrize(
    "more", [{"v_head.weight": [1.0]}, {"model.layers.0.self_attn.rotary_emb.inv_freq": [1.0] * 4}]
)
def test_what_other_programs_leave_in_a_file_is_no_fault(tmp_path, more):
    folder = tiny_chat_model_folder(tmp_path / "model")
    edit_weights(folder / "model.safetensors", more)
    check_before_start(load_config(None, {"env": "E"}), folder)
    LocalEngine(folder, LoraSpec(4, 8), seed=1)


def test_a_head_that_is_not_the_embedding_is_none_where_the_config_ties_them(tmp_path):
    folder = tiny_chat_model_folder(tmp_path / "model")
    edit_weights(folder / "model.safetensors", {"lm_head.weight": [[0.5] * 32] * 264})
    with pytest.raises(ModelError, match=r"has a vocabulary head that config.json ties to other values \(1: lm_head"):
        LocalEngine(folder, LoraSpec(4, 8), seed=1)


def test_weights_that_are_no_numbers_are_said_to_be(tmp_path):
    folder = tiny_chat_model_folder(tmp_path / "model")
    edit_weights(folder / "model.safetensors", {"model.norm.weight": [float("nan")] * 32})
    with pytest.raises(ModelError, match=r"the same rows twice \(.*, or no number\) differ by nan nats a token"):
        LocalEngine(folder, LoraSpec(4, 8), seed=1)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("starcoder2", "has, in place of what would be trained, other layers (4: model.layers.0.mlp.c_fc, "),
        ("bert", "other layers (1: none of q_proj, k_proj, v_proj)"),
        ("vit", "could not be loaded: ValueError: Unrecognized configuration class"),
    ],
)  # fmt: skip
def test_a_model_of_other_layers_is_refused_by_name(tmp_path, kind, said):
    folder = tiny_chat_model_folder(tmp_path / "model")
    if kind == "vit":
        config = json.loads((folder / "config.json").read_text()) | {"model_type": "vit"}
        (folder / "config.json").write_text(json.dumps(config))
    else:
        tiny_kind(folder, kind)
    (only,) = refused(folder)
    assert said in only
    assert str(folder) in only


def test_code_that_comes_with_a_model_is_not_run_and_nobody_is_asked(tmp_path, capfd):
    folder = tiny_chat_model_folder(tmp_path / "model")
    own = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}}
    (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | own))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
    (only,) = refused(folder)
    assert "contains custom code" in only
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "was_run").exists()


ADAPTED = "base_model.model.model.layers.1.mlp.up_proj"


@pytest.mark.parametrize(
    ("edited", "config", "said"),
    [
        ({f"{ADAPTED}.lora_B.weight": None}, {}, f"{ADAPTED}.lora_B.weight is in one of them alone"),
        ({ADAPTED.replace("1", "2") + ".lora_B.weight": [[1.0]]}, {}, "layers.2.mlp.up_proj.lora_B.weight is in one of"),
        ({}, {"target_modules": ["q_proj"]}, "layers.0.mlp.down_proj.lora_A.weight is in one of them alone"),
        ({}, {"target_modules": ["c_attn"]}, "Target modules {'c_attn'} not found in the base model"),
        ({f"{ADAPTED}.lora_B.weight": [[1.0]]}, {}, f"size mismatch for {ADAPTED}.lora_B"),
        ({}, {"peft_type": None}, "(None)"),
    ],
)  # fmt: skip
def test_an_adapter_of_another_model_is_refused(tmp_path, edited, config, said):
    base = tiny_chat_model_folder(tmp_path / "model")
    adapter = tiny_adapter(base, tmp_path / "adapter", r=8)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    edit_weights(adapter / "adapter_model.safetensors", edited)
    (only,) = refused(base, adapter)
    assert only.startswith(f"the adapter {adapter} does not fit the model in {base} (")
    assert said in only
