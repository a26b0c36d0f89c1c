"""Whether a server that has requests moves: it answers one, or vLLM's own counters rise meanwhile.

A request may take minutes where many wait, so its own time says nothing. A server whose engine stands still takes
requests and answers its health check all the same.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from grpo.errors import ServerError
from grpo.serving.server import PolicyServer
from grpo.watch import Part, Waiting

LOOK_SECONDS = 5.0
"""How often counters are read where nothing was answered since."""
STILL_SECONDS = 150.0
"""A server that has not moved for so long hangs."""


class ServerHangsError(ServerError):
    """A server takes requests, and nothing of it moves."""


class Pulse:
    """Of one server: ends its requests where it hangs.

    Args:
        server: The server.
    """

    def __init__(self, server: PolicyServer):
        self._server = server
        self._limits: set[asyncio.Timeout] = set()
        self._watching: asyncio.Task[None] | None = None
        self._waiting = Waiting(Part.SERVER, f"what is asked of {server.url}")

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """For the time of a request.

        Raises:
            ServerHangsError: The server hangs.
        """
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limits.add(limit)
                if self._watching is None:
                    self._watching = asyncio.create_task(self._watch())
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ServerHangsError(
                f"the policy server at {self._server.url} takes requests, and nothing has moved there for "
                f"{STILL_SECONDS:g} s"
            ) from error
        finally:
            self._limits.discard(limit)
            self._waiting.moves()

    async def _watch(self) -> None:
        """While there are requests."""
        counted: set[str] | None = None
        try:
            with self._waiting:
                while self._limits:
                    await asyncio.sleep(LOOK_SECONDS)
                    still = time.monotonic() - self._waiting.moved
                    if still < LOOK_SECONDS:
                        continue
                    found = await self._counters()
                    if found is not None and counted is not None and found != counted:
                        self._waiting.moves()
                    counted = found
                    if still >= STILL_SECONDS and found != set():
                        for limit in list(self._limits):
                            limit.reschedule(-math.inf)
        finally:
            self._watching = None

    async def _counters(self) -> set[str] | None:
        """Lines of vLLM's metrics; none where the server has no such, and None where it does not answer."""
        try:
            async with httpx.AsyncClient(timeout=LOOK_SECONDS, trust_env=self._server.trust_env) as client:
                answer = await client.get(f"{self._server.url}/metrics")
        except httpx.HTTPError:
            return None
        return {line for line in answer.text.splitlines() if line.startswith("vllm:")}
