"""What a run and an evaluation are asked for: their settings, filled from a recipe and the options of a command.

A recipe is TOML with a table for each group, or the ``config.json`` of another run. ``--set`` names a setting with its
group: ``judge.model``. Wrong keys name the nearest right one. The whole config is written to ``config.json``;
``--resume`` refuses one that differs in anything but what its field lets change.
"""

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from grpo.errors import ConfigError
from grpo.settings import (
    AnswerJudgeSettings,
    AtResume,
    EngineName,
    EnvWorkers,
    EvalSettings,
    JudgeSettings,
    LearnerSettings,
    LoraSettings,
    LossSettings,
    OptimizerSettings,
    RolloutSettings,
    ServerSettings,
    Settings,
    Spec,
    TinkerSettings,
    WarmStartSettings,
)

RECIPES_FOLDER = Path(__file__).parent / "recipes"
REWARDS = ("env", "ruler", "env+ruler")
"""Rewards with a name; any other is a function of the user's, ``pkg.mod:function``."""
RULER_REWARDS = ("ruler", "env+ruler")
"""Those that ask RULER's judge."""

Dtype = Literal["auto", "float32", "bfloat16"]
"""What is computed in; auto is what this machine computes faster."""

S = TypeVar("S", bound=Settings)


class EnvSettings(Settings):
    """The env that is played."""

    env: str = Field(description="registered Gymnasium env id, module:id, or openenv:URL, mcp:COMMAND, verifiers:NAME")
    env_import: Annotated[str | None, AtResume.MOVED] = Field(
        default=None, description="module or .py file that registers the env, imported first"
    )
    env_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="JSON object of arguments for the env (gymnasium.make)",
        examples=['{"max_turns": 6}'],
    )


class AgentSettings(EnvSettings):
    """The agent that plays it."""

    agent_python: Annotated[str | None, AtResume.MOVED] = Field(
        default=None,
        description="interpreter that calls the agent, where it is a function and needs other packages than these",
    )


class TrainConfig(AgentSettings):
    """Everything that decides what a run does."""

    agent: Spec | None = Field(
        default=None,
        description="your agent, whose model is the policy: PKG.MOD:FUNCTION, or 'cmd:PROGRAM {question}'; null: the "
        "policy alone, by the env's tools",
    )
    train_split: str = Field(default="train", description="split that is learned from, where the env has splits")
    model: Annotated[str, AtResume.MOVED] = Field(
        default="smollm2-135m", description="the policy's model: smollm2-135m (embedded), a folder, or a model hub id"
    )
    untested_model: Annotated[bool, AtResume.FREE] = Field(
        default=False, description="try a model of a family that docs/models.md does not name"
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where learner and vLLM compute")
    dtype: Dtype = Field(
        default="auto", description="what learner and vLLM compute in; auto: what is faster here, kept for the run"
    )
    engine: Annotated[EngineName, AtResume.FREE] = Field(
        default="auto",
        description="what trains: one process, all that torchrun started, or a Tinker server (experimental); auto: as "
        "it was started",
    )
    threads: Annotated[int | None, AtResume.FREE] = Field(
        default=None,
        ge=1,
        description="CPU threads of learner and vLLM; null: all, or one where others use the cores and it is faster",
    )
    seed: int = Field(default=0, description="seed of the whole run")
    steps: Annotated[int, AtResume.FREE] = Field(default=12, ge=0, description="GRPO steps")
    minutes: Annotated[float | None, AtResume.FREE] = Field(
        default=None, gt=0, description="time for the whole run: as many GRPO steps as fit, at least one"
    )
    init_adapter: Annotated[str | None, AtResume.MOVED] = Field(
        default=None, description="adapter to start from (of grpo-sft, or a run's newest); then there is no warm start"
    )
    reward: str = Field(
        default="env",
        description="what rewards: env, ruler, env+ruler, or your own function of a group (pkg.mod:function)",
    )
    track: Annotated[Literal["tensorboard", "trackio", "wandb"] | None, AtResume.FREE] = Field(
        default=None, description="send the metrics there, too; needs the extra of the same name"
    )
    show_every: Annotated[int, AtResume.FREE] = Field(
        default=0, ge=0, description="show the best and the worst episode of every so many steps; 0: none"
    )
    keep_checkpoints: Annotated[int, AtResume.FREE] = Field(
        default=2,
        ge=1,
        description="newest checkpoints that are kept, besides the first and the best by held-out score",
    )
    keep_trajectories: Annotated[int | None, AtResume.FREE] = Field(
        default=None, ge=1, description="newest steps whose episodes are kept; null: all"
    )

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
    def _fits_the_device(self) -> Self:
        given = self.server.model_dump(exclude_defaults=True).keys()
        of_gpus = {"tensor_parallel", "sleep_mode"} & given
        if self.device == "cpu" and of_gpus:
            raise ValueError(
                f"server.{min(of_gpus)} is for GPUs, but device = 'cpu'; leave it out, or train with --cuda"
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


class EvalConfig(AgentSettings):
    """Everything that decides what an evaluation does."""

    agent: Spec = Field(
        description="a policy that the env brings along (EmailSearch-v0: bm25, keyword, oracle, random, tutor, "
        "verbatim); policy:RUN, policy:RUN@STEP, policy:RUN@best, policy:ADAPTER or policy:base; file:ANSWERS.jsonl; "
        "openai:MODEL@URL or litellm:NAME in a plain tool loop; PKG.MOD:FUNCTION; 'cmd:PROGRAM {question}'"
    )
    model: Spec | None = Field(
        default=None,
        description="the model that a function or program may use: openai:MODEL@URL, litellm:NAME or policy:RUN",
    )
    split: str = Field(default="test", description="split of the scenarios, where the env has splits")
    limit: int | None = Field(
        default=None, ge=1, description="number of scenarios, drawn by the seed; null: all, or 100 of an env without"
    )
    k: int = Field(default=1, ge=1, description="episodes of each scenario")
    concurrency: Annotated[int, AtResume.FREE] = Field(default=16, ge=1, description="episodes at once")
    env_workers: EnvWorkers = "auto"
    timeout: float = Field(default=600.0, gt=0, description="seconds an episode may take")
    max_turns: int = Field(default=1000, ge=1, description="turns after which an episode is cut")
    seed: int = Field(default=1234, description="seed of the choice of scenarios and of sampling")
    temperature: float | None = Field(
        default=None,
        ge=0,
        description="temperature of sampling; 0 is greedy; null: 1 for policy:, else the model's own",
    )
    recipe: str | None = Field(
        default=None,
        description="recipe with arguments of the env; for policy:ADAPTER and policy:base also model and limits",
    )
    dtype: Dtype | None = Field(
        default=None, description="what a policy: computes in; null: as its run was trained, else auto: what is faster"
    )
    answer_judge: AnswerJudgeSettings = AnswerJudgeSettings()


def resume_differences(kind: type[Settings], before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two saved configs in a way that a continuation cannot take, one line each."""
    fields, before, now = settings_of(kind), dotted(before), dotted(now)
    found: list[str] = []
    for name in sorted(before.keys() | now.keys()):
        marks = fields[name].metadata if name in fields else ()
        one, other = before.get(name), now.get(name)
        if one == other or AtResume.FREE in marks or (AtResume.MOVED in marks and _is_moved(one, other)):
            continue
        found.append(f"{name}: {one!r} -> {other!r}")
    return found


def _is_moved(before: str | None, now: str | None) -> bool:
    """Whether two paths are of one thing: it has the same name, and is no longer at the place where it was."""
    if before is None or now is None:
        return False
    old, new = Path(before).expanduser(), Path(now).expanduser()
    return old.name == new.name and new.exists() and (not old.exists() or old.samefile(new))


def settings_of(kind: type[Settings], group: str = "") -> dict[str, FieldInfo]:
    """All settings by their dotted names, or those of a group."""
    found: dict[str, FieldInfo] = {}
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            found |= settings_of(inner, f"{name}.")
        else:
            found[group + name] = field
    return found


GROUPS = tuple(name for name, field in TrainConfig.model_fields.items() if isinstance(field.default, Settings))
"""Names of the groups of settings."""


def dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in groups as one level: ``{"judge": {"model": "m"}}`` becomes ``{"judge.model": "m"}``."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        is_group = key in GROUPS and isinstance(value, dict)
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if is_group else {key: value}
    return flat


def load_config(recipe: str | None, overrides: Mapping[str, Any]) -> TrainConfig:
    """A config from a recipe (a bundled name, a TOML file or a run's ``config.json``) with ``overrides`` on top.

    Raises:
        ConfigError: Unknown recipe, or see ``checked``.
    """
    return checked(TrainConfig, _recipe_values(recipe) if recipe else {}, overrides)


def checked(kind: type[S], *layers: Mapping[str, Any]) -> S:
    """Settings from several layers, of which a later one overrides an earlier one.

    A key is a dotted name (``judge.model``, ``env_kwargs.max_turns``) or a whole group, which is merged key by key.

    Raises:
        ConfigError: Unknown key (the nearest one is named) or a value out of range.
    """
    values: dict[str, Any] = {}
    tables = (*GROUPS, "env_kwargs")
    for key, value in (item for layer in layers for item in layer.items()):
        group, _, name = key.partition(".")
        if name and group in tables:
            key, value = group, {name: value}
        if isinstance(value, dict) and key in values and key in tables:
            below = values[key]  # refused later where it is no table
            value = below | value if isinstance(below, dict) else below
        values[key] = value
    try:
        return kind(**values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(kind, item) for item in error.errors())) from None


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


def _explain(kind: type[Settings], item: Any) -> str:
    key, reason = ".".join(str(part) for part in item["loc"]), item["msg"].removeprefix("Value error, ")
    if item["type"] == "value_error" and (not key or key in GROUPS):  # about several settings at once
        return reason
    if item["type"] == "extra_forbidden":
        return f"unknown setting {key!r}; {_nearest(kind, key)}"
    if item["type"] == "missing":
        return f"{key} is missing"
    if key in GROUPS:
        inner = [name for name in settings_of(kind) if name.startswith(f"{key}.")]
        return f"{key} = {item['input']!r}: {key} is a group of settings: {', '.join(inner)}"
    examples = field.examples if (field := settings_of(kind).get(key)) else None
    return f"{key} = {item['input']!r}: {reason}{f', for example {examples[0]}' if examples else ''}"


def _nearest(kind: type[Settings], key: str) -> str:
    """What a wrong key is taken for; the group may be left out."""
    named: dict[str, list[str]] = {}
    for name in settings_of(kind):
        for form in {name, name.replace(".", "_"), name.rpartition(".")[2]}:
            named.setdefault(form, []).append(name)
    near = difflib.get_close_matches(key, named, n=1)
    if not near:
        return f"the settings are {', '.join(settings_of(kind))}"
    return f"did you mean {' or '.join(map(repr, named[near[0]]))}?"
