"""grpo-serve as a user runs it: a real vLLM on the CPU with an adapter, asked over HTTP, ended with Ctrl-C."""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from grpo.cli.serve import serve
from grpo.serving.server import KEY_VARIABLE
from tests.grpo.chat.templates import FAMILIES
from tests.support.envs import TalkEnv
from tests.support.episodes import ids_of, mask_of, talked
from tests.support.runs import weights_file
from tests.support.sessions import processes_in, sessions_below
from tests.support.wait import wait_until

SMOLLM2 = FAMILIES[0]


@pytest.mark.vllm
def test_an_adapter_is_served_under_its_name_until_ctrl_c(model_dir, chats, save_random_adapter, tmp_path):
    pytest.importorskip("vllm", reason="vLLM is not installed (extra 'cpu' or 'gpu')")
    save_random_adapter(tmp_path / "mine", 5)
    server = subprocess.Popen(
        [sys.executable, "-m", "grpo", "serve", str(tmp_path / "mine"), "--model", str(model_dir), "--port", "0"],
        env={name: value for name, value in os.environ.items() if name != KEY_VARIABLE} | {"PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    sessions: tuple[int, ...] = ()
    try:
        assert server.stdout is not None
        shown: list[str] = []
        for line in server.stdout:
            shown.append(line)
            if "client.chat" in line:
                break
        found = re.search(r"Serving mine at (\S+)/v1", "".join(shown))
        assert found, "".join(shown)
        url = found[1]
        sessions = sessions_below(server.pid)
        assert len(sessions) == 2  # the command's and the server's
        (key,) = set(re.findall(r"(?:Bearer |api_key=)[\'\"]?([\w-]+)", "".join(shown)))
        shows = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, trust_env=False, timeout=120, headers=shows) as client:
            assert {model["id"] for model in client.get("/v1/models").json()["data"]} == {"base", "mine"}
            said = {}
            for name in ("base", "mine"):
                request = {"model": name, "prompt": "The sky is", "max_tokens": 8, "temperature": 0, "logprobs": 0}
                choice = client.post("/v1/completions", json=request).raise_for_status().json()["choices"][0]
                said[name] = choice["logprobs"]["token_logprobs"]
            assert said["base"] != said["mine"]
            chat = {"model": "mine", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
            chat["ignore_eos"] = True
            assert (
                client.post("/v1/chat/completions", json=chat).raise_for_status().json()["usage"]["completion_tokens"]
                == 8
            )
            check_tool_loop(client, chats(SMOLLM2))
    finally:
        server.send_signal(signal.SIGINT)
        output = server.communicate(timeout=300)[0]
    assert "Stopped. The server is gone." in output
    assert server.returncode == 130
    wait_until(lambda: not processes_in(*sessions), told=lambda: processes_in(*sessions))


def check_tool_loop(client, chat):
    """A client's tool loop: each prompt has the ids of the rollout, each call comes back parsed."""
    turns = [SMOLLM2.call, SMOLLM2.call, "In May."]
    rollout, _ = talked(chat, turns, role="tool", says="m1 | Atlas")
    ids, mask = ids_of(rollout), mask_of(rollout)
    prompts = [ids[:at] for at in range(1, len(mask)) if mask[at] and not mask[at - 1]]
    messages = list(TalkEnv.opening)
    for turn, answer, prompt in zip(turns, [m for m in rollout.messages if m["role"] == "tool"], prompts, strict=True):
        request = {"model": "mine", "messages": messages, "tools": list(TalkEnv.tools), "max_tokens": 64}
        only = {"structured_outputs": {"choice": [turn]}, "return_token_ids": True}  # whatever the random adapter says
        reply = client.post("/v1/chat/completions", json=request | only).raise_for_status().json()
        assert reply["prompt_token_ids"] == prompt
        said = reply["choices"][0]["message"]
        if turn == SMOLLM2.call:
            (call,) = said["tool_calls"]
            assert (call["function"]["name"], said["content"]) == ("search_inbox", None)
            assert json.loads(call["function"]["arguments"]) == {"keywords": ["Atlas"]}
            messages = [*messages, said, {**answer, "tool_call_id": call["id"]}]
        else:
            assert (said["content"], said.get("tool_calls") or []) == (turn, [])


@pytest.fixture
def adapter(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    settings = {"r": 12, "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    (folder / "adapter_model.safetensors").write_bytes(weights_file())
    return str(folder)


def run_of(adapter, folder, **settings):
    """A run that trained it so."""
    checkpoint = folder / "run/checkpoints/step-0003"
    shutil.copytree(adapter, checkpoint)
    (checkpoint / "state.json").write_text("{}")
    config = {"env": "EmailSearch-v0", "model": "Qwen/Qwen2.5-7B-Instruct", **settings}
    (folder / "run/config.json").write_text(json.dumps(config))
    return str(folder / "run")


def test_on_a_gpu_it_takes_the_plan_of_a_run_without_a_learner(adapter, nvidia_smi, monkeypatch):
    nvidia_smi(24 * 1024)
    monkeypatch.setattr("grpo.serving.vllm.built_for", lambda: "cpu")
    assert "before the dtype is measured" in CliRunner().invoke(serve, [adapter, "--dry-run"]).output
    monkeypatch.setattr("grpo.serving.vllm.built_for", lambda: "cuda")
    lines = CliRunner().invoke(serve, [adapter, "--port", "8123", "--dry-run"]).output.splitlines()
    assert lines[2].startswith("vLLM on GPU 0 (a card, 24.0 GiB): ")
    assert lines[2].endswith(" at full length")
    assert not any("learner" in line for line in lines)
    words = shlex.split(lines[-1].removeprefix("vLLM's arguments: "))
    arguments = dict(itertools.pairwise(words))
    assert float(arguments["--gpu-memory-utilization"]) < 0.97
    assert int(arguments["--kv-cache-memory-bytes"]) >= 4096 * 57344, (
        "one sequence: 2 x 28 layers x 512 x 2 bytes a token"
    )
    assert (arguments["--max-lora-rank"], arguments["--max-loras"], arguments["--port"]) == ("16", "1", "8123")
    assert arguments["--lora-modules"] == f"mine={adapter}"


@pytest.mark.parametrize("draft_tokens", [0, 7])
def test_on_the_cpu_it_guesses_tokens_where_one_asks_for_it(adapter, draft_tokens):
    asked = [adapter, "--cpu", "--dtype", "float32", "--dry-run", "--draft-tokens", str(draft_tokens)]
    shown = CliRunner().invoke(serve, asked)
    assert shown.exit_code == 0, shown.output
    guessing = re.search(r'"num_speculative_tokens": (\d+)', shown.output)
    assert (int(guessing[1]) if guessing else 0) == draft_tokens


@pytest.mark.parametrize(
    ("trained", "asked", "served"),
    [
        (None, [], None),  # measured when it is served
        (None, ["--dtype", "float32"], "float32"),
        ("float32", [], "float32"),
        ("float32", ["--dtype", "bfloat16"], "bfloat16"),
        ("bfloat16", ["--dtype", "float32"], "float32"),
        ("bfloat16", ["--dtype", "auto"], None),
    ],
)
def test_a_policy_is_served_in_the_dtype_of_its_run_or_the_one_that_is_asked_for(
    adapter, tmp_path, trained, asked, served
):
    target = adapter if trained is None else run_of(adapter, tmp_path, dtype=trained)
    shown = CliRunner().invoke(serve, [target, "--cpu", *asked, "--dry-run"])
    assert shown.exit_code == 0, shown.output
    last = shown.output.splitlines()[-1]
    if served is None:
        assert last.startswith("vLLM's arguments: not known before the dtype is measured")
    else:
        words = shlex.split(last.removeprefix("vLLM's arguments: "))
        assert words[words.index("--dtype") + 1] == served


def test_a_policy_trained_in_float32_on_a_gpu_is_served_there_as_the_error_says(adapter, tmp_path, nvidia_smi):
    """It trained alone on the GPU; vLLM was on another machine."""
    nvidia_smi(24 * 1024)
    run = run_of(adapter, tmp_path, device="cuda", dtype="float32")
    refused = CliRunner().invoke(serve, [run, "--dry-run"])
    assert refused.exit_code == 1
    assert "take bfloat16 (--set dtype=bfloat16, or --dtype bfloat16 to serve or evaluate" in refused.output
    served = CliRunner().invoke(serve, [run, "--dtype", "bfloat16", "--dry-run"])
    assert served.exit_code == 0, served.output


def test_a_policy_that_does_not_fit_on_the_gpu_is_refused_with_what_to_lower(adapter, nvidia_smi, monkeypatch):
    nvidia_smi(12 * 1024)
    monkeypatch.setattr("grpo.serving.vllm.built_for", lambda: "cuda")
    result = CliRunner().invoke(serve, [adapter, "--dry-run"])
    assert result.exit_code == 1
    assert "the model does not fit: needed are 2" in result.output
    assert "rollout.concurrency" in result.output


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--cpu", "--port", "99999"], 1, "Error: port = 99999: Input should be less than or equal to 65535"),
        (["--cpu", "--threads", "0"], 1, "Error: threads = 0: Input should be greater than or equal to 1"),
        (
            ["--cpu", "--model", "./nowhere"],
            1,
            "Error: Model './nowhere' is neither an existing folder nor a model hub",
        ),
        (["--cuda", "--draft-tokens", "7"], 2, "--draft-tokens is for the CPU"),
    ],
)
def test_what_no_server_could_start_with_is_refused(adapter, arguments, status, said):
    result = CliRunner().invoke(serve, [adapter, "--dtype", "float32", "--dry-run", *arguments])
    assert result.exit_code == status
    assert said in result.output


def test_a_folder_that_holds_no_policy_is_refused_before_anything_starts(tmp_path):
    result = CliRunner().invoke(serve, [str(tmp_path)])
    assert result.exit_code == 1
    assert "neither a run directory" in result.output
