"""`policy:` agents: which adapter is meant, and a real vLLM server playing token for token."""

import hashlib
import json
import math
import shutil

import pytest

from grpo.agents.served import ServedPolicy, policy_config, policy_named
from grpo.config import load_config
from grpo.episodes.store import different_settings
from grpo.errors import EvaluationError
from grpo.eval import request
from grpo.report.evaluation import evaluation_page
from grpo.runs.retention import note_score
from tests.support.envs import WORD_ENV
from tests.support.evaluations import play_tiny_policy, refused, rows, run
from tests.support.runs import weights_file, write_adapter, write_run
from tests.support.tiny_model import tiny_chat_model_folder


def _run_directory(folder, *steps):
    write_run(folder, steps)
    settings = {"env": "EmailSearch-v0", "env_kwargs": {"max_turns": 6}, "rollout": {"max_turn_tokens": 64}}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def test_a_run_means_its_newest_checkpoint_or_the_one_that_is_named(tmp_path):
    run_dir = write_run(tmp_path / "first", (3, 11))
    note_score(run_dir / "checkpoints", 3, 0.5)
    for target, step in ((str(run_dir), 11), (f"{run_dir}@3", 3), (f"{run_dir}@best", 3)):
        assert policy_named(target, "org/base").step == step
    assert policy_named("base", "org/base") is None
    alone = write_adapter(tmp_path / "mine@home", base=None)
    assert policy_named(str(alone), "org/base").model == "org/base"


def test_a_continuation_with_other_weights_is_another_evaluation(tmp_path):
    run_dir = write_run(tmp_path / "first", (3, 11))
    config = load_config(None, {"env": "EmailSearch-v0"})

    def fingerprint(target):
        return ServedPolicy(target, config, 0.0).fingerprint

    for step, weights in ((3, b"a"), (11, b"b")):
        (run_dir / "checkpoints" / f"step-{step:04d}" / "adapter_model.safetensors").write_bytes(weights_file(weights))
    newest, third = fingerprint(str(run_dir)), fingerprint(f"{run_dir}@3")
    assert newest == "step-0011 " + hashlib.sha256(weights_file(b"b")).hexdigest()[:16]
    assert different_settings({"policy": third}, {"policy": newest}) == [f"policy: {third!r} -> {newest!r}"]
    assert fingerprint("base") is None
    assert different_settings({}, {"policy": None}) == []


def test_what_an_agent_took_of_an_adapter_goes_with_the_agent_and_leaves_the_adapter(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    weights = write_adapter(tmp_path / "adapter") / "adapter_model.safetensors"
    weights.rename(tmp_path / "adapter" / "weights")
    weights.symlink_to("weights")
    agent = ServedPolicy(str(tmp_path / "adapter"), load_config(None, {"env": "EmailSearch-v0"}), 0.0)
    (copy,) = (tmp_path / "scratch").rglob("adapter_model.safetensors")
    (tmp_path / "adapter" / "weights").write_text("others")
    assert copy.read_bytes() == weights_file(), "an adapter of nobody's run may be written again in place"
    del agent
    assert list((tmp_path / "scratch").iterdir()) == []
    assert (tmp_path / "adapter" / "weights").read_text() == "others"


def test_a_policy_is_served_in_the_dtype_of_its_run_or_the_one_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo.agents.served.built_for", lambda: "cpu")
    run_dir = _run_directory(tmp_path / "first", 3)
    saved = json.loads((run_dir / "config.json").read_text())

    def dtype(asked, **settings):
        (run_dir / "config.json").write_text(json.dumps(saved | settings))
        return policy_config(str(run_dir), None, "EmailSearch-v0", {}, asked).dtype

    assert dtype(None, dtype="float32") == "float32"
    assert dtype("bfloat16", dtype="float32") == "bfloat16"
    assert dtype(None, dtype="bfloat16", device="cuda") == "auto", "another machine"
    assert dtype("float32", dtype="bfloat16", device="cuda") == "float32"
    with pytest.raises(EvaluationError, match="which was started with a dtype of its own; leave --dtype out"):
        dtype("float32", server={"urls": ["http://127.0.0.1:1"]})


@pytest.mark.parametrize(
    ("agent", "option", "value", "whose"),
    [
        ("oracle", "--dtype", "float32", "policy: agents, which are served here, and"),
        ("file:answers.jsonl", "--dtype", "float32", "policy: agents, which are served here, and"),
        ("tests.support.agents:maple", "--temperature", "0", "policy:, openai: and litellm: agents and"),
        ("policy:base", "--model", "openai:m@http://127.0.0.1:1/v1", "agents that are functions or programs and"),
        ("openai:m@http://127.0.0.1:1/v1", "--model", "litellm:m", "agents that are functions or programs and"),
    ],
)
def test_an_option_that_the_agent_would_not_use_is_refused(tmp_path, agent, option, value, whose):
    said = refused(tmp_path, "--agent", agent, option, value)
    assert f"Error: {option} is for {whose} not for '{agent}'; leave it out" in said


def test_a_run_and_its_checkpoint_bring_the_settings_of_the_run_and_another_adapter_those_of_the_recipe(tmp_path):
    run_dir = _run_directory(tmp_path / "first", 3)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("rollout.max_turn_tokens = 24\n")
    for target in (str(run_dir), str(run_dir / "checkpoints" / "step-0003")):
        config = policy_config(target, str(recipe), "EmailSearch-v0", {"max_results": 3})
        assert (config.rollout.max_turn_tokens, config.env_kwargs) == (64, {"max_turns": 6, "max_results": 3})
    config = policy_config(str(write_adapter(tmp_path / "mine")), str(recipe), "EmailSearch-v0", {})
    assert (config.rollout.max_turn_tokens, config.env_kwargs) == (24, {})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"env": ', "is not JSON (Expecting value: line 1 column 9 (char 8))"),
        ("[1]", "is not a JSON object"),
        ('{"architectures": ["LlamaForCausalLM"], "vocab_size": 49152}', "has no 'env'"),
    ],
)
def test_a_folder_whose_config_is_no_runs_is_named_in_one_line(tmp_path, config, said):
    (tmp_path / "config.json").write_text(config)
    assert refused(tmp_path, "--agent", f"policy:{tmp_path}") == (
        f"Error: {tmp_path} is no run directory: {tmp_path}/config.json {said}\n"
    )


@pytest.mark.torch
def test_what_a_policy_sampled_is_kept_token_for_token_and_stands_on_the_page(tmp_path):
    pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    folder = play_tiny_policy(tmp_path)
    turns_of = {}
    for row in rows(folder):
        said = [message["content"] for message in row["messages"] if message["role"] == "assistant"]
        turns = turns_of[row["scenario_id"]] = [call["sampled"] for call in row["calls"]]
        assert len(turns) == len(said) == row["turns"] > 0
        for turn, text in zip(turns, said, strict=True):
            assert _letters("".join(turn[::2])) == _letters(text)
        for turn, call in zip(turns, row["calls"], strict=True):
            per_token = sum(turn[1::2]) / call["completion_tokens"]
            assert per_token == pytest.approx(-math.log(264), abs=1.0), "a random model finds all ids alike"
    page = evaluation_page([folder]).episodes.to_data([])
    assert {episode["scenario"]: episode["sampled"] for episode in page["episodes"]} == turns_of


@pytest.mark.torch
def test_the_policy_of_a_run_that_trains_on_is_the_one_that_was_newest_when_the_evaluation_began(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

    def while_it_trains_on(*arguments):
        agent = made(*arguments)
        shutil.copytree(run_dir / "checkpoints" / "step-0001", run_dir / "checkpoints" / "step-0002")
        (run_dir / "checkpoints" / "step-0002" / "adapter_model.safetensors").write_bytes(b"")
        shutil.rmtree(run_dir / "checkpoints" / "step-0001")
        return agent

    made, run_dir = request.make_agent, tmp_path / "run"
    monkeypatch.setattr(request, "make_agent", while_it_trains_on)
    folder = play_tiny_policy(tmp_path, run_dir)
    assert len(rows(folder)) == 2
    assert {row["model_calls"] > 0 for row in rows(folder)} == {True}
    weights = (tmp_path / "adapter" / "adapter_model.safetensors").read_bytes()
    policy = json.loads((folder / "config.json").read_text())["policy"]
    assert policy == f"step-0001 {hashlib.sha256(weights).hexdigest()[:16]}"


@pytest.mark.torch
async def test_a_policy_has_a_server_of_its_own_for_as_long_as_it_plays(fake_vllm, tmp_path):
    pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    write_adapter(tmp_path / "adapter")
    settings = {"env": WORD_ENV, "model": str(tiny_chat_model_folder(tmp_path / "model")), "dtype": "float32"}
    config, said = load_config(None, settings | {"rollout.max_tokens": 400}), []
    async with ServedPolicy(str(tmp_path / "adapter"), config, 0.0, said.append) as agent:
        (server,) = agent._servers.servers
        assert server.is_alive()
        assert "asked for /v1/load_lora_adapter" in server.log_path.read_text()
    assert said[0] == "vLLM is starting, computing in float32"
    assert not server.is_alive()


def _letters(text: str) -> str:
    """Without what stands for bytes that are no character: a tiny random model samples many, and a turn may be cut in one."""
    return text.replace("\ufffd", "")


@pytest.mark.vllm
def test_base_model_and_adapter_play_token_for_token_on_a_real_server(vllm_server, save_random_adapter, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'server.urls = ["{vllm_server.url}"]\nrollout = {{max_turn_tokens = 24, max_tokens = 2048}}\n')
    save_random_adapter(tmp_path / "adapter", 1)
    common = ("--limit", "3", "--recipe", str(recipe), "--temperature", "0")
    for target, folder in (("base", "base"), (str(tmp_path / "adapter"), "adapted")):
        shown = run(
            "--agent", f"policy:{target}", *common, "--out", str(tmp_path / folder), env="EmailSearch-v0", max_turns=3
        )
        assert shown.exit_code == 0, shown.output
    saved = {name: sorted(rows(tmp_path / name), key=lambda row: row["scenario_id"]) for name in ("base", "adapted")}
    said = {name: [row["messages"][2] for row in found] for name, found in saved.items()}
    assert said["base"] != said["adapted"], "the adapter was not used"
    for row in saved["base"]:
        assert row["prompt_tokens"] == sum(call["prompt_tokens"] for call in row["calls"]) > 100
        assert 0 < row["completion_tokens"] <= 24 * row["turns"]
        said = [message["content"] for message in row["messages"] if message["role"] == "assistant"]
        sampled = ["".join(call["sampled"][::2]) for call in row["calls"]]
        assert list(map(_letters, sampled)) == list(map(_letters, said))


def test_a_policy_is_the_model_of_an_agent_of_the_users(tmp_path):
    pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")
    found = rows(play_tiny_policy(tmp_path, agent="by_chat"))
    assert [row["ending"] for row in found] == ["no_answer"] * 2, "a plain env does not get last words"
    for row in found:
        (call,) = row["calls"]
        assert len(call["sampled_ids"]) == call["completion_tokens"] > 0
        assert "tools" in call, "the tool that it offered, as the env has it or in its own words"
        assert call["reply"]["role"] == "assistant"
