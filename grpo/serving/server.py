"""A server that samples, as a run sees it: started, waited for, asked whether it is well, brought back, stopped.

A vLLM process of the run's own is in `vllm`; here is the one whose URL the user gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Protocol, Self

import httpx

from grpo.errors import ServerDiedError, ServerStartError
from grpo.machine.processes import is_loopback

Progress = Callable[[float, str], None]
"""Called about once a second during a start with the seconds so far and what the server is doing."""

SILENT_SECONDS = 30.0
"""A start may take so long before something is said of it; on a GPU the first one takes minutes."""


def said_if_long(say: Callable[[str], None]) -> Progress:
    """Tells ``say`` now and then what a server is doing that takes long to start."""
    said = 0.0

    def on_progress(seconds: float, doing: str) -> None:
        nonlocal said
        if seconds >= said + SILENT_SECONDS:
            said = seconds
            say(f"still starting: {doing} ({seconds:.0f} s)")

    return on_progress


class Startable(Protocol):
    """What ``with`` starts, hands out ready, and stops, however it ends: a server, or all of a run."""

    def start(self) -> None:
        """Begin to start; returns at once."""
        ...

    def wait_ready(self, on_progress: Progress | None = None) -> float:
        """Wait until requests are answered; returns the seconds since ``start``."""
        ...

    def stop(self) -> None:
        """Stop what is ours. Twice does no harm."""
        ...

    def __enter__(self) -> Self:
        """Start, and wait until it is ready."""
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


class Servers(Startable, Protocol):
    """All servers of a run; ``name`` and ``url`` are for people."""

    name: ClassVar[str]
    """What they are."""

    @property
    def url(self) -> str:
        """The URLs of all."""
        ...


class PolicyServer(Startable, Protocol):
    """One server.

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

    def is_well(self) -> bool:
        """Whether it answers its health check; asked after a failed request."""
        ...

    def recover(self) -> bool:
        """Restart a server that is not well. Returns whether it was restarted; False if it is well as it is."""
        ...


class ExternalServer(PolicyServer):
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


def is_healthy(client: httpx.Client) -> bool:
    """Whether the server that ``client`` is bound to answers its health check."""
    try:
        return client.get("/health").status_code == 200
    except httpx.HTTPError:
        return False
