"""grpo-export: the adapter and the merged model, compared with the policy that was trained."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="torch is not installed (extra 'train')")
pytest.importorskip("peft", reason="peft is not installed (extra 'train')")
pytestmark = pytest.mark.torch

from grpo.cli.export import export  # noqa: E402
from tests.support.envs import TalkEnv  # noqa: E402
from tests.support.tiny_model import edit_weights, tiny_chat_model_folder, tiny_engine  # noqa: E402


def run(*arguments: object) -> str:
    result = CliRunner().invoke(export, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def logits(model, ids):
    with torch.no_grad():
        return model(ids).logits.float()


def tiny_base(folder: Path, dtype: str) -> Path:
    """A tiny random model whose tokenizer has a chat template of its own."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoModelForCausalLM.from_pretrained(tiny_chat_model_folder(folder), dtype=dtype).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{{ messages }}"
    tokenizer.save_pretrained(folder)
    return folder


def tiny_adapter(base: Path, folder: Path) -> Path:
    tiny_engine(base).save_adapter(folder)
    return folder


def policies(base: Path, adapter: Path):
    """The base model and the adapted one in float32."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    def load():
        return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)

    return load(), PeftModel.from_pretrained(load(), str(adapter))


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 1e-6), ("bfloat16", 0.02)])
def test_a_merged_model_computes_what_base_and_adapter_compute(dtype, largest, tmp_path):
    """Merged in float32 nothing is lost but rounding; a bf16 base rounds the merged weights once, to 8 bits."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = tiny_base(tmp_path / "base", dtype)
    adapter = tiny_adapter(base, tmp_path / "adapter")
    run(adapter, "--out", tmp_path / "out" / "merged", "--merge", "--model", base)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "merged")
    assert merged.dtype == getattr(torch, dtype)
    plain, adapted = policies(base, adapter)
    ids = torch.arange(200).view(5, 40)
    expected = logits(adapted, ids)
    assert (expected - logits(plain, ids)).abs().max() > 10 * largest
    assert (logits(merged.float(), ids) - expected).abs().max() < largest
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "merged")
    assert tokenizer("b j c").input_ids == AutoTokenizer.from_pretrained(base)("b j c").input_ids
    assert tokenizer.chat_template == "{{ messages }}"
    assert "A whole model" in (tmp_path / "out" / "merged" / "README.md").read_text()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["merged"]
    (tmp_path / "usual").touch()
    usual = (tmp_path / "usual").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "out" / "merged").iterdir()} == {usual}


@pytest.mark.parametrize(
    "settings",
    [
        None,
        {"eos_token_id": [257], "temperature": 0.9, "top_p": 0.6},
        {"do_sample": False, "temperature": 0.2, "num_beams": 1, "early_stopping": True},
        {"of_next_year": {"a": 1}, "transformers_version": "9.0"},
    ],
)
def test_the_settings_of_generation_go_along_as_they_are(tmp_path, settings):
    base = tiny_base(tmp_path / "base", "float32")
    path = base / "generation_config.json"
    path.unlink(missing_ok=True)
    if settings is not None:
        path.write_text(json.dumps(settings))
    run(tiny_adapter(base, tmp_path / "adapter"), "--out", tmp_path / "merged", "--merge", "--model", base)
    copy = tmp_path / "merged" / "generation_config.json"
    assert (copy.read_bytes() if copy.exists() else None) == (path.read_bytes() if path.exists() else None)


def test_a_merged_model_that_computes_something_else_is_not_written(tmp_path, monkeypatch):
    from transformers import PreTrainedModel

    def save_a_part(model, folder):
        model.lm_head.weight.data[: model.config.vocab_size // 2 + 20] = 0.0
        save(model, folder)

    save = PreTrainedModel.save_pretrained
    base = tiny_base(tmp_path / "base", "float32")
    adapter = tiny_adapter(base, tmp_path / "adapter")
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", save_a_part)
    result = CliRunner().invoke(export, [str(adapter), "--out", str(tmp_path / "out"), "--merge", "--model", str(base)])
    assert result.exit_code == 1
    assert (
        f"Error: the merged model does not compute what {base} with {adapter} does: log-probabilities" in result.output
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "base"]


@pytest.mark.parametrize(
    ("file", "weight", "said"),
    [
        (
            "base/model",
            "model.norm.weight",
            "Error: the model in {}/base lacks weights, in whose place random ones would",
        ),
        (
            "adapter/adapter_model",
            "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight",
            "Error: the adapter {0}/adapter does not fit the model in {0}/base (",
        ),
    ],
)
def test_what_is_not_whole_is_not_merged(tmp_path, file, weight, said):
    base = tiny_base(tmp_path / "base", "float32")
    adapter = tiny_adapter(base, tmp_path / "adapter")
    edit_weights(tmp_path / f"{file}.safetensors", {weight: None})
    result = CliRunner().invoke(export, [str(adapter), "--out", str(tmp_path / "out"), "--merge", "--model", str(base)])
    assert (result.exit_code, said.format(tmp_path) in result.output) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "base"]


def test_a_merged_model_is_prompted_with_tools_by_its_own_tokenizer(tmp_path):
    from transformers import AutoTokenizer

    from grpo.chat import chat_for, load_tokenizer

    base = tiny_chat_model_folder(tmp_path / "base")
    run(tiny_adapter(base, tmp_path / "adapter"), "--out", tmp_path / "merged", "--merge", "--model", base)
    messages, tools = list(TalkEnv.opening), list(TalkEnv.tools)
    shown = AutoTokenizer.from_pretrained(tmp_path / "merged").apply_chat_template(
        messages, tools=tools, add_generation_prompt=True, return_dict=False
    )
    assert shown == chat_for(load_tokenizer(base)).prompt_ids(messages, tools)
    card = (tmp_path / "merged" / "README.md").read_text()
    assert "$ vllm serve PATH/TO/THIS/FOLDER --enable-auto-tool-choice --tool-call-parser hermes\n" in card


def test_an_exported_adapter_is_plain_peft_with_a_card(tmp_path):
    base = tiny_base(tmp_path / "base", "float32")
    adapter = tiny_adapter(base, tmp_path / "adapter")
    out = tmp_path / "exported"
    run(adapter, "--out", out)  # its config names the base
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    card = (out / "README.md").read_text()
    assert f"for `{base}`.\n" in card
    assert "tags:\n- lora\n---\n" in card
    assert "How it was trained and how well it does was not known where it was exported." in card
    assert "trained with" not in card
    ids = torch.arange(40).view(2, 20)
    plain, exported = policies(base, out)
    assert torch.equal(logits(exported, ids), logits(policies(base, adapter)[1], ids))
    assert not torch.equal(logits(exported, ids), logits(plain, ids))


def test_an_existing_folder_is_never_touched_and_a_failure_leaves_nothing(tmp_path):
    base = tiny_base(tmp_path / "base", "float32")
    adapter = tiny_adapter(base, tmp_path / "adapter")
    (tmp_path / "taken").mkdir()
    result = CliRunner().invoke(export, [str(adapter), "--out", str(tmp_path / "taken")])
    assert result.exit_code == 1
    assert "taken exists; choose another --out" in result.output
    assert list((tmp_path / "taken").iterdir()) == []
    for out in (adapter / "adapter_config.json" / "out", tmp_path / ("a" * 300)):
        result = CliRunner().invoke(export, [str(adapter), "--out", str(out)])
        assert result.exit_code == 1
        assert result.output.startswith(f"Error: {out} cannot be written: ")
        assert result.output.endswith("; choose another --out\n")

    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "adapter_config.json").write_text((adapter / "adapter_config.json").read_text())
    (broken / "adapter_model.safetensors").write_bytes(b"not weights")
    arguments = [str(broken), "--out", str(tmp_path / "out"), "--merge"]
    result = CliRunner().invoke(export, arguments)
    assert result.exit_code == 1, result.output
    assert "broken is no PEFT LoRA adapter (ModelError: adapter_model.safetensors is no whole" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "base", "broken", "taken"]
