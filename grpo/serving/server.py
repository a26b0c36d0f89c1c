"""The server that samples, as a run sees it: a vLLM process of its own, or a URL that the user gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import httpx

from grpo.config import TrainConfig
from grpo.errors import ConfigError, ServerDiedError, ServerStartError
from grpo.machine.dtype import computing_dtype
from grpo.serving.vllm import Progress, VllmServer, is_healthy
from grpo.serving.vllm_options import ServerOptions

__all__ = ["ExternalServer", "PolicyServer", "Progress", "ServerOptions", "VllmServer", "make_server"]


class PolicyServer(Protocol):
    """What a run needs of a server.

    Attributes:
        url: Base URL, without ``/v1``.
        model: Name of the model without an adapter.
        trust_env: Whether requests may take the environment's proxy; never on the way to a server of our own.
        after_restart: Called after each restart, before it is reported as done.
    """

    url: str
    model: str
    trust_env: bool
    after_restart: list[Callable[[], None]]

    def start(self) -> None:
        """Begin to start; returns at once."""
        ...

    def wait_ready(self, on_progress: Progress | None = None) -> float:
        """Wait until requests are answered; returns the seconds since ``start``."""
        ...

    def recover(self, on_progress: Progress | None = None) -> bool:
        """After a failed request: restart a server that has ended. Returns whether it was restarted."""
        ...

    def stop(self) -> None:
        """Stop it, if it is ours. Twice does no harm."""
        ...


def make_server(config: TrainConfig, model_path: Path, log_path: Path) -> PolicyServer:
    """The server that a run's settings ask for: the given URL, or a vLLM process of our own.

    Raises:
        ConfigError: More than one URL was given.
    """
    if len(config.server.urls) > 1:
        raise ConfigError(f"server.urls has {len(config.server.urls)} entries; this engine samples from one server")
    if config.server.urls:
        return ExternalServer(config.server.urls[0])
    options = ServerOptions(
        device=config.device,
        dtype=computing_dtype(config.dtype, config.device, model_path).dtype,
        max_model_len=config.rollout.max_tokens,
        max_lora_rank=config.lora.rank,
        max_num_seqs=config.rollout.concurrency,
        threads=config.threads,
        seed=config.seed,
    )
    return VllmServer(model_path, log_path, options)


class ExternalServer:
    """A vLLM server that somebody else runs and that sees the same file system as this process."""

    trust_env = True

    def __init__(self, url: str, *, start_timeout_seconds: float = 30.0):
        """Remember a URL; nothing is asked of it yet."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self.model = ""
        self.after_restart: list[Callable[[], None]] = []
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
                models = httpx.get(f"{self.url}/v1/models", timeout=10.0).raise_for_status().json()["data"]
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

    def recover(self, on_progress: Progress | None = None) -> bool:
        """Check that the server answers; there is nothing of ours to restart.

        Raises:
            ServerDiedError: It does not.
        """
        with httpx.Client(base_url=self.url, timeout=10.0) as client:
            if not is_healthy(client):
                raise ServerDiedError(f"the server at {self.url} no longer answers; it is not ours to restart")
        return False

    def stop(self) -> None:
        """Nothing to stop: the server is not ours."""
