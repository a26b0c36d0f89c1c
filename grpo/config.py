"""The settings of a run: one frozen pydantic model, filled from a recipe and command-line flags.

A recipe is TOML, or the ``config.json`` of another run. Wrong keys name the nearest right one. The whole config is
written to ``config.json`` of the run; ``--resume`` refuses a config that differs in anything that changes the result.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator, model_validator

from grpo.errors import ConfigError

LossType = Literal["dapo", "bnpo", "dr_grpo", "grpo", "gspo", "cispo"]
"""The losses of ``grpo.loss``, by the names of their papers."""

RECIPES_FOLDER = Path(__file__).parent / "recipes"
REWARDS = ("env", "ruler", "env+ruler")
"""Rewards with a name; any other is a function of the user's, ``pkg.mod:function``."""
RESUMABLE_CHANGES = frozenset(
    {"steps", "threads", "report_samples", "keep_checkpoints", "show_every", "track", "max_gap"}
    | {"judge_api_base", "judge_concurrency", "judge_max_cost"}
)
"""Settings that may differ between a run and its continuation."""


class TrainConfig(BaseModel):
    """Everything that decides what a run does. Token counts are in tokens, times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    env: str
    env_import: str | None = Field(None, description="module or .py file that registers the env, imported first")
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    train_split: str = "train"
    eval_split: str = "test"
    model: str = "smollm2-135m"
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int | None = Field(None, ge=1, description="CPU threads of the learner and of vLLM; default: all")
    seed: int = 0

    steps: int = Field(12, ge=0, description="GRPO steps")
    groups_per_step: int = Field(8, ge=1)
    group_size: int = Field(8, ge=2)
    refill_rounds: int = Field(0, ge=0, description="extra rollout rounds that replace groups without spread")
    temperature: float = Field(1.0, gt=0, description="of the rollouts; the loss assumes 1.0")
    max_turn_tokens: int = Field(256, ge=8)
    max_tokens: int = Field(4096, ge=64, description="of what the policy sees at once, the sampled turn included")
    history: Literal["fork", "append"] = Field(
        "fork",
        description="where the model's chat template rewrites earlier turns: fork a segment that begins with what it "
        "shows, or append and leave the turns as they were sampled",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="variables for the model's chat template, for example enable_thinking"
    )
    concurrency: int = Field(64, ge=1)

    reward: str = Field("env", description="env, ruler, env+ruler, or your own pkg.mod:function")
    judge_model: str = "openai/o4-mini"
    judge_api_base: str | None = None
    rubric: str | None = None
    judge_permutations: int = Field(1, ge=1, description="orders in which the judge sees a group; scores are the means")
    judge_concurrency: int = Field(16, ge=1, description="calls to the judge at the same time")
    judge_max_cost: float | None = Field(None, gt=0, description="dollars; once this process has spent them, it stops")
    max_judge_failures: float = Field(0.5, ge=0, le=1, description="share of groups in a step that may fail")

    learning_rate: float = Field(2e-5, gt=0)
    lr_warmup_steps: int = Field(
        0, ge=0, description="steps before the first at the full learning rate; it rises evenly"
    )
    lr_final: float = Field(1.0, ge=0, le=1, description="share of the rate left at the last step; it falls evenly")
    updates_per_step: int = Field(1, ge=1, description="optimizer updates a step, each on its share of the rollouts")
    loss: LossType = Field("dapo", description="how tokens are weighed and clipped; formulas: grpo/loss.py")
    kl_coef: float = Field(0.0, ge=0, description="weight of the KL divergence from the model without adapter")
    scale_by_std: bool = False
    negative_weight: float = Field(1.0, ge=0, description="factor on advantages below zero")
    invalid_call_weight: float | None = Field(
        None, ge=0, description="if set: invalid calls are learned from rollouts below the mean only, with this factor"
    )
    clip_low: float = Field(0.2, gt=0)
    clip_high: float = Field(0.28, gt=0)
    max_importance_weight: float = Field(2.0, gt=0)
    max_grad_norm: float = Field(1.0, gt=0)
    max_gap: float = Field(0.25, gt=0, description="mean |sampler - trainer| logprob above which the run stops")
    lora_rank: Literal[1, 8, 16, 32, 64, 128, 256] = 16
    lora_alpha: int = Field(32, ge=1)
    init_adapter: str | None = None
    token_budget: int = Field(3072, ge=64, description="tokens of one forward pass, shared ones once")

    warm_start_policy: str = "oracle"
    warm_start_steps: int = Field(0, ge=0, description="optimizer steps on demonstrations before GRPO")
    warm_start_batch: int = Field(8, ge=1)
    warm_start_learning_rate: float = Field(1e-3, gt=0)

    eval_scenarios: int = Field(64, ge=0)
    eval_samples: int = Field(1, ge=1, description="sampled episodes of each scenario")
    eval_seed: int = 1234
    eval_greedy: bool = True
    eval_every: int = Field(0, ge=0, description="evaluate every so many steps, sampled; 0: before and after only")
    report_samples: int = Field(8, ge=0, description="transcripts in the report")
    keep_checkpoints: int = Field(2, ge=1, description="the newest that are kept, besides the best by held-out score")
    track: Literal["tensorboard", "trackio", "wandb"] | None = None
    show_every: int = Field(0, ge=0, description="show the best and the worst episode of every so many steps")
    server_urls: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_row_a_rollout(self) -> Self:
        if self.loss in ("grpo", "gspo") and self.invalid_call_weight is not None:
            raise ValueError(
                f"loss = {self.loss!r} counts every row the same, but with invalid_call_weight = "
                f"{self.invalid_call_weight} a rollout is two rows; leave one of them out, or use loss = 'dapo'"
            )
        return self

    @field_validator("reward")
    @classmethod
    def _is_a_reward(cls, value: str) -> str:
        if value not in REWARDS and not all(value.rpartition(":")):
            raise ValueError(f"a reward is one of {', '.join(REWARDS)}, or a function of your own as pkg.mod:function")
        return value

    @field_serializer("judge_api_base", "server_urls", when_used="json")
    def _without_passwords(self, value: Any) -> Any:
        """Files and trackers get no user and no password of a URL; a continuation is told them again."""
        from judges.secrets import without_users

        return without_users(value) if isinstance(value, str) else value and [without_users(url) for url in value]

    def resume_difference(self, earlier: dict[str, Any]) -> list[str]:
        """What differs from an earlier config in a way that a resumed run cannot take, one line each.

        A setting that the earlier config did not have yet had its default: a new setting's default changes nothing.
        """
        now = json.loads(self.model_dump_json())
        before = json.loads(TrainConfig.model_validate({"env": self.env}).model_dump_json()) | earlier
        return [
            f"{key}: {before[key]!r} -> {now[key]!r}" if key in now else f"{key}: {before[key]!r}, no setting any more"
            for key in sorted(before)
            if key not in RESUMABLE_CHANGES and (key not in now or now[key] != before[key])
        ]


def load_config(recipe: str | None, overrides: dict[str, Any]) -> TrainConfig:
    """A config from a recipe (a bundled name, a TOML file or a run's ``config.json``) with ``overrides`` on top.

    Raises:
        ConfigError: Unknown recipe, unknown key (the nearest one is named) or a value out of range.
    """
    values: dict[str, Any] = dict(_recipe_values(recipe)) if recipe else {}
    given = [settings.get("env_kwargs", {}) for settings in (values, overrides)]
    wrong = [kwargs for kwargs in given if not isinstance(kwargs, dict)]  # refused below
    values |= overrides | {"env_kwargs": wrong[0] if wrong else given[0] | given[1]}
    try:
        return TrainConfig(**values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(item) for item in error.errors())) from None


def recipe_names() -> list[str]:
    """Names of the bundled recipes."""
    return sorted(path.stem for path in RECIPES_FOLDER.glob("*.toml"))


def _recipe_values(recipe: str) -> dict[str, Any]:
    path = Path(recipe) if recipe.endswith((".toml", ".json")) else RECIPES_FOLDER / f"{recipe}.toml"
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"it is no JSON object: {text.strip()[:40]!r}")
        return values
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no recipe {recipe!r}; bundled: {', '.join(recipe_names())}, or give the path of a .toml file or "
            "of a run's config.json"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"the recipe {path} cannot be read: {error}") from error


def _explain(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if not key:  # about several settings at once
        return item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, TrainConfig.model_fields, n=1)
        return f"unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if item["type"] == "missing":
        return f"{key} is missing"
    return f"{key} = {item['input']!r}: {item['msg'].removeprefix('Value error, ')}"
