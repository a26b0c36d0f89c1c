"""A run on two servers, of which one ends for good in the middle, is the run on one server, bit for bit."""

import json

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from grpo.cli.train import train
from tests.grpo.training.test_resume import episodes
from tests.support.commands import sets
from tests.support.envs import LETTER_ENV
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch
SETTINGS = {
    "dtype": "float32",
    "rollout": {"max_turn_tokens": 8, "max_tokens": 400},
    "optimizer.learning_rate": 1e-2,
    "loss.max_gap": 5.0,
    "eval.scenarios": 2,
    "eval.greedy": 0,
}


def command(model, run_dir, *urls):
    flags = [flag for key, value in SETTINGS.items() for flag in ("--set", f"{key}={json.dumps(value)}")]
    servers = [flag for url in urls for flag in ("--server", url)]
    size = sets("steps=2", "rollout.groups_per_step=4", "rollout.group_size=3", "warm_start.steps=2", "threads=1")
    return ["--env", LETTER_ENV, "--model", str(model), *size, *flags, *servers, "--run-dir", str(run_dir)]


def run(model, run_dir, *urls):
    result = CliRunner().invoke(train, command(model, run_dir, *urls))
    assert result.exit_code == 0, result.output
    return result.output


class Mortal(TinyPolicyServer):
    """Ends for good in the first step: once it has answered three requests, the first look among them."""

    def complete(self, body):
        if len(self.asked) >= 3:
            self.stop()
            raise ConnectionAbortedError
        return super().complete(body)


def test_a_run_on_two_servers_of_which_one_ends_is_the_run_on_one(tmp_path):
    model = tiny_chat_model_folder(tmp_path / "model")
    with TinyPolicyServer(model) as server:
        run(model, tmp_path / "one", server.url)
        with Mortal(model) as mortal:
            shown = run(model, tmp_path / "two", mortal.url, server.url)
    assert f"sampling from {mortal.url}, {server.url}\n" in shown
    assert f"the server at {mortal.url} is out (" in shown
    assert 3 <= len(mortal.asked) < 15, "that is what it would have answered"
    for step in (1, 2):
        assert episodes(tmp_path / "two", step) == episodes(tmp_path / "one", step)
    adapters = [tmp_path / name / "checkpoints/step-0002/adapter_model.safetensors" for name in ("one", "two")]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()


def test_a_server_of_another_model_or_of_none_is_refused_before_the_warm_start(tmp_path):
    model, other = tiny_chat_model_folder(tmp_path / "model"), tiny_chat_model_folder(tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({name: -weight for name, weight in weights.items()}, other / "model.safetensors", {"format": "pt"})
    with TinyPolicyServer(model) as server, TinyPolicyServer(other) as wrong:
        strict = [*command(model, tmp_path / "run", server.url, wrong.url), "--set", "loss.max_gap=0.001"]
        refused = CliRunner().invoke(train, strict)
    assert refused.exit_code == 1
    assert f"Error: the server at {wrong.url} does not sample the model that is trained: " in refused.output
    assert (len(server.asked), len(wrong.asked)) == (1, 1)
    assert sorted(path.name for path in (tmp_path / "run").glob("*.jsonl")) == []
    refused = CliRunner().invoke(train, command(model, tmp_path / "run", "localhost:8000"))
    assert "Error: server.urls names 'localhost:8000', which is no URL; give it as http://HOST:PORT" in refused.output
