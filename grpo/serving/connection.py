"""Requests to a policy server, many at once: repeated where it does not answer, or had to be restarted meanwhile.

The only place where a run's server is restarted: whoever samples waits for its answer, and loses nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

import httpx

from grpo.errors import ServerError
from grpo.serving.server import PolicyServer

MAX_ATTEMPTS = 3
TIMEOUT_SECONDS = 600.0


class Connection:
    """A server as the coroutines of one event loop ask it."""

    def __init__(self, server: PolicyServer, max_connections: int = 64):
        """Connect to ``server`` with the first request; at most ``max_connections`` are under way at once."""
        self._server = server
        self._client = httpx.AsyncClient(
            base_url=server.url,
            timeout=TIMEOUT_SECONDS,
            limits=httpx.Limits(max_connections=max_connections),
            trust_env=server.trust_env,
        )
        self._restarts = 0
        self._restarting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it; a second call does nothing."""
        await self._client.aclose()

    async def post(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """The server's answer to a request.

        Raises:
            ServerError: It refused the request, or did not answer after several attempts although it is up.
            ServerDiedError: It has ended and cannot be restarted.
        """
        while True:
            restarts = self._restarts
            try:
                return await self._answer(path, request)
            except ServerError:
                if not await self._was_restarted_after(restarts):
                    raise

    async def _answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                response = await self._client.post(path, json=request)
            except httpx.TransportError as error:
                if attempt == MAX_ATTEMPTS:
                    raise ServerError(f"the policy server does not answer ({type(error).__name__}: {error})") from error
            else:
                if response.status_code == 200:
                    return response.json()
                if response.status_code < 500 or attempt == MAX_ATTEMPTS:
                    raise ServerError(
                        f"the policy server answered {response.status_code} for model {request.get('model')!r}: "
                        f"{response.text[:300]}"
                    )
            await asyncio.sleep(0.5 * attempt)
        raise AssertionError("unreachable")

    async def _was_restarted_after(self, restarts: int) -> bool:
        """Restart the server if it has ended; says whether it was restarted since there were so many ``restarts``.

        When it ends, every request fails: the first restarts it, the others wait for that.
        """
        async with self._restarting:
            if self._restarts == restarts:
                try:
                    self._restarts += await asyncio.to_thread(self._server.recover)
                except asyncio.CancelledError:
                    self._server.stop()  # else the thread, and with it Ctrl-C, would wait until the server is ready
                    raise
        return self._restarts > restarts
