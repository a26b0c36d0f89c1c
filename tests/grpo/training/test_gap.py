"""A run whose server samples another policy than the one that is trained, or says what is no turn: the real trainer
against a small real server.
"""

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.cli.train import run_training  # noqa: E402
from grpo.display.meanings import MEANINGS  # noqa: E402
from grpo.errors import EnvError, TrainingError  # noqa: E402
from grpo.serving import policy  # noqa: E402
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
        assert {name for name in record if not name.startswith("env/")} <= MEANINGS.keys()
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


class OddServer(TinyPolicyServer):
    """Gives ``logprob`` for every token of the first ``odd`` first turns that it is asked for."""

    odd, logprob = 0, -30.0

    def complete(self, body):
        response = super().complete(body)
        if body["max_tokens"] == 8 and len(body["prompt"]) == self.shortest and self.odd > 0:
            self.odd -= 1
            logprobs = response.body["choices"][0]["logprobs"]
            logprobs["token_logprobs"] = [self.logprob] * len(logprobs["token_logprobs"])
        return response

    @property
    def shortest(self):
        """Length of a prompt before which nothing was said."""
        return min(len(body["prompt"]) for body in self.asked if body["max_tokens"] == 8)


@pytest.fixture
def odd_run(tmp_path):
    """A server, and a run of 16 rows a step on it, all of which are learned from."""
    with OddServer(tiny_chat_model_folder(tmp_path / "model")) as server:

        def train(steps, reward="tests.support.policies:by_place"):
            settings = {"reward": reward, "optimizer.learning_rate": 1e-4}
            sizes = {"rollout.groups_per_step": 4, "rollout.group_size": 4, "rollout.max_staleness": 0}
            config = tiny_run(tmp_path / "model", server.url, **settings, **sizes, steps=steps)
            run_training(config, tmp_path / "run", resume=True, quiet=True)
            return read_jsonl(tmp_path / "run" / "metrics.jsonl")

        yield server, train, tmp_path / "run"


def test_a_row_that_another_policy_sampled_is_left_out_and_many_end_the_run(odd_run):
    server, train, run_dir = odd_run
    server.odd = 1
    (first,) = train(1)
    assert first["gap/dropped_share"] == 1 / 16
    assert first["gap/max"] > 20.0, "of the dropped row, too"
    server.odd = 2
    with pytest.raises(
        TrainingError, match=r"step 2: .* on 12% of the rows, above 10%, by more than loss\.max_row_gap"
    ):
        train(2)
    assert not list(run_dir.glob("partial/*.jsonl")), "what it sampled does not meet the run again"
    assert train(2)[1]["gap/dropped_share"] == 0.0


FACTORS = [1e30]


def scaled(group):
    return [FACTORS[-1] * episode.sample_index for episode in group.episodes]


def test_rewards_that_no_gradient_bears_do_not_meet_the_run_again(odd_run, monkeypatch):
    _, train, _ = odd_run
    name = f"{__name__}:scaled"
    with pytest.raises(TrainingError, match=r"the gradient's norm is (inf|nan) in update 1"):
        train(1, name)
    monkeypatch.setattr(f"{__name__}.FACTORS", [1.0])
    assert train(1, name)[0]["reward/mean"] == 1.5


def test_what_is_no_turn_is_kept_nowhere_and_the_run_goes_on_once_the_server_is_well(odd_run, monkeypatch):
    monkeypatch.setattr(policy, "PAUSES_SECONDS", ())
    server, train, run_dir = odd_run
    train(1)
    server.odd, server.logprob = 16, float("nan")
    with pytest.raises(EnvError, match=r"16 of 16 episodes of a step failed; the first: the server gave nan for \d of"):
        train(2)
    assert not list(run_dir.glob("partial/*.jsonl"))
    server.odd = 3
    second = train(2)[1]
    assert second["episodes/failed"] == 3.0
    assert second["gap/max"] < 1e-3
