"""A run on two servers, of which one ends for good in the middle, is the run on one server, bit for bit."""

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file, save_file

from grpo.cli.train import run_training
from grpo.errors import ConfigError, ServerError
from tests.grpo.training.test_resume import episodes
from tests.support.policy_server import TinyPolicyServer, tiny_run
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch
SIZES = {"steps": 2, "rollout.groups_per_step": 4, "eval.scenarios": 2, "eval.greedy": 0}


class Mortal(TinyPolicyServer):
    """Ends for good in the first step: once it has answered three requests, the first look among them."""

    def complete(self, body):
        if len(self.asked) >= 3:
            self.stop()
            raise ConnectionAbortedError
        return super().complete(body)


def test_a_run_on_two_servers_of_which_one_ends_is_the_run_on_one(tmp_path, capsys):
    model = tiny_chat_model_folder(tmp_path / "model")
    with TinyPolicyServer(model) as server:
        run_training(tiny_run(model, server.url, **SIZES), tmp_path / "one", resume=False, quiet=True)
        with Mortal(model) as mortal:
            both = tiny_run(model, mortal.url, server.url, **SIZES)
            run_training(both, tmp_path / "two", resume=False, quiet=False)
    shown = "".join(capsys.readouterr())
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
        strict = tiny_run(model, server.url, wrong.url, **SIZES | {"loss.max_gap": 0.001})
        refused = f"the server at {wrong.url} does not sample the model that is trained: "
        with pytest.raises(ServerError, match=refused):
            run_training(strict, tmp_path / "run", resume=False, quiet=True)
    assert (len(server.asked), len(wrong.asked)) == (1, 1)
    assert sorted(path.name for path in (tmp_path / "run").glob("*.jsonl")) == []
    with pytest.raises(
        ConfigError, match=r"server\.urls names 'localhost:8000', which is no URL; give it as http://HOST"
    ):
        run_training(tiny_run(model, "localhost:8000"), tmp_path / "run", resume=False, quiet=True)
