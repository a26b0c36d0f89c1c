"""The settings of a run, in the groups of `grpo.settings`, filled from a recipe and command-line flags.

A recipe is TOML with a table for each group, or the ``config.json`` of another run. ``--set`` names a setting with its
group: ``judge.model``. Wrong keys name the nearest right one. The whole config is written to ``config.json`` of the
run; ``--resume`` refuses a config that differs in anything that changes the result.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from grpo.errors import ConfigError
from grpo.settings import (
    AnswerJudgeSettings,
    EngineName,
    EvalSettings,
    JudgeCallSettings,
    JudgeSettings,
    LearnerSettings,
    LoraSettings,
    LossSettings,
    OptimizerSettings,
    RolloutSettings,
    ServerSettings,
    Settings,
    TinkerSettings,
    WarmStartSettings,
)

RECIPES_FOLDER = Path(__file__).parent / "recipes"
REWARDS = ("env", "ruler", "env+ruler")
"""Rewards with a name; any other is a function of the user's, ``pkg.mod:function``."""
RULER_REWARDS = ("ruler", "env+ruler")
"""Those that ask RULER's judge."""
RESUMABLE_CHANGES = frozenset(
    {"steps", "minutes", "threads", "report_samples", "keep_checkpoints", "show_every", "track", "loss.max_gap"}
    | {"rollout.env_workers", "eval.every", "judge.concurrency", "judge.max_cost", "judge.max_prompt_tokens"}
    | {f"{judge}.{name}" for judge in ("judge", "answer_judge") for name in JudgeCallSettings.model_fields}
    | {"learner.gradient_checkpointing", "learner.token_budget"}
    | {
        f"server.{name}"
        for name in ("urls", "replicas", "tensor_parallel", "kv_cache_gib", "gpu_memory_utilization", "draft_tokens")
    }
    | {"server.sleep_mode", "server.extra_args", "engine", "learner.shard", "tinker.url"}
    | {f"answer_judge.{name}" for name in ("concurrency", "max_cost", "audit_share", "max_disagreement")}
)
"""Settings that may differ between a run and its continuation."""
PATHS = frozenset({"model", "init_adapter", "env_import", "judge.rubric"})
"""Settings that are the same for a continuation where what they name was moved."""


class TrainConfig(Settings):
    """Everything that decides what a run does."""

    env: str
    env_import: str | None = Field(
        default=None, description="module or .py file that registers the env, imported first"
    )
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    train_split: str = "train"
    model: str = "smollm2-135m"
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="what learner and sampler compute in; auto: what is faster here, kept for the run"
    )
    engine: EngineName = Field(
        default="auto",
        description="what trains: one process, all that torchrun started, or a Tinker server; auto: as it was started",
    )
    threads: int | None = Field(default=None, ge=1, description="CPU threads of learner and vLLM; default: measured")
    seed: int = 0
    steps: int = Field(default=12, ge=0, description="GRPO steps")
    minutes: float | None = Field(
        default=None, gt=0, description="time for the whole run; chooses the steps, whatever `steps` says"
    )
    init_adapter: str | None = None
    reward: str = Field(default="env", description="env, ruler, env+ruler, or your own pkg.mod:function")
    track: Literal["tensorboard", "trackio", "wandb"] | None = None
    show_every: int = Field(default=0, ge=0, description="show the best and the worst episode of every so many steps")
    keep_checkpoints: int = Field(
        default=2, ge=1, description="the newest that are kept, besides the first and the best by held-out score"
    )
    report_samples: int = Field(default=8, ge=0, description="transcripts in the report")

    rollout: RolloutSettings = RolloutSettings()
    judge: JudgeSettings = JudgeSettings()
    answer_judge: AnswerJudgeSettings = AnswerJudgeSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    loss: LossSettings = LossSettings()
    lora: LoraSettings = LoraSettings()
    learner: LearnerSettings = LearnerSettings()
    warm_start: WarmStartSettings = WarmStartSettings()
    eval: EvalSettings = EvalSettings()
    tinker: TinkerSettings = TinkerSettings()
    server: ServerSettings = ServerSettings()

    @model_validator(mode="after")
    def _names_its_judge(self) -> Self:
        named = self.answer_judge.model_dump(exclude_defaults=True)
        if named and self.answer_judge.model is None:
            raise ValueError(f"answer_judge.{next(iter(named))} goes with answer_judge.model (--answer-judge)")
        return self

    @model_validator(mode="after")
    def _fits_the_device(self) -> Self:
        given = self.server.model_dump(exclude_defaults=True).keys()
        of_gpus = {"tensor_parallel", "gpu_memory_utilization", "sleep_mode"} & given
        if self.device == "cpu" and of_gpus:
            raise ValueError(
                f"server.{min(of_gpus)} is for GPUs, but device = 'cpu'; leave it out, or train with --cuda"
            )
        if self.device == "cuda" and "draft_tokens" in given:
            raise ValueError(
                "server.draft_tokens is for the CPU, but device = 'cuda'; leave it out, or give vLLM a "
                "--speculative-config in server.extra_args"
            )
        return self

    @field_validator("reward")
    @classmethod
    def _is_a_reward(cls, value: str) -> str:
        if value not in REWARDS and not all(value.rpartition(":")):
            raise ValueError(f"a reward is one of {', '.join(REWARDS)}, or a function of your own as pkg.mod:function")
        return value

    def rubric(self) -> str | None:
        """The text of RULER's rubric; None where the run names none, or no such judge.

        Raises:
            ConfigError: Its file cannot be read, or is empty.
        """
        path = self.judge.rubric
        if path is None or self.reward not in RULER_REWARDS:
            return None
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the rubric {path} (judge.rubric) cannot be read: {error}; name its file with --rubric"
            ) from error
        if not text.strip():
            raise ConfigError(f"the rubric {path} (judge.rubric) is empty; write into it what the judge is to look for")
        return text

    def resume_difference(self, earlier: dict[str, Any]) -> list[str]:
        """What differs from an earlier config in a way that a resumed run cannot take, one line each.

        A setting that the earlier config did not have yet had its default: a new setting's default changes nothing.
        """
        now = dotted(self.model_dump(mode="json"))
        before = dotted(TrainConfig(env=self.env).model_dump(mode="json")) | dotted(earlier)
        found: list[str] = []
        for key in sorted(before.keys() - RESUMABLE_CHANGES):
            if key not in now:
                found.append(f"{key}: {before[key]!r}, no setting any more")
            elif now[key] != before[key] and not (key in PATHS and _is_moved(before[key], now[key])):
                found.append(f"{key}: {before[key]!r} -> {now[key]!r}")
        return found


def _is_moved(before: str | None, now: str | None) -> bool:
    """Whether two paths are of one thing: it has the same name, and is no longer at the place where it was."""
    if before is None or now is None:
        return False
    old, new = Path(before).expanduser(), Path(now).expanduser()
    return old.name == new.name and new.exists() and (not old.exists() or old.samefile(new))


GROUPS = tuple(name for name, field in TrainConfig.model_fields.items() if isinstance(field.default, Settings))
"""Names of the groups of settings."""


def dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in groups as one level: ``{"judge": {"model": "m"}}`` becomes ``{"judge.model": "m"}``."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        is_group = key in GROUPS and isinstance(value, dict)
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if is_group else {key: value}
    return flat


def load_config(recipe: str | None, overrides: dict[str, Any]) -> TrainConfig:
    """A config from a recipe (a bundled name, a TOML file or a run's ``config.json``) with ``overrides`` on top.

    A key of ``overrides`` is a dotted name (``judge.model``, ``env_kwargs.max_turns``) or a whole group, which is
    merged key by key.

    Raises:
        ConfigError: Unknown recipe, unknown key (the nearest one is named) or a value out of range.
    """
    values: dict[str, Any] = {}
    tables = (*GROUPS, "env_kwargs")
    for key, value in [*(_recipe_values(recipe).items() if recipe else ()), *overrides.items()]:
        group, _, name = key.partition(".")
        if name and group in tables:
            key, value = group, {name: value}
        if isinstance(value, dict) and key in values and key in tables:
            below = values[key]  # refused later where it is no table
            value = below | value if isinstance(below, dict) else below
        values[key] = value
    try:
        return TrainConfig(**values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(item) for item in _one_each(error.errors()))) from None


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
        if path.suffix == ".json":
            values.pop("threads", None)  # what a run measured of its machine
        return values
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no recipe {recipe!r}; bundled: {', '.join(recipe_names())}, or give the path of a .toml file or "
            "of a run's config.json"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"the recipe {path} cannot be read: {error}") from error


def _one_each(errors: Iterable[Any]) -> Iterable[Any]:
    """A setting that takes several kinds of values has an error for each kind: one that says all."""
    names, found = set(_names()), dict[tuple[Any, ...], Any]()
    for item in errors:
        loc = item["loc"]
        if ".".join(map(str, loc[:-1])) in names and isinstance(loc[-1], str):
            loc = loc[:-1]  # behind the setting stands the kind
        if loc in found:
            found[loc]["msg"] += f", or {item['msg'].removeprefix('Input should be ')}"
        else:
            found[loc] = item | {"loc": loc}
    return found.values()


def _explain(item: Any) -> str:
    key, reason = ".".join(str(part) for part in item["loc"]), item["msg"].removeprefix("Value error, ")
    if item["type"] == "value_error" and (not key or key in GROUPS):  # about several settings at once
        return reason
    if item["type"] == "extra_forbidden":
        return f"unknown setting {key!r}; {_nearest(key)}"
    if item["type"] == "missing":
        return f"{key} is missing"
    if key in GROUPS:
        return f"{key} = {item['input']!r}: {key} is a group of settings: {', '.join(_names(key))}"
    return f"{key} = {item['input']!r}: {reason}"


def _names(group: str = "") -> list[str]:
    """Dotted names of all settings, or of those in a group."""
    return [name for name in dotted(TrainConfig(env="").model_dump()) if name.startswith(f"{group}." if group else "")]


def _nearest(key: str) -> str:
    """What a wrong key is taken for. Its words may stand in another order, and the group may be left out."""

    def words(name: str) -> str:
        return "_".join(sorted(re.split("[._-]", name)))

    def likeness(name: str) -> float:
        own = name.rpartition(".")[2]
        pairs = [(key, name.replace(".", "_")), (key, own), (words(key), words(name)), (words(key), words(own))]
        return max(difflib.SequenceMatcher(None, a.replace(".", "_"), b).ratio() for a, b in pairs)

    likeness_of = {name: likeness(name) for name in _names()}
    best = max(likeness_of.values())
    if best < 0.6:
        return f"the settings are {', '.join(_names())}"
    return f"did you mean {' or '.join(repr(name) for name, value in likeness_of.items() if value == best)}?"
