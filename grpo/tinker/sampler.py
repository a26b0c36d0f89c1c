"""Sampling from a server that speaks the Tinker API (experimental). The server has one policy: the newest."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from grpo.errors import AdapterError
from grpo.serving.policy import Policy, SamplingParams, whole_turn
from grpo.serving.server import Say, Servers
from grpo.tinker.connection import ADAPTER_FILE, TinkerService, connect, package
from grpo.types import SampledTurn

_SEEDS = 2**31


class TinkerServer(Servers):
    """The server of a run, as the command sees it: it is not ours to start or to stop."""

    name: ClassVar[str] = "the Tinker server"

    def __init__(self, url: str, model: str):
        """Note where it is.

        Args:
            url: The server's.
            model: The run's model.
        """
        self._url, self._model = url, model

    @property
    def url(self) -> str:
        """The server's."""
        return self._url

    @cached_property
    def service(self) -> TinkerService:
        """A session for sampling; raises as ``connect`` does."""
        return connect(self._url, self._model)

    def start(self) -> None:
        """Check that it answers."""
        _ = self.service

    def wait_ready(self, say: Say | None = None) -> float:
        """Nothing to wait for: it answered to ``start``."""
        return 0.0

    def stop(self) -> None:
        """Leave it running."""


class TinkerPolicy(Policy):
    """One version of the policy."""

    def __init__(self, service: TinkerService, client: Any, stop_token_ids: list[int], version: int, concurrency: int):
        self._service, self._client, self._stop_token_ids = service, client, stop_token_ids
        self._places = asyncio.Semaphore(concurrency)
        self.version = version

    async def sample(self, prompt_ids: list[int], params: SamplingParams, *, max_tokens: int, seed: int) -> SampledTurn:
        """Sample one turn. Log-probabilities are those of temperature 1, whatever it was sampled with.

        Raises:
            ServerError: The request failed, or the answer is no whole turn.
        """
        types = package("types")
        asked = types.SamplingParams(
            max_tokens=max_tokens, temperature=params.temperature, seed=seed % _SEEDS, stop=self._stop_token_ids
        )
        async with self._places:
            with self._service.errors("sample"):
                answer = await self._client.sample_async(types.ModelInput.from_ints(prompt_ids), 1, asked)
        (turn,) = answer.sequences
        ids, logprobs = [int(token) for token in turn.tokens], [float(value) for value in turn.logprobs or ()]
        return whole_turn(f"the Tinker server at {self._service.url}", ids, logprobs, turn.stop_reason)


class TinkerSampler:
    """See `grpo.serving.sampler.Sampler`.

    SkyRL's jax backend has the weights of a policy once, for training and for sampling. Sampling an older version would
    set the training back to it, so only the newest is given out.
    """

    def __init__(self, server: TinkerServer, folder: Path, stop_token_ids: list[int], concurrency: int):
        """Prepare.

        Args:
            server: Where the policy is trained.
            folder: For adapters, while it is read where the server has them.
            stop_token_ids: Each ends a turn.
            concurrency: Requests at once.
        """
        self._server = server
        self._folder = folder
        self._stop_token_ids = stop_token_ids
        self._concurrency = concurrency
        self._client: Any = None
        self._version: int | None = None

    def publish(self, save: Callable[[Path], None], version: int) -> None:
        """Sample what ``save`` says that the server has.

        Raises:
            AdapterError: ``save`` wrote an adapter that is on no Tinker server.
            ServerError: The server does not have it.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="tinker-", dir=self._folder) as folder:
            save(Path(folder) / "adapter")
            path = Path(folder) / "adapter" / ADAPTER_FILE
            if not path.is_file():
                raise AdapterError(
                    f"the adapter of version {version} is on no Tinker server: {ADAPTER_FILE} is missing"
                )
            where = json.loads(path.read_text(encoding="utf-8"))["sampler"]
        service = self._server.service
        with service.errors("sample a new version"):
            self._client = service.client.create_sampling_client(model_path=where)
        self._version = version

    @asynccontextmanager
    async def policy(self, version: int) -> AsyncIterator[TinkerPolicy]:
        """See `Sampler`.

        Raises:
            AdapterError: It is not the newest version.
        """
        if version != self._version:
            raise AdapterError(f"version {version} is not served; a Tinker server has the newest, {self._version}")
        yield TinkerPolicy(self._server.service, self._client, self._stop_token_ids, version, self._concurrency)

    @asynccontextmanager
    async def base_model(self) -> AsyncIterator[None]:
        """See `Sampler`; it would set the training back, as an older version does."""
        yield None
