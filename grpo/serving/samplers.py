"""Which servers sample for a run, and the sampler over them; ``grpo.learner.engines`` is the same for what trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grpo.config import TrainConfig
from grpo.serving.fleet import Fleet
from grpo.serving.sampler import Sampler, Servers, VllmSampler
from grpo.serving.server import make_servers
from grpo.tinker.sampler import TinkerSampler, TinkerServer


def servers_of(config: TrainConfig, model_path: Path, log: Path, tell: Callable[[str], None]) -> Fleet | TinkerServer:
    """The Tinker server that trains, or a fleet of vLLM servers.

    Args:
        config: The settings.
        model_path: Folder of the model.
        log: For the output of servers that are started.
        tell: Called with a line for people when a server goes out or comes back.
    """
    if config.engine == "tinker":
        assert config.tinker.url is not None, "engine_name has seen to it"
        return TinkerServer(config.tinker.url, config.model)
    return Fleet(make_servers(config, model_path, log), on_change=[tell])


def make_sampler(servers: Servers, folder: Path, stop_token_ids: list[int], concurrency: int) -> Sampler:
    """The sampler over these servers.

    Args:
        servers: Of ``servers_of``.
        folder: For adapters.
        stop_token_ids: Each ends a turn.
        concurrency: Requests at once to one server.
    """
    if isinstance(servers, TinkerServer):
        return TinkerSampler(servers, folder, stop_token_ids, concurrency)
    assert isinstance(servers, Fleet), "there are two kinds"
    return VllmSampler(servers, folder, stop_token_ids, concurrency)
