"""A server that samples, as a run sees it: a vLLM process of its own, or a URL that the user gives."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import httpx

from grpo.config import TrainConfig
from grpo.devices.plan import plan_gpus, served_adapters
from grpo.devices.shape import ModelShape
from grpo.errors import ConfigError, ServerDiedError, ServerStartError
from grpo.machine.dtype import computing_dtype
from grpo.machine.hardware import cpu_count
from grpo.machine.loopback import is_loopback
from grpo.serving.startable import Progress
from grpo.serving.vllm import VllmServer, is_healthy
from grpo.serving.vllm_options import ServerOptions, on_gpus, with_user_arguments

__all__ = ["ExternalServer", "PolicyServer", "Progress", "ServerOptions", "VllmServer", "make_servers"]


class PolicyServer(Protocol):
    """What a run needs of a server.

    Attributes:
        url: Base URL, without ``/v1``.
        model: Name of the model without an adapter.
        trust_env: Whether requests may take the environment's proxy; never on the way to a server on this machine.
        patience_seconds: How long it is waited for once it has ended, before it is given up.
    """

    url: str
    model: str
    trust_env: bool
    patience_seconds: float

    def start(self) -> None:
        """Begin to start; returns at once."""
        ...

    def wait_ready(self, on_progress: Progress | None = None) -> float:
        """Wait until requests are answered; returns the seconds since ``start``."""
        ...

    def is_well(self) -> bool:
        """Whether it answers its health check; asked after a failed request."""
        ...

    def recover(self) -> bool:
        """Restart a server that is not well. Returns whether it was restarted; False if it is well as it is."""
        ...

    def stop(self) -> None:
        """Stop it, if it is ours. Twice does no harm."""
        ...


def make_servers(
    config: TrainConfig, model_path: Path, log_path: Path, *, learners: int | None = None
) -> list[PolicyServer]:
    """The servers that a run's settings ask for: the given URLs, or vLLM processes of our own.

    The log of the first is ``log_path``; that of the second ends in ``-2``, and so on.

    On a GPU it gets its share (`grpo.devices.plan`) beside ``learners`` processes that train; 0 for none, and by
    default those of torchrun, or one.

    Raises:
        ConfigError: There are fewer cores or GPUs than servers, or the GPUs have too little memory.
    """
    if config.server.urls:
        return [ExternalServer(url) for url in config.server.urls]
    replicas = config.server.replicas
    if config.device == "cpu" and 1 < replicas > (cores := config.threads or cpu_count()):
        raise ConfigError(
            f"server.replicas = {replicas}, but there are {cores} CPU cores for them, and each needs one of its own; "
            "ask for fewer, or give the URLs of servers on other machines (--server)"
        )
    logs = [log_path, *(log_path.with_stem(f"{log_path.stem}-{number}") for number in range(2, replicas + 1))]
    options = server_options(config, model_path, learners)
    return [VllmServer(model_path, log, each) for log, each in zip(logs, options, strict=True)]


def server_options(
    config: TrainConfig, model_path: Path, learners: int | None, shape: ModelShape | None = None
) -> list[ServerOptions]:
    """What servers of our own are started with; see ``make_servers``. ``shape`` stands in for a model not yet here."""
    options = ServerOptions(
        device=config.device,
        dtype=computing_dtype(config.dtype, config.device, model_path).dtype,
        max_model_len=config.rollout.max_tokens,
        max_lora_rank=config.lora.rank,
        max_loras=served_adapters(config),
        max_num_seqs=config.rollout.concurrency,
        threads=config.threads,
        seed=config.seed,
        kv_cache_gib=config.server.kv_cache_gib,
        draft_tokens=config.server.draft_tokens,
    )
    servers = [replace(options, share=(index, config.server.replicas)) for index in range(config.server.replicas)]
    if config.device == "cuda":
        plan = plan_gpus(config, shape or ModelShape.read(model_path), learners=learners)
        servers = [on_gpus(server, plan, number) for number, server in enumerate(servers)]
    return [with_user_arguments(server, config.server.extra_args) for server in servers]


class ExternalServer:
    """A vLLM server that somebody else runs, and may restart, and that sees the same file system as this process."""

    def __init__(self, url: str, *, start_timeout_seconds: float = 30.0, patience_seconds: float = 90.0):
        """Remember a URL; nothing is asked of it yet."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self.model = ""
        self.trust_env = not is_loopback(self.url)
        self.patience_seconds = patience_seconds
        self._start_timeout_seconds = start_timeout_seconds

    def start(self) -> None:
        """Nothing to start."""

    def wait_ready(self, on_progress: Progress | None = None) -> float:
        """Wait until the server answers, and learn the name of its model; returns the seconds it took.

        Raises:
            ServerStartError: It does not answer, or serves no model.
        """
        began = time.monotonic()
        while True:
            try:
                answer = httpx.get(f"{self.url}/v1/models", timeout=10.0, trust_env=self.trust_env)
                models = answer.raise_for_status().json()["data"]
                break
            except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
                gave_up = time.monotonic() - began > self._start_timeout_seconds
                if gave_up or not isinstance(error, httpx.TransportError):
                    raise ServerStartError(
                        f"the server at {self.url} does not answer {self.url}/v1/models "
                        f"({type(error).__name__}: {error}). Is it vLLM's OpenAI-compatible server, and is it up?"
                    ) from error
            if on_progress:
                on_progress(time.monotonic() - began, f"waiting for {self.url}")
            time.sleep(1.0)
        names = [model["id"] for model in models if not model.get("parent")]
        if not names:
            raise ServerStartError(f"the server at {self.url} serves no model")
        self.model = names[0]
        return time.monotonic() - began

    def is_well(self) -> bool:
        """Whether it answers its health check."""
        with httpx.Client(base_url=self.url, timeout=10.0, trust_env=self.trust_env) as client:
            return is_healthy(client)

    def recover(self) -> bool:
        """Check that the server answers; there is nothing of ours to restart.

        Raises:
            ServerDiedError: It does not.
        """
        if not self.is_well():
            raise ServerDiedError(f"the server at {self.url} no longer answers; it is not ours to restart")
        return False

    def stop(self) -> None:
        """Nothing to stop: the server is not ours."""
