"""Which engine a run's settings ask for; a setting that an engine would ignore is refused.

``local`` is one process. ``torchrun`` is all processes that torchrun started.
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


def engine_name(config: TrainConfig) -> Literal["local", "torchrun"]:
    """What ``engine`` means here: with ``auto``, torchrun where torchrun started this process, else local.

    Raises:
        ConfigError: The engine and how the program was started do not go together, or the engine ignores a setting.
    """
    here = place()
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


def described(config: TrainConfig) -> str:
    """What a run says of an engine of several processes; raises as ``engine_name`` does."""
    here = place()
    if engine_name(config) == "local" or here is None:
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
    """
    if engine_name(config) == "torchrun":
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
