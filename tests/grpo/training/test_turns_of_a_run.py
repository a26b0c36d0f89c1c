"""When a run has its learner and its server take turns on a GPU; the real trainer against a small real server."""

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.cli.train import run_training  # noqa: E402
from grpo.training.trainer import Trainer  # noqa: E402
from grpo.types import Group  # noqa: E402
from judges.common.files import read_jsonl  # noqa: E402
from tests.support.policies import by_place  # noqa: E402
from tests.support.policy_server import TinyPolicyServer, tiny_run  # noqa: E402
from tests.support.tiny_model import tiny_chat_model_folder  # noqa: E402

pytestmark = pytest.mark.torch

WAKING_SECONDS = 2.0
moves: list[str] = []


def equal_at_first(group: Group) -> list[float]:
    """Nothing to compare in step 1, something in step 2."""
    return [0.0] * len(group.episodes) if group.episodes[0].policy_version == 0 else by_place(group)


class Noted:
    def train(self) -> None:
        moves.append("train")

    def sample(self) -> None:
        moves.append("sample")
        time.sleep(WAKING_SECONDS)


class NotingTrainer(Trainer):
    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.turns = Noted()


def test_a_step_without_an_update_moves_no_model(tmp_path):
    with TinyPolicyServer(tiny_chat_model_folder(tmp_path / "model")) as server:
        sizes = {"steps": 2, "rollout.groups_per_step": 1, "rollout.group_size": 2, "warm_start.steps": 1}
        config = tiny_run(tmp_path / "model", server.url, reward=f"{__name__}:equal_at_first", **sizes)
        moves.clear()
        run_training(config, tmp_path / "run", resume=False, quiet=True, trainer=NotingTrainer)
    warm_start, first, second = ["train", "sample"], ["sample"], ["train", "sample"]
    assert moves == warm_start + first + second
    for step in read_jsonl(tmp_path / "run" / "metrics.jsonl"):
        assert step["time/publish"] < WAKING_SECONDS < step["time/step"]
