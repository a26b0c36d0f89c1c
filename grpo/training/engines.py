"""What trains a run's policy and what samples it, found by name in one table; what an engine would ignore is refused.

``local`` is one process and ``torchrun`` all processes that torchrun started; vLLM servers sample for both. ``tinker``
is a server that speaks the Tinker API (experimental); its room may be taken out.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from grpo.config import TrainConfig
from grpo.errors import ConfigError
from grpo.learner.engine import Engine
from grpo.machine.installed import has_room
from grpo.machine.processes import torchrun_rank
from grpo.serving.fleet import Fleet
from grpo.serving.sampler import Sampler, VllmSampler
from grpo.serving.server import Servers
from grpo.serving.vllm import make_servers
from grpo.serving.vllm_options import check_cpu_room

BACKENDS = {
    "local": "grpo.training.engines:Local",
    "torchrun": "grpo.training.engines:Torchrun",
    "tinker": "grpo.tinker.backend:Tinker",
}
"""A class for each engine; made with a run's settings, it refuses those that it would ignore."""


class Backend(Protocol):
    """An engine, and the servers that sample from what it trains.

    Attributes:
        computes_here: Whether the model is in this machine's memory.
    """

    computes_here: bool = True

    def described(self) -> str:
        """What a run says of an engine that is not just this process."""
        return ""

    def engine(self, model_path: Path, init_adapter: Path | None = None) -> Engine:
        """What trains the model in ``model_path``, from ``init_adapter`` on.

        Raises:
            ConfigError: The device is not there, or a server is not what the settings ask for.
            ModelError: The model or the adapter cannot be used.
            ServerError: A server does not do what it is asked.
        """
        ...

    def servers(self, model_path: Path, log: Path, tell: Callable[[str], None]) -> Servers:
        """What samples; ``log`` is for what servers of ours say, ``tell`` hears that one went out or came back."""
        ...

    def sampler(self, servers: Servers, folder: Path, stop_token_ids: list[int]) -> Sampler:
        """The sampler over these ``servers``, with a ``folder`` for adapters and the tokens that end a turn."""
        ...


def backend_of(config: TrainConfig) -> Backend:
    """What the settings ask for; ``engine = auto`` is torchrun where it started this process, else local.

    Raises:
        ConfigError: The engine was taken out of this installation, does not go with how the program was started, or
            would ignore a setting.
    """
    name = config.engine
    if name == "auto":
        name = "local" if torchrun_rank() is None else "torchrun"
    module, _, backend = BACKENDS[name].partition(":")
    room = module.rpartition(".")[0]
    if not has_room(room):
        raise ConfigError(
            f"engine = {name!r} needs {room}, which was taken out of this installation; install the whole package, or "
            "leave --engine out"
        )
    return getattr(importlib.import_module(module), backend)(config)


class Local(Backend):
    """This process trains, and vLLM samples."""

    def __init__(self, config: TrainConfig):
        """Refuse what does not go together; raises as ``backend_of`` does."""
        self.config = config
        if config.tinker.url is not None:
            raise ConfigError(
                f"tinker.url = {config.tinker.url!r}, but engine = {config.engine!r}; add --engine tinker, or leave "
                "--tinker-url out"
            )
        if config.device == "cpu" and config.server.replicas and not config.server.urls:
            check_cpu_room()
        self._check_start()

    def _check_start(self) -> None:
        here = torchrun_rank()
        if here is not None and here.size > 1:
            raise ConfigError(
                f"engine = 'local', but {here.size} processes were started, and each would train alone; leave --engine "
                "out, or start one process"
            )
        if self.config.learner.shard:
            raise ConfigError(
                "learner.shard = true, but the engine is one process (local), which has nothing to share the model "
                "with; start it with torchrun --nproc-per-node N -m grpo train ..., or leave learner.shard out"
            )

    def engine(self, model_path: Path, init_adapter: Path | None = None) -> Engine:
        """See `Backend`."""
        from grpo.learner.local_engine import LocalEngine, engine_options

        return LocalEngine(model_path, **engine_options(self.config, model_path, init_adapter))

    def servers(self, model_path: Path, log: Path, tell: Callable[[str], None]) -> Servers:
        """See `Backend`."""
        return Fleet(make_servers(self.config, model_path, log), on_change=[tell])

    def sampler(self, servers: Servers, folder: Path, stop_token_ids: list[int]) -> Sampler:
        """See `Backend`."""
        assert isinstance(servers, Fleet), "it is the one above"
        return VllmSampler(servers, folder, stop_token_ids, self.config.rollout.concurrency)


class Torchrun(Local):
    """All processes of torchrun train, and vLLM samples."""

    def _check_start(self) -> None:
        if torchrun_rank() is None:
            raise ConfigError(
                "engine = 'torchrun', but torchrun did not start this program; start it with torchrun "
                "--nproc-per-node N -m grpo train ..., or leave --engine out"
            )

    def described(self) -> str:
        """See `Backend`."""
        here = torchrun_rank()
        assert here is not None, "torchrun started this process"
        how = "share its layers" if self.config.learner.shard else "have it whole"
        return f"learner: {here.size} processes of torchrun train the model; they {how}"

    def engine(self, model_path: Path, init_adapter: Path | None = None) -> Engine:
        """See `Backend`."""
        from grpo.learner.torchrun_engine import TorchrunEngine

        return TorchrunEngine(self.config, model_path, init_adapter)
