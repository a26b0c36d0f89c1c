"""The engine ``tinker`` (experimental): a server that speaks the Tinker API trains a run's policy, and samples it."""

from collections.abc import Callable
from pathlib import Path

from grpo.config import TrainConfig
from grpo.errors import ConfigError
from grpo.learner.engine import Engine
from grpo.machine.processes import torchrun_rank
from grpo.serving.sampler import Sampler
from grpo.serving.server import Servers
from grpo.tinker.connection import connect
from grpo.tinker.sampler import TinkerSampler, TinkerServer


class Tinker:
    """See `grpo.training.engines.Backend`."""

    computes_here = False

    def __init__(self, config: TrainConfig):
        """Refuse what the API does not know or a server ignores, all at once.

        Raises:
            ConfigError: There is such a setting, or no server is named.
        """
        if config.tinker.url is None:
            raise ConfigError("engine = 'tinker' needs a server that speaks the Tinker API; add --tinker-url URL")
        if torchrun_rank() is not None:
            raise ConfigError("engine = 'tinker' is one process, but torchrun started this program; start it without")
        self._config, self._url = config, config.tinker.url
        learner, given = config.learner, config.server.model_dump(exclude_defaults=True)
        checkpointing = learner.gradient_checkpointing
        refused = [
            (config.loss.kl_coef > 0, "loss.kl_coef", "0", "it has no KL term"),
            (config.optimizer.max_grad_norm is not None, "optimizer.max_grad_norm", "null", "it may cut no gradients"),
            (config.rollout.temperature != 1.0, "rollout.temperature", "1", "its logprobs are of temperature 1"),
            (config.rollout.max_staleness > 0, "rollout.max_staleness", "0", "it samples the newest policy alone"),
            (config.dtype != "auto", "dtype", "auto", "it was started with a dtype of its own"),
            (config.device != "cpu", "device", "cpu", "it computes on its own devices, and nothing is computed here"),
            (learner.shard, "learner.shard", "false", "its start says how a model is spread"),
            (checkpointing != "auto", "learner.gradient_checkpointing", "auto", "its start says that"),
            *((bool(value), f"server.{name}", "", "no vLLM server takes part") for name, value in given.items()),
        ]
        lines = [
            f"  {name}: {why}; " + (f"--set {name}={instead}" if instead else "leave it out")
            for is_so, name, instead, why in refused
            if is_so
        ]
        if lines:
            raise ConfigError("\n".join(["a Tinker server would ignore these settings:", *lines]))

    def described(self) -> str:
        """See `Backend`."""
        return f"the Tinker server at {self._url} trains and samples the model (experimental)"

    def engine(self, model_path: Path, init_adapter: Path | None = None) -> Engine:
        """See `Backend`."""
        from grpo.learner.lora_model import LoraSpec
        from grpo.tinker.engine import TinkerEngine

        lora = LoraSpec(self._config.lora.rank, self._config.lora.alpha)
        service = connect(self._url, self._config.model)
        return TinkerEngine(service, lora, self._config.seed, model_path, init_adapter)

    def servers(self, model_path: Path, log: Path, tell: Callable[[str], None]) -> Servers:
        """See `Backend`."""
        return TinkerServer(self._url, self._config.model)

    def sampler(self, servers: Servers, folder: Path, stop_token_ids: list[int]) -> Sampler:
        """See `Backend`."""
        assert isinstance(servers, TinkerServer), "it is the one above"
        return TinkerSampler(servers, folder, stop_token_ids, self._config.rollout.concurrency)
