"""What is computed is what is served: models and adapters that are, or are not, whatever they are called."""

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.errors import ModelError  # noqa: E402
from grpo.learner.local_engine import LocalEngine  # noqa: E402
from grpo.learner.lora_model import LoraSpec  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from tests.support.tiny_model import tiny_adapter, tiny_kind  # noqa: E402

pytestmark = pytest.mark.torch


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **more}}


LONG = rope("longrope", short_factor=[1.0] * 4, long_factor=[4.0] * 4, original_max_position_embeddings=64)


@pytest.mark.parametrize(
    ("kind", "settings", "options", "why"),
    [
        ("stablelm", {}, {}, "a row alone and beside another (they see each other)"),
        ("granite", {"logits_scaling": 8.0}, {}, "by the learner and by transformers (logits are scaled"),
        ("cohere", {}, {}, "by the learner and by transformers (logits are scaled"),
        ("llama", rope("dynamic") | {"max_position_embeddings": 64}, {}, "or positions, by the longest row)"),
        ("llama", LONG, {"longest_row": 65}, "or positions, by the longest row)"),
        ("seed_oss", {"residual_dropout": 0.3}, {"trains": True}, "the same rows twice (part of it is random"),
    ],
)
def test_a_model_that_is_computed_otherwise_than_it_is_served_is_refused(
    tmp_path, monkeypatch, kind, settings, options, why
):
    if options.pop("trains", False):  # as a model would be whose dropout eval mode does not end
        monkeypatch.setattr(torch.nn.Module, "eval", lambda module: module.train())
    with pytest.raises(ModelError) as caught:
        LocalEngine(tiny_kind(tmp_path / kind, kind, **settings), LoraSpec(4, 8), seed=1, **options)
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
    engine = LocalEngine(tiny_kind(tmp_path / "m", "granite", logits_scaling=8.0), LoraSpec(4, 8), seed=1, sleeps=True)
    with pytest.raises(ModelError, match="is not computed as it is served"):
        engine.wake_up()
