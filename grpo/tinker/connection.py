"""The client of a server that speaks the Tinker API, as its learner and its sampler use it.

The package ``tinker`` (the extra of that name) sends the requests; what goes wrong becomes a `ServerError`.
"""

import importlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx

from grpo.errors import ConfigError, GrpoError, ServerError, ServerStartError

ADAPTER_FILE = "tinker.json"
"""Beside an adapter: where the server has it. ``state`` is what training goes on from, ``sampler`` what is sampled."""

_HEALTH_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class TinkerService:
    """A server, and a session with it that lasts as long as this object.

    Attributes:
        url: The server's.
        base_model: The name that the server has for the model.
        client: A ``tinker.ServiceClient``.
    """

    url: str
    base_model: str
    client: Any

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Say what failed in our words.

        Raises:
            ServerError: A request failed, or the server did not answer for minutes.
        """
        tinker = package()
        try:
            yield
        except GrpoError:
            raise
        except (tinker.TinkerError, httpx.HTTPError, TimeoutError, ConnectionError, ValueError) as error:
            raise ServerError(
                f"the Tinker server at {self.url} could not {doing} ({type(error).__name__}: {error}); its own log "
                "says why"
            ) from error

    def unload(self, training: Any) -> None:
        """Free the place of a model that is trained no more; a server without this call keeps it with the session."""
        tinker, pool = package(), package("lib.client_connection_pool_type").ClientConnectionPoolType.TRAIN
        holder = self.client.holder

        async def ask() -> None:
            with holder.aclient(pool) as connection:
                await connection.models.unload(request=tinker.types.UnloadModelRequest(model_id=training.model_id))

        with suppress(tinker.TinkerError):
            holder.run_coroutine_threadsafe(ask()).result()


def package(module: str = "") -> Any:
    """The client's package, or a module of it; without types, since it need not be installed."""
    return importlib.import_module(f"tinker.{module}" if module else "tinker")


def connect(url: str, model: str) -> TinkerService:
    """A session with the server at ``url``.

    Args:
        url: For example http://127.0.0.1:8000.
        model: The run's model. A server that has it under another name must have no second one.

    Raises:
        ServerStartError: Nothing answers there, or not as a Tinker server does.
        ConfigError: The server has several models, and none of this name; or the extra ``tinker`` is not installed.
    """
    if importlib.util.find_spec("tinker") is None:
        raise ConfigError(
            "engine = 'tinker' needs the package tinker, which is not installed; install the extra 'tinker' beside "
            "'cpu' or 'gpu' (scripts/install cpu,tinker)"
        )
    url = url.rstrip("/")
    _check_health(url)
    os.environ.setdefault("TINKER_TELEMETRY", "0")  # what a run does is nobody else's business
    tinker = package()
    logging.getLogger("tinker.lib.public_interfaces.rest_client").setLevel(logging.ERROR)  # warns of every download
    key = os.environ.get("TINKER_API_KEY", "tml-none")  # the client asks for one; a server of one's own does not
    try:
        client = tinker.ServiceClient(base_url=url, api_key=key)
        names = [found.model_name for found in client.get_server_capabilities().supported_models]
    except tinker.TinkerError as error:
        raise ServerStartError(
            f"the Tinker server at {url} gives no session ({type(error).__name__}: {error})"
        ) from error
    if model not in names and len(names) != 1:
        raise ConfigError(
            f"the Tinker server at {url} has the models {', '.join(map(str, names)) or '(none)'}, and none is called "
            f"{model!r}; give --model the name of one"
        )
    return TinkerService(url, model if model in names else str(names[0]), client)


def _check_health(url: str) -> None:
    try:
        status = httpx.get(f"{url}/api/v1/healthz", timeout=_HEALTH_TIMEOUT_SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerStartError(
            f"no Tinker server answers at {url} ({type(error).__name__}: {error}); start one "
            "(docs/beyond-one-machine.md), or correct --tinker-url"
        ) from error
    if status != 200:
        raise ServerStartError(
            f"{url}/api/v1/healthz answered {status}: no Tinker server is there; docs/beyond-one-machine.md"
        )
