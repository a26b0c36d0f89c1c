"""What is known of a run before it starts: what it would do and take (``--dry-run``), and what of it is refused.

Nothing here starts a server or writes a run.
"""

import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from grpo.agents.own import own_agent
from grpo.config import REWARDS, TrainConfig, dotted
from grpo.devices.families import check_family
from grpo.devices.memory import cpu_needs
from grpo.devices.plan import plan_gpus
from grpo.devices.shape import ModelShape, check_trainable, shape_at_hand
from grpo.envs.message_env import MessageEnv, check_env
from grpo.envs.registry import takes_split, with_split
from grpo.episodes.marking import check_markable
from grpo.errors import ConfigError, EnvError
from grpo.machine.hardware import cpu_count, memory_gib
from grpo.machine.models import check_model_folder, check_model_name, config_at_hand, has_weights
from grpo.machine.user_code import import_user_module, load_function
from grpo.runs.directory import RunDirectory
from grpo.runs.trained_policy import init_adapter
from grpo.serving.vllm import BASE_MODEL
from grpo.serving.vllm_options import ServerOptions, server_options
from grpo.training.engines import backend_of
from grpo.training.first_look import check_before_start
from judges.common.files import read_json
from judges.common.secrets import blank_secrets, without_users


def what_would_run(config: TrainConfig, directory: Path, *, resume: bool = False) -> Iterator[str]:
    """Lines about the model, the work, the devices with their memory, and vLLM's arguments.

    Raises:
        ConfigError: The run would be refused: it does not fit on the GPUs, its settings do not fit together or, with
            ``resume``, to the run that is there, ``init_adapter`` names none that fits, the rubric cannot be read,
            or the env or the reward lacks what the settings ask for.
        EnvError: The env cannot be made, reset, or spoken with.
        CheckpointError: The run that ``init_adapter`` names has no checkpoint.
        ModelError: The model cannot be trained, its ``config.json`` lacks a size, or its name is none.
    """
    model, path, shape = model_at_hand(config.model)
    init_adapter(config)
    config.rubric()
    remarks: list[str] = []
    check_user_code(config, remarks.append)
    run = RunDirectory(directory)
    if resume:
        config = run.settled(config, resume=True)
    backend = backend_of(config)
    if backend.computes_here and (path / "config.json").is_file():
        check_trainable(path, config.rollout.max_tokens)
        check_family(read_json(path / "config.json"), config.untested_model)
        if has_weights(path):
            check_before_start(config, path)
    yield model
    yield from remarks
    yield f"run directory: {directory}" + (" (there is a run in it)" if run.config_path.exists() else "")
    yield from _work(config, shape)
    if not backend.computes_here:
        yield backend.described()
        return
    if config.device == "cpu":
        dtype = "measured when the run starts" if config.dtype == "auto" else config.dtype
        yield f"dtype: {dtype}"
        yield f"learner and vLLM on the CPU: {config.threads or cpu_count()} cores, {memory_gib():.0f} GiB of memory"
        for dtype in ("bfloat16", "float32"):
            if shape is not None and config.dtype in (dtype, "auto"):
                yield f"in {dtype}: {cpu_needs(config.model_copy(update={'dtype': dtype}), shape)}"
    else:
        yield f"dtype: {'bfloat16' if config.dtype == 'auto' else config.dtype}"
        yield from memory_of_gpus(config, shape)
    if config.server.urls:
        yield f"sampling from {', '.join(config.server.urls)}"
    else:
        yield vllms_arguments(config, path, shape, lambda: server_options(config, path, None, shape)[0])


def model_at_hand(name: str) -> tuple[str, Path, ModelShape | None]:
    """A line about a model, its folder, or its name where it is not here yet, and its shape where that is known.

    Raises:
        ModelError: The name is none, or ``config.json`` lacks a size.
    """
    check_model_name(name)
    here, shape = config_at_hand(name), shape_at_hand(name)
    folder = Path(name).expanduser() if here is None else here.parent
    if has_weights(folder):
        check_model_folder(folder)
    if here is None:
        return f"model: {name}, not here yet; it is fetched or converted at the start", folder, shape
    return f"model: {name}, in {here.parent}", here.parent, shape


def memory_of_gpus(config: TrainConfig, shape: ModelShape | None, learners: int | None = None) -> list[str]:
    """Lines about what each part takes of the GPUs; see ``plan_gpus``."""
    if shape is None:
        return ["memory: not known before the model's config.json is here"]
    return plan_gpus(config, shape, learners=learners).lines()


def vllms_arguments(
    config: TrainConfig, model_path: Path, shape: ModelShape | None, options: Callable[[], ServerOptions]
) -> str:
    """A line about how vLLM would be started, by ``options`` that are asked for once they can be known."""
    if config.device == "cuda" and shape is None:
        return "vLLM's arguments: not known before the model's config.json is here"
    if config.device == "cpu" and config.dtype == "auto":
        return "vLLM's arguments: not known before the dtype is measured (float32 or bfloat16 as dtype fixes it)"
    made = options()
    if (model_path / "config.json").is_file():
        made.check_model(model_path)
    return f"vLLM's arguments: {shlex.join(made.arguments(model_path, BASE_MODEL, made.port))}"


def check_user_code(config: TrainConfig, say: Callable[[str], object] = lambda _line: None) -> None:
    """Begin an episode in every split that the run needs, and look for what it names: agent, policy, reward, answer.

    ``say`` is told what a user is to know of the env.

    Raises:
        ConfigError: A split, a policy, a reward or an answer that the settings ask for is not there.
        EnvError: The env cannot be made, reset, or spoken with.
    """
    if config.env_import is not None:
        import_user_module(config.env_import)
    offered = check_env(config.env, with_split(config.env, config.env_kwargs, config.train_split), say)
    changed = dotted(config.model_dump(exclude_defaults=True))
    held_out = ("eval.split", "eval.selection_split") if config.eval.every else ("eval.split",)
    for name in held_out if config.eval.scenarios and takes_split(config.env) else ():
        try:
            check_env(config.env, {**config.env_kwargs, "split": dotted(config.model_dump())[name]})
        except EnvError as error:
            raise ConfigError(f"{error}; the evaluation needs --set {name}=NAME of another split") from error
    for name in ("train_split", "eval.split", "eval.selection_split"):
        if name in changed and not takes_split(config.env):
            raise ConfigError(
                f"{name} = {changed[name]!r}, but {config.env} has no splits (no argument 'split'); leave it out"
            )
    if config.reward == "env":
        with closing(MessageEnv(config.env, dict(config.env_kwargs))) as env:
            if silent := env.optional("unanswered"):
                raise ConfigError(
                    f"{len(silent)} of {len(env.scenario_ids() or ())} tasks have no answer (the first: "
                    f"{silent[0]!r}), so nothing says what they are worth; give them one, or --reward with ruler or a "
                    "function of your own"
                )
    if config.agent is not None:
        own_agent(config.agent, None, config.agent_python)
    elif config.warm_start.model is not None:
        raise ConfigError(
            f"warm_start.model = {config.warm_start.teacher!r} plays the episodes of an agent of yours: name it with "
            "--agent, or imitate a policy of the env (warm_start.policy)"
        )
    by_script = config.warm_start.model is None
    if config.warm_start.steps > 0 and by_script and config.warm_start.policy not in offered:
        raise ConfigError(
            f"warm_start.policy = {config.warm_start.policy!r}, but {config.env} brings along: "
            f"{', '.join(offered) or 'none'}; choose one (--set warm_start.policy=NAME) or --set warm_start.steps=0"
        )
    if config.reward not in REWARDS:
        load_function(config.reward)
    if config.answer_judge.model is not None:
        with closing(MessageEnv(config.env, dict(config.env_kwargs))) as env:
            check_markable(env, "--answer-judge")


def adapter_line(config: TrainConfig, shape: ModelShape | None) -> str:
    """What of the model is trained."""
    lora = f"LoRA: rank {config.lora.rank}, alpha {config.lora.alpha}"
    if config.init_adapter is not None:
        return f"{lora}, on the layers of {config.init_adapter}"
    if shape is None:
        return lora
    millions = shape.adapter_parameters(config.lora.rank) / 1e6
    attentions, mlps = (shape.layers - shape.frozen.state_layers, shape.layers - shape.frozen.untrained_mlps)
    where = f"q, k, v, o, gate, up and down of all {shape.layers} blocks"
    if (attentions, mlps) != (shape.layers, shape.layers):
        dense = f", gate, up and down of {mlps}" if mlps else ", what stands beside experts" if shape.shared else ""
        where = f"q, k, v and o of {attentions} blocks{dense}; what else they have stays as it is"
    return f"{lora}, on {where} ({millions:.1f} million weights)"


def _work(config: TrainConfig, shape: ModelShape | None) -> Iterator[str]:
    rollout, warm_start, evaluation = config.rollout, config.warm_start, config.eval
    episodes = rollout.groups_per_step * rollout.group_size
    if warm_start.steps:
        demonstrations = "a demonstration" if warm_start.batch == 1 else f"{warm_start.batch} demonstrations"
        yield f"warm start: {warm_start.steps} steps of {demonstrations} of {warm_start.teacher!r}"
    if config.agent is not None:
        yield f"agent: {blank_secrets(without_users(config.agent))}, whose model is the policy"
    steps = config.steps if config.minutes is None else f"as many as fit in {config.minutes:g} minutes"
    yield (
        f"steps: {steps}, each of {rollout.groups_per_step} groups x {rollout.group_size} episodes, at "
        f"most {rollout.max_tokens:,} tokens an episode and {rollout.max_turn_tokens:,} a turn"
    )
    yield f"tokens: at most {episodes * rollout.max_tokens:,} a step, {config.learner.token_budget:,} a forward pass"
    yield f"{adapter_line(config, shape)}; learning rate {config.optimizer.learning_rate:g}"
    if evaluation.scenarios:
        greedily = f", up to {evaluation.scenarios * evaluation.greedy} greedily" if evaluation.greedy else ""
        split = f" of the split {evaluation.split!r}" if takes_split(config.env) else ""
        of = f"{evaluation.scenarios} scenarios{split}{greedily}"
        yield f"evaluation before and after: {of}"
