"""What training samples from: it takes new versions of the policy, and gives each out to be sampled.

The trainer knows no more than `Sampler`. `VllmSampler` is a fleet of vLLM servers with the run's adapters on them;
another engine may bring a sampler of its own (`grpo.training.engines`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from grpo.serving.adapters import AdapterStore
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, Policy


class Sampler(Protocol):
    """Versions of the policy in training, ready to be sampled. What ends meanwhile is restarted below this line."""

    def publish(self, save: Callable[[Path], None], version: int) -> None:
        """Serve the adapter that ``save`` writes into the folder it is given as ``version``."""
        ...

    def policy(self, version: int) -> AbstractAsyncContextManager[Policy]:
        """The policy of a published version; the version stays served to the end of the ``async with``."""
        ...

    def base_model(self) -> AbstractAsyncContextManager[Policy | None]:
        """The model without an adapter; None where it cannot be sampled beside the policy."""
        ...


class VllmSampler:
    """A fleet and the adapters of one run on it."""

    def __init__(self, fleet: Fleet, folder: Path, stop_token_ids: list[int], concurrency: int):
        """Prepare; the servers need not be ready yet.

        Args:
            fleet: Of servers with LoRA and run-time adapter loading enabled.
            folder: For the adapters; every server must see it under the same path.
            stop_token_ids: Each ends a turn.
            concurrency: Requests at once to one server.
        """
        self._fleet = fleet
        self._adapters = AdapterStore(fleet, folder)
        self._stop_token_ids = stop_token_ids
        self._concurrency = concurrency
        self._connection: Connection | None = None  # all policies that are in use share it
        self._in_use = 0

    def publish(self, save: Callable[[Path], None], version: int) -> None:
        """See `Sampler`.

        Raises:
            ServerError: ``save`` wrote no whole adapter, or a server refuses it.
        """
        self._adapters.publish(save, version)

    @asynccontextmanager
    async def policy(self, version: int) -> AsyncIterator[CompletionsPolicy]:
        """See `Sampler`.

        Raises:
            AdapterError: The version is not served.
        """
        adapter = self._adapters.acquire(version)
        try:
            async with self._connected() as connection:
                yield CompletionsPolicy(connection, adapter.name, self._stop_token_ids, version)
        finally:
            await asyncio.to_thread(self._adapters.release, adapter)  # it may unload the version, and wait for that

    @asynccontextmanager
    async def base_model(self) -> AsyncIterator[CompletionsPolicy]:
        """See `Sampler`."""
        async with self._connected() as connection:
            yield CompletionsPolicy(connection, self._fleet.model, self._stop_token_ids)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        connection = self._connection = self._connection or Connection(self._fleet, self._concurrency)
        self._in_use += 1
        try:
            yield connection
        finally:
            self._in_use -= 1
            if self._in_use == 0:
                self._connection = None
                await connection.aclose()
