"""Requests to the servers of a run, many at once: repeated where a server does not answer, elsewhere if it has ended.

Whoever samples waits for its answer and loses nothing: a turn is asked with all ids before it, so another server with
the same adapter goes on where the first one ended.

Every request under way has a client of its own, kept for the next one: httpx looks through all connections of a client
several times for each request, which with thousands of them is most of the work.
"""

import asyncio
import functools
import ssl
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import httpx

from grpo.errors import ServerError
from grpo.serving.fleet import Fleet, GroupServer, Member
from grpo.serving.pulse import Pulse, ServerHangsError

MAX_ATTEMPTS = 3
TIMEOUT = httpx.Timeout(600.0, connect=30.0)


class _UnknownModelError(ServerError):
    """The server does not know the model that it was asked for: it may have been restarted by somebody else."""


class Connection:
    """A fleet as the coroutines of one event loop ask it."""

    def __init__(self, fleet: Fleet, max_connections: int = 64):
        """Connect to each server with its first request; at most ``max_connections`` to one are under way at once."""
        self._fleet = fleet
        self._max_connections = max_connections
        self._clients: list[httpx.AsyncClient] = []
        self._idle: dict[Member, list[httpx.AsyncClient]] = {}
        self._slots: dict[Member, asyncio.Semaphore] = {}
        self._checking: dict[Member, asyncio.Lock] = {}
        self._pulses: dict[Member, Pulse] = {}
        self._groups: dict[Hashable, GroupServer] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it; a second call does nothing."""
        for client in self._clients:
            await client.aclose()

    @contextmanager
    def server_of(self, group: Hashable) -> Iterator[GroupServer]:
        """For the length of an episode of ``group``: a server with few episodes, the same for all of the group.

        The choice is made with the first request.
        """
        server = self._groups.setdefault(group, GroupServer())
        server.count(1)
        try:
            yield server
        finally:
            server.count(-1)

    async def post(self, path: str, request: dict[str, Any], server: GroupServer | None = None) -> Any:
        """The answer to a request, of ``server``; without one, of the least loaded. What is no JSON comes as text.

        Raises:
            ServerError: It was refused, or there was no answer after several attempts although the server is up.
            ServerDiedError: No server is left.
        """
        server = server or GroupServer()
        failures = 0
        while True:
            member = await self._member(server)
            returns = member.returns
            try:
                return await self._answer(member, path, request)
            except ServerError as error:
                failures += 1
                is_sure = isinstance(error, ServerHangsError) or (
                    failures == 1 and isinstance(error, _UnknownModelError)
                )
                too_often = failures > len(self._fleet.members) + 1  # a request that ends every server it meets
                if too_often or not await self._is_out(member, returns, error, sure=is_sure):
                    raise

    async def _member(self, server: GroupServer) -> Member:
        while server.member is None or server.member.out:
            found = self._fleet.least_loaded()
            if found is None:
                await asyncio.sleep(0.2)
            else:
                server.move(found)
        return server.member

    async def _is_out(self, member: Member, returns: int, error: ServerError, *, sure: bool) -> bool:
        """Whether the server that failed is out, or was until now; else the request is to blame.

        When a server ends, every request to it fails: the first checks it, the others wait for that.
        """
        async with self._checking.setdefault(member, asyncio.Lock()):
            if member.out or member.returns > returns:
                return True
            if not sure and await asyncio.to_thread(member.server.is_well):
                return False
            self._fleet.take_out(member, returns, str(error))
            return True

    async def _answer(self, member: Member, path: str, request: dict[str, Any]) -> Any:
        url = member.server.url
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                response = await self._send(member, path, request)
            except httpx.RequestError as error:
                if attempt == MAX_ATTEMPTS:
                    reason = f"({type(error).__name__}: {error})"
                    raise ServerError(f"the policy server at {url} does not answer {reason}") from error
            else:
                if response.status_code == 200:
                    with suppress(ValueError, RecursionError):
                        return response.json()
                    return response.text
                if response.status_code < 500 or attempt == MAX_ATTEMPTS:
                    kind = _UnknownModelError if response.status_code == 404 else ServerError
                    raise kind(
                        f"the policy server at {url} answered {response.status_code} for model "
                        f"{request.get('model')!r}: {response.text[:300]}"
                    )
            await asyncio.sleep(0.5 * attempt)
        raise AssertionError("unreachable")

    async def _send(self, member: Member, path: str, request: dict[str, Any]) -> httpx.Response:
        idle = self._idle.setdefault(member, [])
        async with self._slots.setdefault(member, asyncio.Semaphore(self._max_connections)):
            client = idle.pop() if idle else self._new_client(member)
            try:
                async with self._pulses.setdefault(member, Pulse(member.server)).request():
                    return await client.post(path, json=request)
            finally:
                idle.append(client)

    def _new_client(self, member: Member) -> httpx.AsyncClient:
        server = member.server
        verify = _ssl_context() if server.url.startswith("https:") else False
        client = httpx.AsyncClient(
            base_url=server.url, timeout=TIMEOUT, trust_env=server.trust_env, verify=verify, headers=server.headers
        )
        self._clients.append(client)
        return client


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Made once: it reads all certificates."""
    return httpx.create_ssl_context()
