"""A run whose server samples another policy than the one that is trained: the real trainer against a small real server."""

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.cli.train import run_training  # noqa: E402
from grpo.errors import TrainingError  # noqa: E402
from judges.common.files import read_jsonl  # noqa: E402
from tests.support.policy_server import TinyPolicyServer, tiny_run  # noqa: E402
from tests.support.tiny_model import tiny_chat_model_folder  # noqa: E402

pytestmark = pytest.mark.torch


class SharpServer(TinyPolicyServer):
    """Samples turns of the rollouts (8 tokens) at a tenth of the temperature it is asked for while it is ``sharp``."""

    sharp = False
    published = 0

    def load(self, name, path):
        self.published += 1
        return super().load(name, path)

    def complete(self, body):
        is_sharp = self.sharp and body["max_tokens"] == 8
        return super().complete({**body, "temperature": body["temperature"] * (0.1 if is_sharp else 1.0)})


def test_a_server_that_samples_another_policy_stops_the_run_before_anything_of_the_step_is_published(tmp_path):
    run_dir = tmp_path / "run"
    with SharpServer(tiny_chat_model_folder(tmp_path / "model")) as server:

        def train(steps, **changed):
            warm_start = {"warm_start.steps": 12, "warm_start.batch": 4, "warm_start.learning_rate": 3e-2}
            settings = {
                "reward": "tests.support.policies:by_place",
                "optimizer.learning_rate": 1e-3,
                "loss.max_gap": 0.1,
            }
            config = tiny_run(tmp_path / "model", server.url, **settings | warm_start | {"steps": steps} | changed)
            run_training(config, run_dir, resume=True, quiet=True)

        train(1)
        (record,) = read_jsonl(run_dir / "metrics.jsonl")
        assert record["gap/mean_abs"] < 0.1
        published = server.published
        server.sharp = True
        with pytest.raises(
            TrainingError, match=r"step 2: sampler and trainer disagree by \d\.\d+ nats .* loss\.max_gap = 0\.1"
        ):
            train(2)
        assert server.published == published + 2  # for the first look, and the continued run's first version, of step 1
        assert [r["step"] for r in read_jsonl(run_dir / "metrics.jsonl")] == [1]
        assert sorted(path.name for path in (run_dir / "checkpoints").iterdir())[-1] == "step-0001"
        assert read_jsonl(run_dir / "trajectories" / "step-0002.jsonl")  # what was sampled can be looked at
        with pytest.raises(TrainingError, match="step 2"):
            train(2)
        server.sharp = False
        train(2, **{"loss.max_gap": 0.2})  # the bound may be another one when a run goes on
        assert [r["step"] for r in read_jsonl(run_dir / "metrics.jsonl")] == [1, 2]
