"""A server that samples, as a run sees it: started, waited for, asked whether it is well, brought back, stopped.

A vLLM process of the run's own is in `vllm`; here is the one whose URL the user gives.
"""

import os
import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import httpx

from grpo.errors import ServerDiedError, ServerError, ServerStartError
from judges.common.loopback import is_loopback

KEY_VARIABLE = "VLLM_API_KEY"
"""What vLLM asks its clients for, unless it is empty."""

WELL_SECONDS = 20.0
"""For a token, by a server that may have other requests."""

Say = Callable[[str], None]
"""Called with a line for people."""


class Startable(Protocol):
    """What ``with`` starts, hands out ready, and stops, however it ends: a server, or all of a run."""

    def start(self) -> None:
        """Begin to start; returns at once."""
        ...

    def wait_ready(self, say: Say | None = None) -> float:
        """Wait until requests are answered, and ``say`` now and then what takes long; returns the seconds it took."""
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
        headers: Of every request: they show the server's key.
        trust_env: Whether requests may take the environment's proxy; never on the way to a server on this machine.
        patience_seconds: How long it is waited for once it has ended, before it is given up.
    """

    url: str
    model: str
    headers: dict[str, str]
    trust_env: bool
    patience_seconds: float

    def is_well(self) -> bool:
        """Whether it samples a token, which no health check says; asked after a failed request."""
        request: dict[str, Any] = {"model": self.model, "prompt": [0], "max_tokens": 1, "temperature": 0.0, "seed": 0}
        try:
            post(self, "/v1/completions", WELL_SECONDS, json=request)
        except ServerError:
            return False
        return True

    def recover(self) -> bool:
        """Restart a server that is not well. Returns whether it was restarted; False if it is well as it is."""
        ...


def showing(key: str) -> dict[str, str]:
    """The header of a request that shows a key; none where there is none."""
    return {"Authorization": f"Bearer {key}"} if key else {}


class NoAnswerError(ServerError):
    """A server did not answer: it has ended, or the way to it."""


def post(server: PolicyServer, path: str, timeout_seconds: float, **content: Any) -> None:
    """Have a server do something; ``content`` is as for httpx.

    Raises:
        NoAnswerError: It did not answer.
        ServerError: It refused.
    """
    url = f"{server.url}{path}"
    try:
        answer = httpx.post(url, timeout=timeout_seconds, trust_env=server.trust_env, headers=server.headers, **content)
    except httpx.HTTPError as error:
        raise NoAnswerError(f"{url} did not answer ({type(error).__name__}: {error})") from error
    if answer.status_code != 200:
        raise ServerError(f"{url} answered {answer.status_code}: {answer.text[:500]}")


def models_of(server: PolicyServer) -> dict[str, str | None]:
    """The names of what a server serves; an adapter's has the name of its model behind it.

    Raises:
        httpx.HTTPError: It does not answer.
        ValueError: It answers something else; so do KeyError and TypeError.
    """
    url = f"{server.url}/v1/models"
    answer = httpx.get(url, timeout=10.0, trust_env=server.trust_env, headers=server.headers)
    return {model["id"]: model.get("parent") for model in answer.raise_for_status().json()["data"]}


class ExternalServer(PolicyServer):
    """A vLLM server that somebody else runs, and may restart, and that sees the same file system as this process.

    It is shown the key in ``VLLM_API_KEY``, vLLM's own variable, where one is set.
    """

    def __init__(self, url: str, *, start_timeout_seconds: float = 30.0, patience_seconds: float = 90.0):
        """Remember a URL; nothing is asked of it yet."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self.model = ""
        self.headers = showing(os.environ.get(KEY_VARIABLE, ""))
        self.trust_env = not is_loopback(self.url)
        self.patience_seconds = patience_seconds
        self._start_timeout_seconds = start_timeout_seconds

    def start(self) -> None:
        """Nothing to start."""

    def wait_ready(self, say: Say | None = None) -> float:
        """Wait until the server answers, and learn the name of its model; returns the seconds it took.

        Raises:
            ServerStartError: It does not answer, or serves no model.
        """
        began = time.monotonic()
        while True:
            try:
                models = models_of(self)
                break
            except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
                gave_up = time.monotonic() - began > self._start_timeout_seconds
                if gave_up or not isinstance(error, httpx.TransportError):
                    raise ServerStartError(
                        f"the server at {self.url} does not answer {self.url}/v1/models "
                        f"({type(error).__name__}: {error}). Is it vLLM's OpenAI-compatible server, and is it up?"
                    ) from error
            time.sleep(1.0)
        names = [name for name, parent in models.items() if not parent]
        if not names:
            raise ServerStartError(f"the server at {self.url} serves no model")
        self.model = names[0]
        return time.monotonic() - began

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
