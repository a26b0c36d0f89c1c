"""The groups of settings: frozen pydantic models. `grpo.config` joins them and reads them from recipes and options.

A field says all that there is to say of a setting: its type and bounds, its default, what it means (shown by ``--help``
and in ``docs/settings.md``), and whether it may differ at ``--resume``.
"""

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, WrapValidator, model_validator

from judges.common.secrets import blank_secrets, without_credentials, without_secrets, without_users
from judges.llm.client import TIMEOUT_SECONDS, CallOptions, is_server_url

LossType = Literal["dapo", "bnpo", "dr_grpo", "grpo", "gspo", "cispo"]
"""The losses of ``grpo.learner.loss``, by the names of their papers."""

EngineName = Literal["auto", "local", "torchrun", "tinker"]
"""What trains: one process, all that torchrun started, or a Tinker server; auto: as the program was started."""


class AtResume(StrEnum):
    """What ``--resume`` takes of a setting that differs. One without such a mark must be what it was."""

    FREE = "may change"
    """The episodes and the policy do not depend on it, or it says how far the work is to go."""
    MOVED = "may have moved"
    """It names something that may lie at another place by now."""


def _place_of_envs(value: Any, is_one: Callable[[Any], Any]) -> Any:
    try:
        return is_one(value)
    except ValidationError:
        raise ValueError("no place for envs; choose auto, threads, or a number of processes (0: none)") from None


EnvWorkersSetting = Literal["auto", "threads"] | Annotated[int, Field(ge=0, strict=True)]
EnvWorkers = Annotated[
    EnvWorkersSetting,
    WrapValidator(_place_of_envs),
    AtResume.FREE,
    Field(
        description="where envs are called: a number of worker processes, threads (one for each env), or 0: in the "
        "thread that plays; auto: by the measured cost of a step; results are the same"
    ),
]

Url = Annotated[str, PlainSerializer(without_credentials, when_used="json")]
"""Files and trackers get no user, password and query of a URL; a continuation is told them again."""

Spec = Annotated[str, PlainSerializer(lambda spec: blank_secrets(without_users(spec)), when_used="json")]
"""An agent or a model as a command names it: files get no key, and no password of a URL."""

LitellmParams = Annotated[dict[str, Any], PlainSerializer(without_secrets, when_used="json")]
"""Files and trackers get none that carries a secret by its name."""


class Settings(BaseModel):
    """Settings that never change and take no unknown name. Token counts are in tokens, times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RolloutSettings(Settings):
    """How the policy samples episodes, and how its context is built."""

    groups_per_step: int = Field(default=8, ge=1, description="groups (tasks) in a step")
    group_size: int = Field(default=8, ge=2, description="episodes in a group")
    refill_rounds: int = Field(default=0, ge=0, description="extra rollout rounds that replace groups without spread")
    max_staleness: int = Field(
        default=0,
        ge=0,
        le=8,
        description="steps by which the policy that sampled may be older than the one that learns; above 0 the next "
        "step's episodes are played while this one is learned",
    )
    oversample: int = Field(
        default=0, ge=0, description="groups begun beyond a step's own; it closes when its own number is whole"
    )
    temperature: float = Field(
        default=1.0,
        ge=0.01,
        description="temperature of sampling, and of the distributions in the loss",
    )
    max_turn_tokens: int = Field(default=256, ge=8, description="most tokens that a turn may have")
    max_tokens: int = Field(
        default=4096, ge=64, description="most tokens that the policy sees at once, the sampled turn included"
    )
    history: Literal["fork", "append"] = Field(
        default="fork",
        description="where the model's chat template rewrites earlier turns: fork a segment that begins with what it "
        "shows, or append and leave the turns as they were sampled",
    )
    learn_auxiliary: bool = Field(
        default=False,
        description="learn from an agent's calls without tools, too, of which nothing comes again in a later call",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="variables for the model's chat template",
        examples=['{"enable_thinking": false}'],
    )
    concurrency: int = Field(default=64, ge=1, description="episodes that are played at the same time")
    timeout: Annotated[float, AtResume.FREE] = Field(
        default=1800.0, gt=0, description="seconds an episode may take; one that took longer is not learned from"
    )
    env_workers: EnvWorkers = "auto"


class JudgeCallSettings(Settings):
    """How a judge is called; the names are those of `judges.JudgeClient`, which its errors tell."""

    api_base: Annotated[Url | None, AtResume.FREE] = Field(
        default=None, description="OpenAI-compatible URL of the judge; its key comes from the environment"
    )
    timeout_seconds: Annotated[float, AtResume.FREE] = Field(
        default=TIMEOUT_SECONDS, gt=0, description="seconds that one attempt of a call may take"
    )
    extra_litellm_params: Annotated[LitellmParams, AtResume.FREE] = Field(
        default={},
        description="parameters of litellm: temperature, max_tokens, reasoning_effort, input_cost_per_token, ...",
        examples=['{"temperature": 0}'],
    )
    concurrency: Annotated[int, AtResume.FREE] = Field(
        default=16, ge=1, description="calls to the judge at the same time"
    )
    max_cost: Annotated[float | None, AtResume.FREE] = Field(
        default=None, gt=0, description="dollars that this process may spend on the judge; then it stops"
    )

    @property
    def call(self) -> CallOptions:
        """The options of a judgement."""
        return {
            "api_base": self.api_base,
            "timeout_seconds": self.timeout_seconds,
            "extra_litellm_params": self.extra_litellm_params,
        }


class JudgeSettings(JudgeCallSettings):
    """RULER's judge."""

    model: str = Field(default="openai/o4-mini", description="RULER's judge, by its name for litellm")
    max_prompt_tokens: Annotated[int | None, AtResume.FREE] = Field(
        default=100_000,
        ge=1,
        description="most tokens of a prompt, longer ones are cut; keep it some thousands below the judge's context",
    )
    rubric: Annotated[str | None, AtResume.MOVED] = Field(
        default=None, description="text file of grading standards, instead of the generic ones"
    )
    permutations: int = Field(
        default=1, ge=1, description="orders in which the judge sees a group; scores are the means"
    )
    max_failures: float = Field(
        default=0.5, ge=0, le=1, description="share of a step's groups, or of eight at least, that may fail"
    )


class AnswerJudgeSettings(JudgeCallSettings):
    """The judge of single answers, asked about those that the rule leaves undecided; none where no model is named."""

    model: str | None = Field(
        default=None, description="judge that marks answers which the rule leaves undecided, by its name for litellm"
    )
    audit_share: Annotated[float, AtResume.FREE] = Field(
        default=0.05,
        ge=0,
        le=1,
        description="share of the answers that the rule took for right which the judge sees, too",
    )

    @model_validator(mode="after")
    def _names_its_judge(self) -> Self:
        named = self.model_dump(exclude_defaults=True)
        if named and self.model is None:
            raise ValueError(f"answer_judge.{next(iter(named))} goes with answer_judge.model (--answer-judge)")
        return self


class OptimizerSettings(Settings):
    """The optimizer of GRPO and its learning rate."""

    learning_rate: float = Field(default=2e-5, gt=0, description="learning rate of GRPO")
    warmup_steps: int = Field(
        default=0, ge=0, description="steps before the first at the full learning rate; it rises evenly"
    )
    final_lr_share: float = Field(
        default=1.0, ge=0, le=1, description="share of the rate that is left at the last step; it falls evenly"
    )
    updates_per_step: int = Field(
        default=1, ge=1, description="optimizer updates a step, each on its share of the groups"
    )
    max_grad_norm: float | None = Field(
        default=1.0, gt=0, description="length to which longer gradients are cut; null: none is"
    )

    @property
    def gradient_bound(self) -> float:
        """``max_grad_norm``, infinite where no gradient is cut."""
        return math.inf if self.max_grad_norm is None else self.max_grad_norm


class LossSettings(Settings):
    """The loss, and how advantages are weighed in it."""

    type: LossType = Field(
        default="dapo", description="how tokens are weighed and clipped; formulas: grpo/learner/loss.py"
    )
    kl_coef: float = Field(default=0.0, ge=0, description="weight of the KL divergence from the model without adapter")
    scale_by_std: bool = Field(
        default=False, description="divide advantages by the standard deviation of the group's rewards"
    )
    negative_weight: float = Field(default=1.0, ge=0, description="factor on advantages below zero")
    invalid_call_weight: float | None = Field(
        default=None,
        ge=0,
        description="if set: invalid calls are learned from rollouts below the mean only, with this factor",
    )
    turn_credit: bool = Field(
        default=False,
        description="a turn is worth what its group got where it led, less what it got at the last place where others "
        "were, too; else what its episode is worth",
    )
    clip_low: float = Field(default=0.2, gt=0, description="the ratio is clipped below 1 minus this")
    clip_high: float = Field(default=0.28, gt=0, description="and above 1 plus this")
    max_importance_weight: float = Field(
        default=2.0, gt=0, description="bound of a token's weight from the sampler to the trainer"
    )
    max_gap: Annotated[float, AtResume.FREE] = Field(
        default=0.25,
        gt=0,
        description="mean |sampler - trainer| logprob above which the run stops; of what the step's own policy "
        "sampled, if there is some",
    )
    max_row_gap: Annotated[float, AtResume.FREE] = Field(
        default=0.5, gt=0, description="the same of one row, above which it is not learned from"
    )
    max_stale_row_gap: Annotated[float, AtResume.FREE] = Field(
        default=1.0, gt=0, description="the same of a row of an older policy, or after the step's first update"
    )

    @model_validator(mode="after")
    def _one_row_a_rollout(self) -> Self:
        names = ("invalid_call_weight", "turn_credit")
        splits = next((name for name in names if getattr(self, name) not in (None, False)), None)
        if self.type in ("grpo", "gspo") and splits is not None:
            raise ValueError(
                f"loss.type = {self.type!r} counts every row the same, but with loss.{splits} = "
                f"{getattr(self, splits)} a rollout is several rows; leave one of them out, or use loss.type = 'dapo'"
            )
        return self


class LoraSettings(Settings):
    """The adapter that is trained."""

    rank: Literal[1, 8, 16, 32, 64, 128, 256] = Field(default=16, description="rank of the adapter")
    alpha: int = Field(default=32, ge=1, description="the adapter's weights count alpha / rank times")


class LearnerSettings(Settings):
    """How the learner computes."""

    token_budget: Annotated[int, AtResume.FREE] = Field(
        default=3072, ge=64, description="tokens of one forward pass, shared ones once"
    )
    gradient_checkpointing: Annotated[Literal["auto", True, False], AtResume.FREE] = Field(
        default="auto",
        description="compute activations again for the gradient instead of keeping them; auto: on a GPU where its "
        "memory asks for it; results are the same",
    )
    shard: Annotated[bool, AtResume.FREE] = Field(
        default=False,
        description="spread the model's layers over torchrun's processes (fully_shard); results are the same",
    )


class TinkerSettings(Settings):
    """The server of ``engine = tinker``, which trains and samples."""

    url: Annotated[Url | None, AtResume.FREE] = Field(
        default=None, description="URL of a server that speaks the Tinker API"
    )


class WarmStartSettings(Settings):
    """The imitation of demonstrations before GRPO."""

    policy: str = Field(default="oracle", description="policy of the env that is imitated")
    model: Spec | None = Field(
        default=None,
        description="model that plays your agent's episodes to be imitated, in place of a policy of the env: "
        "openai:MODEL@URL or litellm:NAME",
    )
    keep: Literal["rewarded", "all"] = Field(
        default="rewarded",
        description="imitate the demonstrations that the env rewards as successes, or `all`: then nothing is learned "
        "but how the policy acts",
    )
    steps: int = Field(default=0, ge=0, description="optimizer steps on demonstrations before GRPO")
    batch: int = Field(default=8, ge=1, description="demonstrations in a step")
    learning_rate: float = Field(default=1e-3, gt=0, description="highest learning rate of the imitation")

    @property
    def teacher(self) -> str:
        """Who is imitated, for people."""
        return self.policy if self.model is None else blank_secrets(without_users(self.model))


class EvalSettings(Settings):
    """The evaluation on held-out tasks."""

    split: str = Field(
        default="test", description="split of the evaluations before and after, where the env has splits"
    )
    scenarios: int = Field(default=64, ge=0, description="held-out tasks; 0: no evaluation")
    samples: int = Field(default=1, ge=1, description="sampled episodes of each scenario")
    seed: int = Field(default=1234, description="seed of the choice of the tasks, and of their episodes")
    greedy: int = Field(
        default=1, ge=0, description="how many times as many scenarios are played greedily, too (at most all); 0: none"
    )
    baselines: Annotated[Literal["all", "scripts", "none"], AtResume.FREE] = Field(
        default="all",
        description="who plays the same tasks before GRPO: the scripts that the env brings along, and the base model "
        "where the run begins with a warm start or an adapter",
    )
    every: Annotated[int, AtResume.FREE] = Field(
        default=0, ge=0, description="evaluate every so many steps, sampled; 0: before and after only"
    )
    selection_split: str = Field(
        default="validation", description="split of the evaluations of `every`, by which the best checkpoint is chosen"
    )


class ServerSettings(Settings):
    """The vLLM servers that sample; they are started where none is named."""

    urls: Annotated[tuple[Url, ...], AtResume.FREE] = Field(
        default=(), description="vLLM servers of your own that sample; --server may be given several times"
    )
    replicas: Annotated[int, AtResume.FREE] = Field(
        default=1, ge=1, description="servers to start, each on its share of the cores or its own GPU"
    )
    tensor_parallel: Annotated[int, AtResume.FREE] = Field(
        default=1, ge=1, description="GPUs that share the model of a server"
    )
    kv_cache_gib: Annotated[float | None, AtResume.FREE] = Field(
        default=None,
        gt=0,
        description="memory of the KV cache; null: 2 on a CPU, on a GPU room for all sequences at full length, if "
        "the GPU has it",
    )
    sleep_mode: Annotated[bool, AtResume.FREE] = Field(
        default=True,
        description="learner and vLLM take turns on one GPU where both do not fit; the other's model then waits in the "
        "host's memory",
    )
    extra_args: Annotated[tuple[str, ...], AtResume.FREE] = Field(
        default=(), description="further arguments of vllm serve"
    )

    @model_validator(mode="after")
    def _given_or_started(self) -> Self:
        given = {name: value for name, value in self.model_dump(exclude_defaults=True).items() if name != "urls"}
        if self.urls and given:
            name, value = next(iter(given.items()))
            raise ValueError(
                f"server.{name} = {value} is of servers that are started, but server.urls names {len(self.urls)} of "
                "your own; leave one of them out"
            )
        for url in self.urls:
            if not is_server_url(url):
                raise ValueError(f"server.urls names {url!r}, which is no URL; give it as http://HOST:PORT")
        if len({url.rstrip("/").removesuffix("/v1") for url in self.urls}) < len(self.urls):
            raise ValueError(f"server.urls names a server twice: {', '.join(self.urls)}")
        return self
