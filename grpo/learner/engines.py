"""Which engine a run's settings ask for; a setting that an engine would ignore is refused.

``local`` is one process. ``torchrun`` is all processes that torchrun started. ``tinker`` is a server that speaks the
Tinker API (experimental).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from grpo.config import TrainConfig
from grpo.errors import ConfigError
from grpo.learner.engine import Engine
from grpo.machine.hardware import share_cores
from grpo.machine.torchrun import place


def engine_name(config: TrainConfig) -> Literal["local", "torchrun", "tinker"]:
    """What ``engine`` means here: with ``auto``, torchrun where torchrun started this process, else local.

    Raises:
        ConfigError: The engine and how the program was started do not go together, or the engine ignores a setting.
    """
    here = place()
    if config.engine == "tinker":
        _check_tinker(config)
        return "tinker"
    if config.tinker.url is not None:
        raise ConfigError(
            f"tinker.url = {config.tinker.url!r}, but engine = {config.engine!r}; add --engine tinker, or leave "
            "--tinker-url out"
        )
    if config.engine == "torchrun" or (config.engine == "auto" and here is not None):
        if here is None:
            raise ConfigError(
                "engine = 'torchrun', but torchrun did not start this program; start it with torchrun "
                "--nproc-per-node N -m grpo train ..., or leave --engine out"
            )
        return "torchrun"
    if here is not None and here.size > 1:
        raise ConfigError(
            f"engine = 'local', but {here.size} processes were started, and each would train alone; leave --engine "
            "out, or start one process"
        )
    if config.learner.shard:
        raise ConfigError(
            "learner.shard = true, but the engine is one process (local), which has nothing to share the model with; "
            "start it with torchrun --nproc-per-node N -m grpo train ..., or leave learner.shard out"
        )
    return "local"


def _check_tinker(config: TrainConfig) -> None:
    """Refuse what the API does not know or a server ignores, all at once."""
    if config.tinker.url is None:
        raise ConfigError("engine = 'tinker' needs a server that speaks the Tinker API; add --tinker-url URL")
    if place() is not None:
        raise ConfigError("engine = 'tinker' is one process, but torchrun started this program; start it without")
    learner, given = config.learner, config.server.model_dump(exclude_defaults=True)
    refused = [
        (config.loss.kl_coef > 0, "loss.kl_coef", "0", "it has no KL term"),
        (config.optimizer.max_grad_norm is not None, "optimizer.max_grad_norm", "null", "it may cut no gradients"),
        (config.rollout.temperature != 1.0, "rollout.temperature", "1", "its log-probabilities are of temperature 1"),
        (config.rollout.max_staleness > 0, "rollout.max_staleness", "0", "it samples the newest policy alone"),
        (config.dtype != "auto", "dtype", "auto", "it was started with a dtype of its own"),
        (config.device != "cpu", "device", "cpu", "it computes on its own devices, and nothing is computed here"),
        (learner.shard, "learner.shard", "false", "its start says how a model is spread"),
        (learner.kernels is not None, "learner.kernels", "null", "it has kernels of its own"),
        (learner.gradient_checkpointing != "auto", "learner.gradient_checkpointing", "auto", "its start says that"),
        *((True, f"server.{name}", "", "no vLLM server takes part") for name in given),
    ]
    lines = [
        f"  {name}: {why}; " + (f"--set {name}={instead}" if instead else "leave it out")
        for is_so, name, instead, why in refused
        if is_so
    ]
    if lines:
        raise ConfigError("\n".join(["a Tinker server would ignore these settings:", *lines]))


def described(config: TrainConfig) -> str:
    """What a run says of an engine that is not this process; raises as ``engine_name`` does."""
    here, name = place(), engine_name(config)
    if name == "tinker":
        return f"the Tinker server at {config.tinker.url} trains and samples the model (experimental)"
    if name == "local" or here is None:
        return ""
    how = "share its layers" if config.learner.shard else "have it whole"
    return f"learner: {here.size} processes of torchrun train the model; they {how}"


def make_engine(config: TrainConfig, model_path: Path, init_adapter: Path | None = None) -> Engine:
    """The engine that a run's settings ask for.

    Args:
        config: The settings.
        model_path: Folder of the model that ``config`` names.
        init_adapter: Adapter to go on from.

    Raises:
        ConfigError: See ``engine_name``; or the device is not there.
        ModelError: The model or the adapter cannot be used.
        ServerError: The Tinker server does not do what it is asked.
    """
    name = engine_name(config)
    if name == "tinker":
        from grpo.tinker.engine import tinker_engine

        return tinker_engine(config, model_path, init_adapter)
    if name == "torchrun":
        from grpo.learner.torchrun_engine import TorchrunEngine

        return TorchrunEngine(config, model_path, init_adapter)
    from grpo.learner.local_engine import local_engine

    return local_engine(config, model_path, init_adapter)


@contextmanager
def learner_processes() -> Iterator[bool]:
    """Whether this process runs the command. Of torchrun's processes the first does; another has served it by then."""
    here = place()
    if here is None:
        yield True
        return
    share_cores()
    from grpo.learner.torchrun_engine import met

    with met(here) as drives:
        yield drives
