"""Which checkpoints stay, what a path that a user gives holds, and what is written beside an adapter."""

import json
import shutil
from pathlib import Path

import pytest

from grpo.chat import ServedChat
from grpo.config import TrainConfig, load_config
from grpo.errors import CheckpointError, ConfigError
from grpo.machine.models import EMBEDDED_HUB_ID
from grpo.runs.directory import RunDirectory
from grpo.runs.model_card import Card, name_base_model, write_card
from grpo.runs.retention import best_of, checkpoint_name, checkpoints, find_checkpoint, note_score, prune
from grpo.runs.trained_policy import find_policy, init_adapter, run_card
from judges.common.files import DamagedFileError, write_json
from tests.support.runs import write_adapter, write_checkpoint, write_run


def names(folder: Path) -> list[str]:
    return [path.name for path in checkpoints(folder)]


def test_the_first_the_newest_few_and_the_best_are_kept(tmp_path):
    folder = tmp_path / "checkpoints"
    for step, score in enumerate([0.1, 0.7, 0.3, 0.7, 0.6]):
        write_checkpoint(tmp_path, step)
        prune(folder, keep=2)
        note_score(folder, step, score)
        assert best_of(folder).checkpoint == checkpoint_name(min(step, 1)), "of equals the first"
    prune(folder, keep=2)
    assert names(folder) == ["step-0000", "step-0001", "step-0003", "step-0004"]
    assert best_of(folder).score == 0.7
    note_score(folder, 4, 0.8)
    assert best_of(folder).score == 0.8
    prune(folder, keep=2)
    assert names(folder) == ["step-0000", "step-0003", "step-0004"]


def test_without_an_evaluation_only_the_newest_are_kept_and_numbers_are_not_words(tmp_path):
    folder = tmp_path / "checkpoints"
    for step in (9998, 9999, 10000, 10001):
        write_checkpoint(tmp_path, step)
    prune(folder, keep=2)
    assert names(folder) == ["step-10000", "step-10001"]
    assert best_of(folder) is None


def test_a_copy_of_a_checkpoint_is_the_users(tmp_path):
    folder = write_run(tmp_path / "run") / "checkpoints"
    for copy in ("step-0001-backup", "step-0009 (copy)", "step-good"):
        shutil.copytree(folder / "step-0001", folder / copy)
    assert find_policy(tmp_path / "run").step == 2
    prune(folder, keep=1)
    assert sorted(path.name for path in folder.iterdir()) == [
        "step-0000", "step-0001-backup", "step-0002", "step-0009 (copy)", "step-good",
    ]  # fmt: skip


def test_a_checkpoint_is_found_by_number_and_as_newest_and_best(tmp_path):
    folder = write_run(tmp_path / "run") / "checkpoints"
    assert find_checkpoint(folder, "newest").name == "step-0002"
    assert find_checkpoint(folder, "1").name == "step-0001"
    with pytest.raises(CheckpointError, match=r"held-out score .*--set eval.every"):
        find_checkpoint(folder, "best")
    note_score(folder, 0, 0.5)
    assert find_checkpoint(folder, "best").name == "step-0000"
    with pytest.raises(CheckpointError, match="no checkpoint '7'; choose newest, best or one of the steps 0, 1, 2"):
        find_checkpoint(folder, "7")
    with pytest.raises(CheckpointError, match="no checkpoint 'last'"):
        find_checkpoint(folder, "last")
    with pytest.raises(CheckpointError, match="finish its warm start"):
        find_checkpoint(tmp_path / "empty", "newest")
    (folder / "best.json").write_text("{")
    with pytest.raises(DamagedFileError, match=r"best\.json is not JSON"):
        find_checkpoint(folder, "best")


def test_a_run_gives_its_checkpoint_with_its_settings(tmp_path):
    found = find_policy(write_run(tmp_path / "first"), "1")
    assert (found.adapter.name, found.model, found.name, found.rank, found.step) == (
        "step-0001", "smollm2-135m", "first-step-0001", 8, 1,
    )  # fmt: skip
    assert found.config is not None
    assert found.config.env == "Word-v0"
    assert find_policy(tmp_path / "first", model="/models/x").model == "/models/x"


def test_a_checkpoint_folder_gives_its_run_and_any_other_adapter_itself_alone(tmp_path):
    folder = write_run(tmp_path / "first") / "checkpoints"
    (tmp_path / "link").symlink_to(folder / "step-0001")
    for path in (folder / "step-0001", tmp_path / "link"):
        found = find_policy(path)
        assert (found.adapter, found.name, found.step) == (folder / "step-0001", "first-step-0001", 1)
        assert found.config.env == "Word-v0"
    shutil.copytree(folder / "step-0001", folder / "mine")
    shutil.copytree(folder / "step-0001", tmp_path / "checkpoints" / "step-0001")
    for path in (folder / "mine", tmp_path / "checkpoints" / "step-0001"):
        assert (find_policy(path).config, find_policy(path).model) == (None, "org/base")


def test_an_adapter_gives_the_base_it_names(tmp_path):
    found = find_policy(write_adapter(tmp_path / "mine", rank=4))
    assert (found.model, found.name, found.rank, found.config) == ("org/base", "mine", 4, None)
    assert find_policy(write_adapter(tmp_path / "embedded", base=EMBEDDED_HUB_ID)).model == "smollm2-135m"
    nameless = write_adapter(tmp_path / "nameless", base=None)
    with pytest.raises(ConfigError, match="names no base model; name it with --model"):
        find_policy(nameless)
    assert find_policy(nameless, model="org/other").model == "org/other"
    with pytest.raises(ConfigError, match="is one adapter, not a run"):
        find_policy(tmp_path / "mine", "best")


def test_what_is_neither_or_broken_is_named(tmp_path):
    with pytest.raises(ConfigError, match="neither a run directory"):
        find_policy(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(ConfigError, match=r"model is no run directory: .*config\.json has no 'env'$"):
        find_policy(tmp_path / "model")
    broken = write_adapter(tmp_path / "broken")
    (broken / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"lacks adapter_model\.safetensors"):
        find_policy(broken)
    (broken / "adapter_model.safetensors").write_bytes(b"")
    (broken / "adapter_config.json").write_text('{"peft_type": "IA3"}')
    with pytest.raises(ConfigError, match="is no PEFT LoRA adapter"):
        find_policy(broken)


def test_an_adapter_of_another_shape_is_no_start_of_a_run(tmp_path):
    adapter = str(write_adapter(tmp_path / "a"))
    assert init_adapter(TrainConfig(env="E")) is None
    assert init_adapter(
        load_config(None, {"env": "E", "init_adapter": adapter, "lora.rank": 8, "lora.alpha": 16})
    ) == Path(adapter)
    run = write_run(tmp_path / "run")
    newest = init_adapter(load_config(None, {"env": "E", "init_adapter": str(run), "lora.rank": 8, "lora.alpha": 16}))
    assert newest == run / "checkpoints" / "step-0002"
    with pytest.raises(ConfigError, match=r"--set lora.rank=8 --set lora.alpha=16"):
        init_adapter(TrainConfig(env="E", init_adapter=adapter))
    with pytest.raises(ConfigError, match="neither a run directory"):
        init_adapter(TrainConfig(env="E", init_adapter=str(tmp_path)))


def evaluation(label: str, policy: int, reward: float, temperature: float = 1.0) -> dict:
    metrics = {"reward/mean": {"mean": reward}, "env/success": {"mean": 0.5}}
    return {
        "label": label,
        "policy": policy,
        "split": "test",
        "temperature": temperature,
        "episodes": 4,
        "metrics": metrics,
    }


def test_the_card_compares_the_checkpoint_with_the_policy_before_grpo(tmp_path):
    run = RunDirectory(write_run(tmp_path / "first"))
    for label, policy, reward in (
        ("before-sampled", 0, 0.25),
        ("step-0001-sampled", 1, 0.5),
        ("after-sampled", 2, 0.75),
    ):
        write_json(run.evaluation(label), evaluation(label, policy, reward))
    urls = {"judge.api_base": "http://10.0.0.1/v1", "answer_judge.api_base": "http://10.0.0.1:81/v1"}
    config = load_config(None, {"env": "Word-v0", "answer_judge.model": "openai/m", **urls})
    card = run_card(run, config, EMBEDDED_HUB_ID, 1)
    assert [(s["label"], s["metrics"]["reward/mean"]["mean"]) for s in card.scores] == [
        ("before-sampled", 0.25), ("step-0001-sampled", 0.5),
    ]  # fmt: skip
    folder = write_adapter(tmp_path / "adapter")
    write_card(folder, card, ServedChat("{{ messages }}", "hermes"))
    text = (folder / "README.md").read_text()
    assert f"base_model: {EMBEDDED_HUB_ID}\nlibrary_name: peft\n" in text
    assert "| before-sampled (split test, temperature 1) | 4 | 0.250 | 0.500 |\n| step-0001-sampled" in text
    assert "trained with GRPO on `Word-v0`, 1 step." in text
    assert "4-bit (Q4_1)" in text
    assert "bound by its licence" in text
    assert '"optimizer.learning_rate": 2e-05' in text
    assert "10.0.0.1" not in text
    here = "PATH/TO/THIS/FOLDER"
    tools = f"--chat-template {here}/chat_template.jinja --enable-auto-tool-choice --tool-call-parser hermes"
    assert f"--enable-lora --max-lora-rank 8 --lora-modules first-step-0001={here} {tools}\n" in text
    assert "`chat_template.jinja` prompts a conversation with tools as in training" in text
    assert (folder / "chat_template.jinja").read_text() == "{{ messages }}"


def test_the_card_of_a_policy_without_thinking_says_what_its_template_leaves_out(tmp_path):
    for value, is_said in (("False", True), ("True", False)):
        folder = write_adapter(tmp_path / value)
        served = ServedChat(f"{{%- set enable_thinking = {value} -%}}", "hermes")
        write_card(folder, Card("m", "org/base", "org/base", "GRPO", "Word-v0", 3), served)
        said = "token for token.\nQwen3 without thinking is an exception: from the second turn on, earlier turns lack"
        assert (said in (folder / "README.md").read_text()) is is_said


def test_the_command_of_a_card_is_quoted_where_a_name_has_spaces(tmp_path):
    folder = write_adapter(tmp_path / "a")
    write_card(folder, Card("my run-step-0001", "/my models/it", "/my models/it", "GRPO", "Word-v0", 1), None)
    text = (folder / "README.md").read_text()
    named = "--lora-modules 'my run-step-0001=PATH/TO/THIS/FOLDER'\n"
    assert f"$ vllm serve '/my models/it' --enable-lora --max-lora-rank 8 {named}" in text


def test_a_card_without_scores_or_hub_id_says_so(tmp_path):
    write_card(tmp_path, Card("m", "/models/mine", "/models/mine", "SFT", "demos.jsonl", 3, is_merged=True), None)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("---\npipeline_tag: text-generation\n")
    assert "Not evaluated." in text
    assert "PeftModel" not in text
    assert "$ vllm serve PATH/TO/THIS/FOLDER\n" in text


def test_the_base_is_named_as_others_find_it(tmp_path):
    folder = write_adapter(tmp_path / "a", base="/home/me/.cache/x")
    name_base_model(folder, "org/base")
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config == {"r": 8, "lora_alpha": 16, "base_model_name_or_path": "org/base"}
