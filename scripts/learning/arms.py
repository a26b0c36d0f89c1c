"""The arms of `scripts/bench_learning`: what each does with one warm start, as the settings of a run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo.config import TrainConfig, load_config
from grpo.errors import ConfigError
from grpo.settings import LossSettings, OptimizerSettings

WARM = "warm"
"""The warm start itself: made once for each seed, evaluated, and begun from by all arms."""

ARMS = {
    "recipe": "the recipe as it is",
    "imitation": "the warm start's script for as long: all its episodes, fresh ones in every step, no rollouts",
    "filtered": "as imitation, those of its episodes alone that the env rewards",
    "positives": "RAFT: rollouts above their group's mean are learned from as a whole, the others not at all",
    "grpo": "GRPO with both signs: the default loss, one update a step, the recipe's learning rate, constant",
    "cold": "the recipe from the model as it is, without the warm start",
    "expert": "as imitation, of --expert, a script that knows the answers",
}


@dataclass(frozen=True)
class Plan:
    """What all arms have in common.

    Attributes:
        env: The env's id.
        recipe: A bundled name, a TOML file, or a run's ``config.json``.
        settings: On top of the recipe, in every arm.
        steps: Of a run of each arm.
        expert: The env's script that knows the answers.
    """

    env: str
    recipe: str | None
    settings: Mapping[str, Any]
    steps: Mapping[str, int]
    expert: str

    def warm_start(self, seed: int) -> TrainConfig:
        """The run that makes the warm start of a seed and evaluates it, beside the env's scripts."""
        warm = self._config({"seed": seed, "steps": 0, "eval.baselines": "scripts"})
        if warm.warm_start.steps == 0:
            raise ConfigError(
                "the arms need a warm start to begin from, but warm_start.steps = 0; choose a recipe that has one, or "
                "--set warm_start.steps=45"
            )
        return warm

    def arm(self, name: str, seed: int, warm: Path) -> TrainConfig:
        """The run of an arm, from the warm start in the run directory ``warm``, with the dtype and threads of that."""
        measured = json.loads((warm / "config.json").read_text(encoding="utf-8"))
        return self._config(
            {
                "seed": seed,
                "init_adapter": str(warm),
                "warm_start.steps": 0,
                "steps": self.steps[name],
                **{key: measured[key] for key in ("dtype", "threads")},
                **self._of_arm(name),
            }
        )

    def _of_arm(self, name: str) -> dict[str, Any]:
        recipe = self._config({})
        return {
            "imitation": {"warm_start.keep": "all"},
            "filtered": {"warm_start.keep": "rewarded"},
            "positives": {"loss.negative_weight": 0.0, "loss.invalid_call_weight": None, "loss.turn_credit": False},
            "grpo": {
                **{f"loss.{key}": value for key, value in LossSettings(max_gap=recipe.loss.max_gap)},
                **{f"optimizer.{key}": value for key, value in OptimizerSettings()},
                "optimizer.learning_rate": recipe.optimizer.learning_rate,
            },
            "cold": {"init_adapter": None},
            "expert": {"warm_start.policy": self.expert, "warm_start.keep": "rewarded"},
        }.get(name, {})

    def _config(self, more: Mapping[str, Any]) -> TrainConfig:
        return load_config(
            self.recipe,
            {"env": self.env, "minutes": None, "eval.every": 0, "eval.baselines": "none", **self.settings, **more},
        )
