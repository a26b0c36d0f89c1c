"""grpo-serve as a user runs it: a real vLLM on the CPU with an adapter, asked over HTTP, ended with Ctrl-C."""

import os
import re
import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from grpo.cli.serve import serve
from tests.grpo.test_server import wait_until_gone


@pytest.mark.vllm
def test_an_adapter_is_served_under_its_name_until_ctrl_c(model_dir, save_random_adapter, tmp_path):
    pytest.importorskip("vllm", reason="vLLM is not installed (extra 'cpu' or 'gpu')")
    save_random_adapter(tmp_path / "mine", 5)
    mark = f"mark-{tmp_path}"
    server = subprocess.Popen(
        [sys.executable, "-m", "grpo.cli", "serve", str(tmp_path / "mine"), "--model", str(model_dir), "--port", "0"],
        env={**os.environ, "PYTHONPATH": os.getcwd(), "GRPO_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
            client.post("/v1/chat/completions", json=chat).raise_for_status().json()["usage"]["completion_tokens"] == 8
        )
    server.send_signal(signal.SIGINT)
    assert "Stopped. The server is gone." in server.communicate(timeout=60)[0]
    assert server.returncode == 130
    assert wait_until_gone(mark, 10.0) == {}


def test_a_folder_that_holds_no_policy_is_refused_before_anything_starts(tmp_path):
    result = CliRunner().invoke(serve, [str(tmp_path)])
    assert result.exit_code == 1
    assert "neither a run directory" in result.output
