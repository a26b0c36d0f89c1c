"""grpo-train --dry-run: what would run is shown, and nothing is started or written."""

import json

import pytest
from click.testing import CliRunner

from grpo.cli.train import train
from grpo.config import load_config
from grpo.devices.memory import cpu_needs
from grpo.devices.shape import RECIPES_MODELS
from tests.support.envs import WORD_ENV
from tests.support.tiny_model import edit_weights, tiny_adapter, tiny_chat_model_folder

EMAIL_ENV = "email_env:EmailSearch-v0"
SMALL, LARGE = (f"Qwen/Qwen2.5-{size}-Instruct" for size in ("0.5B", "7B"))


def shown(tmp_path, *arguments):
    """With a recipe it is the recipe's env."""
    run_dir = tmp_path / "run"
    env = EMAIL_ENV if "--recipe" in arguments else WORD_ENV
    result = CliRunner().invoke(train, ["--env", env, "--run-dir", str(run_dir), "--dry-run", *arguments])
    assert not run_dir.exists()
    return result.exit_code, result.output.splitlines()


def test_a_run_on_a_gpu_is_shown_with_its_memory_and_vllms_arguments(tmp_path, nvidia_smi):
    nvidia_smi(24564)
    status, lines = shown(tmp_path, "--recipe", "email-gpu")
    assert status == 0, lines
    said = dict(line.split(": ", 1) for line in lines)
    assert said["model"] == f"{SMALL}, not here yet; it is fetched or converted at the start"
    groups = "8 groups x 8 episodes"
    assert said["steps"] == f"60, each of {groups}, at most 4,096 tokens an episode and 256 a turn"
    assert said["tokens"] == "at most 262,144 a step, 16,384 a forward pass"
    layers = "on q, k, v, o, gate, up and down of all 24 blocks (8.8 million weights)"
    assert said["LoRA"] == f"rank 16, alpha 32, {layers}; learning rate 2e-05"
    assert said["dtype"] == "bfloat16"
    assert said["vLLM on GPU 0 (a card, 24.0 GiB)"].endswith("3.0 of it for 64 of 64 sequences at full length")
    assert "learner on GPU 0 (a card, 24.0 GiB)" in said
    assert f"--model {SMALL} " in said["vLLM's arguments"]
    kv_bytes = (64 * 4096 + 64) * RECIPES_MODELS[SMALL].kv_bytes("bfloat16")
    assert f"--kv-cache-memory-bytes {kv_bytes}" in said["vLLM's arguments"]


ELSEWHERE = ("--recipe", "email-gpu", "--server", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("cards", "capability", "arguments", "said"),
    [
        (
            [],
            9.0,
            ["--model", "./nowhere"],
            "Error: Model './nowhere' is neither an existing folder nor a model hub id.",
        ),
        ([], 9.0, ["--init-adapter", "tests"], "Error: tests is neither a run directory (config.json) nor an adapter"),
        (
            *([], 9.0, ["--env", EMAIL_ENV, "--set", "train_split=trian"]),
            "could not be made with {'split': 'trian'}: ConfigurationError: split must be one of",
        ),
        ([], 9.0, ["--recipe", "email-gpu"], "Error: device = 'cuda', but nvidia-smi shows no GPU"),
        (
            *([24564], 9.0, ["--recipe", "email-gpu", "--model", LARGE]),
            "Lower learner.token_budget (16384), rollout.concurrency (64) or server.kv_cache_gib",
        ),
        (
            *([24564], 7.5, ["--recipe", "email-gpu"]),
            "Error: GPU 0 (a card) has compute capability 7.5, and vLLM and the learner compute",
        ),
        (
            *([24564], 7.5, ELSEWHERE),
            "Error: GPU 0 (a card) has compute capability 7.5, and vLLM and the learner compute",
        ),
    ],
)
def test_what_a_run_would_refuse_at_its_start_is_refused(tmp_path, nvidia_smi, cards, capability, arguments, said):
    nvidia_smi(*cards, capability=capability)
    status, lines = shown(tmp_path, *arguments)
    assert status == 1
    assert said in "\n".join(lines)


def test_a_gpu_on_which_vllm_does_not_compute_serves_a_learner_in_float32(tmp_path, nvidia_smi):
    nvidia_smi(24564, capability=7.5)
    status, lines = shown(tmp_path, *ELSEWHERE, "--set", "dtype=float32")
    assert status == 0, lines


def test_a_folder_is_planned_by_its_own_sizes_and_an_unknown_model_not_at_all(tmp_path, nvidia_smi):
    nvidia_smi(81559, 81559)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps(RECIPES_MODELS[LARGE].to_config() | {"max_position_embeddings": 2048})
    )
    status, lines = shown(tmp_path, "--recipe", "email-gpu", "--model", str(folder))
    assert f"model: {folder}, in {folder}" in lines
    assert any(line.startswith("learner on GPU 1 (a card, 79.6 GiB)") for line in lines)
    assert status == 1
    assert "max_model_len is 4096 tokens, but the model in" in lines[-1]
    status, lines = shown(tmp_path, "--recipe", "email-gpu", "--model", "some/model")
    assert status == 0
    assert "memory: not known before the model's config.json is here" in lines


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"n_routed_experts": 8},
            "{} cannot be trained: it is a mixture of experts of an unknown form (n_routed_experts = 8)",
        ),
        (
            {"layer_types": ["recurrent", "full_attention"]},
            "config.json has layers of a kind that is not known (recurrent)",
        ),
        ({"model_type": "gpt_oss"}, "models of gpt-oss (gpt_oss) are refused: "),
        ({"model_type": "olmo"}, "nobody tested models of the kind 'olmo' here; docs/models.md has those"),
        ({"quantization_config": {"quant_method": "gptq"}}, "{} cannot be trained: its weights are quantised"),
        ({"sliding_window": 512}, "{} cannot be trained: its sliding window of 512 tokens is shorter than an episode"),
    ],
)
def test_a_model_that_cannot_be_trained_is_not_planned(tmp_path, nvidia_smi, device, more, said):
    nvidia_smi(81559)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(RECIPES_MODELS[SMALL].to_config() | more))
    status, lines = shown(tmp_path, "--model", str(folder), "--set", f"device={device}", "--set", "dtype=bfloat16")
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith(f"Error: {said.format(folder)}")


def test_a_model_and_an_adapter_that_are_here_are_tried_with_the_template(tmp_path):
    folder = tiny_chat_model_folder(tmp_path / "model")
    adapter = tiny_adapter(folder, tmp_path / "adapter", r=8)
    settings = [f"--set={it}" for it in ("dtype=float32", "rollout.max_tokens=256", "lora.rank=8", "lora.alpha=8")]
    command = ["--model", str(folder), *settings]
    status, lines = shown(tmp_path, *command, "--init-adapter", str(adapter))
    assert status == 0, lines
    assert f"model: {folder}, in {folder}" in lines

    def said(*arguments):
        status, (line,) = shown(tmp_path, *arguments)
        assert status == 1
        return line

    assert said("--model", str(adapter)).startswith(f"Error: No model in {adapter}: it lacks config.json, ")
    a_weight = "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"
    edit_weights(adapter / "adapter_model.safetensors", {a_weight: None})
    fits_not = f"Error: the adapter {adapter} does not fit the model in {folder} ({a_weight} is in one of them alone)"
    assert said(*command, "--init-adapter", str(adapter)).startswith(fits_not)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.name }}: {{ m.content }}{% endfor %}")
    assert said(*command).startswith("Error: the model's chat template shows no tools, and plain ChatML cannot")

    edit_weights(folder / "model.safetensors", {"model.norm.weight": None})
    assert said(*command).startswith(f"Error: the model in {folder} lacks weights, in whose place random ones")
    (folder / "tokenizer.json").write_text("{")
    assert said(*command).startswith(f"Error: The model in {folder} is not whole: tokenizer.json cannot be read: ")


def test_what_others_have_of_a_gpu_is_shown_in_the_plan(tmp_path, nvidia_smi):
    nvidia_smi(24564, used=4096)
    status, lines = shown(tmp_path, "--recipe", "email-gpu")
    assert status == 0, lines
    assert any(line.startswith("vLLM on GPU 0 (a card, 24.0 GiB, 4.0 of them used by others): ") for line in lines)


def test_a_continuation_is_held_against_the_run_that_is_there(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "metrics.jsonl").touch()
    config = load_config(None, {"env": WORD_ENV, "dtype": "float32", "model": "some/model"})
    (run_dir / "config.json").write_text(config.model_dump_json())
    command = ["--env", WORD_ENV, "--model", "some/model", "--run-dir", str(run_dir), "--dry-run"]
    new = CliRunner().invoke(train, command)
    assert f"run directory: {run_dir} (there is a run in it)" in new.output
    resumed = CliRunner().invoke(train, [*command, "--resume"])
    assert resumed.exit_code == 0, resumed.output
    assert "dtype: float32" in resumed.output.splitlines(), "the run keeps what it measured"
    refused = CliRunner().invoke(train, [*command, "--resume", "--seed", "3"])
    assert refused.exit_code == 1
    assert "was begun with other settings, so it cannot be continued:\n  seed: 0 -> 3" in refused.output
    assert sorted(path.name for path in run_dir.iterdir()) == ["config.json", "metrics.jsonl"]


def test_a_run_on_the_cpu_is_shown_too(tmp_path):
    status, lines = shown(tmp_path, "--recipe", "email-cpu", "--set", "dtype=float32", "--model", "some/model")
    assert status == 0
    assert any(line.startswith("learner and vLLM on the CPU: ") for line in lines)
    assert any(line.startswith("vLLM's arguments: --model some/model") and "--dtype float32" in line for line in lines)
    assert "warm start: 50 steps of a demonstration of 'verbatim'" in lines
    assert "evaluation before and after: 32 scenarios of the split 'test', up to 192 greedily" in lines


def test_an_env_without_splits_is_evaluated_on_none(tmp_path):
    settings = ("--set", "dtype=float32", "--set", "eval.scenarios=6", "--set", "device=cpu")
    status, lines = shown(tmp_path, "--env", "FrozenLake-v1", "--model", "some/model", *settings)
    assert status == 0, lines
    assert "evaluation before and after: 6 scenarios, up to 6 greedily" in lines


def test_the_memory_on_the_cpu_is_shown_for_each_dtype_that_may_be_chosen(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(RECIPES_MODELS[SMALL].to_config()))
    config = load_config("email-cpu", {"env": EMAIL_ENV, "model": str(folder)})
    for dtypes, arguments in ((("bfloat16", "float32"), ()), (("float32",), ("--set", "dtype=float32"))):
        status, lines = shown(tmp_path, "--recipe", "email-cpu", "--model", str(folder), *arguments)
        assert status == 0
        needs = {
            dtype: cpu_needs(config.model_copy(update={"dtype": dtype}), RECIPES_MODELS[SMALL]) for dtype in dtypes
        }
        assert [line for line in lines if line.startswith("in ")] == [f"in {dtype}: {needs[dtype]}" for dtype in dtypes]


def test_the_agent_its_teacher_and_the_minutes_are_shown(tmp_path):
    warm = ("--warm-start-model", "openai:m@http://me:secret@127.0.0.1:1/v1", "--set", "warm_start.steps=3")
    model = str(tiny_chat_model_folder(tmp_path / "model"))
    agent = ("--agent", "cmd:true {question}", "--minutes", "20", *warm)
    status, lines = shown(tmp_path, "--env", EMAIL_ENV, "--cpu", "--model", model, *agent)
    assert status == 0, lines
    said = dict(line.split(": ", 1) for line in lines)
    assert said["agent"] == "cmd:true {question}, whose model is the policy"
    assert said["steps"].startswith("as many as fit in 20 minutes, each of ")
    assert said["warm start"] == "3 steps of 8 demonstrations of 'openai:m@http://127.0.0.1:1/v1'"
