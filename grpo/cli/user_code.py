"""What of the user's own code a run takes, the env and the reward, checked before anything is written or started."""

from __future__ import annotations

from grpo.config import REWARDS, TrainConfig, dotted
from grpo.envs.message_env import check_env
from grpo.envs.pool import EnvPool
from grpo.envs.registry import takes_split, with_split
from grpo.episodes.marking import check_markable
from grpo.errors import ConfigError, EnvError
from grpo.machine.user_code import import_user_module, load_function


def check_user_code(config: TrainConfig) -> None:
    """Begin an episode in every split that the run needs, and look for what it names: policy, reward, answer.

    Raises:
        ConfigError: A split, a policy, a reward or an answer that the settings ask for is not there.
        EnvError: The env cannot be made, reset, or spoken with.
    """
    if config.env_import is not None:
        import_user_module(config.env_import)
    offered = check_env(config.env, with_split(config.env, config.env_kwargs, config.train_split))
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
    if config.warm_start.steps > 0 and config.warm_start.policy not in offered:
        raise ConfigError(
            f"warm_start.policy = {config.warm_start.policy!r}, but {config.env} brings along: "
            f"{', '.join(offered) or 'none'}; choose one (--set warm_start.policy=NAME) or --set warm_start.steps=0"
        )
    if config.reward not in REWARDS:
        load_function(config.reward)
    if config.answer_judge.model is not None:
        with EnvPool(config.env, dict(config.env_kwargs)) as pool:
            check_markable(pool.take(), "--answer-judge")
