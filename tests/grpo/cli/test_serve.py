"""grpo-serve as a user runs it: a real vLLM on the CPU with an adapter, asked over HTTP, ended with Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from grpo.cli.serve import serve
from tests.fakes import TalkEnv
from tests.grpo.chat.templates import FAMILIES
from tests.grpo.chat.test_turns import played
from tests.grpo.serving.test_server import wait_until_gone

SMOLLM2 = FAMILIES[0]


@pytest.mark.vllm
def test_an_adapter_is_served_under_its_name_until_ctrl_c(model_dir, chats, save_random_adapter, tmp_path):
    pytest.importorskip("vllm", reason="vLLM is not installed (extra 'cpu' or 'gpu')")
    save_random_adapter(tmp_path / "mine", 5)
    mark = f"mark-{tmp_path}"
    server = subprocess.Popen(
        [sys.executable, "-m", "grpo", "serve", str(tmp_path / "mine"), "--model", str(model_dir), "--port", "0"],
        env={**os.environ, "PYTHONPATH": os.getcwd(), "GRPO_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
        with httpx.Client(base_url=url, trust_env=False, timeout=120) as client:
            assert {model["id"] for model in client.get("/v1/models").json()["data"]} == {"base", "mine"}
            said = {}
            for name in ("base", "mine"):
                request = {"model": name, "prompt": "The sky is", "max_tokens": 8, "temperature": 0, "logprobs": 0}
                choice = client.post("/v1/completions", json=request).raise_for_status().json()["choices"][0]
                said[name] = choice["logprobs"]["token_logprobs"]
            assert said["base"] != said["mine"]
            chat = {"model": "mine", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
            assert (
                client.post("/v1/chat/completions", json=chat).raise_for_status().json()["usage"]["completion_tokens"]
                == 8
            )
            check_tool_loop(client, chats(SMOLLM2))
    finally:
        server.send_signal(signal.SIGINT)
        output = server.communicate(timeout=60)[0]
    assert "Stopped. The server is gone." in output
    assert server.returncode == 130
    assert wait_until_gone(mark, 10.0) == {}


def check_tool_loop(client, chat):
    """A client's tool loop: each prompt has the ids of the rollout, each call comes back parsed."""
    turns = [SMOLLM2.call, SMOLLM2.call, "In May."]
    rollout = played(chat, turns)
    mask = rollout.action_mask
    prompts = [rollout.token_ids[:at] for at in range(1, len(mask)) if mask[at] and not mask[at - 1]]
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


def test_a_folder_that_holds_no_policy_is_refused_before_anything_starts(tmp_path):
    result = CliRunner().invoke(serve, [str(tmp_path)])
    assert result.exit_code == 1
    assert "neither a run directory" in result.output
