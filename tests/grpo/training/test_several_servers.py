"""A run on two servers, of which one ends for good in the middle, is the run on one server, bit for bit."""

import json

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from click.testing import CliRunner

from grpo.cli.train import train
from tests.fakes import LETTER_ENV, tiny_chat_model_folder
from tests.grpo.training.test_resume import episodes
from tests.policy_server import TinyPolicyServer

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
SETTINGS = {
    "dtype": "float32",
    "rollout": {"max_turn_tokens": 8, "max_tokens": 400},
    "optimizer.learning_rate": 1e-2,
    "loss.max_gap": 5.0,
    "eval.scenarios": 2,
    "eval.greedy": 0,
}


def run(model, run_dir, *urls):
    flags = [flag for key, value in SETTINGS.items() for flag in ("--set", f"{key}={json.dumps(value)}")]
    servers = [flag for url in urls for flag in ("--server", url)]
    size = ["--steps", "2", "--groups-per-step", "4", "--group-size", "3", "--warm-start-steps", "2", "--threads", "1"]
    command = ["--env", LETTER_ENV, "--model", str(model), *size, *flags, *servers, "--run-dir", str(run_dir)]
    result = CliRunner().invoke(train, command)
    assert result.exit_code == 0, result.output
    return result.output


class Mortal(TinyPolicyServer):
    """Ends for good in the first step: once it has answered two requests."""

    def answer(self, path, body):
        if self.requests >= 2:
            self.__exit__()  # nobody is let in any more, and nobody who is in is answered
            raise ConnectionError
        return super().answer(path, body)


def test_a_run_on_two_servers_of_which_one_ends_is_the_run_on_one(tmp_path, monkeypatch):
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *_: None)
    model = tiny_chat_model_folder(tmp_path / "model")
    with TinyPolicyServer(model) as server:
        run(model, tmp_path / "one", server.url)
        with Mortal(model) as mortal:
            shown = run(model, tmp_path / "two", mortal.url, server.url)
    assert f"sampling from {mortal.url}, {server.url}\n" in shown
    assert f"the server at {mortal.url} is out (" in shown
    assert 2 <= mortal.requests < 14, "that is what it would have answered"
    for step in (1, 2):
        assert episodes(tmp_path / "two", step) == episodes(tmp_path / "one", step)
    adapters = [tmp_path / name / "checkpoints/step-0002/adapter_model.safetensors" for name in ("one", "two")]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()
