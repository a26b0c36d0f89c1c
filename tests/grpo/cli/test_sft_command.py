"""grpo-sft as a user runs it, with a tiny model; its adapter is what grpo-train starts from."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grpo.cli.sft import sft
from grpo.config import load_config
from grpo.devices.plan import plan_gpus
from grpo.devices.shape import RECIPES_MODELS
from grpo.display.meanings import OF_IMITATION
from grpo.episodes.record import write_episodes
from grpo.errors import ConfigError
from grpo.runs.model_card import name_base_model
from grpo.runs.trained_policy import init_adapter
from grpo.training.engines import backend_of
from grpo.training.sft import without_servers
from judges.common.files import read_jsonl, write_json
from tests.grpo.training.test_demonstrations import rollout
from tests.support.envs import SUMS_ENV, WORD_ENV
from tests.support.evaluations import run
from tests.support.judge_server import JudgeServer, score_by
from tests.support.tiny_model import tiny_chat_model_folder
from tests.support.wait import wait_until

CHATS = [[("user", f"What is {a} plus 1?"), ("assistant", f"It is {a + 1}.")] for a in range(24)]


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    chats = [{"messages": [{"role": role, "content": text} for role, text in chat]} for chat in CHATS]
    path.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    pytest.importorskip("peft", reason="torch, transformers and peft are not installed (extra 'train')")
    return tiny_chat_model_folder(tmp_path_factory.mktemp("model"))


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(sft, list(map(str, arguments)))


@pytest.fixture
def one_step(model, chats):
    """What a step on the chats takes, but for where the adapter goes."""
    return ("--data", chats, "--model", model, "--cpu", "--steps", "1", "--quiet")


@pytest.mark.torch
def test_imitation_lowers_the_validation_loss_and_gives_a_plain_peft_adapter(model, chats, tmp_path):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    out = tmp_path / "adapters" / "warm"
    arguments = ["--data", chats, "--out", out, "--model", model, "--set", "warm_start.learning_rate=0.03"]
    arguments += ["--cpu", "--steps", "6", "--set", "warm_start.batch=4", "--validation", "0.25"]
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert f"grpo-train --env ENV --model {model} --init-adapter {out}" in result.output
    records = read_jsonl(out / "metrics.jsonl")
    losses = [record["validation/loss"] for record in records if "validation/loss" in record]
    assert [record["step"] for record in records] == list(range(7))
    assert {name for record in records for name in record} == OF_IMITATION.keys()
    assert len(losses) == 3  # before, after an epoch of four steps, and at the end
    assert losses[-1] < losses[0] - 0.1  # a random model has little to give
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["r"]) == (str(model), 16)
    assert "trained with SFT" in (out / "README.md").read_text()
    assert sorted(p.name for p in out.iterdir()) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "metrics.jsonl",
    ]  # fmt: skip
    base = AutoModelForCausalLM.from_pretrained(model)
    ids = torch.arange(10, 20).view(1, 10)
    with torch.no_grad():
        plain = base(ids).logits
        assert not torch.equal(PeftModel.from_pretrained(base, str(out))(ids).logits, plain)

    again = invoke(*arguments)
    assert again.exit_code == 1
    assert "exists; choose another --out" in again.output


@pytest.mark.torch
def test_an_adapter_of_a_hub_model_is_gone_on_from_without_a_look_at_the_hub(model, one_step, tmp_path, monkeypatch):
    from peft.utils import save_and_load

    first, second = tmp_path / "first", tmp_path / "second"
    arguments = (*one_step, "--set", "lora.rank=8")
    assert invoke(*arguments, "--out", first).exit_code == 0
    name_base_model(first, "org/not-there")
    monkeypatch.setattr(save_and_load, "check_file_exists_on_hf_hub", pytest.fail)
    result = invoke(*arguments, "--init-adapter", first, "--out", second)
    assert result.exit_code == 0, result.output
    assert f"--env ENV --model {model} --set lora.rank=8 --init-adapter {second}\n" in result.output
    assert json.loads((second / "adapter_config.json").read_text())["base_model_name_or_path"] == str(model)


@pytest.mark.torch
def test_imitation_leaves_no_room_on_the_gpu_for_a_server_that_does_not_run(tmp_path, nvidia_smi):
    nvidia_smi(40 * 1024)
    shape = RECIPES_MODELS["Qwen/Qwen2.5-14B-Instruct"]
    (tmp_path / "config.json").write_text(json.dumps(shape.to_config()))
    config = load_config(None, {"env": "X-v0", "device": "cuda", "learner.token_budget": 4096})
    with pytest.raises(ConfigError, match=r"does not fit: needed are 33\.1 GiB for the learner, .* GiB for vLLM"):
        plan_gpus(config, shape)
    with pytest.raises(ConfigError, match=r"but torch .* sees no GPU"):  # it fits: the next step is the real card
        backend_of(without_servers(config)).engine(tmp_path)


@pytest.mark.torch
def test_what_is_to_be_lowered_where_the_model_does_not_fit_can_be_set(model, chats, tmp_path, nvidia_smi):
    nvidia_smi(1024)
    settings = ["learner.token_budget=4096", "rollout.max_tokens=512", "learner.gradient_checkpointing=true"]
    options = [word for setting in settings for word in ("--set", setting)]
    result = invoke("--data", chats, "--model", model, "--cuda", "--out", tmp_path / "out", *options)
    assert re.search(
        r"does not fit: .*Lower learner.token_budget \(4096\), rollout.max_tokens \(512\), ", result.output
    )


@pytest.mark.torch
def test_a_gpu_that_is_not_there_or_too_small_is_named_before_a_demonstration_is_played(model, tmp_path, nvidia_smi):
    command = ("--env", WORD_ENV, "--policy", "oracle", "--model", model, "--cuda", "--out", tmp_path / "out")
    for cards, said in (
        ((), "Error: device = 'cuda', but nvidia-smi shows no GPU; "),
        ((1024,), "Error: the model does not fit: needed are "),
        ((81559,), "Error: device = 'cuda', but torch "),
    ):
        nvidia_smi(*cards)
        assert invoke(*command).output.startswith(said)


@pytest.mark.torch
def test_an_adapter_of_another_model_and_a_damaged_one_are_named(model, one_step, tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    first = tmp_path / "first"
    assert invoke(*one_step, "--out", first).exit_code == 0
    other = Path(shutil.copytree(model, tmp_path / "other"))
    wider = AutoConfig.from_pretrained(model, intermediate_size=96)
    AutoModelForCausalLM.from_config(wider).save_pretrained(other)
    for options, said in (
        (["--model", other], f"Error: the adapter {first} does not fit the model in"),
        (
            [],
            f"Error: {first} is no PEFT LoRA adapter (ModelError: adapter_model.safetensors is no whole safetensors file",
        ),
    ):
        result = invoke(*one_step, *options, "--init-adapter", first, "--out", tmp_path / "second")
        assert result.exit_code == 1, result.output
        assert said in result.output
        assert len(result.output.splitlines()) == 1
        (first / "adapter_model.safetensors").write_bytes(b"damaged")


@pytest.mark.torch
def test_the_server_of_a_run_on_a_gpu_does_not_hinder_imitation_on_the_cpu(one_step, tmp_path):
    server = {"sleep_mode": True, "tensor_parallel": 2}
    write_json(tmp_path / "config.json", {"env": "X-v0", "device": "cuda", "server": server})
    result = invoke(*one_step, "--recipe", tmp_path / "config.json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file()


@pytest.mark.torch
def test_ctrl_c_leaves_nothing(model, chats, tmp_path):
    arguments = ["sft", "--data", str(chats), "--out", str(tmp_path / "out" / "warm"), "--model", str(model)]
    arguments += ["--cpu", "--steps", "50000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo", *arguments],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    steps = ".warm-*/whole/metrics.jsonl"
    wait_until(
        lambda: any(map(read_jsonl, (tmp_path / "out").glob(steps))),
        seconds=600,
        process=process,
        told=process.communicate,
    )
    process.send_signal(signal.SIGINT)
    assert "Stopped. Nothing was written." in process.communicate(timeout=300)[0]
    assert process.returncode == 130
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name one source of demonstrations"),
        (["--policy", "oracle", "--data", __file__, "--env", "E"], "name one source"),
        (["--policy", "oracle"], "--policy needs --env"),
        (["--policy", "oracle", "--env", "E", "--min-reward", "1"], "go with --from-run or --data"),
        (["--data", __file__, "--reward", "ruler"], "give --reward a limit to choose by: --min-reward, --best-share"),
        (["--data", __file__, "--best-share", "1.5"], "1.5 is not in the range"),
        (["--data", __file__, "--validation", "1"], "--validation is a share"),
        (["--data", __file__], "line 1: Extra data"),
        (
            ["--data", __file__, "--set", "learning_rate=1"],
            "grpo-sft has no use for learning_rate; --set takes dtype, judge.",
        ),
        (["--policy", "wizard", "--env", "EmailSearch-v0"], "it offers: "),
        (["--from-run", str(Path(__file__).parent)], "is no run directory: "),
    ],
)
def test_wrong_input_says_what_was_wrong_and_leaves_nothing(arguments, message, model, tmp_path):
    result = invoke(*arguments, "--model", model, "--out", tmp_path / "out" / "a")
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert not (tmp_path / "out" / "a").exists()


@pytest.mark.torch
def test_the_good_episodes_of_a_run_become_an_adapter_that_a_run_of_its_settings_can_start_from(model, tmp_path):
    run_dir = tmp_path / "run"
    settings = load_config(
        None, {"env": WORD_ENV, "model": str(model), "lora.rank": 8, "lora.alpha": 8, "warm_start.batch": 2}
    )
    write_json(run_dir / "config.json", json.loads(settings.model_dump_json()))
    episodes = [rollout(turns, f"train-{word}") for word in ("maple", "quartz") for turns in ([word], ["oak"])]
    write_episodes(run_dir / "trajectories" / "step-0001.jsonl", episodes)
    arguments = ("--from-run", run_dir, "--min-reward", "1", "--steps", "1", "--out", tmp_path / "best")
    result = invoke(*arguments, "--validation", "0.5", "--quiet")
    assert result.exit_code == 0, result.output
    assert re.search(r"demonstrations +2", result.output), result.output
    assert "left out: reward below 1" in result.output
    assert f"--env {WORD_ENV} --recipe {run_dir}/config.json --init-adapter {tmp_path / 'best'}" in result.output
    assert init_adapter(settings.model_copy(update={"init_adapter": str(tmp_path / "best")}))


@pytest.mark.torch
def test_the_good_episodes_of_an_evaluation_become_an_adapter_whoever_played_them(model, tmp_path):
    evaluation = tmp_path / "evaluation"
    assert run("--agent", "oracle", "--out", str(evaluation), count=4).exit_code == 0
    arguments = ("--from-run", evaluation, "--model", model, "--cpu", "--steps", "1", "--validation", "0")
    result = invoke(*arguments, "--out", tmp_path / "best")
    assert result.exit_code == 0, result.output
    assert re.search(r"demonstrations +4", result.output), result.output
    assert f"grpo-train --env {SUMS_ENV} " in result.output
    assert (tmp_path / "best" / "adapter_model.safetensors").exists()


@pytest.mark.torch
def test_a_log_is_chosen_from_by_a_judge_of_equal_prompts(model, tmp_path):
    pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")
    log = tmp_path / "log.jsonl"
    asked = [{"role": "user", "content": "What is 2 + 2?"}]
    lines = [{"messages": [*asked, {"role": "assistant", "content": text}]} for text in ("5", "4", "It is 3.")]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = score_by(lambda messages: (1.0 if messages[-1]["content"] == "4" else 0.0, "arithmetic"))
    with JudgeServer(answer) as server:
        judge = ("--reward", "ruler", "--judge-model", "openai/judge", "--judge-api-base", server.url)
        choice = (*judge, "--min-reward", "0.5", "--steps", "1", "--validation", "0", "--out", tmp_path / "out")
        result = invoke("--data", log, "--model", model, "--cpu", *choice)
    assert result.exit_code == 0, result.output
    assert re.search(r"demonstrations +1\b", result.output), result.output
    assert re.search(r"left out: reward below 0.5 +2\b", result.output), result.output
    assert (tmp_path / "out" / "judgements.jsonl").exists(), "what was asked and paid for is kept"
