"""When a run has its learner and its server take turns on a GPU; the real trainer against a small real server."""

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.cli.train import run_training  # noqa: E402
from grpo.config import load_config  # noqa: E402
from grpo.serving.sleep_mode import Together  # noqa: E402
from grpo.training.trainer import Trainer  # noqa: E402
from grpo.types import Group  # noqa: E402
from judges.common.files import read_jsonl  # noqa: E402
from tests.support.envs import LETTER_ENV  # noqa: E402
from tests.support.policies import by_place  # noqa: E402
from tests.support.policy_server import TinyPolicyServer  # noqa: E402
from tests.support.tiny_model import tiny_chat_model_folder  # noqa: E402

pytestmark = pytest.mark.torch

WAKING_SECONDS = 2.0
moves: list[str] = []


def equal_at_first(group: Group) -> list[float]:
    """Nothing to compare in step 1, something in step 2."""
    return [0.0] * len(group.episodes) if group.episodes[0].policy_version == 0 else by_place(group)


class Noted(Together):
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
        settings = {
            "env": LETTER_ENV,
            "model": str(tmp_path / "model"),
            "server.urls": (server.url,),
            "reward": f"{__name__}:equal_at_first",
            "threads": 1,
            "dtype": "float32",
            "steps": 2,
            "rollout.groups_per_step": 1,
            "rollout.group_size": 2,
            "rollout.max_turn_tokens": 8,
            "rollout.max_tokens": 400,
            "loss.max_gap": 9.0,
            "warm_start.steps": 1,
            "eval.scenarios": 0,
        }
        moves.clear()
        run_training(load_config(None, settings), tmp_path / "run", resume=False, quiet=True, trainer=NotingTrainer)
    warm_start, first, second = ["train", "sample"], ["sample"], ["train", "sample"]
    assert moves == warm_start + first + second
    for step in read_jsonl(tmp_path / "run" / "metrics.jsonl"):
        assert step["time/publish"] < WAKING_SECONDS < step["time/step"]
